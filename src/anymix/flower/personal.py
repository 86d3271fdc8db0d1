"""Clusters of clients, personal models and a choice among several, on Flower.

>>> from anymix.flower.personal import federated_clusters, federated_personal, personal_client_app
"""

from anymix.flower.personal_client import personal_client_app
from anymix.flower.personal_rounds import (
    ClientClusters,
    ModelChoice,
    PersonalLosses,
    federated_choice,
    federated_clusters,
    federated_personal,
)
from anymix.flower.personal_state import PersonalModel, read_model

__all__ = [
    "ClientClusters",
    "ModelChoice",
    "PersonalLosses",
    "PersonalModel",
    "federated_choice",
    "federated_clusters",
    "federated_personal",
    "personal_client_app",
    "read_model",
]
