__all__: list[str]

from .anymix import AnyMixClassifier as AnyMixClassifier
from .anymix import AnyMixRegressor as AnyMixRegressor
from .clients import Clients as Clients
from .clients import describe_clients as describe_clients
from .clustering import BregmanClusters as BregmanClusters
from .ensemble import AgnosticEnsemble as AgnosticEnsemble
from .keywords import NoDomainsWarning as NoDomainsWarning
from .linear import AgnosticClassifier as AgnosticClassifier
from .linear import AgnosticRegressor as AgnosticRegressor
from .overfitting import OverfitWarning as OverfitWarning
from .personal import Personalized as Personalized
from .personal_fits import PersonalizedCV as PersonalizedCV
from .scorer import agnostic_scorer as agnostic_scorer
from .selecting import NothingGained as NothingGained
from .selection import AgnosticClassifierCV as AgnosticClassifierCV
from .selection import AgnosticRegressorCV as AgnosticRegressorCV
