"""λ and Λ: mixtures of domains, the sets of them to guard against, and the player that moves λ."""

from anymix.mixtures.adversary import Adversary
from anymix.mixtures.boxes import Box, Simplex, Vertices, cvar
from anymix.mixtures.chi2_ball import Chi2Ball
from anymix.mixtures.hull import Hull
from anymix.mixtures.kl_ball import KLBall
from anymix.mixtures.penalties import Chi2Penalty, DirichletPrior, LogPrior, NoPenalty, Penalty
from anymix.mixtures.polytope import Polytope
from anymix.mixtures.sets import MixtureSet, Point, Shrunk
from anymix.mixtures.tv_ball import TVBall

__all__ = [
    "Adversary",
    "Box",
    "Chi2Ball",
    "Chi2Penalty",
    "DirichletPrior",
    "Hull",
    "KLBall",
    "LogPrior",
    "MixtureSet",
    "NoPenalty",
    "Penalty",
    "Point",
    "Polytope",
    "Shrunk",
    "Simplex",
    "TVBall",
    "Vertices",
    "cvar",
]
