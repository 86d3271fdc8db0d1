"""One model that holds up on any mixture of your clients.

Solves min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ R(w): p domains with mean losses L_k, and a set Λ of
target mixtures to guard against (Agnostic Federated Learning, Mohri, Sivek and Suresh, 2019).

>>> import anymix as ax
>>> problem = ax.LinearDomains([[0.0]] * 4, y=[1, 1, 0, 1], domains=["D1", "D1", "D2", "D2"])
>>> ax.solve(problem, ax.Simplex(2), gamma=0.0).domain_losses.round(4)
array([0.6931, 0.6931])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anymix import bounds as bounds
from anymix.adversary import Adversary
from anymix.certificates import Certificate, certify
from anymix.domains import LinearDomains
from anymix.exact import Solution, solve
from anymix.losses import CrossEntropy, Hinge, Huber, SquaredError
from anymix.mixtures import (
    Box,
    Chi2Ball,
    Hull,
    MixtureSet,
    Point,
    Simplex,
    TVBall,
    Vertices,
    cvar,
)
from anymix.penalties import Chi2Penalty, DirichletPrior
from anymix.stochastic import optimistic_afl, stochastic_afl

if TYPE_CHECKING:
    from anymix.auditing import audit, compare
    from anymix.estimators import AgnosticClassifier, AgnosticRegressor
    from anymix.selection import AgnosticClassifierCV, agnostic_scorer

__version__ = "0.1.0"

__all__ = [
    "Adversary",
    "AgnosticClassifier",
    "AgnosticClassifierCV",
    "AgnosticRegressor",
    "Box",
    "Certificate",
    "Chi2Ball",
    "Chi2Penalty",
    "CrossEntropy",
    "DirichletPrior",
    "Hinge",
    "Huber",
    "Hull",
    "LinearDomains",
    "MixtureSet",
    "Point",
    "Simplex",
    "Solution",
    "SquaredError",
    "TVBall",
    "Vertices",
    "agnostic_scorer",
    "audit",
    "certify",
    "compare",
    "cvar",
    "optimistic_afl",
    "solve",
    "stochastic_afl",
]

# Importing scikit-learn takes longer than all the rest, so its names arrive when first asked for.
_LATER = {
    "AgnosticClassifier": "anymix.estimators",
    "AgnosticRegressor": "anymix.estimators",
    "AgnosticClassifierCV": "anymix.selection",
    "agnostic_scorer": "anymix.selection",
    "audit": "anymix.auditing",
    "compare": "anymix.auditing",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'anymix' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
