"""A run of `stochastic.py` by the compiled kernels, and the points that it yields.

A point is read when somebody asks for it. Until the run goes on, its numbers are there to be read.
After that they are found by going there again: now and then the run keeps a copy of all that
changes, a mark, and after it what the kernels were given, uniforms and sizes. The marks are as far
apart as makes their copies cheap next to the steps between.

Imported when the first compiled run begins, for Numba takes a while to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.solvers.compiled.position import Position
from anymix.solvers.compiled.setup import data_of, forms_of, rules_of
from anymix.solvers.game import Game
from anymix.solvers.players import Players
from anymix.solvers.steps import Constant

Array = NDArray[np.float64]
Call = tuple[Array, Array, Array]  # uniforms, sizes for w, sizes for λ

__all__ = ["CompiledRun"]

BLOCK = 2**16  # uniforms drawn at once: they stay in the cache


@dataclass(frozen=True)
class Mark:
    """A point of the path, and all that the kernels were given since."""

    position: Position
    calls: list[Call] = field(default_factory=list)

    def again(self, n_calls: int) -> Position:
        """Where the players were after so many calls."""
        position = self.position.copy()
        for call in self.calls[:n_calls]:
            position.play(*call)
        return position


class CompiledRun:
    """Steps from where the players stand, or from where `saved` was taken."""

    def __init__(
        self,
        game: Game,
        players: Players,
        rng: np.random.Generator,
        saved: Mapping[str, ArrayLike] | None,
    ) -> None:
        self.game, self.rng = game, rng
        forms = forms_of(game, players)
        self.position = Position(game, rules_of(game), data_of(game), forms, players.t)
        if saved is not None:
            self.position.load(saved)
        self.n_moves = 0  # how often the run went on
        p = game.problem.n_domains
        self._n_draws = game.sampler.n_draws(p) + game.mixture_sampler.n_draws(p)
        self._apart = _steps_between_marks(self.position, self._n_draws)
        self._mark: Mark | None = None

    @property
    def t(self) -> int:
        """Steps made."""
        return self.position.t

    def advance(self, steps: int) -> None:
        """So many steps."""
        self.n_moves += 1
        if self._mark is not None and self.t + steps > self._mark.position.t + self._apart:
            self._mark = None  # too far from it: the next point begins another
        while steps > 0:
            n = min(steps, max(1, BLOCK // self._n_draws))
            self._play(self._call(n))
            steps -= n

    def _call(self, n: int) -> Call:
        """What the kernels need for the next n steps."""
        uniforms = self.rng.random((n, self._n_draws))
        sizes = (_sizes(step, self.t, n) for step in (self.game.step_w, self.game.step_mixture))
        return uniforms, *sizes

    def _play(self, call: Call) -> None:
        if self.position.play(*call) < len(call[0]):
            raise InputError(
                "step_w",
                f"may be too long: the gradients of step {self.t + 1} at w = {self.position.w()} "
                "are not finite",
                "make step_w or step_mixture shorter, or scale the columns of X",
            )
        if self._mark is not None:
            self._mark.calls.append(call)

    def point(self) -> CompiledPoint:
        """The point where the run stands now."""
        if self._mark is None:
            self._mark = Mark(self.position.copy())
        return CompiledPoint(self, self._mark)


class CompiledPoint:
    """As `iterates.Point`: read from the run while it stands there, later from the way there."""

    def __init__(self, run: CompiledRun, mark: Mark) -> None:
        self._run, self._n_moves = run, run.n_moves
        self._mark, self._n_calls = mark, len(mark.calls)
        self._rng_state = run.rng.bit_generator.state
        self._again: Position | None = None
        self._lam: dict[str, Any] | None = None

    @property
    def _position(self) -> Position:
        if self._run.n_moves == self._n_moves:
            return self._run.position
        if self._again is None:
            self._again = self._mark.again(self._n_calls)
        return self._again

    @property
    def _adversary(self) -> dict[str, Any]:
        """Read once, for it takes O(p)."""
        if self._lam is None:
            self._lam = self._position.adversary()
        return self._lam

    def w(self) -> Array:
        """w_t."""
        return self._position.w()

    def mixture(self) -> Array:
        """λ_t."""
        return _copied(self._adversary["mixture"])

    def w_average(self) -> Array:
        """(w_1 + … + w_t)/t."""
        position = self._position
        return position.total() / position.t

    def mixture_average(self) -> Array:
        """(λ_1 + … + λ_t)/t."""
        return _copied(self._adversary["total"] / self._adversary["n_steps"])

    def state(self) -> dict[str, Any]:
        """All that the readable loop needs to go on from here, and the compiled one bit for bit."""
        position = self._position
        return {
            "t": position.t,
            "w": position.w(),
            "total": position.total(),
            "previous": position.previous(),
            "memory": position.memory(),
            "adversary": {name: _copied(value) for name, value in self._adversary.items()},
            "rng": self._rng_state,
            "compiled": {name: array.copy() for name, array in position.arrays().items()},
        }


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _steps_between_marks(position: Position, n_draws: int) -> int:
    """So many that a mark costs little next to them, and that what they are given fits in it."""
    size = sum(array.size for array in position.arrays().values())
    w, lam = position.forms.plain, position.forms.dense
    touched = 2000 + n_draws + (0 if w is None else w.w.size) + (0 if lam is None else len(lam[0]))
    return min(16 + size // touched, 1 + (2**16 + size) // n_draws)


def _sizes(step: Any, t: int, n: int) -> Array:
    """The sizes of the steps t + 1, …, t + n."""
    if isinstance(step, Constant):
        return np.full(n, step.size)
    return np.array([step(t + 1 + j) for j in range(n)], dtype=np.float64)
