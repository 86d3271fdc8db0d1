"""Boosted trees of a table: an ordinary model, and a robust one where that is really better."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from anymix.errors import InputError
from anymix.estimators.domain_features import Kind, members_of, widened
from anymix.mixtures import MixtureSet
from anymix.problem.dealing import deal_groups
from anymix.problem.rows import ALL, Part, Rows, take
from anymix.solvers.certificates import Certificate
from anymix.solvers.frontier import Frontier
from anymix.tables.learners import WITH, WITHOUT, Learned

if TYPE_CHECKING:
    from anymix.estimators import AgnosticEnsemble

Array = NDArray[np.float64]

__all__ = ["BoostedChoice", "BoostedFit", "BoostedLearner", "BoostedModel", "check_boosted"]

FEW_ROWS = 10_000
FOLDS = 5
TREES: dict[str, Any] = {  # of a kind that needs no tuning: many small steps, stopped in time
    "learning_rate": 0.05,
    "max_iter": 300,
    "max_leaf_nodes": 15,
    "early_stopping": True,
    "random_state": 0,
}


@dataclass(frozen=True, eq=False)
class BoostedModel:
    """What fitted trees say of rows, as `LinearModel` does."""

    trees: Any
    classes: NDArray[Any] | None
    domain_names: NDArray[Any] | None = None

    @property
    def uses_domain(self) -> bool:
        """Whether the domain is a feature."""
        return self.domain_names is not None

    def predict(self, X: Any, domains: Any = None) -> NDArray[Any]:
        """The value or the most probable class of every row, (n,)."""
        if self.classes is None:
            return np.asarray(self.trees.predict(self._wide(X, domains)))
        return np.asarray(self.classes[np.argmax(self.predict_proba(X, domains), axis=1)])

    def predict_proba(self, X: Any, domains: Any = None) -> Array:
        """Probabilities of the classes, (n, K)."""
        return np.asarray(self.trees.predict_proba(self._wide(X, domains)))

    def _wide(self, X: Any, domains: Any) -> Array:
        X = dense(X)
        if self.domain_names is None:
            return np.asarray(X)
        labels = np.full(len(X), None) if domains is None else domains
        return np.column_stack([X, members_of(labels, self.domain_names, len(X)).toarray()])


@dataclass(frozen=True, eq=False)
class BoostedChoice:
    """What was chosen for all rows."""

    ensemble: AgnosticEnsemble

    @property
    def is_ordinary(self) -> bool:
        """Whether the ordinary model was kept."""
        return bool(self.ensemble.best_index_ == 0)

    @property
    def robustness(self) -> float:
        """t of the model chosen."""
        return float(self.frontier.robustness[self.ensemble.best_index_])

    @property
    def frontier(self) -> Frontier:
        """The losses of all candidates."""
        found: Frontier = self.ensemble.frontier_
        return found

    @property
    def mixture(self) -> Array:
        """λ that the model chosen was fitted for, (p,)."""
        return np.asarray(self.ensemble.mixture_)

    @property
    def certificate(self) -> Certificate:
        """How far the model is from the best draw among those fitted, on rows held out."""
        found: Certificate = self.ensemble.certificate_
        return found


def check_boosted(gamma: float | None, robustness: float | None, use_domain: str | None) -> None:
    """Refuse what trees do not have: a weight γ, slopes."""
    if gamma is not None:
        raise InputError("gamma", f"is {gamma}, but trees have none", "leave it out")
    if robustness is not None and not 0 <= robustness <= 1:
        fix = "give a number from 0 (ordinary) to 1, or leave it out"
        raise InputError("robustness", f"is {robustness}, with boosted trees", fix)
    if use_domain == "slopes":
        found = "is 'slopes', but trees have none"
        raise InputError("use_domain", found, "give 'intercept': trees find the rest")


@dataclass(frozen=True, eq=False)
class BoostedFit:
    """Fitted trees, where a linear model would have its LinearFit."""

    model: BoostedModel
    ensemble: AgnosticEnsemble


@dataclass(frozen=True, eq=False)
class BoostedLearner:
    """AgnosticEnsemble of boosted trees."""

    mixtures: MixtureSet
    robustness: float | None
    use_domain: Kind
    groups: NDArray[Any] | None = None

    def search(self, rows: Rows, part: Part = ALL) -> None:
        """Trees are chosen where they are fitted."""

    def part(self, rows: Rows, part: Part, held_out: Part, searched: None) -> dict[str, Array]:
        """What the models of a part say of the rows it holds out."""
        wide = widened(rows, self.use_domain)
        X, X_held = dense(take(wide.X, part)), dense(take(wide.X, held_out))
        ensemble = self._fitted(rows, X, part)
        chosen = _said(ensemble, X_held, rows)
        beside = self._beside(ensemble, rows, X, part)
        other = chosen if beside is None else _said(beside, X_held, rows)
        ordinary, robust = (chosen, other) if ensemble.best_index_ == 0 else (other, chosen)
        if self.robustness == 0:
            chosen = ordinary
        found = {"ordinary": ordinary, "chosen": chosen, "best robust": robust}
        return found | self._other(rows, part, held_out)

    def _other(self, rows: Rows, part: Part, held_out: Part) -> dict[str, Array]:
        """What the ordinary model says that uses the domain, or does not if the others do."""
        name, kind = (WITH, "intercept") if self.use_domain is None else (WITHOUT, None)
        X = widened(rows, kind).X
        fitted = dense(take(X, part))
        with _threads(len(fitted)):
            trees = _trees(rows).fit(fitted, rows.y[part])
        return {name: _said(trees, dense(take(X, held_out)), rows)}

    def _beside(self, ensemble: AgnosticEnsemble, rows: Rows, X: Array, part: Part) -> Any:
        """The other of the two models to show: ordinary trees, or the best robust ones, if any."""
        weight = None
        if ensemble.best_index_ == 0:
            if len(ensemble.cv_results_["worst_test_loss"]) == 1:
                return None
            weight = _best_robust(ensemble)[rows.domains.key()[part]]
        with _threads(len(X)):
            return _trees(rows).fit(X, rows.y[part], sample_weight=weight)

    def whole(self, rows: Rows, searched: None, plain: bool) -> Learned:
        """The model of all rows."""
        X = dense(widened(rows, self.use_domain).X)
        ensemble = self._fitted(rows, X, ALL)
        wanted = self.robustness == 0 or (plain and self.robustness is None)
        if wanted and ensemble.best_index_ != 0:
            ensemble.keep_ordinary(X, rows.y)
        names = None if self.use_domain is None else rows.names
        model = BoostedModel(ensemble, rows.classes, names)
        return Learned(BoostedChoice(ensemble), BoostedFit(model, ensemble))

    def _fitted(self, rows: Rows, X: Array, part: Part) -> AgnosticEnsemble:
        from anymix.estimators import AgnosticEnsemble, NothingGained

        options: dict[str, Any] = {}
        if self.robustness:
            options = {"robustness": (self.robustness,), "price": np.inf}
        model = AgnosticEnsemble(_trees(rows), self.mixtures, **options)
        domains = rows.names[rows.domains.key()[part]]
        counts = np.bincount(rows.domains.key()[part], minlength=len(rows.names))
        if self.groups is not None:
            model.set_params(cv=deal_groups(rows.take(part), self.groups[part], FOLDS))
        elif counts.min() < model.cv:
            name = str(rows.names[np.argmin(counts)])
            found = f"is too low: domain {name!r} has {counts.min()} rows to learn trees from"
            raise InputError("min_rows", found, "raise it, say to 30, to put small ones together")
        with warnings.catch_warnings(action="ignore", category=NothingGained), _threads(len(X)):
            return model.fit(X, rows.y[part], domains=domains)


def _best_robust(ensemble: AgnosticEnsemble) -> Array:
    """λ_k / m̄_k, (p,), of the robust mixture whose own model is best for the worst one."""
    found, names = ensemble.cv_results_, ensemble.domain_names_.tolist()
    robust = (found["param_robustness"] > 0) & (found["param_n_models"] == 1)
    best = int(np.argmin(np.where(robust, found["expected_worst_test_loss"], np.inf)))
    mixtures = np.array([found[f"mixture_{name}"] for name in names])  # (p, candidates)
    return np.asarray(mixtures[:, best] / mixtures[:, 0])


def _said(trees: Any, X: Array, rows: Rows) -> Array:
    """Values (n,), or probabilities (n, K)."""
    return np.asarray(trees.predict(X) if rows.classes is None else trees.predict_proba(X))


def _threads(n: int) -> Any:
    """One thread for few rows: there more of them only wait for each other."""
    return threadpool_limits(1 if n <= FEW_ROWS else None, "openmp")


def _trees(rows: Rows) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if rows.classes is None else HistGradientBoostingClassifier
    return kind(**TREES)


def dense(X: Any) -> Array:
    """X as an array: these trees take no sparse rows."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X)
