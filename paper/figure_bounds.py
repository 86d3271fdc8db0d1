"""What can be promised: bounds against the number of domains, skewness and rows, and the truth.

The data are generated, so that the truth is known: in domain k, x is uniform in [0, 1] and y says
whether x > θ_k, wrongly for a share of the rows. The models are 21 thresholds.

    python paper/figure_bounds.py
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anymix as ax
from anymix.bounds import Complexity, generalization, held_out, tightest

Array = NDArray[np.float64]
FOLDER = Path(__file__).parents[1] / "docs" / "img"
GRID = np.linspace(0, 1, 21)  # the thresholds
DELTA = 0.05
INK, TRUTH, HELD, RADEMACHER, OTHER = "#333333", "#333333", "#0072b2", "#d55e00", "#009e73"


def domain(k: int, p: int) -> tuple[float, float]:
    """θ_k and the share of wrong labels."""
    return 0.3 + 0.4 * k / max(p - 1, 1), 0.1 + 0.1 * k / max(p - 1, 1)


def row_losses(rng: np.random.Generator, n: int, k: int, p: int) -> NDArray[np.bool_]:
    """Whether each model is wrong on each of n rows of domain k, (21, n)."""
    theta, noise = domain(k, p)
    x = rng.random(n)
    y = (x > theta) ^ (rng.random(n) < noise)
    return np.asarray((x > GRID[:, None]) != y)


def true_losses(p: int) -> Array:
    """(21, p)."""
    theta, noise = np.array([domain(k, p) for k in range(p)]).T
    return np.asarray(noise + (1 - 2 * noise) * np.abs(GRID[:, None] - theta))


def chosen(tables: Sequence[Array]) -> int:
    """The model with the least worst loss on the training rows."""
    return int(np.argmin(np.max([table.mean(axis=1) for table in tables], axis=0)))


def bounds_against_domains(axes: Any) -> None:
    """6,000 rows in p domains of equal sizes: the bound of the worst mixture minus the loss."""
    ps, rows = [1, 2, 3, 5, 8, 12, 20, 40], 6000
    theorems: dict[str, tuple[str, str, str]] = {
        "1": ("Theorem 1, ε = 1/√m", RADEMACHER, "o-"),
        "alternative": ("the alternative", OTHER, "s-"),
    }
    for theorem, (name, color, style) in theorems.items():
        values = []
        for p in ps:
            sizes = np.full(p, rows / p)
            c = Complexity.finite(21, sizes)
            values.append(generalization(np.zeros(p), sizes, c, delta=DELTA, theorem=theorem).value)
        axes.plot(ps, values, style, color=color, markersize=4, label=name)
    widths = []
    for p in ps:
        wrong = np.arange(rows) // p % 10 == 0  # one in ten rows of each domain
        found = held_out(wrong, np.arange(rows) % p, delta=DELTA)
        widths.append(found.value - found.agnostic_loss)
    axes.plot(ps, widths, "^-", color=HELD, markersize=4, label="held out")
    axes.set(xlabel="domains, 6,000 rows in all", ylabel="bound − loss found", xscale="log")
    axes.set(title="More domains, less known of each", ylim=(0, None))
    axes.set_xticks([1, 2, 5, 10, 20, 40], ["1", "2", "5", "10", "20", "40"])
    axes.minorticks_off()
    axes.legend(frameon=False)


def bounds_against_skewness(axes: Any) -> None:
    """10 domains; Λ is the ball of skewness r: from ordinary training to nearly any mixture."""
    sizes, r = np.full(10, 400.0), np.array([1.0001, 1.1, 1.3, 1.7, 2.5, 4, 6, 8, 10])
    c = Complexity.finite(21, sizes)
    d, wrong = np.arange(4000) % 10, np.arange(4000) // 10 % 10 == 0
    ours, theirs = [], []
    for most in r:
        ball = ax.Chi2Ball(sizes, float(most))
        theirs.append(tightest(np.zeros(10), sizes, c, ball, DELTA).value)
        found = held_out(wrong, d, ball, DELTA)
        ours.append(found.value - found.agnostic_loss)
    axes.plot(r, theirs, "o-", color=RADEMACHER, markersize=4, label="training rows (tightest)")
    axes.plot(r, ours, "^-", color=HELD, markersize=4, label="held out")
    axes.set(xlabel="largest skewness r in Λ", ylabel="bound − loss found", ylim=(0, None))
    axes.set(title="Mixtures far from the data cost rows")
    axes.legend(frameon=False)


def truth_and_bounds(axes: Any, n_sets: int = 30) -> None:
    """Three domains; the chosen model's true worst loss, what was found, and both bounds."""
    ns = [50, 100, 200, 400, 800, 1600, 3200]
    truth, trained, ours = [], [], []
    rng = np.random.default_rng(1)
    for n in ns:
        sizes = np.full(3, float(n))
        found = []
        for _ in range(n_sets):
            tables = [row_losses(rng, n, k, 3).astype(float) for k in range(3)]
            h = chosen(tables)
            L = np.array([table[h].mean() for table in tables])
            bound = tightest(L, sizes, Complexity.finite(21, sizes), delta=DELTA)
            new = np.concatenate([row_losses(rng, n, k, 3)[h] for k in range(3)])
            promise = held_out(new, np.repeat(np.arange(3), n), delta=DELTA)
            found.append((true_losses(3)[h].max(), bound.value, promise.value))
        assert all(t <= b for t, b, _ in found), "a bound of Theorem 1 failed"
        worst, theorem, held = np.mean(found, axis=0)
        truth.append(worst)
        trained.append(theorem)
        ours.append(held)
    axes.plot(ns, trained, "o-", color=RADEMACHER, markersize=4, label="bound from training rows")
    axes.plot(ns, ours, "^-", color=HELD, markersize=4, label="bound from rows held out")
    axes.plot(ns, truth, "--", color=TRUTH, label="the truth")
    axes.set(xlabel="rows of each domain", ylabel="loss of the worst domain", xscale="log")
    axes.set(title="Both hold; rows held out say more", ylim=(0, None))
    axes.legend(frameon=False)


def gaps(axes: Any, n_sets: int = 400) -> None:
    """The largest gap of any model between truth and rows, and the bound of that gap."""
    ns, rng = [30, 100, 300, 1000], np.random.default_rng(2)
    spread, allowed = [], []
    for n in ns:
        sizes = np.full(3, float(n))
        c = Complexity.finite(21, sizes)
        allowed.append(tightest(np.zeros(3), sizes, c, delta=DELTA).value)
        found = []
        for _ in range(n_sets):
            L = np.array([row_losses(rng, n, k, 3).mean(axis=1) for k in range(3)]).T  # (21, p)
            found.append(float(np.max(true_losses(3).max(axis=1) - L.max(axis=1))))
        spread.append(np.quantile(found, [0.5, 0.95, 1.0]))
    middle, often, most = np.array(spread).T
    axes.fill_between(ns, middle, most, color=INK, alpha=0.15, label="measured: median to largest")
    axes.plot(ns, often, "--", color=INK, label="measured: 95 %")
    axes.plot(ns, allowed, "o-", color=RADEMACHER, markersize=4, label="bound (95 %)")
    axes.set(xlabel="rows of each domain", ylabel="truth − loss on the rows", xscale="log")
    axes.set(title="Gaps of the worst of 21 models", ylim=(0, None))
    axes.legend(frameon=False)


def held_out_widths(axes: Any) -> None:
    """Bounds of losses with little spread, at δ = 0.05."""
    ns = np.array([10, 30, 100, 300, 1000, 3000])
    rng = np.random.default_rng(3)
    betting, bernstein, hoeffding, normal = np.zeros((4, len(ns)))
    for i, n in enumerate(ns):
        for _ in range(20):
            x, log = rng.beta(0.5, 9.5, n), math.log(2 / DELTA)
            betting[i] += (held_out(x, delta=DELTA).value - x.mean()) / 20
            spread = x.std(ddof=1) / math.sqrt(n)
            bernstein[i] += min(spread * math.sqrt(2 * log) + 7 * log / (3 * (n - 1)), 1) / 20
            normal[i] += 1.645 * spread / 20
        hoeffding[i] = math.sqrt(math.log(1 / DELTA) / (2 * n))
    axes.plot(ns, hoeffding, "s-", color=OTHER, markersize=4, label="Hoeffding")
    axes.plot(ns, bernstein, "o-", color=RADEMACHER, markersize=4, label="empirical Bernstein")
    axes.plot(ns, betting, "^-", color=HELD, markersize=4, label="betting (held_out)")
    axes.plot(ns, normal, ":", color=INK, label="normal approximation (no guarantee)")
    axes.set(xlabel="rows", ylabel="bound − mean loss", xscale="log", yscale="log")
    axes.set(title="Skewed losses of mean 0.05")
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def alarms(axes: Any) -> None:
    """The evidence of one run: a domain goes from 9.5 % to 15 % errors after 2,000 rows."""
    rng = np.random.default_rng(5)
    x = np.concatenate((rng.random(2000) < 0.095, rng.random(1500) < 0.15)).astype(float)
    monitor, low, high, at = ax.bounds.Monitor(DELTA, {"all": 0.1}), [], [], []
    for start in range(0, len(x), 50):
        ends = monitor.update(x[start : start + 50]).interval("all")
        low.append(ends[0])
        high.append(ends[1])
        at.append(start + 50)
    axes.fill_between(at, low, high, color=HELD, alpha=0.2, label="bounds at all times")
    axes.plot(at, np.cumsum(x)[49::50] / at, color=HELD, label="mean loss so far")
    axes.axhline(0.1, color=INK, linestyle=":", label="limit")
    axes.axvline(2000, color=INK, linestyle="--", linewidth=1, label="it gets worse")
    axes.axvline(monitor.alarms["all"], color=RADEMACHER, label="alarm")
    axes.set(xlabel="rows", ylabel="loss", ylim=(0, 0.3), title="Watching a model in use")
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.14, 1.0))


PICTURES: dict[str, tuple[Callable[[Any], None], ...]] = {
    "bounds_theory": (bounds_against_domains, bounds_against_skewness),
    "bounds_truth": (truth_and_bounds, gaps),
    "bounds_held_out": (held_out_widths, alarms),
}


def draw(folder: Path = FOLDER) -> list[Path]:
    """Write the pictures, two panels each."""
    from matplotlib import pyplot as plt

    style: dict[Any, Any] = {"font.size": 10, "axes.edgecolor": INK, "text.color": INK}
    files = []
    with plt.rc_context(style):
        for name, panels in PICTURES.items():
            figure, row = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
            for panel, axes in zip(panels, row, strict=True):
                panel(axes)
                axes.spines[["top", "right"]].set_visible(False)
            files.append(folder / f"{name}.png")
            figure.savefig(files[-1], dpi=130)
            plt.close(figure)
    return files


if __name__ == "__main__":
    try:
        print("Files:", *draw())
    except ModuleNotFoundError:
        sys.exit("error: there is no matplotlib to draw with; pip install 'anymix[report]'")
