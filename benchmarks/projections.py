"""Projections onto the simplex side by side: ours, a plain NumPy sort, and two published packages.

    pip install copt pyproximal          # for their columns
    python benchmarks/projections.py     # p = 10³ .. 10⁶, about two minutes

Every row interleaves all versions on one vector and keeps the best of many rounds, so that a busy
machine slows them alike. Ratios are their time over ours: above 1, ours is faster. pyproximal stops
its bisection at 1e-5, the others are exact. A second table has the times of our other sets.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import anymix as ax

Array = NDArray[np.float64]
Projection = Callable[[Array], Array]

SIZES = (10**3, 10**4, 10**5, 10**6)
PEERS = ("sort", "copt", "pyproximal")


def sort_version(v: Array) -> Array:
    """The textbook method (Held, Wolfe and Crowder, 1974; Duchi et al., 2008)."""
    u = np.sort(v)[::-1]
    sums = np.cumsum(u) - 1
    k = np.nonzero(u * np.arange(1, v.size + 1) > sums)[0][-1]
    return np.maximum(v - sums[k] / (k + 1), 0)


def copt_version(p: int) -> Projection:
    from copt.constraint import euclidean_proj_simplex

    return lambda v: euclidean_proj_simplex(v, 1.0)


def pyproximal_version(p: int) -> Projection:
    from pyproximal.projection import SimplexProj

    return SimplexProj(p, 1.0)


def versions(p: int) -> dict[str, Projection]:
    found: dict[str, Projection] = {"anymix": ax.Simplex(p).project, "sort": sort_version}
    for name, make in (("copt", copt_version), ("pyproximal", pyproximal_version)):
        try:
            found[name] = make(p)
        except ImportError:
            if p == SIZES[0]:
                print(f"{name}: not installed (pip install {name})")
    return found


def inputs(p: int, rng: np.random.Generator) -> dict[str, Array]:
    """From few to almost all entries in the support of the answer."""
    return {
        "normal": rng.normal(size=p),
        "uniform": rng.uniform(size=p),
        "normal / p": rng.normal(size=p) / p,
        "mixture + step": rng.dirichlet(np.ones(p)) + 0.1 / p * rng.uniform(size=p),
    }


def best_times(projections: dict[str, Projection], v: Array, budget: float) -> dict[str, float]:
    """Seconds a call, the best of rounds in which every version has its turn."""
    best = dict.fromkeys(projections, np.inf)
    calls = max(1, 10_000 // v.size)
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        for name, project in projections.items():
            start = time.perf_counter()
            for _ in range(calls):
                project(v)
            best[name] = min(best[name], (time.perf_counter() - start) / calls)
    return best


def other_sets(p: int, rng: np.random.Generator) -> dict[str, Projection]:
    weights, sizes = 10 ** rng.uniform(-3, 3, p), rng.integers(1, 1000, p)
    return {
        "weighted": lambda v: ax.Simplex(p).project(v, weights),
        "box": ax.Box(np.zeros(p), np.full(p, 3 / p)).project,
        "TV ball": ax.TVBall(sizes / sizes.sum(), 0.2).project,
        "χ² ball": ax.Chi2Ball(sizes, 1.5).project,
    }


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{'p':>8} {'input':<15} {'anymix':>12}" + "".join(f"{n + ' ×':>14}" for n in PEERS))
    for p in SIZES:
        projections = versions(p)
        for kind, v in inputs(p, rng).items():
            times = best_times(projections, v, budget=6.0)
            ours = times["anymix"]
            ratios = (f"{times[n] / ours:>14.2f}" if n in times else f"{'-':>14}" for n in PEERS)
            print(f"{p:>8} {kind:<15} {ours * 1e6:>9.1f} µs" + "".join(ratios))
    print(f"\n{'p':>8}" + "".join(f"{name:>15}" for name in other_sets(2, rng)))
    for p in SIZES:
        times = best_times(other_sets(p, rng), rng.normal(size=p) / p, budget=6.0)
        print(f"{p:>8}" + "".join(f"{t * 1e3:>12.2f} ms" for t in times.values()))


if __name__ == "__main__":
    main()
