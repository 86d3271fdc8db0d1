__all__: list[str]

from .absence import UnseenDomain as UnseenDomain
from .batches import DomainBatches as DomainBatches
from .checkpoints import load_checkpoint as load_checkpoint
from .checkpoints import save_checkpoint as save_checkpoint
from .data_mixtures import MixtureWeights as MixtureWeights
from .data_mixtures import mixture_criterion as mixture_criterion
from .data_mixtures import mixture_weights as mixture_weights
from .drawing import PerDomain as PerDomain
from .drawing import Proportional as Proportional
from .drawing import Weighted as Weighted
from .head import CertifiedHead as CertifiedHead
from .head import certified_head as certified_head
from .loss import AgnosticLoss as AgnosticLoss
from .optimism import Optimistic as Optimistic
