"""CPU of `AgnosticClassifierCV` as a multiple of scikit-learn's `LogisticRegressionCV`, in one run.

    python benchmarks/linear_speed.py                  # 1,000 and 200,000 rows
    python benchmarks/linear_speed.py --rows 1000 --times 9

Both choose by five folds and fit all rows with the choice. The table has 20 columns and four
domains of 60, 25, 10 and 5 %, of which the smallest follows another column. The ratio is that of
the medians over `--times` runs, which take turns; one thread each.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from threadpoolctl import threadpool_limits

import anymix as ax
from anymix.estimators import NothingGained


def table(n: int, d: int = 20) -> tuple[Any, Any, Any]:
    """X, y and domains."""
    rng = np.random.default_rng(0)
    domains = rng.choice(4, size=n, p=[0.6, 0.25, 0.1, 0.05])
    X = rng.normal(size=(n, d))
    score = 2 * np.where(domains == 3, X[:, 1], X[:, 0]) + X[:, 2:] @ rng.normal(size=d - 2) / 4
    return X, score + rng.logistic(size=n) > 0, domains


def seconds(model: Any, *data: Any, **options: Any) -> float:
    """CPU seconds of a fit."""
    begun = time.process_time()
    with warnings.catch_warnings(action="ignore", category=NothingGained):
        model.fit(*data, **options)
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 200_000])
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    print("|    rows | anymix (s) | scikit-learn (s) | ratio |\n|---|---|---|---|")
    for n in asked.rows:
        X, y, domains = table(n)
        with threadpool_limits(1):
            seconds(ax.AgnosticClassifierCV(), X[:500], y[:500], domains=domains[:500])  # warm-up
            peer = {"cv": 5, "max_iter": 1000, "scoring": "neg_log_loss"}
            peer |= {"use_legacy_attributes": False, "l1_ratios": (0.0,)}
            pairs = [
                (
                    seconds(ax.AgnosticClassifierCV(), X, y, domains=domains),
                    seconds(LogisticRegressionCV(**peer), X, y),
                )
                for _ in range(asked.times)
            ]
        ours, theirs = np.median(pairs, axis=0)
        print(f"| {n:7,d} | {ours:10.2f} | {theirs:16.2f} | {ours / theirs:5.2f} |", flush=True)


if __name__ == "__main__":
    main()
