__all__: list[str]

from .recommendation import Recommendation as Recommendation
