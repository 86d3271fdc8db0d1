"""λ and Λ: mixtures of domains, the sets of them to guard against, and the player that moves λ."""

from anymix.mixtures.adversary import Adversary
from anymix.mixtures.balls import Chi2Ball, TVBall
from anymix.mixtures.boxes import Box, cvar
from anymix.mixtures.hulls import Hull
from anymix.mixtures.penalties import Chi2Penalty, DirichletPrior, NoPenalty, Penalty
from anymix.mixtures.priors import LogPrior
from anymix.mixtures.sets import MixtureSet, Point, Shrunk
from anymix.mixtures.simplices import Simplex, Vertices

__all__ = [
    "Adversary",
    "Box",
    "Chi2Ball",
    "Chi2Penalty",
    "DirichletPrior",
    "Hull",
    "LogPrior",
    "MixtureSet",
    "NoPenalty",
    "Penalty",
    "Point",
    "Shrunk",
    "Simplex",
    "TVBall",
    "Vertices",
    "cvar",
]
