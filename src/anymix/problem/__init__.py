"""L_k and Φ: losses, rows and the linear model seen through its domains."""

from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss, SquaredError
from anymix.problem.poisson import Poisson

__all__ = ["CrossEntropy", "Hinge", "Huber", "LinearDomains", "Loss", "Poisson", "SquaredError"]
