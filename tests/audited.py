"""Audits of two generated models on p domains, and what a page made of them holds."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anymix.auditing.audits import Audit, audit


def two_models(p: int, mixtures: Any = None, n: int = 3000, seed: int = 0) -> dict[str, Audit]:
    """The plain model is better on the first domains, the careful one on the last.

    The last domain has two rows, and its name is hostile to a page.
    """
    rng = np.random.default_rng(seed)
    domain = np.concatenate([[p - 1] * 2, np.repeat(np.arange(p - 1), 4)])
    domain = np.concatenate([domain, rng.integers(p - 1, size=n - len(domain))])
    names = np.array([f"region {k}" for k in range(p - 1)] + [HOSTILE], dtype=object)
    y = rng.integers(2, size=n)
    found = {}
    for name, start, end in (("plain", 0.9, 0.1), ("careful", 0.7, 0.4)):
        pull = start + (end - start) * domain / max(p - 1, 1)
        q = np.clip(0.5 + (y - 0.5) * pull + rng.normal(0, 0.1, n), 0.02, 0.98)
        found[name] = audit(y, q, names[domain], mixtures=mixtures)
    return found


def data_of(page: Path) -> dict[str, Any]:
    """What the page's program reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text())
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def words_of(page: Path) -> str:
    """The page without its programs: what a reader without JavaScript sees."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


HOSTILE = "zz </script><img src=x onerror=\"document.title='x'\">&lt;b&gt; $1 ${2} 'q'"


def check_equal(there: Any, here: Any, rel: float = 1e-10) -> None:
    """The same words, and the same numbers but for rounding."""
    assert type(there) is type(here)
    if isinstance(here, dict):
        assert list(there) == list(here)
        for key in here:
            exact = key in ("loss", "pooled_loss", "agnostic_loss", "accuracy", "rmse", "mae")
            check_equal(there[key], here[key], 1e-12 if exact else rel)
    elif isinstance(here, list):
        assert len(there) == len(here)
        for a, b in zip(there, here, strict=True):
            check_equal(a, b, rel)
    elif isinstance(here, float):
        assert there == pytest.approx(here, rel=rel, abs=rel)
    else:
        assert there == here
