"""A scorer for scikit-learn's tools: the score on the worst mixture of the domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.utils.metadata_routing import MetadataRequest

from anymix.errors import InputError
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.arrays import rows_of_domains

__all__ = ["AgnosticScorer", "agnostic_scorer"]


def agnostic_scorer(
    metric: str | Callable[..., float] = "accuracy", mixtures: Mixtures = None
) -> AgnosticScorer:
    """min_{λ∈Λ} Σ_k λ_k s_k, s_k the score on domain k: the worst domain's score if Λ is None.

    Give it as `scoring` with scikit-learn's metadata routing, which hands it the domains.

    Parameters
    ----------
    metric : str or function
        A scorer's name ("accuracy", "neg_log_loss", "r2", ...) or a scorer, as in the `scoring`
        of scikit-learn; greater is better.
    mixtures : MixtureSet, function, str or None
        Λ over the domains scored: a set, a function of their sizes, words such as "cvar:0.3", or
        None for any mixture.

    Returns
    -------
    AgnosticScorer

    Examples
    --------
    >>> import numpy as np
    >>> import sklearn
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y, d = np.zeros((8, 1)), [1, 1, 1, 1, 1, 1, 0, 0], list("aaaaaabb")
    >>> model = DummyClassifier(strategy="constant", constant=1)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     plain = cross_val_score(model, X, y, cv=2)
    ...     scorer = agnostic_scorer("accuracy")
    ...     worst = cross_val_score(model, X, y, cv=2, scoring=scorer, params={"domains": d})
    >>> plain.tolist(), worst.tolist()
    ([0.75, 0.75], [0.0, 0.0])
    """
    return AgnosticScorer(metric, mixtures)


class AgnosticScorer:
    """The callable that `agnostic_scorer` makes: scorer(estimator, X, y, domains=...)."""

    def __init__(self, metric: str | Callable[..., float], mixtures: Mixtures) -> None:
        self.metric, self.mixtures = metric, mixtures
        self._scorer: Callable[..., float] = get_scorer(metric)
        self._request = MetadataRequest(owner=self)
        self._request.score.add_request(param="domains", alias=True)

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        domains: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The score on the worst mixture of the domains."""
        if domains is None:
            raise InputError(
                "agnostic_scorer",
                "was given no domains",
                "pass them with sklearn.set_config(enable_metadata_routing=True) and "
                "params={'domains': ...} (fit(X, y, domains=...) in GridSearchCV)",
            )
        y = np.asarray(y)
        weight = None if sample_weight is None else np.asarray(sample_weight)
        parts = rows_of_domains(domains, len(y))
        scores = np.array([self._score(estimator, X, y, weight, r) for r in parts.values()])
        if not np.all(np.isfinite(scores)):
            k = int(np.argmin(np.isfinite(scores)))
            raise InputError(
                "",
                f"{self.metric!r} is {scores[k]} on domain {list(parts)[k]!r}",
                "choose a metric that is defined there, or other folds",
            )
        sizes = [float(len(r) if weight is None else weight[r].sum()) for r in parts.values()]
        target = target_mixtures(self.mixtures, None, np.array(sizes), parts)
        return float(target.maximize(-scores) @ scores)

    def _score(
        self, estimator: Any, X: Any, y: NDArray[Any], weight: Any, rows: NDArray[np.intp]
    ) -> float:
        options = {} if weight is None else {"sample_weight": weight[rows]}
        return float(self._scorer_of(estimator)(estimator, _take(X, rows), y[rows], **options))

    def _scorer_of(self, estimator: Any) -> Any:
        if self.metric != "neg_log_loss":
            return self._scorer
        return make_scorer(  # a domain may lack a class that the model knows
            log_loss,
            greater_is_better=False,
            response_method="predict_proba",
            labels=estimator.classes_,
        )

    def set_score_request(self, *, domains: Any = True, sample_weight: Any = None) -> Self:
        """Under which name the metadata arrive: True is their own, or another as a string."""
        self._request = MetadataRequest(owner=self)
        self._request.score.add_request(param="domains", alias=domains)
        self._request.score.add_request(param="sample_weight", alias=sample_weight)
        return self

    def get_metadata_routing(self) -> Any:
        """What scikit-learn asks: the metadata this scorer takes."""
        return self._request

    def __repr__(self) -> str:
        return f"agnostic_scorer({self.metric!r}, mixtures={self.mixtures!r})"


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    """Rows of an array, a sparse matrix, a list, or a frame of any library."""
    if not hasattr(X, "shape"):
        return [X[i] for i in rows]
    if not hasattr(X, "columns"):
        return X[rows]
    import narwhals as nw

    return nw.from_native(X, eager_only=True)[rows].to_native()
