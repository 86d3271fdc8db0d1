"""min over w, max over λ: the exact solver with its proof, and the stochastic algorithms."""

from anymix.solvers.certificates import Certificate, certify
from anymix.solvers.exact import Solution, solve
from anymix.solvers.frontier import Frontier, pareto_front
from anymix.solvers.products import solve_multiplicative
from anymix.solvers.stochastic import Iterate, optimistic_afl, stochastic_afl

__all__ = [
    "Certificate",
    "Frontier",
    "Iterate",
    "Solution",
    "certify",
    "optimistic_afl",
    "pareto_front",
    "solve",
    "solve_multiplicative",
    "stochastic_afl",
]
