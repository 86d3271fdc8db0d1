"""Tables larger than memory: passes, time and memory, all as ratios within one run.

    python benchmarks/scale.py [--only file|memory|workers|others|cost] [--rows N] [--json FILE]

file     a Parquet file of N rows x 20 numbers (20 million is 3.2 GB as float64), 50 domains: peak
         memory beyond the libraries (target 600 MB), time of a pass over that of merely reading
         the file with pyarrow into float64 batches (target 1.5), passes to a gap of 1e-6 (12)
memory   N/10 rows: the whole way from the file over the same in memory, reading included (target
         2), and the difference of the objectives (target 1e-9)
workers  two Dask workers against one, 100 features: speed-up of a pass (target 1.6)
others   dask-ml's LogisticRegression (if it is installed) and SGDClassifier.partial_fit for as
         long as ours takes: time, and distance to the optimum of ordinary training. dask-ml asks
         for older versions of other packages, so put it beside them, in a folder of its own:
         pip install --no-deps --target others dask-ml dask-glm multipledispatch sparse
         PYTHONPATH=others python benchmarks/scale.py --only others
cost     seconds of a pass over 1, 2, 4, ... parts against a + b n/parts, and what that says of
         a cluster of 100 workers and a thousand million rows
"""

from __future__ import annotations

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import anymix as ax
from anymix.partitions import from_batches, from_dask, from_parquet

P, D, GROUP = 50, 20, 131_072
NAMES = [f"x{j}" for j in range(D)]


def rows(n: int, d: int = D, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X, domains = rng.normal(size=(n, d)), rng.integers(P, size=n).astype(np.int16)
    fixed = np.random.default_rng(99)
    W = fixed.normal(size=d) + 0.3 * fixed.normal(size=(P, d))
    z = np.einsum("ij,ij->i", X, W[domains])
    return X, (z + rng.logistic(size=n) > 0).astype(np.int8), domains


def write(path: Path, n: int) -> None:
    writer = None
    for number, start in enumerate(range(0, n, GROUP)):
        X, y, domains = rows(min(GROUP, n - start), seed=number)
        table = pa.table({name: X[:, j] for j, name in enumerate(NAMES)} | {"y": y, "g": domains})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=GROUP)
    assert writer is not None
    writer.close()


def read(path: Path) -> tuple[float, float]:
    """Seconds by the clock, and of all cores, to read the file into float64 batches."""
    begun, used = time.perf_counter(), time.process_time()
    for batch in ds.dataset(path).to_batches(batch_size=65_536):
        X = np.empty((batch.num_rows, D))
        for j, name in enumerate(NAMES):
            X[:, j] = batch.column(name).to_numpy()
    return time.perf_counter() - begun, time.process_time() - used


def peak() -> float:
    """The most memory this process ever had, in MB; getrusage would count its parent's, too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1e3


def solved(path: Path) -> dict[str, Any]:
    """The solve in a process of its own, with its memory beyond the libraries."""
    small = path.with_name("small.parquet")
    ax.solve(from_parquet(small, "y", "g", columns="plain"))  # all libraries are loaded
    before, begun = peak(), time.perf_counter()
    problem = from_parquet(path, "y", "g", columns="plain")
    solution = ax.solve(problem)
    seconds = time.perf_counter() - begun
    passes, memory = list(problem._log.seconds), peak() - before
    used = time.process_time()
    problem.at(np.full(D + 1, 0.01))  # one more pass, by the time of all cores
    return {
        "memory": memory,
        "seconds_of_cores": time.process_time() - used,
        "libraries": before,
        "seconds": seconds,
        "passes": len(passes),
        "seconds_of_passes": passes,
        "gap": solution.certificate.gap,
        "objective": solution.objective,
    }


def alone(function: str, path: Path) -> Any:
    """A function of this file in a process of its own."""
    code = f"import scale, json; print(json.dumps(scale.{function}(scale.Path({str(path)!r}))))"
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def file(n: int, folder: Path) -> dict[str, Any]:
    path = folder / "large.parquet"
    write(path, n)
    write(folder / "small.parquet", 20_000)
    reads = [read(path)]
    found = alone("solved", path)
    reads += [read(path), read(path)]
    sums = found["seconds_of_passes"][2:]  # without those that count and sample
    ratio = statistics.median(sums) / statistics.median(clock for clock, _ in reads)
    cores = found["seconds_of_cores"] / min(used for _, used in reads)
    return {
        "rows": n,
        "file_MB": path.stat().st_size / 1e6,
        "peak_MB_beyond_libraries": found["memory"],
        "pass_over_reading": ratio,
        "pass_over_reading_by_cores": cores,
        "passes": found["passes"],
        "gap": found["gap"],
        "seconds": found["seconds"],
        "seconds_of_reading": reads,
        "seconds_of_passes": found["seconds_of_passes"],
    }


def from_file(path: Path, tol: float) -> tuple[float, float]:
    begun = time.perf_counter()
    objective = ax.solve(from_parquet(path, "y", "g", columns="plain"), tol=tol).objective
    return time.perf_counter() - begun, objective


def in_memory(path: Path, tol: float) -> tuple[float, float]:
    begun = time.perf_counter()
    table = pq.read_table(path)
    X = np.column_stack([table[name].to_numpy() for name in NAMES])
    problem = ax.LinearDomains(X, table["y"].to_numpy(), table["g"].to_numpy())
    return time.perf_counter() - begun, ax.solve(problem, tol=tol).objective


def whole_in_memory(path: Path, tol: float) -> tuple[float, float]:
    begun = time.perf_counter()
    _, objective = in_memory(path, tol)
    return time.perf_counter() - begun, objective


def memory(n: int, folder: Path) -> dict[str, Any]:
    path = folder / "middle.parquet"
    write(path, n)
    pairs = [(from_file(path, 1e-6), whole_in_memory(path, 1e-6)) for _ in range(3)]
    far, here = zip(*pairs, strict=True)
    tight = [way(path, 1e-11)[1] for way in (from_file, whole_in_memory)]
    return {
        "rows": n,
        "file_over_memory": min(s for s, _ in far) / min(s for s, _ in here),
        "seconds_from_file": [s for s, _ in far],
        "seconds_in_memory": [s for s, _ in here],
        "difference_of_objectives": abs(tight[0] - tight[1]),
    }


def workers(n: int, folder: Path) -> dict[str, Any]:
    """The same pass by one worker and by two, in turn."""
    import dask.array as da
    from distributed import Client, LocalCluster

    X, y, domains = rows(n, d=100)
    lazy = [da.from_array(a, chunks=(n // 16, *a.shape[1:])) for a in (X, y, domains)]
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(3):
        for count, found in seconds.items():
            with (
                LocalCluster(
                    n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
                ) as cluster,
                Client(cluster),
            ):
                problem = from_dask(*lazy)
                for k in range(5):
                    problem.at(np.full(problem.n_parameters, 0.01 * k))
                found += problem._log.seconds[2:]  # the first brings the parts to their workers
    return {"rows": n, "speed_up": min(seconds[1]) / min(seconds[2]), "seconds": seconds}


def others(n: int, folder: Path) -> dict[str, Any]:
    """Ordinary training: ours is the same solve with one point as Λ."""
    from sklearn.linear_model import SGDClassifier

    X, y, domains = rows(n)
    gamma, step = 1e-4, 65_536
    whole = ax.LinearDomains(X, y, domains)
    target = ax.Point(whole.reference)
    best = ax.solve(whole, target, gamma=gamma, tol=1e-10)

    def distance(coef: Any, intercept: Any) -> float:
        w = np.append(np.ravel(coef), intercept)
        return ax.certify(whole, target, w, whole.reference, gamma=gamma).upper - best.objective

    def chunks() -> Iterator[Any]:
        for i in range(0, n, step):
            yield X[i : i + step], y[i : i + step], domains[i : i + step]

    begun = time.perf_counter()
    ours = ax.solve(from_batches(chunks), target, gamma=gamma)
    ours_seconds = time.perf_counter() - begun
    found: dict[str, Any] = {
        "rows": n,
        "ours": {"seconds": ours_seconds, "distance": ours.objective - best.objective},
    }
    for name, average in (("sgd", False), ("sgd, averaged", True)):
        sgd = SGDClassifier(loss="log_loss", alpha=gamma, average=average, random_state=0)
        begun, passes = time.perf_counter(), 0
        while time.perf_counter() - begun < ours_seconds:
            for X_part, y_part, _ in chunks():
                sgd.partial_fit(X_part, y_part, classes=[0, 1])
            passes += 1
        seconds = time.perf_counter() - begun
        gap = distance(sgd.coef_, sgd.intercept_)
        found[name] = {"seconds": seconds, "passes": passes, "distance": gap}
    return found | _dask_ml(X, y, domains, gamma, target, best.objective, distance)


def _dask_ml(
    X: Any,
    y: Any,
    domains: Any,
    gamma: float,
    target: Any,
    best: float,
    distance: Callable[[Any, Any], float],
) -> dict[str, Any]:
    """The same data on the same cluster of two workers."""
    try:
        from dask_ml.linear_model import LogisticRegression
    except ImportError:
        return {"dask_ml": "is not installed"}
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    n = len(y)
    lazy = [da.from_array(a, chunks=(n // 16, *a.shape[1:])) for a in (X, y, domains)]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        lazy = [client.persist(a) for a in lazy]
        wait(lazy)  # bringing them there counts for none

        def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
            """By the clock, and of all cores: this process and the workers."""

            def cores() -> float:
                return time.process_time() + sum(client.run(time.process_time).values())

            begun, used = time.perf_counter(), cores()
            made = work()
            seconds = time.perf_counter() - begun
            return made, {"seconds": seconds, "seconds_of_cores": cores() - used}

        ours, took = timed(lambda: ax.solve(from_dask(*lazy), target, gamma=gamma))
        found = {"ours_on_dask": took | {"distance": ours.objective - best}}
        for solver in ("newton", "lbfgs", "admm"):
            model = LogisticRegression(C=1 / (gamma * n), solver=solver, penalty="l2")
            try:
                _, took = timed(partial(model.fit, *lazy[:2]))
            except Exception as error:  # an older package may not take today's arrays
                found[f"dask_ml {solver}"] = {"error": str(error)[:100]}
                continue
            gap = distance(model.coef_, model.intercept_)
            found[f"dask_ml {solver}"] = took | {"distance": gap}
    return found


def cost(n: int, folder: Path) -> dict[str, Any]:
    """A pass over n/parts rows is what each of so many workers has to do."""
    X, y, domains = rows(n)
    seconds: dict[int, float] = {}
    for parts in (1, 2, 4, 8, 16):
        share = n // parts
        chunk = X[:share], y[:share], domains[:share]

        def chunks(chunk: Any = chunk) -> Iterator[Any]:
            for i in range(0, len(chunk[1]), 65_536):
                yield tuple(a[i : i + 65_536] for a in chunk)

        problem = from_batches(chunks, threads=1)
        for k in range(4):
            problem.at(np.full(D + 1, 0.01 * k))
        seconds[parts] = min(problem._log.seconds[1:])
    sizes = np.array([n // parts for parts in seconds])
    found = np.array(list(seconds.values()))
    design = np.column_stack([np.ones(len(sizes)), sizes]) / found[:, None]  # relative errors
    a, b = np.linalg.lstsq(design, np.ones(len(sizes)))[0]
    return {
        "seconds": seconds,
        "model": {p: float(a + b * n / p) for p in seconds},
        "nanoseconds_a_row": 1e9 * float(b),
        "milliseconds_a_pass": 1e3 * float(a),
        "seconds_a_pass_100_workers_1e9_rows": float(a + b * 1e7),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["file", "memory", "workers", "others", "cost"])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    n = options.rows
    sizes = {"file": n, "memory": n // 10, "workers": 400_000, "others": n // 10, "cost": n // 4}
    ways = {"file": file, "memory": memory, "workers": workers, "others": others, "cost": cost}
    results = {}
    for name, way in ways.items():
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory(prefix="anymix-scale-") as folder:
            results[name] = way(sizes[name], Path(folder))
        print(name, json.dumps(results[name], indent=1, default=str), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, default=str))


if __name__ == "__main__":
    main()
