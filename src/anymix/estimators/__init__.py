"""scikit-learn estimators: models that hold up on every mixture of the domains."""

import lazy_loader

# Fits and searches of this folder need no scikit-learn, and loading it takes longer than they do.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
