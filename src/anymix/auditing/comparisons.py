"""Two models on the same rows: what the second costs on average, and what it gains at worst."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.differences import Difference, difference_of, paired_metrics
from anymix.auditing.findings import Audit
from anymix.auditing.measures import limits
from anymix.auditing.selection import Paired, at_worst
from anymix.auditing.words import (
    TerminalTable,
    few_rows,
    html_table,
    level,
    metric_title,
    mixture_in_words,
    plain,
    short,
    signed,
    span,
)
from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Model b against model a on the same rows; a difference above 0 says that b loses more.

    Attributes
    ----------
    a, b : Audit
        What was found of the two models.
    names : tuple of str
        What to call them.

    Examples
    --------
    >>> from anymix import audit
    >>> a, b = audit(None, [1.0, 3.0], ["x", "y"]), audit(None, [2.5, 2.0], ["x", "y"])
    >>> compare(a, b).differences, compare(a, b).price, compare(a, b).gain
    (array([ 1.5, -1. ]), 0.25, 0.5)
    """

    a: Audit
    b: Audit
    names: tuple[str, str]

    @property
    def domain_names(self) -> tuple[Any, ...]:
        """The domains of both."""
        return self.a.domain_names

    @property
    def differences(self) -> Array:
        """L_k(b) − L_k(a) for every domain, (p,)."""
        return self.b.domain_losses - self.a.domain_losses

    @property
    def difference_kind(self) -> str:
        """What their intervals are worth: "guaranteed" for 0-1 losses, else "approximate".

        A guarantee for log losses would have to allow for differences of ±36 that nobody has seen,
        and then thousands of rows tell little.
        """
        shares = ("zero_one", "hamming")
        return "guaranteed" if self.a.loss == self.b.loss in shares else "approximate"

    @property
    def difference_intervals(self) -> Array:
        """Confidence intervals of the differences, each about one domain alone, (p, 2).

        They are of the means of the differences row by row: what is easy or hard for both models
        cancels, so they are mostly narrower than those of the two losses.
        """
        return self.difference_of("loss").intervals

    @property
    def joint_intervals(self) -> Array:
        """Confidence intervals of the differences that hold for all domains at once, (p, 2).

        Each at level 1 − (1 − c)/p. Where domains are picked by what they show ("those that surely
        pay"), these are the ones to look at: of many domains some always look like it.
        """
        return self.difference_of("loss", joint=True).intervals

    def difference_of(self, measure: str, *, joint: bool = False) -> Difference:
        """What b has more than a of a loss or a metric, domain by domain, paired row by row.

        Means (the loss, accuracy, MAE, rates) have the interval of the mean of the rows'
        differences; RMSE has that of its linearised rows; a metric of scikit-learn or of your own
        has that of the differences when the same twentieth of the rows is left out for both.

        Parameters
        ----------
        measure : str
            "loss", or a metric of both audits.
        joint : bool
            Whether the intervals hold for all domains at once.

        Returns
        -------
        Difference

        Examples
        --------
        >>> from anymix import audit
        >>> y, d = [1, 0, 1, 1, 1, 0], ["x", "x", "x", "x", "y", "y"]
        >>> pair = compare(audit(y, [1, 0, 1, 1, 0, 1], d), audit(y, [1, 1, 0, 0, 1, 0], d))
        >>> pair.difference_of("accuracy").values
        array([-0.75,  1.  ])
        """
        share = (1 - self.a.confidence) / (len(self.a.sizes) if joint else 1)
        return difference_of(self.a, self.b, measure, self._limits(), 1 - share)

    @property
    def worst_difference(self) -> tuple[float, float, float]:
        """Σ_k λ_k (L_k(b) − L_k(a)) on the worst mixture λ of a, and the ends of its interval.

        Of the differences row by row, as `difference_intervals`: what b changes for those whom a
        serves worst. Below 0 they gain. The interval allows for λ being found on these rows, see
        `anymix.auditing.selection`.
        """
        a, b = self.a, self.b
        parts = [y - x for x, y in zip(a.row_losses, b.row_losses, strict=True)]
        unit = float(np.mean(np.abs(np.concatenate(parts))))
        sure = self.difference_kind == "guaranteed"
        pairs = Paired(parts, a.row_weights, self._limits(), sure, unit, a.loss == "zero_one")
        disjoint = int(a.sizes.sum()) == a.n_rows
        found = at_worst(
            pairs, a.row_losses, a.worst_mixture, a.mixtures, a.confidence, disjoint=disjoint
        )
        return float(a.worst_mixture @ self.differences), float(found.low), float(found.high)

    @property
    def told_difference(self) -> tuple[float, float, float]:
        """`worst_difference` in the unit that people read: half squared errors as RMSE.

        R_b − R_a = 2 (L_b − L_a)/(R_a + R_b), so both intervals are on the same side of 0.
        """
        if not self.is_rooted:
            return self.worst_difference
        a, b = self.a, self.b
        R = a.in_unit(a.agnostic_loss) + b.in_unit(float(a.worst_mixture @ b.domain_losses))
        value, low, high = (2 * x / R if R > 0 else x for x in self.worst_difference)
        return value, low, high

    @property
    def is_rooted(self) -> bool:
        """Whether losses are half squared errors of rows that are known, shown as RMSE."""
        known = ("mae" in x.row_metrics for x in (self.a, self.b))
        return self.a.is_rooted and self.b.is_rooted and all(known)

    @property
    def is_sure_gain(self) -> bool:
        """Whether b is better on the worst mixture of a, whatever chance may have done."""
        return self.worst_difference[2] < 0

    def _limits(self) -> tuple[float, float]:
        """The least and the largest difference that a row can have."""
        a, b = self.a, self.b
        least_a, least_b = (
            0.0 if x.loss_bound < math.inf else limits(x.kind, x.loss)[0] for x in (a, b)
        )
        return least_b - a.loss_bound, b.loss_bound - least_a

    @property
    def price(self) -> float:
        """What b costs on the rows as they are: its pooled loss less that of a."""
        return self.b.pooled_loss - self.a.pooled_loss

    @property
    def gain(self) -> float:
        """What b gains on the worst mixture: the agnostic loss of a less that of b."""
        return self.a.agnostic_loss - self.b.agnostic_loss

    def summary(self) -> str:
        """The comparison in plain language.

        Returns
        -------
        str
        """
        return " ".join(_sentences(self))

    def to_frame(self) -> Any:
        """A row for each domain: the losses of a and b, their difference and its interval.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas as pd

        (first, second), (low, high) = self.names, self.difference_intervals.T
        losses = {first: self.a.domain_losses, second: self.b.domain_losses}
        return pd.DataFrame(
            losses
            | {"difference": self.differences, "difference_low": low, "difference_high": high},
            index=pd.Index(list(self.domain_names), name="domain"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only, for JSON; None for what is not finite.

        Returns
        -------
        dict
        """
        return {
            "price": self.price,
            "gain": self.gain,
            "worst_difference": [plain(x) for x in self.worst_difference],
            "differences": {
                str(name): float(d)
                for name, d in zip(self.domain_names, self.differences, strict=True)
            },
            "difference_kind": self.difference_kind,
            "difference_intervals": {
                str(name): [plain(end) for end in ends]
                for name, ends in zip(self.domain_names, self.difference_intervals, strict=True)
            },
            "metric_differences": {
                name: self.difference_of(name).to_dict(self.domain_names)
                for name in paired_metrics(self.a, self.b)
            },
            "audits": {self.names[0]: self.a.to_dict(), self.names[1]: self.b.to_dict()},
        }

    def __rich__(self) -> TerminalTable:
        worst = np.maximum(self.a.domain_losses, self.b.domain_losses).tolist()
        return TerminalTable(*_cells(self), 2, worst)

    def _repr_html_(self) -> str:
        return html_table(*_cells(self), self.summary())


def compare(a: Audit, b: Audit, names: tuple[str, str] = ("a", "b")) -> Comparison:
    """What model b costs on average against a, and what it gains on the worst mixture.

    Parameters
    ----------
    a, b : Audit
        Of the same rows in the same order, with the same loss, Λ and confidence.
    names : tuple of str
        What to call the models, two different names.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from anymix import audit
    >>> y, d = [1, 0, 1, 1, 1, 0], ["x", "x", "x", "x", "y", "y"]
    >>> ordinary = audit(y, [1, 0, 1, 1, 0, 1], d)
    >>> robust = audit(y, [1, 1, 0, 0, 1, 0], d)
    >>> found = compare(ordinary, robust)
    >>> found.price.__round__(4), found.gain
    (0.1667, 0.25)
    """
    for name, audited in (("a", a), ("b", b)):
        if not isinstance(audited, Audit):
            raise InputError(name, f"is {audited!r}", "give what audit() returned")
    _check_names(names)
    pairs = {
        "domains": (a.domain_names, b.domain_names),
        "sizes of the domains": (a.sizes.tolist(), b.sizes.tolist()),
        "losses": (a.loss, b.loss),
        "bounds of the losses": _bounds(a, b),
        "mixtures": (a.mixtures, b.mixtures),
        "confidences": (a.confidence, b.confidence),
        "sums of weights": (a.masses.tolist(), b.masses.tolist()),
    }
    for what, (of_a, of_b) in pairs.items():
        if of_a != of_b:
            found = f"and the other audit have different {what}: {of_a!r} and {of_b!r}"
            fix = "audit both models on the same rows, with the same loss and mixtures"
            raise InputError("a", found, fix)
    return Comparison(a, b, (names[0], names[1]))


def _bounds(a: Audit, b: Audit) -> tuple[float, float]:
    """What no loss is above in each; a bound that only one of them has is no difference."""
    if math.inf in (a.loss_bound, b.loss_bound):
        return math.inf, math.inf
    return a.loss_bound, b.loss_bound


def _check_names(names: Any) -> None:
    if not isinstance(names, tuple | list) or len(names) != 2 or names[0] == names[1]:
        fix = "give two different names, such as ('old', 'new')"
        raise InputError("names", f"is {names!r}", fix)


def _cells(pair: Comparison) -> tuple[list[str], list[list[str]]]:
    """Loss of both and their difference, then the first metric of both."""
    a, b, metric = pair.a, pair.b, _first_metric(pair.a)
    first, second = pair.names
    heads = ["domain", "rows", f"{a.unit_title} {first}", second, "difference"]
    losses = [
        *zip(pair.domain_names, a.domain_losses, b.domain_losses, strict=True),
        ("all rows", a.pooled_loss, b.pooled_loss),
        ("worst mixture", a.agnostic_loss, b.agnostic_loss),
    ]
    told = [(n, a.in_unit(x), b.in_unit(y)) for n, x, y in losses]
    rows = [[str(n), "", short(x), short(y), signed(y - x)] for n, x, y in told]
    for row, size in zip(rows, [*a.sizes, a.n_rows], strict=False):
        row[1] = f"{size:,}"
    if metric is not None:
        heads += [f"{metric_title(metric)} {first}", second]
        for audited in (a, b):
            values = [*audited.metrics[metric], audited.pooled_metrics[metric], math.nan]
            for row, value in zip(rows, values, strict=True):
                row.append(short(value))
    return heads, rows


def _first_metric(found: Audit) -> str | None:
    """The metric that stands beside the loss; RMSE is the loss itself, as people read it."""
    return next((m for m in found.metrics if not (m == "rmse" and found.is_rooted)), None)


def _sentences(pair: Comparison) -> Iterator[str]:
    yield _gain_in_words(pair)
    yield _price_in_words(pair)
    values, ends, _, _ = pair.difference_of("rmse" if pair.is_rooted else "loss", joint=True)
    k = int(np.argmax(values))
    if values[k] > 0:
        pays = str(pair.domain_names[k])
        yield (
            f"The domain that pays most is {pays!r}: {short(values[k])} more "
            f"({_kind(pair)} {span(ends[k])})."
        )
    yield from few_rows(pair.domain_names, pair.a.sizes)


def _gain_in_words(pair: Comparison) -> str:
    """Who is served worst by a, and what b changes for them; first of all, whether that is sure."""
    a, b, (first, second) = pair.a, pair.b, pair.names
    difference, low, high = pair.told_difference
    if not np.any([np.any(x != y) for x, y in zip(a.row_losses, b.row_losses, strict=True)]):
        return f"{second.capitalize()} loses just as much as {first} on every row."
    unsure = "" if high < 0 or low > 0 else " no difference is sure:"
    less = "less" if difference < 0 else "more"
    return (
        f"Where {first} is worst,{unsure} {_where(a)}, {second} has {short(abs(difference))} "
        f"{less} {_title(pair)} ({_kind(pair)} of the difference {span((low, high))})"
        f"{_metric_in_words(pair)}."
    )


def _title(pair: Comparison) -> str:
    return pair.a.unit_title if pair.is_rooted else pair.a.loss_title


def _kind(pair: Comparison) -> str:
    return level(pair.a.confidence, pair.difference_kind)


def _where(a: Audit) -> str:
    """A worst domain by its name and rows, a worst mixture by its shares."""
    k = a.worst_domain
    if k is not None:
        return f"in domain {str(a.domain_names[k])!r} ({a.sizes[k]:,} rows)"
    return f"on the mixture {mixture_in_words(a.worst_mixture, a.domain_names)}"


def _metric_in_words(pair: Comparison) -> str:
    """', accuracy 0.72 instead of 0.70' in the worst domain, if that is one domain."""
    k, metric = pair.a.worst_domain, _first_metric(pair.a)
    if metric is None or k is None:
        return ""
    old, new = (float(audited.metrics[metric][k]) for audited in (pair.a, pair.b))
    title = metric_title(metric)
    if short(new) == short(old):
        return f", and the same {title}, {short(old)}"
    return f", and {title} {short(new)} instead of {short(old)}"


def _price_in_words(pair: Comparison) -> str:
    a, b, (first, second) = pair.a, pair.b, pair.names
    average, worst = (
        "more" if difference >= 0 else "less" for difference in (pair.price, -pair.gain)
    )
    old, new = a.in_unit(a.pooled_loss), b.in_unit(b.pooled_loss)
    gain = abs(a.in_unit(a.agnostic_loss) - b.in_unit(b.agnostic_loss))
    return (
        f"On the rows as they are, the {a.unit_title} of {second} is {short(abs(new - old))} "
        f"{average} than that of {first} ({short(new)} against "
        f"{short(old)}); on the worst mixture it is {short(gain)} {worst} "
        f"({_worst_in_words(pair)})."
    )


def _worst_in_words(pair: Comparison) -> str:
    """'0.55, 95% interval (exact) 0.43 to 0.67, against 0.62, 0.50 to 0.70': b's loss, then a's.

    An interval that tells nothing is left out; the first one said has its name.
    """
    new, told = _worst_of(pair.b, named=True)
    old, _ = _worst_of(pair.a, named=not told)
    return f"{new}{',' if told else ''} against {old}"


def _worst_of(found: Audit, named: bool) -> tuple[str, bool]:
    """The worst mixture's loss with its interval, and whether that tells something."""
    loss = short(found.in_unit(found.agnostic_loss))
    if not found.tells(found.agnostic_loss, found.agnostic_interval, "agnostic_loss"):
        return loss, False
    name = level(found.confidence, found.interval_kinds["agnostic_loss"]) + " " if named else ""
    return f"{loss}, {name}{span(found.in_unit(end) for end in found.agnostic_interval)}", True
