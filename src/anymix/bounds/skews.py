"""How far a mixture is from the sample: 𝔰(λ‖m̄) = 1 + χ²(λ‖m̄) = Σ λ_k²/m̄_k, Section 3.

m rows tell as much of the mixture λ as m/𝔰 rows drawn from it would.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.mixtures.checks import one_mixture, positive, proportions
from anymix.mixtures.parsing import Mixtures, target_mixtures

Array = NDArray[np.float64]

__all__ = ["chi2", "effective_sample_size", "liu", "skewness", "worst_skewness"]


def skewness(mixture: ArrayLike, sizes: ArrayLike) -> float:
    """𝔰(λ‖m̄) = Σ λ_k²/m̄_k ≥ 1, the skewness of a mixture; 1 for λ = m̄.

    Parameters
    ----------
    mixture : array-like of shape (p,)
        λ, shares ≥ 0 that add up to 1.
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain; m̄ = sizes/Σ sizes.

    Returns
    -------
    float

    Examples
    --------
    >>> skewness([0.5, 0.5], [10, 30]), skewness([0.25, 0.75], [10, 30])
    (1.3333333333333333, 1.0)
    """
    m = proportions(sizes)
    return float(np.sum(one_mixture("mixture", mixture, m.size) ** 2 / m))


def chi2(mixture: ArrayLike, sizes: ArrayLike) -> float:
    """χ²(λ‖m̄) = Σ (λ_k − m̄_k)²/m̄_k = 𝔰(λ‖m̄) − 1.

    Parameters
    ----------
    mixture : array-like of shape (p,)
        λ, shares ≥ 0 that add up to 1.
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain.

    Returns
    -------
    float

    Examples
    --------
    >>> round(chi2([0.5, 0.5], [10, 30]), 12)
    0.333333333333
    """
    m = proportions(sizes)
    return float(np.sum((one_mixture("mixture", mixture, m.size) - m) ** 2 / m))


def worst_skewness(mixtures: Mixtures, sizes: ArrayLike) -> float:
    """𝔰(Λ‖m̄) = max_{λ∈Λ} 𝔰(λ‖m̄); for all mixtures it is max_k 1/m̄_k.

    (The paper prints max_k 1/m_k for Δ_p, which lacks the factor m.)

    Parameters
    ----------
    mixtures : MixtureSet, function, str or None
        Λ; None is any mixture. The set says whether its skewness is exact or an upper bound.
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain.

    Returns
    -------
    float

    Examples
    --------
    >>> worst_skewness(None, [10, 30])
    4.0
    """
    m = positive("sizes", sizes)
    return target_mixtures(mixtures, None, m).skewness(m)


def effective_sample_size(mixture: ArrayLike, sizes: ArrayLike) -> float:
    """m/𝔰(λ‖m̄) = 1/Σ λ_k²/m_k: how many rows of the mixture itself would tell as much.

    Parameters
    ----------
    mixture : array-like of shape (p,)
        λ, shares ≥ 0 that add up to 1.
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain.

    Returns
    -------
    float

    Examples
    --------
    >>> effective_sample_size([0.5, 0.5], [10, 30]), effective_sample_size([1, 0], [10, 30])
    (30.0, 10.0)
    """
    m = positive("sizes", sizes)
    return float(m.sum()) / skewness(mixture, m)


def liu(mixture: ArrayLike, sizes: ArrayLike) -> float:
    """√m max_k λ_k/m_k, the quantity of Liu et al. (2015); √(𝔰(λ‖m̄)/m) is never larger.

    Σ λ_k²/m_k ≤ max_k (λ_k/m_k) Σ λ_k ≤ m max_k (λ_k/m_k)², for Σ λ_k = 1 ≤ m max_k λ_k/m_k.

    Parameters
    ----------
    mixture : array-like of shape (p,)
        λ, shares ≥ 0 that add up to 1.
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain.

    Returns
    -------
    float

    Examples
    --------
    The paper's example, m_1 = 1 and λ_1 = 1/√m: theirs stays at 1, ours tends to 0.

    >>> m = 10**6
    >>> theirs = liu([m**-0.5, 1 - m**-0.5], [1, m - 1])
    >>> ours = (skewness([m**-0.5, 1 - m**-0.5], [1, m - 1]) / m) ** 0.5
    >>> round(theirs, 6), round(ours, 6)
    (1.0, 0.001414)
    """
    m = positive("sizes", sizes)
    lam = one_mixture("mixture", mixture, m.size)
    return math.sqrt(m.sum()) * float(np.max(lam / m))
