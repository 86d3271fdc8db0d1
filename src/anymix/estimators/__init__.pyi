__all__: list[str]

from .anymix import AnyMixClassifier as AnyMixClassifier
from .anymix import AnyMixRegressor as AnyMixRegressor
from .clients import Clients as Clients
from .clients import describe_clients as describe_clients
from .clustering import BregmanClusters as BregmanClusters
from .ensemble import AgnosticEnsemble as AgnosticEnsemble
from .fitting import OverfitWarning as OverfitWarning
from .keywords import NoDomainsWarning as NoDomainsWarning
from .linear import AgnosticClassifier as AgnosticClassifier
from .linear import AgnosticRegressor as AgnosticRegressor
from .linear_cv import AgnosticClassifierCV as AgnosticClassifierCV
from .linear_cv import AgnosticRegressorCV as AgnosticRegressorCV
from .linear_cv import NothingGained as NothingGained
from .personal import Personalized as Personalized
from .personal import PersonalizedCV as PersonalizedCV
from .scorer import agnostic_scorer as agnostic_scorer
