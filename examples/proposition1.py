"""Proposition 1 of Agnostic Federated Learning: why the average mixture is not enough.

Domain D1 has only label 1; domain D2 has label 0 or 1, half and half. Trained on the uniform
mixture, the model gives label 0 the probability 1/4 and loses log(4/√3) on D2. Trained for any
mixture, it gives it 1/2 and loses log 2 on both.
"""

import math

import numpy as np

import anymix as ax

X = np.zeros((4, 1))  # no features: the model is its intercept
y = [1, 1, 0, 1]
domains = ["D1", "D1", "D2", "D2"]
problem = ax.LinearDomains(X, y, domains)

uniform = ax.solve(problem, ax.Point([0.5, 0.5]), gamma=0.0)
agnostic = ax.solve(problem, ax.Vertices(2), gamma=0.0)

for name, solution, exact in (
    ("uniform", uniform, math.log(4 / math.sqrt(3))),
    ("agnostic", agnostic, math.log(2)),
):
    p0 = 1 / (1 + math.exp(solution.w[-1]))
    worst = solution.domain_losses.max()
    print(f"{name:8}  p0 = {p0:.4f}  worst loss = {worst:.6f}  in the paper {exact:.6f}")

certificate = agnostic.certificate
print(f"proof: no model below {certificate.lower:.9f}, this one at {certificate.upper:.9f}")
