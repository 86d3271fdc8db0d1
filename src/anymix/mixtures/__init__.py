"""λ and Λ: mixtures of domains, the sets of them to guard against, and the player that moves λ."""

from anymix.mixtures.adversary import Adversary
from anymix.mixtures.penalties import Chi2Penalty, DirichletPrior
from anymix.mixtures.sets import (
    Box,
    Chi2Ball,
    Hull,
    MixtureSet,
    Point,
    Simplex,
    TVBall,
    Vertices,
    cvar,
)

__all__ = [
    "Adversary",
    "Box",
    "Chi2Ball",
    "Chi2Penalty",
    "DirichletPrior",
    "Hull",
    "MixtureSet",
    "Point",
    "Simplex",
    "TVBall",
    "Vertices",
    "cvar",
]
