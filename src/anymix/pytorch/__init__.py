"""The worst-mixture loss in a PyTorch training loop of your own, and batches by domain for it.

>>> from anymix.pytorch import AgnosticLoss, DomainBatches, certified_head
"""

from typing import TYPE_CHECKING

from anymix.loading import extra, names_on_demand

with extra("torch", "torch"):
    from anymix.pytorch.batches import DomainBatches, PerDomain, Proportional, Weighted
    from anymix.pytorch.checkpoints import load_checkpoint, save_checkpoint
    from anymix.pytorch.data_mixtures import MixtureWeights, mixture_criterion, mixture_weights
    from anymix.pytorch.loss import AgnosticLoss
    from anymix.pytorch.missing_domains import UnseenDomain
    from anymix.pytorch.optimistic import Optimistic

if TYPE_CHECKING:
    from anymix.pytorch.head import CertifiedHead, certified_head

__all__ = [
    "AgnosticLoss",
    "CertifiedHead",
    "DomainBatches",
    "MixtureWeights",
    "Optimistic",
    "PerDomain",
    "Proportional",
    "UnseenDomain",
    "Weighted",
    "certified_head",
    "load_checkpoint",
    "mixture_criterion",
    "mixture_weights",
    "save_checkpoint",
]

_PLACE = dict.fromkeys(("CertifiedHead", "certified_head"), "anymix.pytorch.head")  # scikit-learn's

__getattr__, __dir__ = names_on_demand(__name__, _PLACE)
