"""A run of `stochastic.py` by the compiled kernels, and the points that it yields.

To call a kernel costs as much as several steps, and to read a point as much as thousands. So where
the caller wants to hear of every step, steps are only noted, uniforms and sizes, and played when
somebody looks or many have come together. Where the notes begin is a mark, a copy of all that
changes: a point that is read late, after the run has gone on, is found by playing the notes again
from there. Marks are as far apart as makes their copies cheap next to the steps between.

Imported when the first compiled run begins, for Numba takes a while to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.solvers.compiled.position import Position
from anymix.solvers.compiled.setup import data_of, forms_of, rules_of
from anymix.solvers.game import Game
from anymix.solvers.players import Players
from anymix.solvers.steps import Constant

Array = NDArray[np.float64]

__all__ = ["CompiledRun"]

BLOCK = 2**16  # uniforms drawn at once: they stay in the cache


@dataclass(frozen=True)
class Mark:
    """A point of the path, and what the kernels are given in the steps after it."""

    position: Position
    rng_state: Mapping[str, Any]  # as it was there
    uniforms: Array  # (steps, draws)
    sizes_w: Array  # (steps,)
    sizes_mixture: Array  # (steps,)

    def play(self, position: Position, stop: int) -> None:
        """Let the players go from where they are to step `stop`."""
        some = slice(position.t - self.position.t, stop - self.position.t)
        position.play(self.uniforms[some], self.sizes_w[some], self.sizes_mixture[some])

    def again(self, t: int) -> Position:
        """Where the players were after step t."""
        position = self.position.copy()
        self.play(position, t)
        return position

    def rng_state_at(self, t: int) -> Mapping[str, Any]:
        """That after step t, if the generator is one that `default_rng` made for us alone."""
        rng = np.random.default_rng(0)
        rng.bit_generator.state = self.rng_state
        rng.random((t - self.position.t, self.uniforms.shape[1]))
        return rng.bit_generator.state


class CompiledRun:
    """Steps from where the players stand, or from where `saved` was taken.

    Attributes
    ----------
    t : int
        The number of steps so far; those beyond `position.t` are only noted.
    position : Position
        The players.
    """

    def __init__(
        self,
        game: Game,
        players: Players,
        rng: np.random.Generator,
        saved: Mapping[str, ArrayLike] | None,
    ) -> None:
        self.game, self.rng, self.t = game, rng, players.t
        self.shares_rng = not isinstance(game.seed, int | np.integer)
        forms = forms_of(game, players)
        self.position = Position(game, rules_of(game), data_of(game), forms, players.t)
        if saved is not None:
            self.position.load(saved)
        p = game.problem.n_domains
        self._n_draws = game.sampler.n_draws(p) + game.mixture_sampler.n_draws(p)
        self._apart = _steps_between_marks(self.position, self._n_draws)
        steps = game.step_w, game.step_mixture
        self._constant = all(type(step) is Constant for step in steps)
        self._mark: Mark | None = None
        self._stop = 0  # the last step that the mark has room for

    def advance(self, steps: int) -> None:
        """So many steps; an error of one that is only noted shows when it is played."""
        mark = self._mark
        if mark is not None and self.t + steps <= self._stop:
            some = slice(self.t - mark.position.t, self.t - mark.position.t + steps)
            self.rng.random(out=mark.uniforms[some])
            if not self._constant:
                self._fill(mark.sizes_w[some], mark.sizes_mixture[some])
            self.t += steps
            return
        self.catch_up()
        self._mark = None
        while steps > 0:
            n = min(steps, max(1, BLOCK // self._n_draws))
            uniforms, sizes = self.rng.random((n, self._n_draws)), self._sizes(n)
            self._fill(*sizes)
            self.position.play(uniforms, *sizes)
            self.t += n
            steps -= n

    def _sizes(self, n: int) -> tuple[Array, Array]:
        """Room for the sizes of n steps; those that are constant are there already."""
        steps = self.game.step_w, self.game.step_mixture
        known = [step.size if isinstance(step, Constant) else np.nan for step in steps]
        return np.full(n, known[0]), np.full(n, known[1])

    def _fill(self, sizes_w: Array, sizes_mixture: Array) -> None:
        """The sizes of the next steps, where they are functions of t."""
        for step, sizes in ((self.game.step_w, sizes_w), (self.game.step_mixture, sizes_mixture)):
            if type(step) is not Constant:
                sizes[:] = [step(self.t + 1 + j) for j in range(len(sizes))]

    def catch_up(self) -> None:
        """Play what is only noted."""
        if self._mark is not None and self.position.t < self.t:
            self._mark.play(self.position, self.t)

    def point(self) -> CompiledPoint:
        """The point where the run stands now."""
        if self._mark is None:
            n = self._apart
            self._stop = self.t + n
            room = np.empty((n, self._n_draws)), *self._sizes(n)
            self._mark = Mark(self.position.copy(), self.rng.bit_generator.state, *room)
        return CompiledPoint(self, self._mark)


class CompiledPoint:
    """As `iterates.Point`: read from the run while it stands there, later from the way there."""

    def __init__(self, run: CompiledRun, mark: Mark) -> None:
        self._run, self._mark, self._t = run, mark, run.t
        # the caller may draw from a generator of their own between our steps
        self._rng_state = run.rng.bit_generator.state if run.shares_rng else None
        self._again: Position | None = None
        self._lam: dict[str, Any] | None = None

    @property
    def _position(self) -> Position:
        if self._run.t == self._t and not self._run.position.broken:
            self._run.catch_up()
            return self._run.position
        if self._again is None:
            self._again = self._mark.again(self._t)
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
        mixture: Array = self._adversary["mixture"].copy()
        return mixture

    def w_average(self) -> Array:
        """(w_1 + … + w_t)/t."""
        position = self._position
        return position.total() / position.t

    def mixture_average(self) -> Array:
        """(λ_1 + … + λ_t)/t."""
        average: Array = self._adversary["total"] / self._adversary["n_steps"]
        return average

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
            "rng": self._rng_state or self._mark.rng_state_at(self._t),
            "compiled": {name: array.copy() for name, array in position.arrays().items()},
        }


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _steps_between_marks(position: Position, n_draws: int) -> int:
    """So many that a mark costs little next to them, and that what they are given fits in it."""
    size = sum(array.size for array in position.arrays().values())
    w, lam = position.forms.plain, position.forms.dense
    touched = 250 + n_draws + (0 if w is None else w.w.size) + (0 if lam is None else len(lam[0]))
    return min(64 + size // touched, 1 + (2**16 + size) // n_draws)
