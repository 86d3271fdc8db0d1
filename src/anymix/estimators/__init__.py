"""scikit-learn estimators: models that hold up on every mixture of the domains."""

from anymix.estimators.linear import AgnosticClassifier, AgnosticRegressor, OverfitWarning
from anymix.estimators.selection import AgnosticClassifierCV, agnostic_scorer

__all__ = [
    "AgnosticClassifier",
    "AgnosticClassifierCV",
    "AgnosticRegressor",
    "OverfitWarning",
    "agnostic_scorer",
]
