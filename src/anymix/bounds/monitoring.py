"""Watching a model in use: bounds and alarms that hold at all times at once.

    upper and lower    bets against every mean, with shares that do not depend on the number of rows
    alarms             E_t = Σ_b w_b Σ_{s≤t} π_s ∏_{i=s}^t (1 − b + b ℓ_i/limit) + Σ_{s>t} π_s

As long as the mean loss of a domain, given the past, is at most its limit, E is a supermartingale
that starts at 1: the probability that it ever reaches 1/δ is at most δ (Ville's inequality), no
matter how often one looks. s is the row from which on the loss may be too high, with the weight
π_s = 1/(s (s + 1)): a model that was good for a long time is not given credit for it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.domains import count, rows_by_domain
from anymix.auditing.guarantees import Guarantee, probability
from anymix.errors import InputError, finite_number
from anymix.files import write_whole
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.arrays import numbers

Array = NDArray[np.float64]

__all__ = ["Monitor"]

BINS = 1024  # the losses of a domain are remembered as how many there were in each bin
SHARES = np.ldexp(1.0, -np.arange(20))  # b = 1, ½, ¼, … of the bounds
WEIGHTS = 1 / ((np.arange(20) + 1.0) * (np.arange(20) + 2.0))
WEIGHTS /= WEIGHTS.sum()
ALARM_SHARES = np.ldexp(1.0, -np.arange(1, 11))  # b = ½, …, 1/1024 of the alarms, all alike
AT_ONCE = 2**16  # rows
FORMAT = 2


class Monitor:
    """Bounds of every domain's loss that hold at all times at once, and alarms.

    Every row of a domain is taken to have the same mean loss, except by the alarms: these find out
    when it rises above its limit. The bounds, and the alarms, each fail with probability ≤ δ, over
    all time and all domains.

    Parameters
    ----------
    delta : float
        δ in (0, 1), how often a bound, or an alarm, may ever be wrong.
    limits : mapping, Guarantee or None
        Domain → the largest mean loss that is all right, > 0; a `Guarantee` gives its `upper`. None
        is no alarms.
    loss_bound : float
        M > 0, what no loss can be above.

    Attributes
    ----------
    alarms : dict
        Domain → the number of its row at which its alarm went off.
    sizes : dict
        Domain → its rows so far.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(0.05, limits={"a": 0.1, "b": 0.1})
    >>> monitor.update(rng.random(2000) < 0.1, ["a"] * 2000).alarms
    {}
    >>> monitor.update(rng.random(2000) < 0.2, ["b"] * 2000).alarms
    {'b': 63}
    >>> low, high = monitor.interval("a")
    >>> low < 0.1 < high
    True
    """

    def __init__(
        self,
        delta: float = 0.05,
        limits: Mapping[Any, float] | Guarantee | None = None,
        loss_bound: float = 1.0,
    ) -> None:
        self.delta = probability("delta", delta)
        fix = "give a number > 0, the largest loss that a row can have"
        self.loss_bound = finite_number("loss_bound", loss_bound, fix, lambda x: x > 0)
        self.limits = _limits(limits, self.loss_bound)
        self.alarms: dict[Any, int] = {}
        self._counts: dict[Any, Array] = {}  # of the bins
        self._log_wealth: dict[Any, Array] = {}  # log Σ_s π_s ∏ for each share b

    @property
    def sizes(self) -> dict[Any, int]:
        """Domain → its rows so far."""
        return {name: round(float(bins.sum())) for name, bins in self._counts.items()}

    def update(self, losses: Any, domains: Any = None) -> Monitor:
        """Take more rows into account, in the order in which they came.

        Parameters
        ----------
        losses : array-like of shape (n,)
            The loss of each row, in [0, loss_bound].
        domains : array-like of shape (n,) or (n, p), or None
            The domain of each row, or booleans; None is one domain, "all".

        Returns
        -------
        Monitor
            Itself.
        """
        n = count(losses)
        x = numbers("losses", losses, n)
        if n == 0:
            return self
        if x.min() < 0 or x.max() > self.loss_bound * (1 + 1e-12):
            bad = x.min() if x.min() < 0 else x.max()
            found = f"has the loss {bad:.4g}, outside of [0, loss_bound] = [0, {self.loss_bound:g}]"
            raise InputError("losses", found, "cut the losses, or make a monitor with their bound")
        parts, _ = rows_by_domain(domains, None, n)
        strange = [name for name in parts if self.limits and name not in self.limits]
        if strange:
            found = f"has {strange[0]!r}, of which no limit is known"
            raise InputError("domains", found, f"the limits are of {list(self.limits)[:10]}")
        for name, rows in parts.items():
            for start in range(0, len(rows), AT_ONCE):
                self._take(name, x[rows[start : start + AT_ONCE]] / self.loss_bound)
        return self

    def interval(self, domain: Any) -> tuple[float, float]:
        """(lower, upper) bounds of a domain's mean loss; each holds at all times with 1 − δ."""
        if domain not in self._counts:
            return 0.0, self.loss_bound
        bins, tail = self._counts[domain], self._share(domain)
        low, high = _lowest(bins, tail), 1 - _lowest(bins[::-1], tail)
        return self.loss_bound * low, self.loss_bound * high

    def guarantee(self, mixtures: Mixtures = None) -> Guarantee:
        """What holds now for every mixture in Λ, as `held_out` says it, but at all times at once.

        Parameters
        ----------
        mixtures : MixtureSet, function, str or None
            Λ over the domains in `sizes`; None is any mixture.

        Returns
        -------
        Guarantee
        """
        names = tuple(self._counts)
        if not names:
            raise InputError("", "the monitor has seen no rows", "call update() first")
        sizes = np.array(list(self.sizes.values()))
        target = target_mixtures(mixtures, None, sizes)
        lower, upper = np.array([self.interval(name) for name in names]).T
        places = np.linspace(0, self.loss_bound, BINS + 1)
        means = np.array([self._counts[name] @ places for name in names]) / sizes
        worst = target.maximize(upper)
        return Guarantee(
            value=float(worst @ upper),
            low=float(target.maximize(lower) @ lower),
            mixture=worst,
            upper=upper,
            lower=lower,
            delta=self.delta,
            domain_names=names,
            sizes=sizes,
            domain_losses=means,
            mixtures=target,
            loss="loss",
            loss_bound=self.loss_bound,
            way="always",
        )

    def state_dict(self) -> dict[str, Any]:
        """All there is to know, as numbers, strings and lists: what JSON can say."""
        return {
            "format": FORMAT,
            "delta": self.delta,
            "loss_bound": self.loss_bound,
            "limits": _pairs(self.limits),
            "alarms": _pairs(self.alarms),
            "counts": _pairs({name: bins.tolist() for name, bins in self._counts.items()}),
            "log_wealth": _pairs({name: w.tolist() for name, w in self._log_wealth.items()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Monitor:
        """Go on from where `state_dict` was taken."""
        given: Any = state
        said = given.get("format") if isinstance(given, Mapping) else None
        if said not in (1, FORMAT):
            fix = f"give a state_dict() of format {FORMAT}"
            raise InputError("state", f"has the format {said!r}", fix)
        try:
            limits, alarms, counts, wealth = (
                _by_name(state[part]) for part in ("limits", "alarms", "counts", "log_wealth")
            )
            numbers = float(state["delta"]), float(state["loss_bound"])
            bins = {name: np.array(b, dtype=np.float64) for name, b in counts.items()}
            logs = {name: np.array(w, dtype=np.float64) for name, w in wealth.items()}
        except (KeyError, TypeError, ValueError) as error:
            fix = "give what state_dict() gave"
            raise InputError("state", f"cannot be read ({error!r})", fix) from None
        self.delta, self.loss_bound = numbers
        self.limits, self.alarms, self._counts, self._log_wealth = limits, alarms, bins, logs
        return self

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the state as JSON, whole or not at all."""
        text = json.dumps(self.state_dict(), allow_nan=True)
        return write_whole(path, lambda new: new.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Monitor:
        """The monitor that was saved there."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            fix = "give a file that Monitor.save wrote"
            raise InputError(str(path), f"cannot be read ({error})", fix) from None
        return cls().load_state_dict(state)

    def _share(self, name: Any) -> float:
        """δ_k: δ/p if the p domains are known from the start, else δ/(k (k + 1)) as they appear."""
        if self.limits:
            return self.delta / len(self.limits)
        k = list(self._counts).index(name) + 1
        return self.delta / (k * (k + 1))

    def _take(self, name: Any, x: Array) -> None:
        """Rows of one domain, their losses as shares of M."""
        bins = self._counts.setdefault(name, np.zeros(BINS + 1))
        before = round(float(bins.sum()))
        place = np.clip(x, 0, 1) * BINS
        left = np.minimum(place.astype(np.intp), BINS - 1)
        part = place - left  # the mean stays, and no wealth grows: its log is concave in the loss
        bins += np.bincount(left, 1 - part, BINS + 1) + np.bincount(left + 1, part, BINS + 1)
        if self.limits and name not in self.alarms:
            self._watch(name, x, before)

    def _watch(self, name: Any, x: Array, before: int) -> None:
        """Bet on the rows that the limit is too low, and see whether that made one rich."""
        limit = self.limits[name] / self.loss_bound
        old = self._log_wealth.get(name, np.full(len(ALARM_SHARES), -math.inf))
        s = before + 1.0 + np.arange(len(x))
        log_prior = -np.log(s * (s + 1))
        games = np.log1p(np.multiply.outer(ALARM_SHARES, x / limit - 1))
        ends = np.cumsum(games, axis=1)
        begun = np.column_stack((old, log_prior - (ends - games)))  # before row s, undone
        wealth = np.logaddexp.accumulate(begun, axis=1)[:, 1:] + ends  # (bets, rows)
        evidence = np.exp(np.minimum(wealth, 700)).mean(axis=0) + 1 / (s + 1)
        self._log_wealth[name] = wealth[:, -1]
        rich = np.flatnonzero(evidence >= 1 / self._share(name))
        if rich.size:
            self.alarms[name] = before + 1 + int(rich[0])


def _lowest(bins: Array, tail: float) -> float:
    """A lower bound on the mean of shares in [0, 1] that are counted in bins."""
    places = np.arange(BINS + 1) / BINS
    mean = float(bins @ places) / float(bins.sum())
    if mean <= 0:
        return 0.0
    seen = bins > 0
    return mean * _lowest_ratio(places[seen] / mean, bins[seen], tail)


def _lowest_ratio(values: Array, counts: Array, tail: float) -> float:
    """The s in [0, 1] with Σ_b w_b ∏ (1 − b + b y/s)^counts = 1/tail, for values y of mean 1.

    The shares b do not depend on the number of rows, so the bounds after 1, 2, … rows hold at once.
    """
    b, w = SHARES, WEIGHTS
    n = float(counts.sum())
    bets, lost = np.multiply.outer(b, values), b[:, None]

    def log_wealth(s: float) -> float:
        """log(W tail) at ν = e^s · average."""
        growth = np.log1p(bets * math.exp(-s) - lost) @ counts
        top = float(growth.max())
        return top + math.log(float(w @ np.exp(growth - top)) * tail)

    from scipy.optimize import brentq  # takes 0.2 s to load

    # here the largest y alone makes the least bet rich enough, even if all others are 0
    rich = math.log(w[-1] * b[-1] * float(values.max())) - 1
    start = math.log(tail) + rich + (n - 1) * (math.log1p(-b[-1]) if n > 1 else 0.0)
    with np.errstate(divide="ignore"):  # the bet b = 1 loses all where y = 0
        return math.exp(brentq(log_wealth, start, 0.0, xtol=1e-12, maxiter=1000))


def _limits(limits: Any, loss_bound: float) -> dict[Any, float]:
    """Domain → limit."""
    if limits is None:
        return {}
    if isinstance(limits, Guarantee):
        limits = dict(zip(limits.domain_names, limits.upper.tolist(), strict=True))
    if not isinstance(limits, Mapping) or not limits:
        raise InputError("limits", f"is {limits!r}", "give {domain: largest mean loss}")
    fix = f"give a number in (0, {loss_bound:g}], the largest mean loss that is all right"
    return {
        name: finite_number(f"limits[{name!r}]", limit, fix, lambda x: 0 < x <= loss_bound)
        for name, limit in limits.items()
    }


def _pairs(named: Mapping[Any, Any]) -> list[list[Any]]:
    """[name, value] of each: JSON's own objects have strings for names only."""
    return [[_plain_name(name), value] for name, value in named.items()]


def _plain_name(name: Any) -> Any:
    """A string, number, boolean or None; a tuple of them as a list."""
    if isinstance(name, tuple):
        return [_plain_name(part) for part in name]
    value = name.item() if isinstance(name, np.generic) else name
    if not isinstance(value, str | int | float | None):
        fix = "name the domains by strings, numbers, booleans or tuples of them"
        raise InputError("domains", f"has {name!r}, which cannot be saved", fix)
    return value


def _by_name(pairs: Any) -> dict[Any, Any]:
    """The mapping that `_pairs` wrote; that of format 1 is one already."""
    return dict(pairs) if isinstance(pairs, Mapping) else {_name(n): value for n, value in pairs}


def _name(said: Any) -> Any:
    return tuple(_name(part) for part in said) if isinstance(said, list) else said
