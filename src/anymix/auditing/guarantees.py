"""What can be promised of a model's loss on every mixture, from rows it was not trained on.

    P( max_{λ∈Λ} L(h, λ) ≤ value ) ≥ 1 − δ,    L(h, λ) = Σ_k λ_k L_k(h)

No assumption but this: the rows of a domain are independent draws, and no training has seen them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.auditing.bounded import Bounded
from anymix.auditing.domains import count, rows_by_domain
from anymix.auditing.measures import limits
from anymix.auditing.predictions import Predictions, read_predictions
from anymix.auditing.words import LOSS_TITLES, mixture_in_words, plain, short
from anymix.errors import InputError, finite_number, finite_vector
from anymix.mixtures import MixtureSet
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.arrays import numbers, pooled_rows

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["Guarantee", "guaranteed", "held_out", "probability"]

WAYS = {
    "corners": "each corner of Λ is bounded",
    "center": "the centre of Λ is bounded, and how far Λ reaches from it",
    "union": "all domains are bounded at once",
    "always": "all domains are bounded at once, at all times",
}


@dataclass(frozen=True, eq=False)
class Guarantee:
    """What holds with probability 1 − δ; p domains.

    `value`, `upper`, `low` and `lower` are four statements, and each holds with probability 1 − δ.
    `value` is about the worst mixture alone, so it may be below the largest entry of `upper`, which
    is about all domains at once.

    Attributes
    ----------
    value : float
        The agnostic loss max_{λ∈Λ} Σ λ_k L_k is at most this.
    low : float
        The agnostic loss is at least this.
    mixture : ndarray of shape (p,)
        The λ ∈ Λ at which `value` is reached.
    upper, lower : ndarray of shape (p,)
        Every domain's loss L_k is at most (at least) this, all p of them at once.
    delta : float
        δ, how often each statement may fail.
    domain_names : tuple
        Labels of the domains.
    sizes : ndarray of int, shape (p,)
        Rows of each domain.
    domain_losses : ndarray of shape (p,)
        The mean loss L̂_k that was found in each.
    mixtures : MixtureSet
        Λ, the mixtures that it is about.
    loss : str
        What the loss is called, and how it was cut if it was.
    loss_bound : float
        M, the largest loss that a row can have.
    way : str
        How Λ is bounded: "corners", "center" or "union" (see `auditing.bounded`), or "always".

    Examples
    --------
    >>> found = held_out([True] * 5 + [False] * 95, ["a"] * 50 + ["b"] * 50)
    >>> found.upper.round(3), round(found.value, 3), found.agnostic_loss
    (array([0.218, 0.071]), 0.199, 0.1)
    """

    value: float
    low: float
    mixture: Array
    upper: Array
    lower: Array
    delta: float
    domain_names: tuple[Any, ...]
    sizes: NDArray[np.int64]
    domain_losses: Array
    mixtures: MixtureSet
    loss: str
    loss_bound: float
    way: str

    @property
    def agnostic_loss(self) -> float:
        """max_{λ∈Λ} Σ λ_k L̂_k, what was found."""
        return float(self.mixtures.maximize(self.domain_losses) @ self.domain_losses)

    def explain(self) -> str:
        """The guarantee in words.

        Returns
        -------
        str
        """
        names = [str(name) for name in self.domain_names]
        whole = "of the domains" if self.mixtures.is_simplex else f"in {self.mixtures!r}"
        return (
            f"With a probability of {1 - self.delta:.4g}, the {self.loss} is at most "
            f"{short(self.value)} on every mixture {whole}; found was "
            f"{short(self.agnostic_loss)}, and with the same probability the worst mixture has at "
            f"least {short(self.low)}. The bound is reached at "
            f"{mixture_in_words(self.mixture, names)}. It holds for every distribution "
            f"whose losses are at most {self.loss_bound:.4g}, if the rows of each domain are "
            f"independent and no training has seen them ({WAYS[self.way]})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only, for JSON.

        Returns
        -------
        dict
        """
        return {
            "value": plain(self.value),
            "low": plain(self.low),
            "delta": self.delta,
            "loss": self.loss,
            "loss_bound": self.loss_bound,
            "way": self.way,
            "domains": {
                str(name): [plain(low), plain(high)]
                for name, low, high in zip(self.domain_names, self.lower, self.upper, strict=True)
            },
        }


def held_out(
    losses: Any,
    domains: Any = None,
    mixtures: Mixtures = None,
    delta: float = 0.05,
    loss_bound: float | None = None,
    *,
    clip: float | None = None,
    weights: ArrayLike | None = None,
    loss: str | None = None,
    classes: ArrayLike | None = None,
) -> Guarantee:
    """Bounds on the agnostic loss max_{λ∈Λ} L(h, λ) and on each domain's, from held-out rows.

    With probability 1 − δ, L(h, λ) ≤ `value` for every λ ∈ Λ, for whatever model h, if no training
    has seen the rows and the rows of a domain are independent draws. For all mixtures, `value` is
    the largest of the domains' upper bounds, each at δ: the worst domain is fixed, so that no union
    over the domains is needed (see `auditing.bounded`, also for other Λ). Bounds of a domain are
    exact (Clopper-Pearson) where losses are errors, else won by betting (see `auditing.betting`).

    Parameters
    ----------
    losses : array-like of shape (n,), or a tuple (y, prediction)
        The loss of each row, in [0, loss_bound]; booleans are errors. Or what is true and what was
        predicted, read as `audit` does.
    domains : array-like of shape (n,) or (n, p), or None
        Labels, or booleans if a row may be in several; None is one domain.
    mixtures : MixtureSet, function, str or None
        Λ, as `audit` takes it; None is any mixture.
    delta : float
        δ in (0, 1), how often the bound may fail.
    loss_bound : float or None
        M > 0, what no loss can be above. None is 1, or for probabilities the largest log loss
        of a probability cut at 2e-16, 36.04.
    clip : float or None
        Losses above it count as it; the bound is then of the loss so cut, and says so.
    weights : array-like of shape (n,) or None
        What each row counts in its domains, ≥ 0; None is the same for all. Rows and their weights
        are taken as independent draws with no weight above the largest one given; the bound is of
        the weighted distribution. Weights that differ much cost rows: a row of weight w is used
        with probability w/max w.
    loss : str or None
        The name of the loss, as `audit` takes it.
    classes : array-like of shape (K,) or None
        The classes in the order of the columns of probabilities, as `audit` takes them.

    Returns
    -------
    Guarantee

    Examples
    --------
    >>> import anymix as ax
    >>> rng = np.random.default_rng(0)
    >>> losses, d = rng.beta(1, 9, 1000), np.repeat(["a", "b"], [800, 200])
    >>> found = held_out(losses, d)
    >>> found.domain_losses.round(2), found.upper.round(2)
    (array([0.1, 0.1]), array([0.11, 0.12]))
    >>> near = held_out(losses, d, mixtures="chi2:1.1")
    >>> bool(near.value < found.value)
    True
    """
    delta = probability("delta", delta)
    named: Any = loss
    if named is not None and not isinstance(named, str):
        fix = "give the name of a loss, such as 'log', or None"
        raise InputError("loss", f"is {loss!r}", fix)
    y_true, y_pred = losses if _is_pair(losses) else (None, losses)
    n = count(y_pred)
    if n == 0:
        raise InputError("losses", "has no rows", "give a loss for each row")
    parts, _ = rows_by_domain(domains, None, n)
    pooled = pooled_rows(parts.values(), n)
    said = _read(y_true, y_pred, loss, classes, pooled)
    x, most, title = bounded_losses(said, loss_bound, clip)
    target = target_mixtures(mixtures, None, np.array([len(rows) for rows in parts.values()]))
    return guaranteed(x, parts, target, delta, most, title, weights)


def guaranteed(
    x: Array,
    parts: dict[Any, Rows],
    target: MixtureSet,
    delta: float,
    most: float,
    title: str,
    weights: ArrayLike | None = None,
) -> Guarantee:
    """`held_out` of losses in [0, most] that are known to be fit for it."""
    w = None if weights is None else _weights(weights, len(x), parts)
    rows = Bounded(
        parts=tuple(x[part] for part in parts.values()),
        most=most,
        are_errors=title == LOSS_TITLES["zero_one"],
        disjoint=are_disjoint(list(parts.values()), len(x)),
        weights=None if w is None else tuple(w[part] for part in parts.values()),
    )
    lower, upper = rows.lowest(delta / len(parts)), rows.highest(delta / len(parts))
    sides = rows.agnostic(target, delta, lower)
    return Guarantee(
        value=sides.high,
        low=sides.low,
        mixture=sides.mixture,
        upper=upper,
        lower=lower,
        delta=delta,
        domain_names=tuple(parts),
        sizes=np.array([len(part) for part in parts.values()]),
        domain_losses=rows.domain_losses,
        mixtures=target,
        loss=title,
        loss_bound=most,
        way=sides.way,
    )


def are_disjoint(parts: list[Rows], n: int) -> bool:
    """Whether no row is in two of these lists."""
    return len(pooled_rows(parts, n)) == sum(map(len, parts))


def bounded_losses(
    said: Predictions, loss_bound: float | None, clip: float | None
) -> tuple[Array, float, str]:
    """The losses within [0, M], M, and what to call them; losses beyond M are refused."""
    most = limits(said.kind, said.loss)[1]
    title = LOSS_TITLES.get(said.loss, said.loss)
    given = None if loss_bound is None else _positive("loss_bound", loss_bound)
    bound = given if given is not None else (most if most < math.inf else 1.0)
    bound = min(bound, 1.0) if said.loss == "zero_one" else bound
    x = said.row_losses
    if clip is not None:
        cut = _positive("clip", clip)
        x, bound = np.minimum(x, cut), cut if given is None else min(cut, given)
        title = f"{title} cut at {cut:.4g}"
    if x.min() < 0:
        fix = "bounds are for losses ≥ 0: add a constant to all of them"
        raise InputError("losses", f"has the loss {x.min():.4g}", fix)
    if x.max() > bound * (1 + 1e-12):
        found = f"has the loss {x.max():.4g}, above loss_bound = {bound:.4g}"
        fix = "give the largest loss that a row can have, or clip=... to cut losses at it"
        raise InputError("losses", found, fix)
    return np.minimum(x, bound), bound, title


def probability(name: str, delta: Any) -> float:
    """δ in (0, 1), such as 0.05."""
    fix = "give a probability inside (0, 1), such as 0.05"
    return finite_number(name, delta, fix, lambda d: 1e-12 <= d < 1)


def _positive(name: str, value: Any) -> float:
    fix = "give a positive number, the largest loss that a row can have"
    return finite_number(name, value, fix, lambda x: x > 0)


def _is_pair(losses: Any) -> bool:
    return isinstance(losses, tuple) and len(losses) == 2 and count(losses[1]) > 0


def _read(
    y_true: Any, y_pred: Any, loss: str | None, classes: ArrayLike | None, pooled: Rows
) -> Predictions:
    names = {"y_pred": "losses", "y_true": "losses"}
    try:
        if y_true is None and loss is not None and loss != "zero_one":
            return Predictions("losses", loss, numbers("losses", y_pred, count(y_pred)), {})
        return read_predictions(y_true, y_pred, loss, classes, pooled)
    except InputError as error:
        name = names.get(error.argument, error.argument) if y_true is None else error.argument
        raise InputError(name, error.found, error.fix) from None


def _weights(weights: ArrayLike, n: int, parts: dict[Any, Rows]) -> Array:
    w = finite_vector("weights", weights, n)
    lacking = [str(name) for name, rows in parts.items() if w[rows].sum() <= 0]
    if w.min() < 0 or lacking:
        found = f"has the entry {w.min():.4g}" if w.min() < 0 else f"is 0 in all of {lacking[0]!r}"
        raise InputError("weights", found, "give numbers ≥ 0, some of each domain > 0")
    return w
