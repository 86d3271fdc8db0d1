"""Which model: losses on held-out rows, the rule that chooses by them, and the dial f_λ."""

from typing import TYPE_CHECKING

from anymix.loading import names_on_demand

if TYPE_CHECKING:
    from anymix.selection.recommendation import Recommendation

__all__ = ["Recommendation"]

__getattr__, __dir__ = names_on_demand(  # it needs scipy.stats, the rule does not
    __name__, {"Recommendation": "anymix.selection.recommendation"}
)
