"""Which model: losses on held-out rows, the rule that chooses by them, and the dial f_λ."""

import lazy_loader

# Recommendation needs scipy.stats, the rule does not.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
