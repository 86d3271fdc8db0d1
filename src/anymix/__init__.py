"""One model that holds up on any mixture of your clients.

Solves min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ R(w): p domains with mean losses L_k, and a set Λ of
target mixtures to guard against (Agnostic Federated Learning, Mohri, Sivek and Suresh, 2019).

>>> import anymix as ax
>>> problem = ax.LinearDomains([[0.0]] * 4, y=[1, 1, 0, 1], domains=["D1", "D1", "D2", "D2"])
>>> ax.solve(problem, ax.Simplex(2), gamma=0.0).domain_losses.round(4)
array([0.6931, 0.6931])
"""

import lazy_loader

__version__ = "0.2.0"

# __init__.pyi lists the names. Each is imported when it is first asked for: an audit loads no
# solver, and a solver no scikit-learn, which takes longer to load than all the rest.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
