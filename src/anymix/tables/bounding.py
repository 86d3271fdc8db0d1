"""What the rows of a table can promise: domain by domain, and for every mixture at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.guarantees import Guarantee, probability
from anymix.auditing.words import LOSS_TITLES, TerminalTable, plain, short
from anymix.bounds import (
    DomainAdvice,
    advise_domains,
    confidence_widths,
    rows_needed,
    worst_skewness,
)
from anymix.errors import finite_number
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.cells import combined
from anymix.tables.audited import audit_frame
from anymix.tables.frames import pandas_frame
from anymix.tables.labels import coded_column

Array = NDArray[np.float64]

__all__ = ["TableBound", "bound_frame"]

USUAL_CUT = 3.0  # of log losses: those of what was given a probability of 5 %


@dataclass(frozen=True, eq=False)
class TableBound:
    """How much the rows of each domain can promise; p domains.

    Attributes
    ----------
    domain_names : tuple of str
        The domains.
    sizes : ndarray of int, shape (p,)
        m_k, the rows of each.
    widths : ndarray of shape (p,)
        M √(log(p/δ)/(2m_k)), how far chance may move the mean loss of each, all at once.
    missing : ndarray of int, shape (p,)
        How many more rows bring that down to `width`; no sensible number if `is_far`.
    width : float
        The width that is wanted.
    skewness : float
        𝔰(Λ‖m̄), the largest skewness of a mixture in Λ.
    delta : float
        δ, how often what is promised may fail.
    loss_bound : float
        M, what no loss is above.
    guarantee : Guarantee or None
        What is promised of the losses, if the table has them.
    advice : DomainAdvice
        Which domains to merge.

    Examples
    --------
    >>> import pandas as pd
    >>> found = bound_frame(pd.DataFrame({"g": ["a"] * 300 + ["b"] * 100}), ["g"], width=0.1)
    >>> found.skewness, found.missing.tolist()
    (4.0, [0, 85])
    """

    domain_names: tuple[str, ...]
    sizes: NDArray[np.int64]
    widths: Array
    missing: NDArray[np.int64]
    width: float
    skewness: float
    delta: float
    loss_bound: float
    guarantee: Guarantee | None
    advice: DomainAdvice

    @property
    def is_far(self) -> bool:
        """Whether M is the limit of a log loss that nothing cuts, far above any usual loss."""
        return self.guarantee is not None and self.guarantee.loss == LOSS_TITLES["log"]

    def summary(self) -> str:
        """The findings in plain language, a few sentences.

        Returns
        -------
        str
        """
        return " ".join(_sentences(self))

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only, for JSON.

        Returns
        -------
        dict
        """
        total = int(self.sizes.sum())
        promise = self.guarantee
        domains = [
            {
                "domain": name,
                "rows": int(self.sizes[k]),
                "share": self.sizes[k] / total,
                "skewness": total / self.sizes[k],
                "width": plain(self.widths[k]),
                "rows_needed": None if self.is_far else int(self.missing[k]),
            }
            | ({} if promise is None else _of_losses(promise, k))
            for k, name in enumerate(self.domain_names)
        ]
        return {
            "delta": self.delta,
            "loss_bound": self.loss_bound,
            "width": self.width,
            "skewness": self.skewness,
            "effective_rows": total / self.skewness,
            "domains": domains,
            "guarantee": None if promise is None else promise.to_dict(),
            "merge": [list(map(str, group)) for group in self.advice.groups if len(group) > 1],
        }

    def __rich__(self) -> TerminalTable:
        heads = ["domain", "rows", "share", "skewness", "chance", f"rows to add for {self.width:g}"]
        total, promise = int(self.sizes.sum()), self.guarantee
        heads += [] if promise is None else [promise.loss, "at most"]
        rows = [
            [
                name,
                f"{m:,}",
                f"{m / total:.1%}",
                short(total / m, 1),
                f"±{short(w, 3)}",
                "–" if self.is_far else f"{more:,}",
            ]
            for name, m, w, more in zip(
                self.domain_names, self.sizes, self.widths, self.missing, strict=True
            )
        ]
        if promise is not None:
            for k, row in enumerate(rows):
                row += [short(promise.domain_losses[k]), short(promise.upper[k])]
        return TerminalTable(heads, rows, 0, (-self.sizes).tolist())


def bound_frame(
    frame: Any,
    domains: Sequence[str],
    *,
    target: str | None = None,
    prediction: Sequence[str] = (),
    losses: str | None = None,
    loss: str | None = None,
    mixtures: Mixtures = "simplex",
    delta: float = 0.05,
    width: float = 0.05,
    loss_bound: float | None = None,
    classes: Sequence[str] | None = None,
) -> TableBound:
    """M √(log(p/δ)/(2m_k)) of each domain, and `held_out` of losses: what a table can promise.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    domains : sequence of str
        The columns whose values, or their combinations, are the domains.
    target : str or None
        The column of what is true, if there are predictions.
    prediction : sequence of str
        The column of labels, values or probabilities, or one of probabilities for each class.
    losses : str or None
        The column of each row's loss, instead of target and prediction.
    loss : str or None
        The name of the loss, as `audit` takes it.
    mixtures : str, MixtureSet, function or None
        Λ, the mixtures to guard against.
    delta : float
        δ in (0, 1), how often what is promised may fail.
    width : float
        The width that the bound of each domain is to have, > 0.
    loss_bound : float or None
        M, what no loss is above; None is what is known of the loss, or 1.
    classes : sequence of str or None
        Names of the classes, in the order of the columns of probabilities.

    Returns
    -------
    TableBound

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"g": ["a"] * 60 + ["b"] * 40, "wrong": [0, 1] * 50})
    >>> found = bound_frame(table, ["g"], losses="wrong", loss="zero_one")
    >>> found.guarantee.upper.round(2)
    array([0.63, 0.66])
    """
    delta = probability("delta", delta)
    width = finite_number("width", width, "give a number > 0, such as 0.05", lambda x: x > 0)
    frame = pandas_frame(frame)
    coded = {name: coded_column(frame, name) for name in domains}
    (names, codes), _ = combined(list(coded.values()), list(coded))
    sizes = np.bincount(codes)
    Λ = target_mixtures(mixtures, None, sizes.astype(np.float64), names.tolist())
    promise = None
    if losses is not None or target is not None or prediction:
        unnamed = losses is not None and loss is None and loss_bound is None
        options: dict[str, Any] = {
            "target": target,
            "prediction": prediction,
            "losses": losses,
            "loss": loss,
            "classes": classes,
            "loss_bound": 1.0 if unnamed else loss_bound,
        }
        audits = audit_frame(frame, domains, mixtures=Λ, guarantee=delta, **options)
        promise = next(iter(audits.values())).guarantees["loss"]
    M = 1.0 if loss_bound is None else loss_bound
    M = M if promise is None else promise.loss_bound
    found = None if promise is None else promise.domain_losses
    called = tuple(map(str, names.tolist()))
    return TableBound(
        domain_names=called,
        sizes=sizes,
        widths=confidence_widths(sizes, delta, M),
        missing=rows_needed(sizes, width, delta, M),
        width=width,
        skewness=worst_skewness(Λ, sizes),
        delta=delta,
        loss_bound=M,
        guarantee=promise,
        advice=advise_domains(sizes, found, names=called, delta=delta, loss_bound=M),
    )


def _of_losses(promise: Guarantee, k: int) -> dict[str, Any]:
    ends = {"low": promise.lower[k], "high": promise.upper[k]}
    return {"loss": plain(promise.domain_losses[k])} | {name: plain(x) for name, x in ends.items()}


def _sentences(found: TableBound) -> Iterator[str]:
    total, p = int(found.sizes.sum()), len(found.sizes)
    yield (
        f"{total:,} rows in {p} domain{'s' * (p > 1)} tell as much of the mixture that is furthest "
        f"from them as {total / found.skewness:,.0f} rows of its own would (skewness "
        f"{found.skewness:.3g})."
    )
    if found.is_far:
        yield _advice_to_cut(found)
    elif found.missing.any():
        k = int(np.argmax(found.missing))
        yield (
            f"To know every domain's mean loss within {found.width:g}, whatever the losses from "
            f"0 to {found.loss_bound:.3g} are, {int(found.missing.sum()):,} more rows are needed, "
            f"{int(found.missing[k]):,} of them in {found.domain_names[k]!r}."
        )
    if found.guarantee is not None:
        yield found.guarantee.explain()
        yield (
            "The upper and the lower end each hold on their own with that probability; a "
            "guaranteed interval of an audit holds both at once, so at the same level it is wider."
        )
    yield _advice_to_merge(found)


def _advice_to_cut(found: TableBound) -> str:
    """What to do about a limit that no reasonable number of rows makes up for."""
    cut = rows_needed(found.sizes, found.width, found.delta, USUAL_CUT)
    return (
        f"A log loss can be as large as {found.loss_bound:.3g}, which no sensible number of rows "
        f"makes up for: cut the losses. With {USUAL_CUT:g} as their bound, the loss of what was "
        f"given a probability of 5 %, {int(cut.sum()):,} more rows would do to know every domain's "
        f"mean loss within {found.width:g}."
    )


def _advice_to_merge(found: TableBound) -> str:
    """What merging does to the column "chance"."""
    advice = found.advice
    if not advice.is_merged:
        return advice.explain()
    rows = np.bincount(advice.labels, found.sizes)
    before, after = (
        float(confidence_widths(m, found.delta, found.loss_bound).max())
        for m in (found.sizes, rows)
    )
    return (
        f"{advice.merged_in_words()}, and what chance may do falls from ±{before:.3g} to "
        f"±{after:.3g} in the smallest. {advice.price_in_words()}"
    )
