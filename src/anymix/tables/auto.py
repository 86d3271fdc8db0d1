"""AnyMix on a table: which model for a domain that is unknown, or known, for new rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.auditing.side_by_side import KNOWN, ORDINARY, RECOMMENDED
from anymix.mixtures import MixtureSet
from anymix.problem.rows import ALL, Part, Rows, take
from anymix.tables.learners import Learned

if TYPE_CHECKING:
    from anymix.estimators import AnyMixClassifier, AnyMixRegressor

Array = NDArray[np.float64]

__all__ = ["AutoChoice", "AutoFit", "AutoLearner", "AutoModel"]


@dataclass(frozen=True, eq=False)
class AutoModel:
    """What a fitted AnyMix says of rows, as `LinearModel` does."""

    estimator: Any  # fitted estimator
    classes: NDArray[Any] | None  # (K,) classes
    domain_names: NDArray[Any]  # (p,) domains
    uses_domain = False  # it may be given, and need not

    def predict(self, X: Any, domains: Any = None) -> NDArray[Any]:
        """The value or the most probable class of every row, (n,)."""
        if self.classes is not None:
            return np.asarray(self.classes[np.argmax(self.predict_proba(X, domains), axis=1)])
        with warnings.catch_warnings(action="ignore"):  # unknown domains: the table's notes say it
            return np.asarray(self.estimator.predict(_taken(X, ALL), domains=domains))

    def predict_proba(self, X: Any, domains: Any = None) -> Array:
        """Probabilities of the classes, (n, K)."""
        with warnings.catch_warnings(action="ignore"):
            return np.asarray(self.estimator.predict_proba(_taken(X, ALL), domains=domains))


@dataclass(frozen=True, eq=False)
class AutoChoice:
    """What was chosen for all rows."""

    estimator: Any  # fitted to all rows
    frontier = None
    certificate = None

    @property
    def is_ordinary(self) -> bool:
        """Whether no mixture but the data's own was chosen."""
        return self.robustness == 0

    @property
    def robustness(self) -> float:
        """The place t of the dial."""
        return float(self.estimator.t_)

    @property
    def mixture(self) -> Array:
        """λ of the model chosen, (p,)."""
        return np.asarray(self.estimator.mixture_)


@dataclass(frozen=True, eq=False)
class AutoFit:
    """A fitted AnyMix, where a linear model would have its LinearFit."""

    model: AutoModel  # model, which predicts

    @property
    def estimator(self) -> AnyMixClassifier | AnyMixRegressor:
        """The estimator of scikit-learn."""
        found: AnyMixClassifier | AnyMixRegressor = self.model.estimator
        return found


@dataclass(frozen=True, eq=False)
class AutoLearner:
    """AnyMixClassifier or AnyMixRegressor, fitted to each part anew."""

    mixtures: MixtureSet  # Λ
    groups: NDArray[Any] | None = None  # (n,) group of each row
    n_jobs: int = 1  # how many processes share the folds of trees

    def search(self, rows: Rows, part: Part = ALL) -> None:
        """It is chosen where it is fitted."""

    def part(self, rows: Rows, part: Part, held_out: Part, searched: None) -> dict[str, Array]:
        """What the models of a part say of the rows it holds out.

        Besides those to show, "reference" is what would be used if nothing were recommended.
        """
        estimator = self._fitted(rows, part)
        choice = estimator.recommendation_
        domains = None if choice.with_domain is None else _names(rows, held_out)
        said = estimator.candidate_predictions(_taken(rows.X, held_out), domains)
        found = {ORDINARY: said[choice.names[0]], RECOMMENDED: said[choice.chosen]}
        if choice.with_domain is not None:
            found[KNOWN] = said[choice.with_domain]
        return found | {"reference": said[choice.reference]}

    def whole(self, rows: Rows, searched: None, plain: bool) -> Learned:
        """The model of all rows; `plain` asks for the reference where the domain is unknown."""
        estimator = self._fitted(rows, ALL)
        if plain:
            estimator = estimator.kept()
        model = AutoModel(estimator, rows.classes, rows.names)
        return Learned(AutoChoice(estimator), AutoFit(model))

    def _fitted(self, rows: Rows, part: Part) -> Any:
        from anymix.estimators import AnyMixClassifier, AnyMixRegressor

        kind = AnyMixRegressor if rows.classes is None else AnyMixClassifier
        estimator: Any = kind(mixtures=self.mixtures, n_jobs=self.n_jobs)
        return estimator.fit(
            _taken(rows.X, part),
            rows.y[part],
            domains=_names(rows, part),
            sample_weight=None if rows.weight is None else rows.weight[part],
            groups=None if self.groups is None else self.groups[part],
        )


def _names(rows: Rows, part: Part) -> NDArray[Any]:
    return np.asarray(rows.names[rows.domains.key()[part]])


def _taken(X: Any, part: Part) -> Any:
    """Rows of X, as an array: trees take no sparse rows."""
    found = take(X, part)
    return found.toarray() if sparse.issparse(found) else found
