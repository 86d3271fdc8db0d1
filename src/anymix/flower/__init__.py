"""Agnostic federated learning on Flower: clients keep their rows and answer with sums over them.

>>> from anymix.flower import AgnosticStrategy, LocalGrid, client_app
"""

from typing import TYPE_CHECKING

from anymix.loading import extra, names_on_demand

with extra("flower", "flwr"):
    from anymix.flower.client import client_app
    from anymix.flower.local import LocalGrid

if TYPE_CHECKING:
    from anymix.flower.aggregation import Limits, Patience, Sum
    from anymix.flower.client_data import without_small_domains
    from anymix.flower.fit import federated_fit
    from anymix.flower.local_training import LocalTraining
    from anymix.flower.members import MissingClientsError
    from anymix.flower.privacy import Privacy
    from anymix.flower.robust import Robust
    from anymix.flower.solve import federated_certify, federated_solve
    from anymix.flower.strategy import AgnosticStrategy
    from anymix.flower.train import federated_train

__all__ = [
    "AgnosticStrategy",
    "Limits",
    "LocalGrid",
    "LocalTraining",
    "MissingClientsError",
    "Patience",
    "Privacy",
    "Robust",
    "Sum",
    "client_app",
    "federated_certify",
    "federated_fit",
    "federated_solve",
    "federated_train",
    "without_small_domains",
]

# A client needs neither the strategy nor the solver, and starts a process for every message.
_PLACE = {
    "AgnosticStrategy": "anymix.flower.strategy",
    "Limits": "anymix.flower.aggregation",
    "LocalTraining": "anymix.flower.local_training",
    "MissingClientsError": "anymix.flower.members",
    "Patience": "anymix.flower.aggregation",
    "Privacy": "anymix.flower.privacy",
    "Robust": "anymix.flower.robust",
    "Sum": "anymix.flower.aggregation",
    "federated_certify": "anymix.flower.solve",
    "federated_fit": "anymix.flower.fit",
    "federated_solve": "anymix.flower.solve",
    "federated_train": "anymix.flower.train",
    "without_small_domains": "anymix.flower.client_data",
}

__getattr__, __dir__ = names_on_demand(__name__, _PLACE)
