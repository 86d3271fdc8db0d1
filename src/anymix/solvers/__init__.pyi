__all__: list[str]

from . import optimizers as optimizers
from . import samplers as samplers
from .certificates import Certificate as Certificate
from .certificates import certify as certify
from .exact import Solution as Solution
from .exact import solve as solve
from .frontier import Frontier as Frontier
from .frontier import pareto_front as pareto_front
from .stochastic import Iterate as Iterate
from .stochastic import optimistic_afl as optimistic_afl
from .stochastic import stochastic_afl as stochastic_afl
