"""A frontier as a page and a picture show it: the loss on all rows against the worst mixture's.

    x_t = Σ_k m̄_k L_k(w_t),     y_t = max_{λ∈Λ} Σ_k λ_k L_k(w_t),     0 ≤ t ≤ 1

Each model w_t is a point. t = 0 is the ordinary model, t = 1 is made for the worst mixture alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError, finite_vector
from anymix.reporting.words import number
from anymix.solvers.frontier import Frontier, FrontierLosses

Array = NDArray[np.float64]

__all__ = [
    "FITTED",
    "Front",
    "Series",
    "checked_frontier",
    "error_in_words",
    "robustness_in_words",
]

HELD_OUT, FITTED = "rows held out", "rows fitted"


@dataclass(frozen=True, eq=False)
class Series:
    """The points of all models on the same rows."""

    rows: str  # which rows, for people
    pooled: Array  # (T,) losses on all rows: x
    worst: Array  # (T,) losses on the worst mixture: y
    pooled_error: Array  # (T,) standard errors
    worst_error: Array  # (T,) standard errors

    @property
    def has_errors(self) -> bool:
        """Whether there is a standard error to draw."""
        return bool(np.any(self.pooled_error > 0) or np.any(self.worst_error > 0))

    def cells(self, i: int) -> list[tuple[str, str]]:
        """What a table says of model i: both losses, each with its standard error or ''."""
        pairs = ((self.pooled, self.pooled_error), (self.worst, self.worst_error))
        return [(number(loss[i]), error_in_words(e[i]) if e[i] > 0 else "") for loss, e in pairs]


@dataclass(frozen=True, eq=False)
class Front:
    """What is shown of a frontier. The models are in the order of t."""

    robustness: Array  # (T,) t
    gammas: Array | None  # (T,) γ
    chosen: int | None  # place of the model that was taken
    series: list[Series]  # rows held out, if there are any, then the rows fitted
    # what the losses are called: "loss", or "RMSE" for roots of half squared errors
    title: str = "loss"
    trained: str = ""  # loss that was trained, if it is known and not that of the audit

    @property
    def ordinary(self) -> int | None:
        """The place of the ordinary model, if it is here."""
        return 0 if self.robustness[0] == 0 else None

    @property
    def models(self) -> list[str]:
        """What a table calls the models."""
        names = [robustness_in_words(t) for t in self.robustness]
        if self.ordinary is not None:
            names[self.ordinary] += ", ordinary"
        if self.chosen is not None:
            names[self.chosen] += ", taken"
        return names

    def hover(self, series: Series) -> list[str]:
        """What is said of each point when it is pointed at, in lines."""
        return ["\n".join(self._lines(series, i)) for i in range(len(self.robustness))]

    def _lines(self, series: Series, i: int) -> Iterator[str]:
        yield self.models[i] + ("" if self.gammas is None else f"; γ = {self.gammas[i]:.3g}")
        for what, cell in zip(("all rows", "worst mixture"), series.cells(i), strict=True):
            yield f"{what} {' '.join(cell)}".rstrip()

    def reading(self) -> str:
        """How to read the picture."""
        sides = "Left is better for all rows, down is better for the worst mixture."
        if self.robustness.size == 1:
            return f"The point is a model. {sides}"
        least, most = robustness_in_words(0), robustness_in_words(1)
        return (
            f"Each point is a model. {sides} The line joins them from left to right. Their "
            f"robustness t says what they look at: {least} at all rows alike, {most} at the worst "
            "mixture alone."
        )

    def finding(self) -> str | None:
        """What was taken, and what it buys and costs beside the ordinary model."""
        i, o, judged = self.chosen, self.ordinary, self.series[0]
        if i is None:
            return None
        if i == o:
            return "The ordinary model was taken."
        taken = f"The robust model with {robustness_in_words(self.robustness[i])} was taken"
        if o is None:
            return f"{taken}."
        worst = _change(judged.worst[i], judged.worst[o])
        pooled = _change(judged.pooled[i], judged.pooled[o])
        return (
            f"{taken}: beside the ordinary one its {self.title} is {worst} on the worst mixture "
            f"and {pooled} on all rows ({judged.rows})."
        )

    def note(self) -> str:
        """What the numbers are worth."""
        if self.series[0].rows == FITTED:
            rows = "These are the rows fitted: new rows mostly lose more, and may rank them anew."
        else:
            rows = "Rows held out tell what to expect of new rows; rows fitted flatter a model."
        if self.title != "loss":
            return f"{rows} {self.title} is √(2 × the loss that was trained, half squared errors)."
        if self.trained:
            return f"{rows} The loss is the one that was trained, {self.trained}, and not an RMSE."
        return f"{rows} The loss is the one that was trained, which need not be that of the audit."


def checked_frontier(
    frontier: Any, names: Sequence[str] | None = None, *, rooted: bool = False
) -> Front:
    """A frontier that can be shown: of these domains, and every loss in it finite."""
    if not isinstance(frontier, Frontier):
        fix = "give the frontier_ of an estimator, or what pareto_front returned"
        raise InputError("frontier", f"is a {type(frontier).__name__}", fix)
    own = [str(name) for name in np.asarray(frontier.domain_names).tolist()]
    if names is not None and sorted(own) != sorted(names):
        found = f"has different domains, {_few(own)} and not {_few(names)}"
        raise InputError("frontier", found, "audit rows of the domains that were fitted")
    t = finite_vector("frontier.robustness", frontier.robustness, len(frontier.robustness))
    if not t.size:
        raise InputError("frontier", "has no model", "give one with at least one")
    order = np.argsort(t, kind="stable")
    held, fitted = frontier.held_out, frontier.fitted
    found_series = [] if held is None else [_series(HELD_OUT, "held_out", held, order)]
    series = [*found_series, _series(FITTED, "fitted", fitted, order)]
    other = rooted and frontier.loss is not None and not frontier.loss.is_quadratic
    least = min(float(x.min()) for s in series for x in (s.pooled, s.worst))
    rooted = rooted and not other and least > 0
    return Front(
        t[order],
        _gammas(frontier, order),
        _chosen(frontier, order),
        [_rooted(s) for s in series] if rooted else series,
        "RMSE" if rooted else "loss",
        str(frontier.loss) if other else "",
    )


def _rooted(s: Series) -> Series:
    """√(2 L), and its standard error to first order, e / √(2 L)."""
    x, y = np.sqrt(2 * s.pooled), np.sqrt(2 * s.worst)
    return Series(s.rows, x, y, s.pooled_error / x, s.worst_error / y)


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def _gammas(frontier: Frontier, order: NDArray[np.intp]) -> Array | None:
    gammas = np.asarray(frontier.gammas, dtype=np.float64)
    known = gammas.shape == order.shape and bool(np.all(np.isfinite(gammas)))
    return gammas[order] if known else None


def _chosen(frontier: Frontier, order: NDArray[np.intp]) -> int | None:
    i = frontier.chosen
    if i is None:
        return None
    if not 0 <= i < len(order):
        fix = f"give a place below {len(order)}, or None"
        raise InputError("frontier.chosen", f"is {i!r}", fix)
    return int(np.flatnonzero(order == i)[0])


def _series(rows: str, name: str, found: FrontierLosses, order: NDArray[np.intp]) -> Series:
    n = len(order)
    pooled = finite_vector(f"frontier.{name}.pooled", found.pooled, n)
    worst = finite_vector(f"frontier.{name}.worst", found.worst, n)
    along = _errors(f"frontier.{name}.pooled_error", found.pooled_error, n)
    up = _errors(f"frontier.{name}.worst_error", found.worst_error, n)
    return Series(rows, pooled[order], worst[order], along[order], up[order])


def _errors(argument: str, errors: Array | None, n: int) -> Array:
    """Standard errors, 0 where none is known."""
    if errors is None:
        return np.zeros(n)
    e = np.asarray(errors, dtype=np.float64)
    if e.shape != (n,) or np.any(e < 0):
        raise InputError(argument, f"is {errors!r}", f"give {n} numbers ≥ 0")
    return np.where(np.isnan(e), 0.0, e)


def robustness_in_words(t: float) -> str:
    """t and its value, with spaces at which no line breaks."""
    return f"t\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{t:.4g}"


def error_in_words(error: float) -> str:
    """A standard error with two digits, such as '± 0.012'."""
    return "± ∞" if math.isinf(error) else f"± {error:,.0f}" if error >= 100 else f"± {error:.2g}"


def _change(new: float, old: float) -> str:
    if math.isclose(new, old):
        return "the same"
    return f"{number(abs(new - old))} {'more' if new > old else 'less'}"
