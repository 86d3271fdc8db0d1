"""A real Dask cluster of two processes, also when one of them is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from partitions.tables_in_chunks import LOSSES, table
from partitions.test_parquet_files import in_memory, people

import anymix as ax
from anymix.errors import InputError
from anymix.partitions import from_dask
from anymix.partitions.on_dask import places, together

TIGHT: dict[str, Any] = {"gamma": 1e-2, "tol": 1e-12}


def arrays(rows: Any, size: int = 20) -> tuple[Any, ...]:
    return tuple(da.from_array(a, chunks=(size,) + (-1,) * (a.ndim - 1)) for a in rows)


@pytest.mark.parametrize("name", LOSSES)
def test_arrays_are_the_same_problem(name: str) -> None:
    rows = table(name)
    central = ax.solve(ax.LinearDomains(*rows, LOSSES[name]), **TIGHT)
    X, y, domains = arrays(rows)
    with dask.config.set(scheduler="synchronous"):
        for given in ((X, y, domains), (X.rechunk((7, 2)), rows[1], rows[2])):
            problem = from_dask(*given, loss=LOSSES[name])
            found = ax.solve(problem, **TIGHT)
            assert found.objective == pytest.approx(central.objective, abs=1e-10)


def test_blocks_of_unknown_length() -> None:
    X, y, domains = table("binary")
    keep = X[:, 0] > -0.5
    lazy = arrays((X, y, domains))
    mask = da.from_array(keep, chunks=20)
    with dask.config.set(scheduler="synchronous"):
        problem = from_dask(*(a[mask] for a in lazy))
        assert problem.n_rows == int(keep.sum())


def test_frames_are_the_same_problem(tmp_path: Path) -> None:
    frame = people(600)
    whole, features = in_memory(frame, tmp_path / "a.parquet")
    with dask.config.set(scheduler="synchronous"):
        problem = from_dask(dd.from_pandas(frame, npartitions=4), "bought", "region")
        assert problem.feature_names == features.titles
        found = ax.solve(problem, **TIGHT)
    assert found.objective == pytest.approx(ax.solve(whole, **TIGHT).objective, abs=1e-10)


def test_bad_parts_are_refused_by_their_number() -> None:
    X, y, domains = table("binary")
    X[45, 1] = np.nan
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(InputError, match=r"part 2: X has 1 missing or infinite"):
            from_dask(*arrays((X, y, domains)))
        with pytest.raises(InputError, match=r"y has 59 rows but X has 60"):
            from_dask(arrays((X,))[0], y[1:], domains)
        with pytest.raises(InputError, match=r"data is a ndarray"):
            from_dask(X, y, domains)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": 10,
        "distributed.admin.large-graph-warning-threshold": "1GB",
        "distributed.comm.timeouts.connect": "300s",  # a busy machine starts processes slowly
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster, timeout=300) as client,
    ):
        yield client


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.dask)])
def test_two_processes_that_are_killed_give_the_same_bits(client: Any, count: int) -> None:
    """One or both are killed with -9 between two passes: their parts are made again."""
    client.wait_for_workers(2)
    rng = np.random.default_rng(0)
    n = 4000
    X, domains = rng.normal(size=(n, 3)), rng.integers(4, size=n)
    y = (X[:, 0] * (domains - 1.5) + rng.logistic(size=n) > 0).astype(int)
    rows = X, y, domains
    calm = ax.solve(from_dask(*arrays(rows, 500)), **TIGHT)
    central = ax.solve(ax.LinearDomains(*rows), **TIGHT)
    assert calm.objective == pytest.approx(central.objective, abs=1e-10)

    problem = from_dask(*arrays(rows, 500))
    asked, passes = problem._ask, iter(range(1000))

    def killing(questions: Any) -> Any:
        if next(passes) == 1:
            for pid in list(client.run(os.getpid).values())[:count]:
                os.kill(pid, signal.SIGKILL)
        return asked(questions)

    problem._ask = killing
    stormy = ax.solve(problem, **TIGHT)
    assert next(passes) > 2
    np.testing.assert_array_equal(stormy.w, calm.w)
    np.testing.assert_array_equal(stormy.mixture, calm.mixture)
    assert stormy.certificate == calm.certificate


def test_a_pass_is_one_task_for_each_thread_with_all_parts_of_its_worker() -> None:
    there = [["a"], ["b"], ["a", "b"], [], ["b"], ["gone"], ["b"]]
    groups = together(there, ["a", "b", "b"])
    assert groups == [[0, 2], [1, 6], [3], [4], [5]]
    assert together([], ["a"]) == []


@pytest.mark.dask
def test_parts_are_dealt_out_evenly(client: Any) -> None:
    client.wait_for_workers(2)
    for size in (3, 6):  # 20 parts, and 10
        kept: Any = from_dask(*arrays(table("binary"), size))._visit
        held = [min(workers) for workers in places(kept.chunks)]
        assert [held.count(worker) for worker in sorted(set(held))] == [30 // size, 30 // size]


@pytest.mark.dask
def test_a_worker_is_killed_while_it_sums(client: Any) -> None:
    """In the middle of passes, several times, by another thread."""
    import threading
    import time

    rng = np.random.default_rng(1)
    n = 400_000
    X, domains = rng.normal(size=(n, 20)), rng.integers(6, size=n)
    y = (X[:, 0] * (domains - 2) + rng.logistic(size=n) > 0).astype(int)
    lazy = arrays((X, y, domains), 20_000)
    calm = ax.solve(from_dask(*lazy), tol=1e-9)
    problem, ended, kills = from_dask(*lazy), threading.Event(), list[Any]()

    def kill() -> None:
        while not ended.wait(0.5):
            if len(kills) < 3:
                pids = list(client.run(os.getpid, on_error="ignore").values())
                if pids:
                    os.kill(pids[len(kills) % len(pids)], signal.SIGKILL)
                    kills.append(pids)
                time.sleep(2)

    thread = threading.Thread(target=kill)
    thread.start()
    while not kills:
        stormy = ax.solve(problem, tol=1e-9)
    ended.set()
    thread.join()
    np.testing.assert_array_equal(stormy.w, calm.w)
