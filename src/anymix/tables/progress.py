"""What is done next, and how much is done already."""

from __future__ import annotations

from typing import Self

__all__ = ["Step"]


class Step(str):
    """A word on what comes next, that also knows what share of the work is done.

    Parameters
    ----------
    words : str
        What comes next.
    share : float
        The share of the work that is done, from 0 to 1; about, for nobody knows how long it takes.

    Examples
    --------
    >>> step = Step("choosing", 0.2)
    >>> f"{step}: {step.share:.0%}"
    'choosing: 20%'
    """

    __slots__ = ("share",)
    share: float

    def __new__(cls, words: str, share: float) -> Self:
        """The words, with their share."""
        step = super().__new__(cls, words)
        step.share = share
        return step
