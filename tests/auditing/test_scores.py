"""AUC and calibration error, as audits give them."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, ttest_ind
from scipy.stats import t as student

from anymix.auditing import audit
from anymix.auditing.scores import auc as auc_interval
from anymix.auditing.scores import calibration


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


DRAWS = 1000


LEVEL = 0.95


def covered(ends: Any, truth: float) -> float:
    return float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))


def draws(n: int) -> Any:
    """1000 samples of n rows, each of them a domain."""
    return np.repeat(np.arange(DRAWS), n)


@pytest.mark.parametrize("n", [30, 200])
def test_interval_of_a_large_calibration_error_covers(n: int) -> None:
    """The model says q/2 where q happens: the error is E q/2 = ¼, the same sign in every bin."""
    r = rng(n)
    q = r.random(DRAWS * n)
    found = audit(r.random(DRAWS * n) < q, q / 2, draws(n))
    assert covered(found.metric_intervals["calibration_error"], 1 / 4) >= LEVEL - 0.02
    narrow = found.metric_intervals["calibration_error"][:, 1] - found.metrics["calibration_error"]
    assert narrow.max() < 4 / math.sqrt(n)


def test_auc_is_that_of_all_pairs_with_delongs_and_newcombes_interval() -> None:
    """Newcombe's ends by trying every θ; his variance as Hanley and McNeil's, N for m and n."""
    r = rng(4)
    y, q = np.repeat([1, 0], [15, 25]), np.round(r.random(40), 1)
    q[0] = 0.55  # a fraction whatever the draws
    wins = (q[:15, None] > q[15:]) + 0.5 * (q[:15, None] == q[15:])  # (15, 25)
    auc = wins.mean()
    u, v = wins.mean(axis=1).var(ddof=1) / 15, wins.mean(axis=0).var(ddof=1) / 25
    welch = ttest_ind(wins.mean(axis=1), wins.mean(axis=0), equal_var=False)
    t = student.ppf(0.975, welch.df)
    odds = math.log(auc / (1 - auc)) + np.array([-1, 1]) * t * math.sqrt(u + v) / (auc * (1 - auc))
    theta, N = np.linspace(0, 1, 200_001), 20
    both = theta / (2 - theta) - theta**2 + 2 * theta**2 / (1 + theta) - theta**2
    V = (theta * (1 - theta) + (N - 1) * both) / (15 * 25)
    inside = theta[(auc - theta) ** 2 <= 1.959964**2 * V]
    low, high = 1 / (1 + np.exp(-odds))
    found = audit(y, q)
    assert found.metrics["auc"][0] == pytest.approx(auc)
    expected = [min(low, inside[0]), max(high, inside[-1])]
    np.testing.assert_allclose(found.metric_intervals["auc"][0], expected, atol=1e-5)


def test_perfect_auc_is_not_certain() -> None:
    """7 pairs in order by chance: 0.025 = AUC⁷."""
    found = audit([1] * 7 + [0] * 20, [0.9] * 7 + [0.1] * 20)
    np.testing.assert_allclose(found.metric_intervals["auc"], [[0.025 ** (1 / 7), 1]])
    found = audit([0] * 7 + [1] * 20, [0.9] * 7 + [0.1] * 20)
    np.testing.assert_allclose(found.metric_intervals["auc"], [[0, 1 - 0.025 ** (1 / 7)]])


def test_auc_of_one_positive_is_unknown_and_of_none_undefined() -> None:
    q = [0.2, 0.4, 0.6, 0.3]
    found = audit([0, 1, 0, 0], q)
    assert found.metrics["auc"][0] == pytest.approx(2 / 3)
    assert found.metric_intervals["auc"].tolist() == [[0, 1]]
    assert np.isnan(audit([0, 0, 0, 0], q).metrics["auc"]).all()


@pytest.mark.parametrize("counts", [(10, 100), (100, 10), (3, 100), (5, 50)])
@pytest.mark.parametrize("area", [0.6, 0.8, 0.95])
def test_auc_of_few_against_many_is_covered(counts: tuple[int, int], area: float) -> None:
    m, n = counts
    shift, y = math.sqrt(2) * float(norm.ppf(area)), np.arange(m + n)
    r, ends = rng(m), []
    for _ in range(300):
        q = r.normal(size=m + n) + shift * (y < m)
        ends.append(auc_interval(q, y < m, 0.95)[1:])
    assert covered(np.array(ends), area) >= 0.93


@pytest.mark.parametrize("n", [2, 5, 20, 50])
def test_calibration_error_of_a_confident_classifier_is_covered(n: int) -> None:
    y, q = rng(n).random((400, n)) < 0.05, np.full(n, 0.001)
    ends = [calibration(q, happened, 0.95)[1:] for happened in y]
    assert covered(np.array(ends), 0.049) >= 0.93


P, N = 50, 20
