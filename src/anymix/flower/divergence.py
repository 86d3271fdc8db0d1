"""Runs that diverge: they end with a message that says which step to shorten, and give no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.results import History
from anymix.flower.roster import Roster

Array = NDArray[np.float64]

__all__ = ["check_growth", "too_long_a_step"]

DIVERGED = 1e3  # a loss so many times that of the start is no accident of a batch


def check_growth(losses: Array, when: str, roster: Roster, history: History) -> None:
    """Losses that have grown a thousandfold since the first round are an InputError.

    Parameters
    ----------
    losses : ndarray of shape (p,)
        The losses of the domains, not finite where nobody was asked.
    when : str
        Of which model they are, for the message.
    roster : Roster
        The clients, for the names of the domains.
    history : History
        The rounds so far.
    """
    seen = losses[np.isfinite(losses)]
    first = next((record for record in history if not record["skipped"]), None)
    if first is None or not seen.size:
        return
    start = np.nanmax(np.abs(first["domain_losses"]), initial=1e-6)
    if seen.max() > DIVERGED * start:
        name = roster.domains[int(np.nanargmax(losses))]
        raise too_long_a_step(
            f"makes the run diverge: the loss of domain {name!r} is {seen.max():.3g} {when}, and "
            f"was {start:.3g} at the start"
        )


def too_long_a_step(found: str) -> InputError:
    """What to do about a model that has run away."""
    return InputError(
        "step_w",
        found,
        "make step_w shorter (a tenth of it, say), or give limits=Limits(loss=..., update=...) if "
        "a client may send anything",
    )
