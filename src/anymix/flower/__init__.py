"""Agnostic federated learning on Flower: clients keep their rows and answer with sums over them.

>>> from anymix.flower import AgnosticStrategy, LocalGrid, client_app
"""

import lazy_loader

from anymix.errors import need_extra

need_extra("flower", "flwr")

# A client needs neither the strategy nor the solver, and starts a process for every message.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
