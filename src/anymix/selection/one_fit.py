"""Which model, and for which mixture: the choice among what one fit offers, on held-out rows.

1. blend    b = (1 − w)·first + w·second, w ∈ [0, 1] of least mean loss A of all rows.
2. reference  the simplest of first, second and b whose A is within one paired error of the least.
3. dial     f_λ(t), λ(t) = (1 − t) m̄ + t π, π_k the chance that k is the worst domain of f_λ(t).
4. choice   by `rule.choose` among the reference and t = 1/16, 1/8, 1/4, 1/2.

For what is reported, 1 to 4 are repeated without each fold in turn, and the losses of the rows of
that fold are those of what the others chose; no model is fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar

from anymix.mixtures import MixtureSet
from anymix.selection.dial import estimate_mixture, smoothed_worst
from anymix.selection.held_out import Errors, HeldOut, chances
from anymix.selection.rule import choose, simplest

Array = NDArray[np.float64]
Index = NDArray[np.intp]

__all__ = [
    "DIAL",
    "Decision",
    "OutOfFold",
    "adapting_pays",
    "blended",
    "cross_fitted",
    "decide",
    "name_of",
    "with_domain",
]

DIAL = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
FLOOR = 1e-6  # a probability below it is judged as if it were it
DRAWS = 3  # simulated places of each domain, each of as many rows as the new place has
MIXED_PLACES = 20  # and places that are random mixtures of the domains


def name_of(t: float) -> str:
    """The name of f_λ(t) among the candidates, such as "t=1/8"."""
    return f"t={Fraction(t)}"


def with_domain(data: OutOfFold) -> str:
    """The name of the candidate that is told the domain."""
    return f"{'blend' if len(data.families) == 2 else data.families[0]} with domain"


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions for n rows by models fitted without them.

    A prediction is one number: of the probabilities of classes that of the class that came, of a
    regression the value.
    """

    families: Sequence[str]  # names of the one or two kinds of models
    plain: Array  # (F, n) predictions of the models that do not see the domain
    # (F, n, E) those of the models with the domain as a feature, asked as if the row were of
    # each expert's domain; E = 0 where there is but one domain
    experts: Array
    Q: Array  # (n, E) domain classifier's probabilities
    expert: Index  # (p,) expert of each domain
    k: Index  # (n,) domain of each row
    weight: Array  # (n,) weight of each row
    constant: Array  # (n,) predictions of a constant guess
    y: Array | None  # (n,) targets of a regression
    fold: Index  # (n,) number of each row's fold
    # (p,) m̄ of the rows that the models are fitted to, by which f_λ divides: parts of these
    # rows, and folds, have shares of their own, but the same Q
    shares: Array

    def take(self, rows: Any) -> OutOfFold:
        """The same of some of the rows."""
        return replace(
            self,
            plain=self.plain[:, rows],
            experts=self.experts[:, rows],
            Q=self.Q[rows],
            k=self.k[rows],
            weight=self.weight[rows],
            constant=self.constant[rows],
            fold=self.fold[rows],
            y=None if self.y is None else self.y[rows],
        )

    def losses(self, predicted: Array) -> Array:
        """Log loss or squared error of predictions (..., n)."""
        if self.y is None:
            return np.asarray(-np.log(np.clip(predicted, FLOOR, 1.0)))
        return np.asarray((predicted - self.y) ** 2)

    @cached_property
    def averages(self) -> tuple[sparse.csc_array, Array]:
        """The rows' shares in the domains' means, (p, n), and m̄; no rows: the mean of all."""
        p, n = len(self.expert), len(self.k)
        sizes = np.bincount(self.k, self.weight, p)
        shares = self.weight / sizes[self.k]
        rows, columns, empty = self.k, np.arange(n), np.flatnonzero(sizes == 0)
        if empty.size:
            rows = np.concatenate([rows, np.repeat(empty, n)])
            columns = np.concatenate([columns, np.tile(np.arange(n), len(empty))])
            shares = np.concatenate([shares, np.tile(self.weight / sizes.sum(), len(empty))])
        return sparse.csc_array((shares, (rows, columns)), shape=(p, n)), sizes / sizes.sum()

    def held_out(self, predicted: Sequence[Array], mixtures: MixtureSet) -> HeldOut:
        """The losses of candidates, the reference first, as the rule looks at them."""
        average, reference = self.averages
        return HeldOut(
            self.losses(np.asarray(predicted)),
            average,
            mixtures,
            np.zeros(len(reference)),
            reference,
            np.asarray(average @ self.losses(self.constant)),
            squared=self.y is not None,
            constant_rows=self.losses(self.constant),
            fold=self.fold,
        )

    def by_expert(self, mixture: Array) -> Array:
        """λ_e/m̄_e of the experts, (..., E), of mixtures (..., p)."""
        members = np.eye(self.Q.shape[1])[self.expert]  # (p, E)
        return np.asarray((mixture @ members) / (self.shares @ members))

    def domain_probabilities(self, Q: Array) -> Array:
        """Q of the domains, (n, p): of those that share an expert in proportion to their rows."""
        whole = np.bincount(self.expert, self.shares, Q.shape[1])
        return np.asarray(Q[:, self.expert] * (self.shares / whole[self.expert]))


@dataclass(frozen=True, eq=False)
class Decision:
    """What held-out rows chose."""

    w: float  # weight of the second family in the blend, without the domain
    w_domain: float  # the same, with the domain
    pi: dict[float, Array]  # (p,) π of every t
    change: float  # largest last change of a π
    reference: str  # name of the reference
    t: float  # dial's place
    judged: HeldOut  # losses of the reference and of the dial, which the rule looked at

    @property
    def chosen(self) -> str:
        """The name of the model to use where the domain is not known."""
        return name_of(self.t) if self.t else self.reference

    def mixture(self, t: float) -> Array:
        """λ(t); m̄ for the reference."""
        m = self.judged.reference
        return m if t == 0 else (1 - t) * m + t * self.pi[t]

    def predictions(self, data: OutOfFold) -> dict[str, Array]:
        """Of every candidate for some rows, by its name."""
        names = data.families
        found = dict(zip(names, data.plain, strict=True))
        if len(names) == 2:
            found["blend"] = blended(self.w, data.plain)
        if not self.pi:
            return found
        H = blended(self.w_domain, data.experts)
        for t in self.pi:
            found[name_of(t)] = _asked(data.Q * H, data.Q, data.by_expert(self.mixture(t)))
        own = np.arange(len(data.k)), data.expert[data.k]
        for name, experts in zip(names, data.experts, strict=True):
            found[f"{name} with domain"] = experts[own]
        if len(names) == 2:
            found["blend with domain"] = H[own]
        return found


def decide(data: OutOfFold, mixtures: MixtureSet, price: float) -> Decision:
    """Steps 1 to 4 on these rows."""
    average, m = data.averages
    v = np.asarray(m @ average)
    plain, names = list(data.plain), list(data.families)
    w = w_domain = 0.0
    if len(names) == 2:
        w = _blend_weight(data, data.plain, v)
        plain.append(blended(w, data.plain))
        names.append("blend")
    r = simplest(data.held_out(plain, mixtures))
    pi, change, candidates = dict[float, Array](), 0.0, [plain[r]]
    if data.Q.shape[1] > 1:
        own = np.arange(len(data.k)), data.expert[data.k]
        if len(data.families) == 2:
            w_domain = _blend_weight(data, data.experts[:, *own], v)
        QH = data.Q * blended(w_domain, data.experts)
        spread = Errors(average).by_domain(data.losses(plain[r]))

        def losses_at(lam: Array) -> Array:
            said = _asked(QH, data.Q, data.by_expert(lam))  # (n, T)
            return np.asarray((average @ data.losses(said.T).T).T)

        found, change = smoothed_worst(
            losses_at, lambda D: chances(mixtures, D, spread), m, np.array(DIAL)
        )
        pi = dict(zip(DIAL, found, strict=True))
        lam = [(1 - t) * m + t * pi[t] for t in DIAL]
        candidates += list(_asked(QH, data.Q, data.by_expert(np.array(lam))).T)
    judged = data.held_out(candidates, mixtures)
    t = (0.0, *DIAL)[choose(judged, price)]
    return Decision(w, w_domain, pi, change, names[r], t, judged)


def cross_fitted(data: OutOfFold, mixtures: MixtureSet, price: float) -> dict[str, Array]:
    """Predictions of all candidates, each row's chosen without its fold; and "recommended"."""
    found: dict[str, Array] = {}
    for f in np.unique(data.fold):
        held = data.fold == f
        decision = decide(data.take(~held), mixtures, price)
        said = decision.predictions(data.take(held))
        said |= {"reference": said[decision.reference], "recommended": said[decision.chosen]}
        for name, values in said.items():
            found.setdefault(name, np.zeros(len(data.k)))[held] = values
    return found


def adapting_pays(
    data: OutOfFold,
    decision: Decision,
    mixtures: MixtureSet,
    price: float,
    n_rows: int,
    rng: np.random.Generator,
) -> bool:
    """Whether λ̂ of so many unlabelled rows is better than the reference, by the same rule.

    D_k is the loss of domain k's rows under λ̂ of n_rows rows drawn from domain k, without labels.
    On random mixtures of the domains it must be no worse, on average, than what is used without.
    """
    m, p = data.shares, len(data.shares)
    Q, QH = data.domain_probabilities(data.Q), data.Q * blended(decision.w_domain, data.experts)
    average, _ = data.averages  # (p, n)

    def adapted(place: Array) -> Array:
        """The losses under the λ̂ of n_rows rows drawn from a mixture of domains; of its rows."""
        chance = place @ average
        rows = np.flatnonzero(chance)
        drawn = rng.choice(rows, n_rows, replace=n_rows > len(rows), p=chance[rows] / chance.sum())
        lam = estimate_mixture(Q[drawn], m, mixtures, 1e-3, 200).mixture
        said = np.zeros(len(chance))
        said[rows] = _asked(QH[rows], data.Q[rows], data.by_expert(lam))
        return data.losses(said)

    losses = np.array([decision.judged.losses[0], np.zeros(len(data.k))])
    for k in np.unique(data.k):
        own = data.k == k
        losses[1, own] = sum(adapted(np.eye(p)[k])[own] for _ in range(DRAWS)) / DRAWS
    if choose(replace(decision.judged, losses=losses), price) != 1:
        return False
    # λ̂ of a mixed place is less sure: there it must not lose, on average, against what is in use.
    used = decision.judged.losses[(0.0, *DIAL).index(decision.t)]
    places = rng.dirichlet(np.full(p, 0.5), MIXED_PLACES)
    if not mixtures.is_simplex:
        places = np.array([mixtures.project(place) for place in places])
    return sum(float(place @ average @ (adapted(place) - used)) for place in places) <= 0


def blended(w: float, predicted: Sequence[Array] | Array) -> Array:
    """(1 − w)·first + w·second; the first alone where there is no second."""
    if len(predicted) == 1:
        return np.asarray(predicted[0])
    return np.asarray((1 - w) * predicted[0] + w * predicted[1])


def _blend_weight(data: OutOfFold, predicted: Array, v: Array) -> float:
    """The w ∈ [0, 1] of least mean loss, which is convex in w."""

    def mean_loss(w: float) -> float:
        return float(v @ data.losses(blended(w, predicted)))

    inside = float(minimize_scalar(mean_loss, bounds=(0, 1), options={"xatol": 1e-3}).x)
    return min((0.0, 1.0, inside), key=mean_loss)  # a weight of 0 or 1 saves a family


def _asked(QH: Array, Q: Array, ratio: Array) -> Array:
    """f_λ of rows whose Q∘H is known: two products; (n,), or (n, T) of ratios (T, E)."""
    return np.asarray((QH @ ratio.T) / (Q @ ratio.T))
