"""One model that holds up on any mixture of your clients.

Solves min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ R(w): p domains with mean losses L_k, and a set Λ of
target mixtures to guard against (Agnostic Federated Learning, Mohri, Sivek and Suresh, 2019).

>>> import anymix as ax
>>> problem = ax.LinearDomains([[0.0]] * 4, y=[1, 1, 0, 1], domains=["D1", "D1", "D2", "D2"])
>>> ax.solve(problem, ax.Simplex(2), gamma=0.0).domain_losses.round(4)
array([0.6931, 0.6931])
"""

from typing import TYPE_CHECKING

from anymix.loading import names_on_demand

if TYPE_CHECKING:
    from anymix import bounds as bounds
    from anymix import datasets as datasets
    from anymix.auditing import audit, compare
    from anymix.estimators import (
        AgnosticClassifier,
        AgnosticClassifierCV,
        AgnosticEnsemble,
        AgnosticRegressor,
        AgnosticRegressorCV,
        AnyMixClassifier,
        AnyMixRegressor,
        BregmanClusters,
        Personalized,
        agnostic_scorer,
    )
    from anymix.mixtures import (
        Adversary,
        Box,
        Chi2Ball,
        Chi2Penalty,
        DirichletPrior,
        Hull,
        MixtureSet,
        Point,
        Simplex,
        TVBall,
        Vertices,
        cvar,
    )
    from anymix.problem import CrossEntropy, Hinge, Huber, LinearDomains, Poisson, SquaredError
    from anymix.solvers import (
        Certificate,
        Frontier,
        Solution,
        certify,
        optimistic_afl,
        pareto_front,
        solve,
        stochastic_afl,
    )
    from anymix.solvers import optimizers as optimizers
    from anymix.solvers import samplers as samplers

__version__ = "0.2.0"

# Every name is imported when it is first asked for, so that an audit loads no solver, and a
# solver no scikit-learn, which takes longer to load than all the rest.
_NAMES = {
    "anymix.auditing": "audit compare",
    "anymix.estimators": "AgnosticClassifier AgnosticClassifierCV AgnosticEnsemble "
    "AgnosticRegressor AgnosticRegressorCV AnyMixClassifier AnyMixRegressor BregmanClusters "
    "Personalized agnostic_scorer",
    "anymix.mixtures": "Adversary Box Chi2Ball Chi2Penalty DirichletPrior Hull MixtureSet Point "
    "Simplex TVBall Vertices cvar",
    "anymix.problem": "CrossEntropy Hinge Huber LinearDomains Poisson SquaredError",
    "anymix.solvers": "Certificate Frontier Solution certify optimistic_afl pareto_front solve "
    "stochastic_afl",
}
_PLACE = {name: module for module, names in _NAMES.items() for name in names.split()}
_PLACE |= {
    "bounds": "anymix.bounds",
    "datasets": "anymix.datasets",
    "optimizers": "anymix.solvers.optimizers",
    "samplers": "anymix.solvers.samplers",
}

__all__ = [
    "Adversary",
    "AgnosticClassifier",
    "AgnosticClassifierCV",
    "AgnosticEnsemble",
    "AgnosticRegressor",
    "AgnosticRegressorCV",
    "AnyMixClassifier",
    "AnyMixRegressor",
    "Box",
    "BregmanClusters",
    "Certificate",
    "Chi2Ball",
    "Chi2Penalty",
    "CrossEntropy",
    "DirichletPrior",
    "Frontier",
    "Hinge",
    "Huber",
    "Hull",
    "LinearDomains",
    "MixtureSet",
    "Personalized",
    "Point",
    "Poisson",
    "Simplex",
    "Solution",
    "SquaredError",
    "TVBall",
    "Vertices",
    "agnostic_scorer",
    "audit",
    "certify",
    "compare",
    "cvar",
    "optimistic_afl",
    "pareto_front",
    "solve",
    "stochastic_afl",
]

__getattr__, __dir__ = names_on_demand(__name__, _PLACE)
