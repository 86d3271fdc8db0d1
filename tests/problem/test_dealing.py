import numpy as np
import pytest

from anymix.problem.dealing import sample
from anymix.problem.losses import CrossEntropy
from anymix.problem.membership import OneDomain
from anymix.problem.rows import Rows


def test_a_sample_for_choosing_is_even_and_has_small_domains_and_classes_whole() -> None:
    d = np.repeat([0, 1], [99_950, 50]).astype(np.int32)
    y = (np.arange(100_000) % 5 == 0).astype(np.int32)
    y[[3000, 3001, 5002]] = 2
    names, classes = np.array(["u", "v"]), np.array(["a", "b", "rare"])
    rows = Rows(None, y, classes, OneDomain(d), names, None, CrossEntropy())
    picked = sample(rows, 10_000, np.random.default_rng(0))
    assert len(set(picked.tolist())) == len(picked)
    assert {3000, 3001, 5002} <= set(picked.tolist())
    assert np.sum(d[picked] == 1) == 50
    assert 10_045 <= len(picked) <= 10_045 + 2003  # 1,000 more of each class at most
    assert np.mean(y[picked] == 1) == pytest.approx(0.2, abs=0.07)
