"""What every loader returns: training and test examples, each with its label and its domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """m training and m' test examples, each with its label and its domain.

    Attributes
    ----------
    X, X_test : array, CSR matrix or pandas frame of shape (m, d) and (m', d)
        The features, as asked of the loader.
    y, y_test : ndarray of shape (m,) and (m',)
        The labels.
    domains, domains_test : ndarray of shape (m,) and (m',)
        The name of each row's domain.
    feature_names : tuple of str
        The names of the d columns of X.
    name : str
        The name of the data set.
    citation : str
        The paper or page to cite when you use the data.
    licence : str
        Under which terms the data are given.

    Examples
    --------
    >>> data = Dataset(np.eye(2), np.array([0, 1]), np.array(["a", "b"]), np.ones((1, 2)),
    ...                np.array([1]), np.array(["b"]), ("f", "g"), "toy", "made up", "none")
    >>> data
    Dataset(name='toy', licence='none')
    """

    X: Any = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    domains: NDArray[np.str_] = field(repr=False)
    X_test: Any = field(repr=False)
    y_test: NDArray[np.int64] = field(repr=False)
    domains_test: NDArray[np.str_] = field(repr=False)
    feature_names: tuple[str, ...] = field(repr=False)
    name: str
    citation: str = field(repr=False)
    licence: str
