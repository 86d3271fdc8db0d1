"""The worst-mixture loss in a PyTorch training loop of your own, and batches by domain for it.

>>> from anymix.pytorch import AgnosticLoss, DomainBatches, certified_head
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anymix.pytorch.absence import UnseenDomain
from anymix.pytorch.batches import DomainBatches
from anymix.pytorch.checkpoints import load_checkpoint, save_checkpoint
from anymix.pytorch.data_mixtures import MixtureWeights, mixture_criterion, mixture_weights
from anymix.pytorch.drawing import PerDomain, Proportional, Weighted
from anymix.pytorch.loss import AgnosticLoss
from anymix.pytorch.optimism import Optimistic

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


def __getattr__(name: str) -> Any:
    if name in ("CertifiedHead", "certified_head"):  # they load scikit-learn
        return getattr(import_module("anymix.pytorch.head"), name)
    raise AttributeError(f"module 'anymix.pytorch' has no attribute {name!r}")
