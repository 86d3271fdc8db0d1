"""min over w, max over λ: the exact solver with its proof, and the stochastic algorithms."""

import lazy_loader

# An exact solver has no need of samplers and optimizers, nor those of it.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
