"""Audit any model: all it takes is what the model said, what was true, and the groups.

A boosted forest sorts patients of three clinics; one of them has few. How bad can it get if the
next patients come from another mixture of clinics, and what do intersections of groups show?
"""

from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.ensemble import HistGradientBoostingClassifier

import anymix as ax
from anymix import audit, compare

rng = np.random.default_rng(0)
n = 6000
clinic = rng.choice(["central", "east", "west"], n, p=[0.8, 0.17, 0.03])
people = pd.DataFrame({"clinic": clinic, "sex": rng.choice(["F", "M"], n)})
X = rng.normal(size=(n, 6))
weights = {"central": [2, 0, 0], "east": [1, 2, 0], "west": [0, 0, 3]}
z = np.sum(X[:, :3] * [weights[name] for name in clinic], axis=1) + rng.logistic(size=n)
y = np.where(z > 0, "ill", "well")

train, test = np.arange(n) < n // 2, np.arange(n) >= n // 2
forest = HistGradientBoostingClassifier(max_iter=60, random_state=0)
said = forest.fit(X[train], y[train]).predict_proba(X[test])

console = Console(width=100)
found = audit(y[test], said, clinic[test])
console.print(found, found.summary(), sep="\n")

# The next patients may come from elsewhere, but not all from one clinic: shares up to a half.
limited = audit(y[test], said, clinic[test], mixtures=ax.Box([0] * 3, [0.5, 0.5, 0.5]))
console.print(f"\nNo clinic above one half: {limited.agnostic_loss:.3f} at {limited.worst_mixture}")

# Intersections: every combination that occurs, however few its rows.
cells = audit(y[test], said, sensitive_features=people[test])
console.print(cells)

# A second model: the same forest, with every clinic made equally heavy.
weight = 1 / pd.Series(clinic[train]).map(pd.Series(clinic[train]).value_counts())
balanced = HistGradientBoostingClassifier(max_iter=60, random_state=0)
other = balanced.fit(X[train], y[train], sample_weight=weight * len(weight) / 3)
second = audit(y[test], other.predict_proba(X[test]), clinic[test])
console.print(compare(found, second, names=("forest", "balanced")).summary())

try:
    from anymix.reporting import report

    page = report({"forest": found, "balanced": second}, Path("audit.html"), title="Three clinics")
    console.print(f"Report: {page}")
except ValueError as missing:  # no jinja2
    console.print(str(missing))
