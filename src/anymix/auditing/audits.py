"""How bad can a model get on some mixture of its domains? An audit of predictions, of any model.

    L_k = mean loss on domain k,    agnostic loss = max_{λ∈Λ} Σ_k λ_k L_k

Every number comes with a confidence interval of `intervals`, and `interval_kinds` says what it is
worth: "exact" for accuracy and 0-1 loss, which are shares; "guaranteed" for log loss, which has a
largest value; "approximate" for squared and absolute error and other losses, RMSE (by its root),
AUC and calibration error. Each interval is about one domain alone; only `agnostic_interval` is
about all of them at once.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text
from scipy import sparse
from scipy.special import chdtri, ndtri

from anymix.auditing import intervals
from anymix.auditing.intervals import Estimate
from anymix.mixtures import MixtureSet
from anymix.mixtures.choosing import Mixtures, target_mixtures
from anymix.problem.arrays import encode, numbers, rows_of_domains

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["Audit", "Comparison", "audit", "compare"]

FEW_ROWS = 30  # domains below it are named in the summary
FLOOR = float(np.finfo(np.float64).eps)  # of probabilities in log losses
ONE_MIXTURE = 1e-5  # a set Λ with √χ²(λ‖center) below it is taken for the center alone
ROUNDING = 1e-6  # probabilities of a float32 softmax may be this much below 0 or above 1
KINDS = {"zero_one": "labels", "log": "probabilities", "squared": "values", "absolute": "values"}
LOSS_TITLES = {
    "zero_one": "0-1 loss",
    "log": "log loss",
    "squared": "half squared error",
    "absolute": "absolute error",
}


KINDS_OF_INTERVALS = ("exact", "guaranteed", "approximate")  # from the surest to the least sure


@dataclass(frozen=True)
class Measure:
    """How to measure some rows, `of(rows, confidence)`, and the kind of its intervals."""

    kind: str
    of: Callable[[Rows, float], Estimate]


@dataclass(frozen=True)
class Loss(Measure):
    """The mean loss of some rows, and of mixtures of domains.

    limits : the least and the largest loss that a row can have.
    mixed : of a mixture of domains without common rows: (parts, mixture, confidence).
    distance : an upper bound of √(Σ c_k (L̂_k − L_k)²): (parts, c, confidence).
    low : a lower end for the maximum over many domains, where one that is too high for a single
        domain does harm: (rows, confidence).
    """

    limits: tuple[float, float]
    mixed: Callable[[list[Rows], Array, float], Estimate]
    distance: Callable[[list[Rows], Array, float], float]
    low: Callable[[Rows, float], float]


# The audit -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Audit:
    """What `audit` found, domain by domain and for the worst mixture; p domains.

    domain_names : labels of the domains, sorted.
    sizes : rows of each domain, (p,); `n_rows` of them in all, each counted once.
    loss : the name of the loss; `loss_title` is for people.
    kind : what was audited: "labels", "probabilities", "values" or "losses".
    domain_losses, intervals : L_k (p,) and their confidence intervals (p, 2).
    row_losses : the loss of each row, domain by domain: p arrays.
    metrics, metric_intervals : name → (p,) and name → (p, 2); NaN where a metric is undefined.
    pooled_loss, pooled_interval, pooled_metrics : the same of all rows together.
    mixtures, worst_mixture : Λ and the λ ∈ Λ of largest loss (p,).
    agnostic_loss, agnostic_interval : max_{λ∈Λ} Σ λ_k L_k; its interval holds for all domains at
        once.
    confidence : the level of all intervals.
    interval_kinds : "loss", "pooled_loss", "agnostic_loss" and each metric → "exact" or
        "guaranteed", which cover at the level or above, or "approximate".
    n_empty_cells : combinations of `sensitive_features` without a row: nothing is known of them.
    n_outside : rows in no domain, which count in none of the numbers.

    >>> found = audit([1, 0, 1, 1], [1, 1, 1, 0], ["a", "a", "b", "b"])
    >>> found.sizes, found.pooled_loss, found.metrics["accuracy"]
    (array([2, 2]), 0.5, array([0.5, 0.5]))
    """

    domain_names: tuple[Any, ...]
    sizes: NDArray[np.int64]
    n_rows: int
    loss: str
    kind: str
    domain_losses: Array
    intervals: Array
    row_losses: tuple[Array, ...]
    metrics: dict[str, Array]
    metric_intervals: dict[str, Array]
    pooled_loss: float
    pooled_interval: tuple[float, float]
    pooled_metrics: dict[str, float]
    mixtures: MixtureSet
    worst_mixture: Array
    agnostic_interval: tuple[float, float]
    confidence: float
    interval_kinds: dict[str, str]
    n_empty_cells: int
    n_outside: int

    @property
    def agnostic_loss(self) -> float:
        """max_{λ∈Λ} Σ_k λ_k L_k, the loss at `worst_mixture`."""
        return float(self.worst_mixture @ self.domain_losses)

    @property
    def loss_title(self) -> str:
        """The loss's name, for people."""
        return LOSS_TITLES.get(self.loss, self.loss)

    def summary(self) -> str:
        """The findings in plain language, a few sentences."""
        return " ".join(_sentences(self))

    def to_frame(self) -> Any:
        """A pandas frame, a row for each domain: rows, loss, metrics, interval ends, worst mixture.

        >>> audit([1, 0, 1], [1, 1, 1], ["a", "a", "b"]).to_frame()["loss"].to_dict()
        {'a': 0.5, 'b': 0.0}
        """
        import pandas as pd

        index = pd.Index(list(self.domain_names), name="domain")
        return pd.DataFrame(dict(self._columns()), index=index)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only, for JSON; None for what is not finite."""
        return {
            "loss": self.loss,
            "kind": self.kind,
            "confidence": self.confidence,
            "interval_kinds": dict(self.interval_kinds),
            "mixtures": repr(self.mixtures),
            "pooled_loss": _plain(self.pooled_loss),
            "pooled_interval": [_plain(end) for end in self.pooled_interval],
            "pooled_metrics": {name: _plain(v) for name, v in self.pooled_metrics.items()},
            "agnostic_loss": _plain(self.agnostic_loss),
            "agnostic_interval": [_plain(end) for end in self.agnostic_interval],
            "n_empty_cells": self.n_empty_cells,
            "n_outside": self.n_outside,
            "domains": [
                {"domain": str(name)} | {title: _plain(v[k]) for title, v in self._columns()}
                for k, name in enumerate(self.domain_names)
            ],
        }

    def _columns(self) -> Iterable[tuple[str, NDArray[Any]]]:
        yield "rows", self.sizes
        measures = {"loss": (self.domain_losses, self.intervals)} | {
            name: (values, self.metric_intervals[name]) for name, values in self.metrics.items()
        }
        for name, (values, ends) in measures.items():
            yield name, values
            yield f"{name}_low", ends[:, 0]
            yield f"{name}_high", ends[:, 1]
        yield "worst_mixture", self.worst_mixture

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of the table for people: domains, then all rows, then the worst."""
        names = list(self.metrics)
        kinds = [self.interval_kinds[name] for name in ("loss", "pooled_loss", "agnostic_loss")]
        level = _level(self, max(kinds, key=KINDS_OF_INTERVALS.index))
        heads = ["domain", "rows", self.loss_title, level]
        heads += [*(name.replace("_", " ") for name in names), "worst mixture"]
        rows = [
            [
                str(name),
                f"{self.sizes[k]:,}",
                _short(self.domain_losses[k]),
                _range(self.intervals[k]),
                *(_short(self.metrics[m][k]) for m in names),
                f"{self.worst_mixture[k]:.1%}",
            ]
            for k, name in enumerate(self.domain_names)
        ]
        pooled = [_short(self.pooled_metrics[m]) for m in names]
        blank = [""] * len(names)
        all_rows = [_short(self.pooled_loss), _range(self.pooled_interval), *pooled, ""]
        worst = [_short(self.agnostic_loss), _range(self.agnostic_interval), *blank, ""]
        rows += [["all rows", f"{self.n_rows:,}", *all_rows], ["worst mixture", "", *worst]]
        return heads, rows

    def __rich__(self) -> Table:
        return _rich_table(*self._cells(), n_totals=2)

    def _repr_html_(self) -> str:
        return _html_table(*self._cells()) + f"<p>{html.escape(self.summary())}</p>"


def audit(
    y_true: Any,
    y_pred: Any,
    domains: Any = None,
    *,
    sensitive_features: Any = None,
    loss: str | None = None,
    mixtures: Mixtures = None,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Audit:
    """max_{λ∈Λ} Σ_k λ_k L_k of a model's predictions, with all the domains' losses and metrics.

    Parameters
    ----------
    y_true : (n,) labels or numbers; None if y_pred holds the loss of each row.
    y_pred : what any model said: labels (n,), probabilities (n, K) or of the second class (n,),
        values (n,), or with y_true=None losses (n,), lower being better. Strings, booleans and
        whole numbers are labels unless y_true has fractions; numbers with fractions are
        probabilities (up to rounding, 1e-6) if y_true has at most two classes, else values.
        `loss` decides otherwise.
    domains : (n,) labels, or (n, p) booleans if a row may be in several or in none (then it counts
        nowhere); None is one domain.
    sensitive_features : instead of domains, columns of labels (a frame, a dict, an (n, c) array or
        one column); each combination that occurs is a domain, however small.
    loss : "zero_one" (labels, or the most probable class), "log" (probabilities, cut at 2e-16 as
        scikit-learn does), "squared" (½ (z − y)², as in AgnosticRegressor) or "absolute"; None is
        the one that fits. With y_true=None, the name to show; "zero_one" (or booleans) says that
        the losses are errors, 0 or 1, whose mean is a share.
    mixtures : Λ: a MixtureSet, a function of the domains' sizes that gives one, or None for any
        mixture (the simplex).
    classes : the classes in the order of the columns of y_pred, needed when y_true lacks some of
        them; by default those of y_true, sorted, or 0, …, K − 1 if it has a 0 and none beyond.
    confidence : level of the intervals, see `anymix.auditing.intervals`.

    Labels give the metric accuracy; probabilities accuracy, auc (two classes) and
    calibration_error (ten bins: of the second class, or of the most probable of K ≥ 3); values
    mae and rmse. Data frames and series of pandas and polars, arrays and lists are read alike.

    >>> found = audit(y_true=[1, 0, 1, 1], y_pred=[1, 0, 1, 0], domains=["a", "a", "b", "b"])
    >>> found.domain_losses, found.agnostic_loss, found.worst_mixture
    (array([0. , 0.5]), 0.5, array([0., 1.]))
    >>> found.metrics["accuracy"], found.metric_intervals["accuracy"].round(2)
    (array([1. , 0.5]), array([[0.16, 1.  ], [0.01, 0.99]]))
    >>> import anymix as ax
    >>> audit(None, [3.0, 1.0, 2.0], ["a", "b", "c"], mixtures=ax.Box([0, 0, 0], [0.5, 0.5, 0.5])
    ... ).agnostic_loss
    2.5
    """
    _check_confidence(confidence)
    n = _check_predictions(y_pred)
    domains, n_empty_cells = _domains(domains, sensitive_features, n)
    parts = _parts(domains, n)  # name: rows
    sizes = np.array([len(rows) for rows in parts.values()])
    target = _target(mixtures, sizes)
    pooled = np.unique(np.concatenate(list(parts.values())))
    kind, loss, row_losses, others = _measures(y_true, y_pred, loss, classes, pooled)
    loss_measure = _loss_of(kind, loss, row_losses, pooled)
    measures: dict[str, Measure] = {"loss": loss_measure, **others}
    total = {name: measure.of(pooled, confidence) for name, measure in measures.items()}
    found = {name: _table(measure, parts, confidence) for name, measure in measures.items()}
    losses = found["loss"]
    agnostic_interval, agnostic_kind = _agnostic(
        loss_measure, list(parts.values()), len(pooled), target, losses[:, 0], confidence
    )
    return Audit(
        domain_names=tuple(parts),
        sizes=sizes,
        n_rows=len(pooled),
        loss=loss,
        kind=kind,
        domain_losses=losses[:, 0],
        intervals=losses[:, 1:],
        row_losses=tuple(row_losses[rows] for rows in parts.values()),
        metrics={name: found[name][:, 0] for name in others},
        metric_intervals={name: found[name][:, 1:] for name in others},
        pooled_loss=total["loss"].value,
        pooled_interval=total["loss"][1:],
        pooled_metrics={name: total[name].value for name in others},
        mixtures=target,
        worst_mixture=target.maximize(losses[:, 0]),
        agnostic_interval=agnostic_interval,
        confidence=confidence,
        interval_kinds={name: measure.kind for name, measure in measures.items()}
        | {"pooled_loss": measures["loss"].kind, "agnostic_loss": agnostic_kind},
        n_empty_cells=n_empty_cells,
        n_outside=n - len(pooled),
    )


def _table(measure: Measure, parts: dict[Any, Rows], confidence: float) -> Array:
    """Value, low and high of every domain, (p, 3)."""
    return np.array([measure.of(rows, confidence) for rows in parts.values()])


def _target(mixtures: Mixtures, sizes: NDArray[np.int64]) -> MixtureSet:
    target = target_mixtures(mixtures, None, sizes.astype(np.float64))
    if target.n_domains != len(sizes):
        raise ValueError(
            f"mixtures is {target!r}, over {target.n_domains} domains, but the rows have "
            f"{len(sizes)}; give a set over {len(sizes)}, or a function of the sizes"
        )
    return target


# The interval of the agnostic loss


def _agnostic(
    loss: Loss,
    parts: list[Rows],
    n_rows: int,
    target: MixtureSet,
    losses: Array,
    confidence: float,
) -> tuple[tuple[float, float], str]:
    """An interval of max_{λ∈Λ} ⟨λ, L⟩ and its kind; α = 1 − confidence is the chance to miss.

    - Λ is one mixture c: the interval of ⟨c, L⟩, a weighted mean of all rows.
    - Any Λ: with probability 1 − α all L_k are inside their intervals [l_k, u_k] at level 1 − α/p,
      and then max_Λ ⟨λ, l⟩ ≤ max_Λ ⟨λ, L⟩ ≤ max_Λ ⟨λ, u⟩, since λ ≥ 0.
    - Λ is narrow, disjoint domains: `_around_center`.

    Which of them is done depends on Λ and the sizes of the domains, not on the losses. Domains that
    share rows are not independent of each other, so of these a mean over domains is not used.
    """
    sizes = np.array([len(rows) for rows in parts])
    center, alpha, disjoint = target.center, 1 - confidence, sizes.sum() == n_rows
    spread = math.sqrt(max(target.skewness(np.maximum(center, 1e-12)) - 1, 0.0))
    if spread <= ONE_MIXTURE and center.max() >= 1 - 1e-9:  # of a single domain
        return loss.of(parts[int(np.argmax(center))], confidence)[1:], loss.kind
    kind = "guaranteed" if loss.kind == "exact" else loss.kind
    if spread <= ONE_MIXTURE and disjoint:
        return loss.mixed(parts, center, confidence)[1:], kind
    if disjoint and center.min() > 0 and _is_narrow(target, spread, sizes, kind, alpha):
        return _around_center(loss, parts, target, losses, spread, alpha), kind
    level = 1 - alpha / len(parts)
    low = np.array([loss.low(rows, level) for rows in parts])
    high = np.array([loss.of(rows, level).high for rows in parts])
    return (_worst(target, low), _worst(target, high)), kind


def _is_narrow(
    target: MixtureSet, spread: float, sizes: NDArray[np.int64], kind: str, alpha: float
) -> bool:
    """Whether `_around_center` would be the shorter one if all losses were normal and alike."""
    c, p, variances = target.center, len(sizes), 1 / sizes
    z, z_each, z_all = (float(ndtri(1 - alpha / tails)) for tails in (4, 4 * p, 2 * p))
    off = math.sqrt(chdtri(p, alpha / 2) / p) if kind == "approximate" else z_each
    around = z * math.sqrt(c**2 @ variances) + spread * off * math.sqrt(c @ variances)
    ends = np.sqrt(variances)
    return around < z_all * float(target.maximize(ends) @ ends)


def _around_center(
    loss: Loss,
    parts: list[Rows],
    target: MixtureSet,
    losses: Array,
    spread: float,
    alpha: float,
) -> tuple[float, float]:
    """An interval of max_Λ ⟨λ, L⟩ from that of ⟨c, L⟩, c the center, and how far λ is from c.

    With D = L − L̂, ⟨λ, L⟩ = ⟨c, L⟩ + ⟨λ − c, L̂⟩ + ⟨λ − c, D⟩, and by Cauchy and Schwarz

        |⟨λ − c, D⟩| ≤ √(Σ (λ_k − c_k)²/c_k) √(Σ c_k D_k²) ≤ ρ √(Σ c_k D_k²),

    ρ = `spread`, ρ² = max_Λ χ²(λ‖c). The interval of ⟨c, L⟩ and the bound of the last root fail
    with probability α/2 each. Also c ∈ Λ: the maximum is at least ⟨c, L⟩.
    """
    c = target.center
    middle = loss.mixed(parts, c, 1 - alpha / 2)
    shift = float((target.maximize(losses) - c) @ losses)
    reach = spread * loss.distance(parts, c, 1 - alpha / 2)
    low, high = middle.low + max(0.0, shift - reach), middle.high + shift + reach
    return low, min(high, loss.limits[1])


def _worst(target: MixtureSet, ends: Array) -> float:
    """max_{λ∈Λ} ⟨λ, ends⟩ with 0·∞ = 0: greater ends, greater maximum, so intervals carry over.

    An end of ∞ counts if some mixture has the domain, one of −∞ only if every mixture has it.
    """
    unknown = np.isinf(ends)
    if not unknown.any():
        return float(target.maximize(ends) @ ends)
    if ends.max() == math.inf and target.maximize(unknown) @ unknown > 1e-9:
        return math.inf
    # Every mixture without the unknown domains gives a lower end. A high price on these finds the
    # best of such mixtures, or one with an unknown domain if there is no other.
    low, width = (0.0, 1.0) if unknown.all() else (ends[~unknown].min(), np.ptp(ends[~unknown]))
    best = target.maximize(np.where(unknown, -1e6, (ends - low) / (width or 1.0)))
    return -math.inf if best @ unknown > 1e-9 else float(best @ np.where(unknown, 0.0, ends))


# Reading ---------------------------------------------------------------------------------------


def _check_confidence(confidence: Any) -> None:
    if not isinstance(confidence, float | int | np.number) or not 0 < confidence <= 1 - 1e-9:
        raise ValueError(f"confidence is {confidence!r}; give one inside (0, 1), such as 0.95")


def _is_column(values: Any) -> bool:
    """Whether it has rows at all; a string is one value."""
    shaped = getattr(values, "shape", True) != ()
    return hasattr(values, "__len__") and shaped and not isinstance(values, str | bytes)


def _count(values: Any) -> int:
    return int(values.shape[0] if hasattr(values, "shape") else len(values))


def _check_predictions(y_pred: Any) -> int:
    """How many rows there are."""
    if not _is_column(y_pred) or _count(y_pred) == 0:
        raise ValueError("y_pred has no rows; give a prediction for each row")
    return _count(y_pred)


def _domains(domains: Any, features: Any, n: int) -> tuple[Any, int]:
    """Labels or memberships of the rows, and how many combinations of features have none."""
    if features is not None:
        if domains is not None:
            raise ValueError("domains and sensitive_features are both given; give one of them")
        return intersections(features, n)
    if domains is None:
        return np.full(n, "all"), 0
    _check_count("domains", domains, n)
    return domains, 0


def _parts(domains: Any, n: int) -> dict[Any, Rows]:
    """The rows of each domain; of a domain without any, no mixture has a loss."""
    parts = rows_of_domains(domains, n)
    shape = domains.shape if hasattr(domains, "shape") else np.shape(domains)
    is_table = sparse.issparse(domains) or (len(shape) == 2 and shape[1] > 1)
    columns = list(getattr(domains, "columns", range(shape[1]))) if is_table else []
    empty = [name for name in columns if name not in parts]
    if empty:
        raise ValueError(
            f"domains has no row in {', '.join(map(repr, empty[:10]))}; leave such a column out, "
            "or merge it with another"
        )
    return parts


def _check_count(name: str, values: Any, n: int) -> None:
    if not _is_column(values):
        raise ValueError(f"{name} is {values!r}; give one entry for each of the {n} rows")
    if _count(values) != n:
        raise ValueError(f"{name} has {_count(values)} rows but y_pred has {n}; give one for each")


def intersections(features: Any, n: int) -> tuple[Any, int]:
    """One label for each combination of the columns' values, and how many of them have no row.

    >>> labels, n_empty = intersections({"sex": ["F", "M", "M"], "age": ["old", "old", "young"]}, 3)
    >>> labels.tolist(), n_empty
    (['sex=F, age=old', 'sex=M, age=old', 'sex=M, age=young'], 1)
    """
    if not isinstance(features, dict):
        _check_count("sensitive_features", features, n)
    columns = _feature_columns(features)
    for _, column in columns:
        _check_count("sensitive_features", column, n)
    coded = [encode("sensitive_features", column, n) for _, column in columns]
    if len(coded) == 1:
        names, codes = coded[0]
        return names[codes], 0
    shape = [len(names) for names, _ in coded]
    cells, which = np.unique(
        np.ravel_multi_index([codes for _, codes in coded], shape), return_inverse=True
    )
    levels = zip(*np.unravel_index(cells, shape), strict=True)
    values = [[coded[j][0].tolist()[level] for j, level in enumerate(row)] for row in levels]
    titles = [f"{title}=" if title is not None else "" for title, _ in columns]
    labels = [", ".join(f"{t}{v}" for t, v in zip(titles, row, strict=True)) for row in values]
    if len(set(labels)) < len(labels):  # values with commas of their own
        labels = [repr(tuple(row)) for row in values]
    return np.array(labels, dtype=object)[which], math.prod(shape) - len(labels)


def _feature_columns(features: Any) -> list[tuple[str | None, Any]]:
    if isinstance(features, dict):
        columns = list(features.items())
    elif hasattr(features, "columns"):
        columns = [(str(name), features[name]) for name in features.columns]
    else:  # as objects: numbers beside strings stay numbers
        table = features if hasattr(features, "shape") else np.array(features, dtype=object)
        if len(table.shape) not in (1, 2):
            raise ValueError(
                f"sensitive_features has shape {table.shape}; give one column or more of labels"
            )
        columns = [(None, c) for c in ([table] if len(table.shape) == 1 else np.asarray(table).T)]
    if not columns:
        raise ValueError("sensitive_features has no columns; give one or more")
    return columns


def _measures(
    y_true: Any, y_pred: Any, loss: str | None, classes: ArrayLike | None, pooled: Rows
) -> tuple[str, str, Array, dict[str, Measure]]:
    """What y_pred is, the name of the loss, the loss of each row, and what else to measure."""
    if y_true is None:
        losses = numbers("y_pred", y_pred, _count(y_pred))
        loss = loss or ("zero_one" if np.asarray(y_pred).dtype == bool else "loss")
        other = losses[(losses != 0) & (losses != 1)]
        if loss == "zero_one" and len(other):
            raise ValueError(
                f"loss is 'zero_one', but y_pred has the loss {other[0]:.4g}; give 0 for right and "
                "1 for wrong, or another name"
            )
        return "losses", loss, losses, {}
    if loss is not None and loss not in KINDS:
        raise ValueError(
            f"loss is {loss!r}; give one of {', '.join(map(repr, KINDS))}, or y_true=None and the "
            "loss of each row as y_pred"
        )
    _check_count("y_true", y_true, _count(y_pred))
    kind = _kind(y_true, y_pred, loss)
    read = {"labels": _of_labels, "probabilities": _of_probabilities, "values": _of_values}[kind]
    loss = loss or next(name for name, of in KINDS.items() if of == kind)
    return kind, loss, *read(y_true, y_pred, loss, classes, pooled)


def _kind(y_true: Any, y_pred: Any, loss: str | None) -> str:
    """Whether y_pred holds labels, probabilities or values."""
    if np.ndim(y_pred) == 2 and np.shape(y_pred)[1] > 1:
        if loss in ("squared", "absolute"):
            raise ValueError(
                f"loss is {loss!r}, of values (n,), but y_pred has {np.shape(y_pred)[1]} columns, "
                "which are probabilities of classes; say 'log' or 'zero_one', or give one column"
            )
        return "probabilities"
    if loss in ("squared", "absolute", "log"):
        return KINDS[loss]
    pred, true = _fractions("y_pred", y_pred), _fractions("y_true", y_true)
    if pred is None and (true is None or loss == "zero_one"):
        return "labels"
    if pred is None:
        return "values"
    names, _ = encode("y_true", y_true, _count(y_true))
    if true is None and len(names) <= 2 and _are_probabilities(pred):
        return "probabilities"
    if loss == "zero_one" and np.all(np.isin(pred, names)):
        return "labels"
    if loss == "zero_one" or (true is None and (len(names) <= 2 or names.dtype.kind in "OUST")):
        raise ValueError(
            f"y_pred has values from {_digits(pred.min())} to {_digits(pred.max())}, but y_true "
            f"has {len(names)} classes; give labels, probabilities (n, {max(2, len(names))}), or "
            "say loss='squared'"
        )
    return "values"


def _are_probabilities(q: Array) -> bool:
    return bool(q.min() >= -ROUNDING and q.max() <= 1 + ROUNDING)


def _digits(value: float) -> str:
    """Enough of them to tell a number from 1 where rounding does not explain it."""
    return f"{value:.7g}"


def _fractions(name: str, values: Any) -> Array | None:
    """The numbers as an array if some are not whole, else None."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(v, float | int) for v in array.ravel()):
        array = array.astype(np.float64)
    if array.dtype.kind != "f" or not np.any(array != np.floor(array)):
        return None
    return numbers(name, array, len(array))


def _of_labels(
    y_true: Any, y_pred: Any, loss: str, classes: ArrayLike | None, pooled: Rows
) -> tuple[Array, dict[str, Measure]]:
    n = _count(y_pred)
    (names, truth), (said, pred) = encode("y_true", y_true, n), encode("y_pred", y_pred, n)
    if (names.dtype.kind in "OUST") != (said.dtype.kind in "OUST"):
        raise ValueError(
            f"y_true has labels such as {names.tolist()[0]!r} and y_pred such as "
            f"{said.tolist()[0]!r}; give both in the same form"
        )
    known = names.tolist() if classes is None else np.ravel(classes).tolist()
    if len(known) > 1 and not set(said.tolist()) & set(known):
        raise ValueError(
            f"y_pred has the labels {said.tolist()[:10]}, none of which is a label of y_true "
            f"({known[:10]}); give both in the same form, or name all with classes="
        )
    hits = names[truth] == said[pred]
    return np.where(hits, 0.0, 1.0), {"accuracy": _share_of(hits)}


def _share_of(hits: NDArray[np.bool_]) -> Measure:
    return Measure("exact", lambda rows, confidence: intervals.share(hits[rows], confidence))


def _of_probabilities(
    y_true: Any, y_pred: Any, loss: str, classes: ArrayLike | None, pooled: Rows
) -> tuple[Array, dict[str, Measure]]:
    P = _probabilities(y_pred)  # (n, K)
    n, K = P.shape
    y = _codes(y_true, n, K, classes)
    likely = np.argmax(P, axis=1)
    measures = {"accuracy": _share_of(likely == y)}
    losses = np.where(likely == y, 0.0, 1.0)
    if loss == "log":
        losses = 0.0 - np.log(np.maximum(P[np.arange(n), y], FLOOR))  # not -0.0
    q, happened = (P[:, 1], y == 1) if K == 2 else (P.max(axis=1), likely == y)
    if K == 2:
        measures["auc"] = _approximate(intervals.auc, q, happened)
    measures["calibration_error"] = _approximate(intervals.calibration, q, happened)
    return losses, measures


def _approximate(
    interval: Callable[[Array, NDArray[np.bool_], float], Estimate],
    q: Array,
    happened: NDArray[np.bool_],
) -> Measure:
    return Measure(
        "approximate", lambda rows, confidence: interval(q[rows], happened[rows], confidence)
    )


def _probabilities(y_pred: Any) -> Array:
    pred = np.asarray(y_pred)
    P = np.column_stack([numbers("y_pred", c, len(pred)) for c in pred.reshape(len(pred), -1).T])
    if P.shape[1] == 1:
        P = np.column_stack([1 - P[:, 0], P[:, 0]])
    if not _are_probabilities(P):
        raise ValueError(
            f"y_pred has values from {_digits(P.min())} to {_digits(P.max())}, which are no "
            "probabilities; give numbers in [0, 1]"
        )
    P = np.clip(P, 0.0, 1.0)
    off = np.abs(P.sum(axis=1) - 1)
    if off.max() > 0.01:
        i = int(np.argmax(off))
        raise ValueError(
            f"y_pred has a row that adds up to {P[i].sum():.4g} (row {i}); the "
            "probabilities of the classes must add up to 1"
        )
    return P


def _codes(y_true: Any, n: int, K: int, classes: ArrayLike | None) -> NDArray[np.intp]:
    """The column of y_pred that belongs to each row's class."""
    names, codes = encode("y_true", y_true, n)
    known = names.tolist() if classes is None else np.ravel(classes).tolist()
    if classes is None and len(known) < K and _counted_from_0(names, K):
        known = list(range(K))
    place = {name: k for k, name in enumerate(known)}
    if len(place) != K or any(name not in place for name in names.tolist()):
        raise ValueError(
            f"y_true has the classes {names.tolist()[:10]}, but y_pred has probabilities of {K}; "
            "name them with classes=, in the order of the columns"
        )
    return np.array([place[name] for name in names.tolist()])[codes]


def _counted_from_0(names: NDArray[Any], K: int) -> bool:
    """Whether the classes are 0, …, K − 1 (or False and True): without a 0 they may start at 1."""
    if names.dtype.kind == "b":
        return K == 2
    return 0 in names.tolist() and set(names.tolist()) <= set(range(K))


def _of_values(
    y_true: Any, y_pred: Any, loss: str, classes: ArrayLike | None, pooled: Rows
) -> tuple[Array, dict[str, Measure]]:
    n = _count(y_pred)
    error = numbers("y_pred", y_pred, n) - numbers("y_true", y_true, n)
    if np.abs(error).max() > 1e150:
        raise ValueError(
            f"y_pred and y_true differ by up to {np.abs(error).max():.0e}, whose square is no "
            "number; divide both by it"
        )
    losses = np.abs(error) if loss == "absolute" else error**2 / 2
    half_square = _loss_of("values", "squared", error**2 / 2, pooled)

    def rmse(rows: Rows, confidence: float) -> Estimate:
        return Estimate(*(math.sqrt(2 * end) for end in half_square.of(rows, confidence)))

    return losses, {
        "mae": _loss_of("values", "absolute", np.abs(error), pooled),
        "rmse": Measure("approximate", rmse),
    }


def _loss_of(kind: str, loss: str, losses: Array, pooled: Rows) -> Loss:
    """The mean of some rows' losses; `pooled` are all rows that count at all."""
    least, most = _reach(kind, loss)
    if most == math.inf:
        return _without_bound(losses, least, pooled)
    guaranteed = _with_bounds(losses, least, most)
    return _as_share(losses == 1, guaranteed) if loss == "zero_one" else guaranteed


def _with_bounds(losses: Array, least: float, most: float) -> Loss:
    def of(rows: Rows, confidence: float) -> Estimate:
        return intervals.bounded(losses[rows], confidence, least, most)

    def mixed(parts: list[Rows], mixture: Array, confidence: float) -> Estimate:
        sizes = [len(rows) for rows in parts]
        weights = np.repeat(mixture / sizes, sizes)
        return intervals.bounded(losses[np.concatenate(parts)], confidence, least, most, weights)

    return Loss("guaranteed", of, (least, most), mixed, *_of_all(of))


def _as_share(hits: NDArray[np.bool_], guaranteed: Loss) -> Loss:
    of = _share_of(hits).of
    return Loss("exact", of, guaranteed.limits, guaranteed.mixed, *_of_all(of))


def _of_all(of: Callable[[Rows, float], Estimate]) -> tuple[Callable[..., float], ...]:
    """`distance` and `low` of a loss whose intervals cover at their level."""

    def distance(parts: list[Rows], c: Array, confidence: float) -> float:
        """All p intervals hold at once if each fails with a probability of (1 − confidence)/p."""
        found = np.array([of(rows, 1 - (1 - confidence) / len(parts)) for rows in parts])
        widths = np.max(np.abs(found[:, 1:] - found[:, :1]), axis=1)
        return math.sqrt(c @ widths**2)

    return distance, lambda rows, confidence: of(rows, confidence).low


def _without_bound(losses: Array, least: float, pooled: Rows) -> Loss:
    unit = float(np.mean(np.abs(losses[pooled])))
    smallest = least if least > -math.inf else float(losses[pooled].min())

    def of(rows: Rows, confidence: float) -> Estimate:
        return intervals.mean(losses[rows], confidence, least, unit)

    def mixed(parts: list[Rows], mixture: Array, confidence: float) -> Estimate:
        return intervals.mixed([losses[rows] for rows in parts], mixture, confidence, least, unit)

    def distance(parts: list[Rows], c: Array, confidence: float) -> float:
        return intervals.distance([losses[rows] for rows in parts], c, confidence)

    def low(rows: Rows, confidence: float) -> float:
        """Guaranteed, if no loss is below the smallest one that was seen anywhere."""
        x, tail = losses[rows], (1 - confidence) / 2
        careful = smallest + intervals.lowest_mean(x - smallest, tail)
        return min(of(rows, confidence).low, careful)

    return Loss("approximate", of, (least, math.inf), mixed, distance, low)


def _reach(kind: str, loss: str) -> tuple[float, float]:
    """The least and the largest loss that a row can have."""
    if loss == "zero_one":
        return 0.0, 1.0
    if kind == "losses":
        return -math.inf, math.inf
    return 0.0, -math.log(FLOOR) if loss == "log" else math.inf


# Two models ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """Model b against model a on the same rows; a difference above 0 says that b loses more.

    a, b, names : the two audits and what to call them.
    domain_names, differences : L_k(b) − L_k(a) for every domain, (p,).
    difference_intervals : of their means row by row, (p, 2): what is easy or hard for both models
        cancels, so they are mostly narrower than those of the two losses.
    price : what b costs on the rows as they are, pooled_loss(b) − pooled_loss(a).
    gain : what it gains on the worst mixture, agnostic_loss(a) − agnostic_loss(b).

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
        """L_k(b) − L_k(a), (p,)."""
        return self.b.domain_losses - self.a.domain_losses

    @property
    def difference_intervals(self) -> Array:
        """Confidence intervals of the differences, each about one domain alone, (p, 2)."""
        pairs = zip(self.a.row_losses, self.b.row_losses, strict=True)
        rows = [b - a for a, b in pairs]
        least, most = self._reach()
        if self.difference_kind == "guaranteed":
            ends = [intervals.bounded(d, self.a.confidence, least, most)[1:] for d in rows]
        else:
            unit = float(np.mean(np.abs(np.concatenate(rows))))
            ends = [intervals.mean(d, self.a.confidence, least, unit)[1:] for d in rows]
        return np.array(ends)

    @property
    def difference_kind(self) -> str:
        """Of their intervals: "guaranteed" if both losses have bounds, else "approximate"."""
        return "guaranteed" if np.isfinite(self._reach()).all() else "approximate"

    def _reach(self) -> tuple[float, float]:
        """The least and the largest difference that a row can have."""
        least_a, most_a = _reach(self.a.kind, self.a.loss)
        least_b, most_b = _reach(self.b.kind, self.b.loss)
        return least_b - most_a, most_b - least_a

    @property
    def price(self) -> float:
        """The price of robustness: pooled loss of b less that of a."""
        return self.b.pooled_loss - self.a.pooled_loss

    @property
    def gain(self) -> float:
        """Agnostic loss of a less that of b."""
        return self.a.agnostic_loss - self.b.agnostic_loss

    def summary(self) -> str:
        """The comparison in plain language."""
        return " ".join(_comparing_sentences(self))

    def to_frame(self) -> Any:
        """A pandas frame: losses of a and b, their difference and its interval, for each domain."""
        import pandas as pd

        (first, second), (low, high) = self.names, self.difference_intervals.T
        losses = {first: self.a.domain_losses, second: self.b.domain_losses}
        return pd.DataFrame(
            losses
            | {"difference": self.differences, "difference_low": low, "difference_high": high},
            index=pd.Index(list(self.domain_names), name="domain"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only, for JSON."""
        return {
            "price": self.price,
            "gain": self.gain,
            "differences": {
                str(name): float(d)
                for name, d in zip(self.domain_names, self.differences, strict=True)
            },
            "difference_kind": self.difference_kind,
            "difference_intervals": {
                str(name): [_plain(end) for end in ends]
                for name, ends in zip(self.domain_names, self.difference_intervals, strict=True)
            },
            "audits": {self.names[0]: self.a.to_dict(), self.names[1]: self.b.to_dict()},
        }

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Loss of both and their difference, then the first metric of both."""
        a, b, metric = self.a, self.b, next(iter(self.a.metrics), None)
        first, second = self.names
        heads = ["domain", "rows", f"{a.loss_title} {first}", second, "difference"]
        losses = [
            *zip(self.domain_names, a.domain_losses, b.domain_losses, strict=True),
            ("all rows", a.pooled_loss, b.pooled_loss),
            ("worst mixture", a.agnostic_loss, b.agnostic_loss),
        ]
        rows = [[str(n), "", _short(x), _short(y), _signed(y - x)] for n, x, y in losses]
        for row, size in zip(rows, [*a.sizes, a.n_rows], strict=False):
            row[1] = f"{size:,}"
        if metric is not None:
            heads += [f"{metric} {first}", second]
            for audited in (a, b):
                values = [*audited.metrics[metric], audited.pooled_metrics[metric], math.nan]
                for row, value in zip(rows, values, strict=True):
                    row.append(_short(value))
        return heads, rows

    def __rich__(self) -> Table:
        return _rich_table(*self._cells(), n_totals=2)

    def _repr_html_(self) -> str:
        return _html_table(*self._cells()) + f"<p>{html.escape(self.summary())}</p>"


def compare(a: Audit, b: Audit, names: tuple[str, str] = ("a", "b")) -> Comparison:
    """What model b costs on average against a, and what it gains on the worst mixture.

    Both audits must be of the same rows in the same order, with the same loss, Λ and confidence;
    `names` are what to call the models, two different strings.

    >>> y, d = [1, 0, 1, 1, 1, 0], ["x", "x", "x", "x", "y", "y"]
    >>> ordinary = audit(y, [1, 0, 1, 1, 0, 1], d)
    >>> robust = audit(y, [1, 1, 0, 0, 1, 0], d)
    >>> found = compare(ordinary, robust)
    >>> found.price.__round__(4), found.gain
    (0.1667, 0.25)
    """
    for name, audited in (("a", a), ("b", b)):
        if not isinstance(audited, Audit):
            raise ValueError(f"{name} is {audited!r}; give what audit() returned")
    _check_names(names)
    pairs = {
        "domains": (a.domain_names, b.domain_names),
        "sizes of the domains": (a.sizes.tolist(), b.sizes.tolist()),
        "losses": (a.loss, b.loss),
        "mixtures": (a.mixtures, b.mixtures),
        "confidences": (a.confidence, b.confidence),
    }
    for what, (of_a, of_b) in pairs.items():
        if of_a != of_b:
            raise ValueError(
                f"a and b have different {what}: {of_a!r} and {of_b!r}; audit both models on the "
                "same rows, with the same loss and mixtures"
            )
    return Comparison(a, b, (names[0], names[1]))


def _check_names(names: Any) -> None:
    if not isinstance(names, tuple | list) or len(names) != 2 or names[0] == names[1]:
        raise ValueError(f"names is {names!r}; give two different names, such as ('old', 'new')")


# For people ------------------------------------------------------------------------------------


def _sentences(found: Audit) -> Iterable[str]:
    p, kinds = len(found.sizes), found.interval_kinds
    losses, names = found.domain_losses, [str(name) for name in found.domain_names]
    yield (
        f"{found.n_rows:,} rows in {p} domain{'s' * (p > 1)}: the {found.loss_title} is "
        f"{_short(found.pooled_loss)} on the rows as they are "
        f"({_level(found, kinds['pooled_loss'])} {_span(found.pooled_interval)})."
    )
    if p > 1:
        worst, best = int(np.argmax(losses)), int(np.argmin(losses))
        yield (
            f"On the worst mixture it is {_short(found.agnostic_loss)} "
            f"({_level(found, kinds['agnostic_loss'])} {_span(found.agnostic_interval)}), "
            f"reached at {_mixture(found)}."
        )
        yield (
            f"It is largest on {names[worst]!r} ({_short(losses[worst])}) and smallest on "
            f"{names[best]!r} ({_short(losses[best])})."
        )
    yield from _few_rows(found)
    if found.n_outside:
        yield f"Rows in no domain, which count nowhere here: {found.n_outside:,}."
    if found.n_empty_cells:
        yield f"{found.n_empty_cells} combinations have no row at all: nothing is known of them."
    yield "Bias inside the data, such as wrong labels, is neither seen nor removed by this."


def _few_rows(found: Audit) -> Iterable[str]:
    few = np.flatnonzero(found.sizes < FEW_ROWS)
    named = [f"{str(found.domain_names[k])!r} ({found.sizes[k]})" for k in few[:10]]
    if named:
        rest = f" and {len(few) - 10} more" if len(few) > 10 else ""
        yield f"Few rows, so little is known: {', '.join(named)}{rest}."


def _comparing_sentences(pair: Comparison) -> Iterable[str]:
    a, b, (first, second) = pair.a, pair.b, pair.names
    average, worst = (
        "more" if difference >= 0 else "less" for difference in (pair.price, -pair.gain)
    )
    yield (
        f"On the rows as they are, the {a.loss_title} of {second} is {_short(abs(pair.price))} "
        f"{average} than that of {first} ({_short(b.pooled_loss)} against "
        f"{_short(a.pooled_loss)}); on the worst mixture it is {_short(abs(pair.gain))} {worst} "
        f"({_short(b.agnostic_loss)}, {_level(b, b.interval_kinds['agnostic_loss'])} "
        f"{_span(b.agnostic_interval)}, against "
        f"{_short(a.agnostic_loss)}, {_span(a.agnostic_interval)})."
    )
    k = int(np.argmax(pair.differences))
    if pair.differences[k] > 0:
        pays = str(pair.domain_names[k])
        yield (
            f"The domain that pays most is {pays!r}: {_short(pair.differences[k])} more "
            f"({_level(a, pair.difference_kind)} {_span(pair.difference_intervals[k])})."
        )
    yield from _few_rows(a)


def _mixture(found: Audit) -> str:
    """'70% a, 30% b' of the worst mixture; at most three names."""
    lam, order = found.worst_mixture, np.argsort(-found.worst_mixture, kind="stable")
    shown = [f"{lam[k]:.0%} {str(found.domain_names[k])!r}" for k in order[:3] if lam[k] >= 0.005]
    rest = float(1 - lam[order[: len(shown)]].sum())
    return ", ".join(shown) + (f" and {rest:.0%} others" if rest >= 0.005 else "")


def _level(found: Audit, kind: str) -> str:
    """'95% interval (approximate)': what is claimed of an interval, and how surely."""
    return f"{100 * found.confidence:.4g}% interval ({kind})"


def _short(value: float, digits: int = 4) -> str:
    """A number of a loss, whatever its unit."""
    if math.isnan(value):
        return "-"
    plain = value == 0 or math.isinf(value) or 0.5 * 10**-digits <= abs(value) < 1000
    return f"{value:.{digits}f}" if plain else f"{value:.{digits}g}"


def _signed(value: float) -> str:
    return _short(value) if value < 0 else f"+{_short(value)}"


def _span(ends: Iterable[float]) -> str:
    low, high = ends
    return f"{_short(low)} to {_short(high)}"


def _range(ends: Iterable[float]) -> str:
    """Narrower, for tables."""
    low, high = ends
    return f"{_short(low, 3)}–{_short(high, 3)}"


def _plain(value: Any) -> float | int | None:
    if isinstance(value, int | np.integer):
        return int(value)
    return float(value) if math.isfinite(value) else None


def _rich_table(heads: list[str], rows: list[list[str]], n_totals: int) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for j, head in enumerate(heads):
        table.add_column(head, justify="right" if j else "left", overflow="fold")
    for i, row in enumerate(rows):
        last_domain = i == len(rows) - n_totals - 1
        table.add_row(*(Text(cell) for cell in row), end_section=last_domain)
    return table


def _html_table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in heads)
    body = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
