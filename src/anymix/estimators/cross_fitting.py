"""What a model says of rows that it has not seen, for any model that takes `sample_weight`.

For a mixture λ of the domains, row i has the weight

    c_i = m Σ_k λ_k a_ki,     a_ki its share in domain k's mean, m the number of rows

so that Σ_i c_i ℓ_i / m = Σ_k λ_k L_k, and λ = m̄, the mixture of the data, leaves weights as given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from anymix.errors import InputError
from anymix.estimators.keywords import no_domains
from anymix.problem.dealing import Split
from anymix.problem.rows import ALL, Part, Rows

Array = NDArray[np.float64]
RowLoss = Callable[[Any, Any], Any]  # (y, predictions) -> (n,)

__all__ = ["CrossFit", "OutOfFold", "RowLoss", "log_loss_of", "squared_error", "weight_argument"]


def weight_argument(estimator: Any) -> str:
    """The name under which `fit` of the estimator takes weights: that of a Pipeline's last step."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{weight_argument(last)}"
    if not hasattr(estimator, "fit"):
        found = f"is {estimator!r}, which has no fit"
        raise InputError("estimator", found, "give a scikit-learn estimator")
    known = signature(estimator.fit).parameters.values()
    if not any(p.name == "sample_weight" or p.kind is Parameter.VAR_KEYWORD for p in known):
        raise InputError(
            "estimator",
            f"is {type(estimator).__name__}(...), whose fit takes no sample_weight",
            "give one that does, such as HistGradientBoostingClassifier",
        )
    return "sample_weight"


def log_loss_of(codes: NDArray[Any], probabilities: Array, floor: float) -> Array:
    """−log of the probability of the class that came, (n,); below the floor it counts as that."""
    said = probabilities[np.arange(len(codes)), codes]
    return np.asarray(-np.log(np.clip(said, floor, 1.0)))


def squared_error(y: Array, values: Array) -> Array:
    """½ (z − y)², (n,)."""
    return np.asarray(0.5 * (values - y) ** 2)


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What the models of one λ, one for each fold, say of the rows."""

    held_out: Array  # (n, K) or (n,): prediction of every row by the model that has not seen it
    fitted: Array  # (p,) loss of each domain on the rows that the models were fitted to, on average


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Fits of one estimator to weighted rows, and its predictions for the rows left out."""

    estimator: Any  # what is cloned and fitted
    X: Any  # (n, d) features, which only the estimator looks at
    y: NDArray[Any]  # (n,) targets, as the estimator is to see them
    rows: Rows  # codes of the classes or numbers, the domains and the weights
    splits: Sequence[Split]  # (part, part) what to fit and what to judge on, for each fold
    loss: RowLoss  # (targets, predictions) -> the loss of each row

    def fit(self, mixture: Array | None, part: Part = ALL) -> Any:
        """A clone fitted to a part of the rows."""
        weight = None if self.rows.weight is None else self.rows.weight[part]
        if mixture is not None:
            weight = self._weights(mixture, part)
            if not np.all(weight > 0):  # a row of weight 0 would still shape bins and leaves
                counted = np.flatnonzero(weight > 0)
                part, weight = np.arange(len(self.rows))[part][counted], weight[counted]
        options: dict[str, Any] = no_domains(self.estimator)
        if weight is not None:
            options[weight_argument(self.estimator)] = weight
        with config_context(enable_metadata_routing=False):  # the name says which step it is for
            return clone(self.estimator).fit(self._take(part), self.y[part], **options)

    def predict(self, model: Any, X: Any) -> Array:
        """Probabilities (n, K) in the order of the classes, or numbers (n,)."""
        return predictions(model, X, self.rows.classes)

    def judge(self, mixture: Array | None) -> OutOfFold:
        """Fit every fold as `fit` would, and predict the rows that it leaves out."""
        said, fitted = [], np.zeros(len(self.rows.names))
        for part, left_out in self.splits:
            model = self.fit(mixture, part)
            said.append(self.predict(model, self._take(left_out)))
            losses = self.losses(self.predict(model, self._take(part)), part)
            fitted += self._average(part) @ losses / len(self.splits)
        back = np.argsort(np.concatenate([left_out for _, left_out in self.splits]))
        return OutOfFold(np.concatenate(said)[back], fitted)

    def losses(self, predicted: Array, part: Part = ALL) -> Array:
        """The loss of each row of a part, (n,); InputError if the loss gives anything else."""
        y = self.rows.y[part]
        found = np.asarray(self.loss(y, predicted), dtype=np.float64)
        if found.shape != y.shape:
            fix = f"give a function that returns {len(y)} numbers for as many rows"
            raise InputError("loss", f"returns an array of shape {found.shape}", fix)
        if not np.all(np.isfinite(found)):
            wrong = found[~np.isfinite(found)][0]
            fix = "give targets of moderate size, or a loss that is finite for every prediction"
            raise InputError("loss", f"is {wrong} for some row", fix)
        return found

    def _weights(self, mixture: Array, part: Any) -> Array:
        """c_i of the rows of a part."""
        weight = None if self.rows.weight is None else self.rows.weight[part]
        sizes, average = self.rows.domains.take(part).shares(len(self.rows.names), weight)
        return np.asarray(sizes.sum() * (average.T @ mixture))

    def _average(self, part: Any) -> sparse.csc_array:
        weight = None if self.rows.weight is None else self.rows.weight[part]
        _, average = self.rows.domains.take(part).shares(len(self.rows.names), weight)
        return average

    def _take(self, part: Any) -> Any:
        return self.X if isinstance(part, slice) and part == ALL else _safe_indexing(self.X, part)


def predictions(model: Any, X: Any, classes: NDArray[Any] | None) -> Array:
    """What a model says: probabilities of these classes, 0 for one it has not met; or numbers."""
    if classes is None:
        return np.asarray(model.predict(X), dtype=np.float64)
    said = np.asarray(model.predict_proba(X), dtype=np.float64)
    seen = getattr(model, "classes_", classes)
    if len(seen) == len(classes):
        return said
    found = np.zeros((len(said), len(classes)))
    found[:, np.searchsorted(classes, seen)] = said[:, : len(seen)]  # boosting has 2 columns for 1
    return found
