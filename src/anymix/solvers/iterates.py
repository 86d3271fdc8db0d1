"""What a stochastic run yields: a point of its path, computed when somebody looks at it.

A step costs microseconds, and to write all of w, λ, their averages and the state down costs many
times as much. So an iterate knows where its numbers are, and fetches them when they are asked for.
It gives its own numbers even when asked late, after the run has gone on.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.players import Players

Array = NDArray[np.float64]
State = dict[str, Any]

__all__ = ["Iterate", "PlayersPoint", "Point"]


class Point(Protocol):
    """Where an iterate finds its numbers; each call makes new arrays."""

    def w(self) -> Array:
        """w_t."""
        ...

    def mixture(self) -> Array:
        """λ_t."""
        ...

    def w_average(self) -> Array:
        """The average of the w so far."""
        ...

    def mixture_average(self) -> Array:
        """The average of the λ so far."""
        ...

    def state(self) -> State:
        """All that a run needs to go on from here."""
        ...


@final
class Iterate:
    """(w_t, λ_t), the averages of w_1..w_t and λ_1..λ_t, and all that a resumed run needs.

    All but `step` is computed when first asked for and kept then, so that iterates nobody looks at
    cost nothing. One that is asked late, after the run has gone on, still gives its own numbers: a
    compiled run goes from the last point it has kept to that step again, bit for bit.

    For the same reason a compiled run plays its steps when somebody looks, or when many have come
    together: if a step fails, the error may come a while after it, at the latest with its numbers.

    Parameters
    ----------
    step : int
        t, the number of steps made.
    point : Point
        Where the numbers are found.

    Attributes
    ----------
    w : ndarray of shape (D,)
        w_t, the output of Optimistic Stochastic-AFL.
    mixture : ndarray of shape (p,)
        λ_t, read-only.
    w_average : ndarray of shape (D,)
        w^A = (w_1 + … + w_t)/t, the output of Stochastic-AFL.
    mixture_average : ndarray of shape (p,)
        λ^A = (λ_1 + … + λ_t)/t, read-only.
    state : dict
        All that a run needs to go on from here, of arrays and numbers: `state=` of the algorithms.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> problem = ax.LinearDomains(np.zeros((4, 1)), [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> run = ax.stochastic_afl(problem, step_w=0.1, step_mixture=0.1)
    >>> first, second = next(run), next(run)
    >>> first.step, first.w.shape, np.array_equal(first.w, second.w)
    (1, (2,), False)
    """

    def __init__(self, step: int, point: Point) -> None:
        self.step = step
        self._point = point

    @cached_property
    def w(self) -> Array:
        """w_t, (D,)."""
        return self._point.w()

    @cached_property
    def mixture(self) -> Array:
        """λ_t, (p,), read-only."""
        return _frozen(self._point.mixture())

    @cached_property
    def w_average(self) -> Array:
        """w^A, (D,)."""
        return self._point.w_average()

    @cached_property
    def mixture_average(self) -> Array:
        """λ^A, (p,), read-only."""
        return _frozen(self._point.mixture_average())

    @cached_property
    def state(self) -> State:
        """All that a run needs to go on from here."""
        return self._point.state()

    def __repr__(self) -> str:
        return f"Iterate(step={self.step}, w={self.w}, mixture={self.mixture})"

    def __getstate__(self) -> dict[str, Any]:
        """The numbers, without the way to them."""
        names = ("step", "w", "mixture", "w_average", "mixture_average", "state")
        return {name: getattr(self, name) for name in names}


class PlayersPoint:
    """The point where players stand now, and what else their state holds.

    Parameters
    ----------
    players : Players
        They may go on afterwards.
    rng : numpy.random.Generator
        Where the uniforms come from.
    mixture_total : ndarray of shape (p,), optional
        The sum to average λ by, where it is not that of λ_1..λ_t.
    """

    def __init__(
        self, players: Players, rng: np.random.Generator, mixture_total: Array | None = None
    ) -> None:
        self._players, self._rng_state = players.copy(), rng.bit_generator.state
        self._mixture_total = mixture_total

    def w(self) -> Array:
        """w_t."""
        return self._players.w.copy()

    def mixture(self) -> Array:
        """λ_t."""
        return self._players.adversary.mixture.copy()

    def w_average(self) -> Array:
        """The average of the w so far."""
        return self._players.w_average

    def mixture_average(self) -> Array:
        """The average of the λ so far."""
        if self._mixture_total is None:
            return self._players.adversary.average
        return self._mixture_total / self._players.t

    def state(self) -> State:
        """All that a run needs to go on from here."""
        state = self._players.state_dict() | {"rng": self._rng_state}
        if self._mixture_total is not None:
            state["mixture_total"] = self._mixture_total.copy()
        return state


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array
