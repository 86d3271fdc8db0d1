"""Who gains, who pays, and how sure that is: the last model against the first, domain by domain.

    D_k = M_k(last) − M_k(first),    M in accuracy, in the target's unit, or the loss itself

The intervals are paired, row by row, and of two models hold for all domains at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import Audit, Comparison, compare
from anymix.auditing.verdicts import is_better_nowhere, is_worse_everywhere
from anymix.reporting.shown import Shown
from anymix.reporting.words import number

Array = NDArray[np.float64]

__all__ = [
    "Scale",
    "Standing",
    "scales_of",
    "standing_in_words",
    "standings_of",
    "verdict_of",
]

MOST_NAMED = 3  # domains in a sentence


class Scale(NamedTuple):
    """In what the models are compared."""

    measure: str  # "loss" or the name of a metric
    title: str  # what to call it, for people
    higher_is_better: bool = False  # which way is better
    is_share: bool = False  # whether it is shown in percent, and its differences in points

    def text(self, x: float) -> str:
        """A number on this scale."""
        return f"{100 * x:.1f}%" if self.is_share and np.isfinite(x) else number(x)

    def change(self, x: float) -> str:
        """A difference on this scale, with its sign."""
        shown = f"{100 * abs(x):.1f}" if self.is_share else number(abs(x))
        return f"{'+' if x >= 0 else '−'}{shown}{' points' if self.is_share else ''}"


@dataclass(frozen=True, eq=False)
class Standing:
    """All domains on one scale."""

    scale: Scale
    names: list[str]  # domains
    first: Array  # (p,) M_k of the first model
    last: Array  # (p,) M_k of the last model
    values: Array  # (p,) D_k
    intervals: Array  # (p, 2) their intervals
    pooled: tuple[float, float]  # M of both models on all rows

    @property
    def gains(self) -> NDArray[np.bool_]:
        """Where the last model is surely better, (p,)."""
        low, high = self.intervals.T
        return np.asarray(low > 0 if self.scale.higher_is_better else high < 0)

    @property
    def pays(self) -> NDArray[np.bool_]:
        """Where the last model is surely worse, (p,)."""
        low, high = self.intervals.T
        return np.asarray(high < 0 if self.scale.higher_is_better else low > 0)

    def sentence(self, models: tuple[str, str], level: str) -> str:
        """Who gains and who pays by the last model, and how sure that is."""
        first, last = models
        title, (a, b) = self.scale.title, self.pooled
        said = [
            self._who("surely better", self.gains),
            self._who("surely worse", self.pays),
        ]
        known = "; ".join(part for part in said if part)
        everywhere = self.scale.change(b - a)
        whole = f"On all rows {title} is {self.scale.text(b)} ({everywhere} against {first})."
        if not known:
            return f"In {title}, no domain differs surely between {first} and {last}. {whole}"
        rest = int(np.sum(~(self.gains | self.pays)))
        unsure = f" Not sure for {_domains(rest)}." if rest else ""
        return f"In {title}, {last} is {known} (joint {level} intervals).{unsure} {whole}"

    def _who(self, what: str, these: NDArray[np.bool_]) -> str:
        if not these.any():
            return ""
        order = np.argsort(-np.abs(np.where(these, self.values, 0.0)), kind="stable")
        few = order[: min(MOST_NAMED, int(these.sum()))]
        named = ", ".join(f"{self.names[k]} ({self.scale.change(self.values[k])})" for k in few)
        rest = int(these.sum()) - len(few)
        return f"{what} for {named}{f' and {rest} more' if rest else ''}"

    def to_page(self) -> dict[str, Any]:
        """What the page's program reads."""
        return {
            "measure": self.scale.measure,
            "title": self.scale.title,
            "higherIsBetter": self.scale.higher_is_better,
            "isShare": self.scale.is_share,
            "first": self.first,
            "last": self.last,
            "values": self.values,
            "low": self.intervals[:, 0],
            "high": self.intervals[:, 1],
            "pooled": self.pooled,
        }


def _domains(n: int) -> str:
    return "one domain" if n == 1 else f"{n} domains"


def scales_of(shown: Shown) -> list[Scale]:
    """In what to compare: first what people know best."""
    metrics = set.intersection(*(set(a.row_metrics) for a in shown.audits.values()))
    loss = Scale("loss", shown.loss)
    if "mae" in metrics:
        return [Scale("rmse", "RMSE"), Scale("mae", "MAE")]
    if "accuracy" in metrics:
        accuracy = Scale("accuracy", "accuracy", higher_is_better=True, is_share=True)
        return [accuracy] if shown.first.loss == "zero_one" else [accuracy, loss]
    return [loss]


def standings_of(shown: Shown) -> list[Standing]:
    """The last model against the first on every scale; a single one by itself."""
    audits = list(shown.audits.values())
    if len(audits) == 1:
        return [_alone(shown, scale) for scale in scales_of(shown)]
    pair = compare(audits[0], audits[-1])
    return [_paired(shown, pair, scale) for scale in scales_of(shown)]


def _alone(shown: Shown, scale: Scale) -> Standing:
    a = shown.first
    if scale.measure == "loss":
        values, ends, pooled = a.domain_losses, a.intervals, a.pooled_loss
    else:
        values, ends = a.metrics[scale.measure], a.metric_intervals[scale.measure]
        pooled = a.pooled_metrics[scale.measure]
    return Standing(scale, shown.names, values, values, values, ends, (pooled, pooled))


def _paired(shown: Shown, pair: Comparison, scale: Scale) -> Standing:
    found = pair.difference_of(scale.measure, joint=True)
    of = [
        (x.domain_losses, x.pooled_loss)
        if scale.measure == "loss"
        else (x.metrics[scale.measure], x.pooled_metrics[scale.measure])
        for x in (pair.a, pair.b)
    ]
    (first, all_first), (last, all_last) = of
    pooled = (all_first, all_last)
    return Standing(scale, shown.names, first, last, found.values, found.intervals, pooled)


def standing_in_words(shown: Shown, standings: Sequence[Standing]) -> str:
    """Who gains and who pays; of a single model, where it is worst and best."""
    names, standing = list(shown.audits), standings[0]
    if len(names) > 1:
        sure = [bool(s.gains.any() or s.pays.any()) for s in standings]
        told = standings[:1] if sure[0] or not any(sure) else standings[:2]
        return " ".join(s.sentence((names[0], names[-1]), shown.level) for s in told)
    scale, values = standing.scale, standing.values
    title = f"{scale.title[0].upper()}{scale.title[1:]}"
    if shown.p == 1:
        return f"{title} is {scale.text(standing.pooled[0])}."
    worse = -values if scale.higher_is_better else values
    worst, best = int(np.nanargmax(worse)), int(np.nanargmin(worse))
    return (
        f"{title} is worst for {shown.names[worst]} ({scale.text(values[worst])}) and best for "
        f"{shown.names[best]} ({scale.text(values[best])}); on all rows it is "
        f"{scale.text(standing.pooled[0])}."
    )


def verdict_of(shown: Shown, beside: Mapping[str, Audit]) -> str:
    """What the audits say by themselves: is there a constant guess as good, who gains, who pays."""
    names, audits = list(shown.audits), list(shown.audits.values())
    last = names[-1][0].upper() + names[-1][1:]
    for name, guess in beside.items():
        if "constant" in name and is_better_nowhere(compare(guess, audits[-1])):
            return (
                f"{last} is no better than {name} in any domain, by its {shown.loss} and as far as "
                "these rows can tell."
            )
    if len(names) == 1:
        worst = number(shown.in_unit(shown.first.agnostic_loss))
        pooled = number(shown.in_unit(shown.first.pooled_loss))
        if shown.p == 1:
            return f"{shown.loss[0].upper()}{shown.loss[1:]} is {pooled}."
        return f"At worst the {shown.loss} is {worst}, on the rows as they are {pooled}."
    pair = compare(audits[0], audits[-1])
    if is_worse_everywhere(pair):
        return f"{last} is worse for everybody: keep {names[0]}."
    low, high = pair.joint_intervals.T
    if not np.any(low > 0) and not np.any(high < 0):
        return f"No domain differs surely between {names[0]} and {names[-1]}."
    if np.any(high < 0) and np.all(pair.differences <= 0):
        return f"{last} is better for everybody."
    gains = "surely better" if pair.is_sure_gain else "not surely better"
    pays = _domains(int(np.sum(low > 0))) if np.any(low > 0) else "no domain surely"
    verb = "pay" if int(np.sum(low > 0)) > 1 else "pays"
    return f"{last} is {gains} where {names[0]} is worst; {pays} {verb} for it."
