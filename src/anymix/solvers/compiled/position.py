"""Players in the form of the kernels at one point of their path, and how to read them.

They keep w and λ in lazy forms. Reading turns these into what the readable loop keeps and leaves
them as they are, so that the numbers do not depend on when one looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.solvers.compiled import kernels
from anymix.solvers.compiled.kernels import SCALE, SUM, Data, Rules, entropic_read, euclidean_read
from anymix.solvers.compiled.setup import Forms, memory_of
from anymix.solvers.game import Game
from anymix.solvers.players import too_long

Array = NDArray[np.float64]

__all__ = ["Position"]


@dataclass
class Position:
    """Where the players are after t steps."""

    game: Game
    rules: Rules
    data: Data
    forms: Forms
    t: int
    broken: bool = False  # a step was begun that has no end

    def play(self, uniforms: Array, sizes_w: Array, sizes_mixture: Array) -> None:
        """A step for every row of uniforms."""
        given = uniforms, sizes_w, sizes_mixture
        done: int = kernels.advance(self.rules, self.data, *self.forms, *given)
        self.t += done
        if done < len(uniforms):
            self.broken = True
            raise self._why_broken()

    def _why_broken(self) -> InputError:
        """Which player's step was too long."""
        step = self.forms.step
        m = len(step.entries) // 2  # the rest are those of the step before
        of_w = self.w(), self.total(), step.slopes, step.entries[:m]
        is_w = self.rules.radius < math.inf and not math.isfinite(np.linalg.norm(of_w[0]))
        is_w |= not all(np.isfinite(array).all() for array in of_w)
        return too_long("step_w" if is_w else "step_mixture", self.t + 1)

    def copy(self) -> Position:
        """The same point, to go another way from there; what never changes is shared."""
        return replace(self, forms=Forms(*map(_copied, self.forms)))

    # -- what the readable loop keeps ----------------------------------------------------------

    def w(self) -> Array:
        """w_t."""
        plain, lazy = self.forms.plain, self.forms.lazy
        if plain is not None:
            return plain.w.copy()
        assert lazy is not None
        w = lazy.v.copy()
        w[: self.data.d] *= lazy.numbers[SCALE]
        return w

    def total(self) -> Array:
        """w_1 + … + w_t."""
        plain, lazy, d = self.forms.plain, self.forms.lazy, self.data.d
        if plain is not None:
            return plain.total.copy()
        assert lazy is not None
        total = lazy.total.copy()
        total[:d] += lazy.numbers[SUM] * lazy.v[:d] - lazy.drag[:d]
        return total

    def previous(self) -> Array | None:
        """δ_w of the last step, if optimistic."""
        if not self.game.optimistic:
            return None
        if self.forms.plain is not None:
            return self.forms.plain.previous.copy()
        problem = self.game.problem
        part = problem._with_rows(self.forms.chosen.rows, problem.average)
        return part.pull_back(self.forms.step.slopes[:, 0])

    def memory(self) -> dict[str, Array]:
        """What the step rule remembers."""
        if self.forms.plain is None:
            return {}
        memory = memory_of(self.game.optimizer, self.forms.plain)
        return {name: array.copy() for name, array in memory.items()}

    def adversary(self) -> dict[str, Any]:
        """λ, as `Adversary.state_dict`."""
        logarithm, dense = None, self.forms.dense
        if self.forms.euclidean is not None:
            mixture, total = euclidean_read(self.forms.euclidean)
        elif self.forms.entropic is not None:
            mixture, logarithm, total = entropic_read(self.forms.entropic)
        else:
            assert dense is not None
            mixture, logarithm = dense.mixture.copy(), dense.logarithm.copy()
            total = self.t * mixture if self.rules.fixed else dense.total.copy()
        if not np.isfinite(mixture).all():  # a state that was loaded may hold anything
            raise too_long("step_mixture", self.t)
        state = {
            "mixture": mixture,
            "total": total,
            "previous": self._last_mixture_gradient(),
            "n_steps": self.t,
        }
        return state | ({"logarithm": logarithm} if self.rules.entropic else {})

    def _last_mixture_gradient(self) -> Array:
        """δ_λ of the last step."""
        dense, step = self.forms.dense, self.forms.step
        if dense is not None and not self.rules.fixed:
            return dense.gradient.copy()
        m, delta = len(step.entries) // 2, np.zeros(self.game.problem.n_domains)
        np.add.at(delta, self.forms.chosen.domains[:m], step.entries[:m])
        return delta

    # -- the lazy forms themselves, to continue bit for bit ------------------------------------

    def arrays(self) -> dict[str, Array]:
        """All arrays that change, by name; not copies."""
        parts = (part for part in self.forms if part is not None and part is not self.forms.ahead)
        arrays = {f"{type(a).__name__} {k}": v for a in parts for k, v in a._asdict().items()}
        return {name: v for name, v in arrays.items() if _changes(v)}

    def load(self, saved: Mapping[str, ArrayLike]) -> None:
        """What `arrays` gave, unless in a run of another form."""
        arrays = self.arrays()
        if {k: v.shape for k, v in arrays.items()} == {k: np.shape(v) for k, v in saved.items()}:
            for name, array in arrays.items():
                array[...] = saved[name]


def _copied(part: Any) -> Any:
    """One of the forms, or None."""
    return None if part is None else type(part)(*(a.copy() if _changes(a) else a for a in part))


def _changes(array: NDArray[Any]) -> bool:
    return bool(array.flags.writeable)
