"""The worst-mixture loss in a PyTorch training loop of your own, and batches by domain for it.

>>> from anymix.pytorch import AgnosticLoss, DomainBatches, certified_head
"""

import lazy_loader

from anymix.errors import need_extra

need_extra("torch", "torch")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
