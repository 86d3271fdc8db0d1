"""The certified solver against plain training and against a peer, as ratios in one run.

    python benchmarks/exact.py [--only NAME] [--no-peers] [--json FILE]

"ERM" is plain training on the same rows with the same ℓ₂ weight: the fastest of scikit-learn's
lbfgs, newton-cholesky and newton-cg at tol 1e-8 (where a row says otherwise, it says so), which is
far more than a gap of 1e-6 or 1e-4, as asked of ours, needs. At the loosest tol of equal gap the
ratios are larger (docs/exact.md): 0.75 instead of 0.54 on 200,000 rows, 1.02 instead of 0.52 on a
million, 1.23 instead of 0.44 on sparse rows; and on Adult 1.18 against liblinear, which is not run
here, instead of 0.26. Ours includes everything from the raw arrays on: reading domains, merging
equal rows, the certificate.
One thread; every time is the best of a few repetitions, ours and theirs taking turns.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy is loaded

import argparse
import json
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

import anymix as ax
from anymix import datasets

GAMMA = 1e-3
SOLVERS = ("lbfgs", "newton-cholesky", "newton-cg")


@dataclass
class Case:
    """One row of the table: data, the gap asked for, how plain training is run, the target."""

    name: str
    data: Callable[[], tuple[Any, Any, Any]]
    tol: float
    target: float
    solvers: tuple[str, ...] = SOLVERS
    erm_tol: float = 1e-8
    repeats: int = 3


def adult() -> tuple[Any, Any, Any]:
    """All eight categorical columns, one-hot: 102 columns."""
    data = datasets.load_adult(drop=(), progress=False)
    return data.X, data.y, data.domains


def gaussian(n: int, d: int, p: int, condition: float = 1.0) -> tuple[Any, Any, Any]:
    """p logistic models around a common one; column scales from 1 to 1/condition."""
    rng = np.random.default_rng(0)
    scale = np.geomspace(1.0, 1.0 / condition, d)
    domains = rng.integers(p, size=n)
    w = (rng.normal(size=d) + 0.5 * rng.normal(size=(p, d))) * 2 / np.sqrt(d)
    X = rng.normal(size=(n, d))
    z = np.einsum("ij,ij->i", X, w[domains])
    return X * scale, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int), domains


def fashion(classes: tuple[str, ...] | None) -> tuple[Any, Any, Any]:
    """Three classes, one domain each; or all ten classes in three domains of like kinds."""
    data = datasets.load_fashion(classes=classes, progress=False)
    if classes is not None:
        return data.X, data.y, data.domains
    kind = np.array([0, 0, 0, 0, 0, 1, 0, 1, 2, 1])  # clothes, shoes, bags
    return data.X, data.y, kind[data.y]


def text(n: int = 200_000, d: int = 20_000, p: int = 20, words: int = 40) -> tuple[Any, Any, Any]:
    """Bags of words with Zipf frequencies, every domain with words of its own."""
    rng = np.random.default_rng(0)
    domains = rng.integers(p, size=n)
    ranks = np.minimum(rng.zipf(1.3, size=(n, words)) - 1, d - 1)
    columns = (ranks + (ranks > 50) * domains[:, None] * 37) % d
    X = sparse.csr_array((np.ones(n * words), columns.ravel(), np.arange(0, n * words + 1, words)))
    X.resize(n, d)
    X.sum_duplicates()
    w = rng.normal(size=(d, 1)) + 0.5 * rng.normal(size=(d, p))
    z = (X @ w)[np.arange(n), domains] / np.sqrt(words)
    return X, (rng.random(n) < 1 / (1 + np.exp(-2 * z))).astype(int), domains


CASES = (
    Case("Adult, 102 one-hot columns, p=2", adult, 1e-6, 0.5),
    Case("dense n=200k d=50 p=10", lambda: gaussian(200_000, 50, 10), 1e-6, 0.75),
    Case("the same, condition 1e3", lambda: gaussian(200_000, 50, 10, 1e3), 1e-6, 0.6),
    Case("dense n=1M d=20 p=1000", lambda: gaussian(1_000_000, 20, 1000), 1e-6, 0.6),
    Case(
        "Fashion 10 classes p=3 (lbfgs 1e-6)", lambda: fashion(None), 1e-4, 0.8, ("lbfgs",), 1e-6, 1
    ),
    Case(
        "Fashion 3 classes p=3 (same gradient)",
        lambda: fashion(("t-shirt/top", "pullover", "shirt")),
        1e-4,
        1.5,
        ("lbfgs", "newton-cg"),
        0.0,
        1,
    ),
    Case("sparse n=200k d=20k p=20", text, 1e-4, 2.0, ("lbfgs", "newton-cg"), 1e-8, 1),
)


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Wall time of one call, and what it returned."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def ours(X: Any, y: Any, domains: Any, tol: float) -> ax.Solution:
    """From raw arrays to the certified solution."""
    problem = ax.LinearDomains(X, y, domains)
    return ax.solve(problem, ax.Simplex(problem.n_domains), gamma=GAMMA, tol=tol)


def plain(X: Any, y: Any, solver: str, tol: float) -> LogisticRegression:
    """The same model and ℓ₂ weight on the pooled rows."""
    model = LogisticRegression(C=1 / (GAMMA * X.shape[0]), solver=solver, tol=tol, max_iter=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def same_gradient_tol(X: Any, y: Any, domains: Any, solution: ax.Solution) -> float:
    """The norm of ∇Φ(w, λ) that our solution reached, as scikit-learn measures it (max norm)."""
    problem = ax.LinearDomains(X, y, domains)
    gradient = problem.gradient(solution.w, solution.mixture)
    gradient[problem.penalized] += GAMMA * solution.w[problem.penalized]
    return float(np.max(np.abs(gradient)))


def measure(case: Case) -> dict[str, Any]:
    """Ours and every ERM solver in turns; the best times and their ratio."""
    X, y, domains = case.data()
    ours_time, solution = seconds(lambda: ours(X, y, domains, case.tol))
    erm_tol = case.erm_tol or same_gradient_tol(X, y, domains, solution)
    erm = dict.fromkeys(case.solvers, np.inf)
    for _ in range(case.repeats):
        for solver in case.solvers:
            if erm[solver] < 4 * min(erm.values()) or not np.isfinite(erm[solver]):
                spent, _ = seconds(partial(plain, X, y, solver, erm_tol))
                erm[solver] = min(erm[solver], spent)
        ours_time = min(ours_time, seconds(lambda: ours(X, y, domains, case.tol))[0])
    fastest = min(erm, key=lambda s: erm[s])
    return {
        "problem": case.name,
        "ERM": erm[fastest],
        "by": fastest,
        "ours": ours_time,
        "ratio": ours_time / erm[fastest],
        "target": case.target,
        "gap": solution.certificate.gap,
        "iterations": solution.n_iter,
        "memory": memory(X, y, domains, case.tol),
    }


def memory(X: Any, y: Any, domains: Any, tol: float) -> float:
    """Peak of what we allocate, in copies of X."""
    tracemalloc.start()
    ours(X, y, domains, tol)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse.issparse(X) else X.nbytes
    return float(peak / size)


class Probabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression whose `predict` gives probabilities, as fairlearn's losses need."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Probabilities:
        """Plain weighted training."""
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        self.model_ = LogisticRegression(
            C=1 / (GAMMA * weight.sum()), solver="newton-cholesky", tol=1e-8, max_iter=1000
        ).fit(X, y, sample_weight=weight)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        """P(y = 1 | x)."""
        return self.model_.predict_proba(X)[:, 1]


class LogLoss:
    """Cross-entropy in the form fairlearn's BoundedGroupLoss takes."""

    min, max = 0.0, 50.0

    def eval(self, y_true: Any, y_pred: Any) -> Any:
        """−log of the probability of the label, per row."""
        p = np.clip(np.asarray(y_pred, dtype=float), 1e-15, 1 - 1e-15)
        return -np.where(np.asarray(y_true) == 1, np.log(p), np.log1p(-p))


def fairlearn_row(name: str, data: Callable[[], tuple[Any, Any, Any]]) -> dict[str, Any]:
    """ExponentiatedGradient + BoundedGroupLoss asked for our worst loss + 1e-6."""
    from fairlearn.reductions import BoundedGroupLoss, ExponentiatedGradient

    X, y, domains = data()
    ours_time = min(seconds(lambda: ours(X, y, domains, 1e-6))[0] for _ in range(3))
    worst = ours(X, y, domains, 1e-6).domain_losses.max()
    constraint = BoundedGroupLoss(LogLoss(), upper_bound=float(worst) + 1e-6)
    peer = ExponentiatedGradient(Probabilities(), constraint, eps=1e-6, nu=1e-6, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent, _ = seconds(lambda: peer.fit(X, y, sensitive_features=domains))
    return {
        "problem": f"{name} against fairlearn",
        "ERM": spent,
        "by": f"fairlearn, gap {peer.best_gap_:.0e}",
        "ours": ours_time,
        "ratio": ours_time / spent,
        "target": 0.01,
    }


def selection_row() -> dict[str, Any]:
    """The whole default choice against one plain LogisticRegressionCV with the same folds.

    Ours: five folds, eleven γ₀ for the ordinary model, 20 robust candidates, all refits. Theirs:
    ten values of C on these folds, and one refit.
    """
    X, y, domains = adult()
    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=0)
    splits = list(folds.split(X, [f"{a} {b}" for a, b in zip(domains, y, strict=True)]))
    peer = LogisticRegressionCV(Cs=10, cv=splits, scoring="neg_log_loss", max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent, _ = seconds(lambda: peer.fit(X, y))
        ours_time, _ = seconds(lambda: ax.AgnosticClassifierCV().fit(X, y, domains=domains))
    return {
        "problem": "Adult, the default choice",
        "ERM": spent,
        "by": "LogisticRegressionCV",
        "ours": ours_time,
        "ratio": ours_time / spent,
        "target": 4.0,
    }


def show(rows: list[dict[str, Any]]) -> None:
    """The table; a ratio above its target is shown as missed."""
    table = Table(title="anymix.solve, certified, against plain training (seconds, one thread)")
    for column in ("problem", "other", "by", "ours", "ratio", "target", "gap", "its", "memory (X)"):
        table.add_column(column, justify="left" if column in ("problem", "by") else "right")
    for r in rows:
        met = r["ratio"] <= r["target"]
        table.add_row(
            r["problem"],
            f"{r['ERM']:.3f}",
            r["by"],
            f"{r['ours']:.3f}",
            f"{r['ratio']:.2f}" if r["ratio"] >= 0.01 else f"{r['ratio']:.4f}",
            f"{r['target']:g}{'' if met else ' missed'}",
            f"{r['gap']:.0e}" if "gap" in r else "",
            str(r.get("iterations", "")),
            f"{r['memory']:.2f}" if "memory" in r else "",
        )
    Console(width=130).print(table)


def main() -> None:
    """Run the cases asked for and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run only cases whose name contains this")
    parser.add_argument("--no-peers", action="store_true", help="leave fairlearn out (minutes)")
    parser.add_argument("--json", help="also write the rows to this file")
    arguments = parser.parse_args()
    rows = [measure(case) for case in CASES if arguments.only.lower() in case.name.lower()]
    if arguments.only.lower() in "adult, the default choice":
        rows.append(selection_row())
    if not arguments.no_peers and not arguments.only:
        rows.append(fairlearn_row("Adult", adult))
        rows.append(fairlearn_row("dense n=200k d=50 p=10", lambda: gaussian(200_000, 50, 10)))
    show(rows)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1, default=float)


if __name__ == "__main__":
    main()
