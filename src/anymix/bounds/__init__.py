"""What a solution is worth: variances of the stochastic gradients, step sizes and rates."""

from anymix.bounds.rates import Constants, constants, convergence, step_sizes
from anymix.bounds.variance import Advice, Variances, advise_sampler, variances

__all__ = [
    "Advice",
    "Constants",
    "Variances",
    "advise_sampler",
    "constants",
    "convergence",
    "step_sizes",
    "variances",
]
