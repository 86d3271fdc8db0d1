"""scikit-learn estimators: models that hold up on every mixture of the domains."""

from typing import TYPE_CHECKING

from anymix.loading import names_on_demand

if TYPE_CHECKING:
    from anymix.estimators.anymix import AnyMixClassifier, AnyMixRegressor
    from anymix.estimators.clients import Clients, describe_clients
    from anymix.estimators.clustering import BregmanClusters
    from anymix.estimators.ensemble import AgnosticEnsemble
    from anymix.estimators.keywords import NoDomainsWarning
    from anymix.estimators.linear import AgnosticClassifier, AgnosticRegressor
    from anymix.estimators.linear_cv import AgnosticClassifierCV, AgnosticRegressorCV
    from anymix.estimators.overfitting import OverfitWarning
    from anymix.estimators.personal import Personalized, PersonalizedCV
    from anymix.estimators.scorer import agnostic_scorer
    from anymix.selection.rule import NothingGained

# The fits and the search of this folder need no scikit-learn, and loading it takes longer than
# they do; so it is loaded when an estimator is asked for.
_PLACE = {
    "AgnosticClassifier": "anymix.estimators.linear",
    "AgnosticClassifierCV": "anymix.estimators.linear_cv",
    "AgnosticEnsemble": "anymix.estimators.ensemble",
    "AgnosticRegressor": "anymix.estimators.linear",
    "AgnosticRegressorCV": "anymix.estimators.linear_cv",
    "AnyMixClassifier": "anymix.estimators.anymix",
    "AnyMixRegressor": "anymix.estimators.anymix",
    "BregmanClusters": "anymix.estimators.clustering",
    "Clients": "anymix.estimators.clients",
    "NoDomainsWarning": "anymix.estimators.keywords",
    "NothingGained": "anymix.selection.rule",
    "OverfitWarning": "anymix.estimators.overfitting",
    "Personalized": "anymix.estimators.personal",
    "PersonalizedCV": "anymix.estimators.personal",
    "agnostic_scorer": "anymix.estimators.scorer",
    "describe_clients": "anymix.estimators.clients",
}

__all__ = [
    "AgnosticClassifier",
    "AgnosticClassifierCV",
    "AgnosticEnsemble",
    "AgnosticRegressor",
    "AgnosticRegressorCV",
    "AnyMixClassifier",
    "AnyMixRegressor",
    "BregmanClusters",
    "Clients",
    "NoDomainsWarning",
    "NothingGained",
    "OverfitWarning",
    "Personalized",
    "PersonalizedCV",
    "agnostic_scorer",
    "describe_clients",
]

__getattr__, __dir__ = names_on_demand(__name__, _PLACE)
