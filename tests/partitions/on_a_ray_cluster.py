"""Run as a script by test_on_ray.py: what a real Ray cluster finds, as JSON on the last line.

Ray leaves processes and sockets to the end of the interpreter, so it gets one of its own.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import ray
import ray.data

import anymix as ax
from anymix.errors import InputError
from anymix.partitions import from_ray


def blocks(path: str) -> dict[str, Any]:
    frame = pd.read_parquet(path)
    dataset = ray.data.from_pandas([frame[i : i + 150] for i in range(0, len(frame), 150)])
    problem = from_ray(dataset, "bought", "region")
    found = ax.solve(problem, gamma=1e-2, tol=1e-12)
    proof = ax.certify(problem, None, found.w, found.mixture, gamma=1e-2)
    names = problem.feature_names
    return {"objective": found.objective, "gap": proof.gap, "feature_names": names}


def killed() -> dict[str, Any]:
    """Workers are killed with -9 while they sum: how many, and whether a bit has changed."""
    rng = np.random.default_rng(0)
    n = 200_000
    X, domains = rng.normal(size=(n, 10)), rng.integers(4, size=n)
    y = (X[:, 0] * (domains - 1.5) + rng.logistic(size=n) > 0).astype(int)
    columns = {f"x{j}": X[:, j] for j in range(10)} | {"y": y, "g": domains}
    tables = [pa.table({k: v[i::16] for k, v in columns.items()}) for i in range(16)]
    dataset = ray.data.from_arrow(tables).materialize()
    calm = ax.solve(from_ray(dataset, "y", "g"), tol=1e-10)
    problem, ended, victims = from_ray(dataset, "y", "g"), threading.Event(), list[int]()
    pid = ray.remote(lambda: os.getpid())  # Ray takes no function of C

    def kill() -> None:
        while len(victims) < 2 and not ended.wait(0.3):  # Ray repeats a task three times
            victims.append(ray.get(pid.remote()))
            os.kill(victims[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    while not victims:
        stormy = ax.solve(problem, tol=1e-10)
    ended.set()
    thread.join()
    return {"killed": len(victims), "same": bool(np.array_equal(stormy.w, calm.w))}


def odd_blocks(path: str) -> dict[str, Any]:
    """Objective and features of the same rows in one block, beside empty ones, with late values."""
    whole = pa.Table.from_pandas(pd.read_parquet(path), preserve_index=False)
    empty = pa.table({name: pa.nulls(0) for name in whole.schema.names})
    late = whole.set_column(0, whole.schema.names[0], pa.nulls(len(whole)))
    found: dict[str, Any] = {}
    for name, tables in {
        "one": [whole],
        "empty": [empty, whole[:200], whole[:0], whole[200:]],
        "late": [late, whole],
    }.items():
        problem = from_ray(ray.data.from_arrow(tables), "bought", "region")
        objective = ax.solve(problem, gamma=1e-2, tol=1e-12).objective
        found[name] = {"objective": objective, "feature_names": problem.feature_names}
    try:
        from_ray(ray.data.from_arrow([empty]), "bought", "region")
    except InputError as error:
        found["nothing"] = {"objective": 0.0, "error": str(error)}
    return found


def bad(path: str) -> str:
    frame = pd.read_parquet(path)
    frame.loc[450, "income"] = np.nan
    dataset = ray.data.from_pandas([frame[:300], frame[300:]])
    try:
        from_ray(dataset, "bought", "region", ["income"], columns="plain")
    except InputError as error:
        return str(error)
    return "nothing"


if __name__ == "__main__":
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200_000_000,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    path = sys.argv[1]
    found = {"blocks": blocks(path), "bad": bad(path), "odd": odd_blocks(path), "killed": killed()}
    ray.shutdown()
    print(json.dumps(found))
