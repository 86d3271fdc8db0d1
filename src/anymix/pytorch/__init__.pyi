__all__: list[str]

from .batches import DomainBatches as DomainBatches
from .batches import PerDomain as PerDomain
from .batches import Proportional as Proportional
from .batches import Weighted as Weighted
from .checkpoints import load_checkpoint as load_checkpoint
from .checkpoints import save_checkpoint as save_checkpoint
from .data_mixtures import MixtureWeights as MixtureWeights
from .data_mixtures import mixture_criterion as mixture_criterion
from .data_mixtures import mixture_weights as mixture_weights
from .head import CertifiedHead as CertifiedHead
from .head import certified_head as certified_head
from .loss import AgnosticLoss as AgnosticLoss
from .missing_domains import UnseenDomain as UnseenDomain
from .optimistic import Optimistic as Optimistic
