"""min over w, max over λ: the exact solver with its proof, and the stochastic algorithms."""

from typing import TYPE_CHECKING

from anymix.loading import names_on_demand

if TYPE_CHECKING:
    from anymix.solvers.certificates import Certificate, certify
    from anymix.solvers.exact import Solution, solve
    from anymix.solvers.frontier import Frontier, pareto_front
    from anymix.solvers.stochastic import Iterate, optimistic_afl, stochastic_afl

# An exact solver has no need of samplers and optimizers, nor those of it.
_PLACE = {
    "Certificate": "anymix.solvers.certificates",
    "Frontier": "anymix.solvers.frontier",
    "Iterate": "anymix.solvers.stochastic",
    "Solution": "anymix.solvers.exact",
    "certify": "anymix.solvers.certificates",
    "optimistic_afl": "anymix.solvers.stochastic",
    "pareto_front": "anymix.solvers.frontier",
    "solve": "anymix.solvers.exact",
    "stochastic_afl": "anymix.solvers.stochastic",
}

__all__ = [
    "Certificate",
    "Frontier",
    "Iterate",
    "Solution",
    "certify",
    "optimistic_afl",
    "pareto_front",
    "solve",
    "stochastic_afl",
]

__getattr__, __dir__ = names_on_demand(__name__, _PLACE)
