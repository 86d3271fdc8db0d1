"""What a solver says that stops with a larger gap than was asked for.

Imported when there is something to say, for scikit-learn takes a while to load.
"""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

__all__ = ["GapWarning", "warn_of_gap"]


class GapWarning(ConvergenceWarning):  # type: ignore[misc]  # scikit-learn has no types
    """A proof that is weaker than was asked for. Reads as one line: "<found>; <fix>".

    The parts are kept apart as in an `InputError`, so that the command can name its options where
    the library names arguments.

    Parameters
    ----------
    found : str
        What was found, such as "stopped after 3 passes with gap 0.5".
    fix : str
        What to do, such as "raise max_iter".

    Examples
    --------
    >>> warning = GapWarning("stopped after 3 passes with gap 0.5", "raise max_iter")
    >>> print(warning)
    stopped after 3 passes with gap 0.5; raise max_iter
    >>> warning.found
    'stopped after 3 passes with gap 0.5'
    """

    def __init__(self, found: str, fix: str) -> None:
        super().__init__(found, fix)
        self.found, self.fix = found, fix

    def __str__(self) -> str:
        return f"{self.found}; {self.fix}"


def warn_of_gap(work: str, gap: float, tol: float, fix: str, level: int = 3) -> None:
    """Warn whoever called the solver that called this."""
    found = f"stopped after {work} with gap {gap:.2e} above the {tol:.2e} asked for"
    warnings.warn(GapWarning(found, fix), stacklevel=level)
