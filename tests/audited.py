"""Audits of two generated models on p domains, for the tests of the report."""

from typing import Any

import numpy as np

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


HOSTILE = "zz </script><img src=x onerror=\"document.title='x'\">&lt;b&gt; $1 ${2} 'q'"
