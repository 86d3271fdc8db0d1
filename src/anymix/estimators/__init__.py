"""scikit-learn estimators: models that hold up on every mixture of the domains."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anymix.estimators.clients import Clients, describe_clients
    from anymix.estimators.clustering import BregmanClusters
    from anymix.estimators.ensemble import AgnosticEnsemble
    from anymix.estimators.guarding import NothingGained
    from anymix.estimators.linear import AgnosticClassifier, AgnosticRegressor
    from anymix.estimators.overfitting import OverfitWarning
    from anymix.estimators.personal import Personalized
    from anymix.estimators.personal_fits import PersonalizedCV
    from anymix.estimators.scorer import agnostic_scorer
    from anymix.estimators.selection import AgnosticClassifierCV, AgnosticRegressorCV

# The fits and the search of this folder need no scikit-learn, and loading it takes longer than
# they do; so it is loaded when an estimator is asked for.
_PLACE = {
    "AgnosticClassifier": "linear",
    "AgnosticClassifierCV": "selection",
    "AgnosticEnsemble": "ensemble",
    "AgnosticRegressor": "linear",
    "AgnosticRegressorCV": "selection",
    "BregmanClusters": "clustering",
    "Clients": "clients",
    "NothingGained": "guarding",
    "OverfitWarning": "overfitting",
    "Personalized": "personal",
    "PersonalizedCV": "personal_fits",
    "agnostic_scorer": "scorer",
    "describe_clients": "clients",
}

__all__ = [
    "AgnosticClassifier",
    "AgnosticClassifierCV",
    "AgnosticEnsemble",
    "AgnosticRegressor",
    "AgnosticRegressorCV",
    "BregmanClusters",
    "Clients",
    "NothingGained",
    "OverfitWarning",
    "Personalized",
    "PersonalizedCV",
    "agnostic_scorer",
    "describe_clients",
]


def __getattr__(name: str) -> Any:
    if name in _PLACE:
        return getattr(import_module(f"anymix.estimators.{_PLACE[name]}"), name)
    raise AttributeError(f"module 'anymix.estimators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
