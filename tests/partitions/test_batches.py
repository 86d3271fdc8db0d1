"""Rows that come in batches are the same problem as all rows in memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitions.tables_in_chunks import LOSSES, cut, table
from scipy import sparse

import anymix as ax
from anymix.errors import InputError
from anymix.partitions import from_batches
from anymix.partitions.chunks import read_chunk
from anymix.partitions.prefetch import in_order
from anymix.partitions.scanning import row_hash

TIGHT: dict[str, Any] = {"gamma": 1e-2, "tol": 1e-12}


@settings(max_examples=30)  # each is two solves
@given(
    st.sampled_from(sorted(LOSSES)),
    st.lists(st.integers(0, 40), max_size=8).map(sorted),
    st.integers(0, 50),
)
def test_any_chunks_give_the_objective_of_all_rows(name: str, ends: Any, seed: int) -> None:
    rows = table(name, n=40, seed=seed)
    problem = from_batches(cut(rows, ends), LOSSES[name])
    central = ax.solve(ax.LinearDomains(*rows, LOSSES[name]), **TIGHT)
    found = ax.solve(problem, **TIGHT)
    assert found.objective == pytest.approx(central.objective, abs=1e-10)
    assert found.certificate.gap <= 1e-10
    assert problem.domain_names.tolist() == ["a", "b", "c"]


CUTS: dict[str, Any] = {
    "one row a chunk": list(range(1, 60)),
    "one chunk": [],
    "empty chunks": [0, 0, 20, 20, 20, 40, 60],
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("ends", CUTS.values(), ids=CUTS)
def test_the_extremes_of_chunking(name: str, ends: Any) -> None:
    rows = table(name)
    central = ax.solve(ax.LinearDomains(*rows, LOSSES[name]), **TIGHT)
    found = ax.solve(from_batches(cut(rows, ends), LOSSES[name]), **TIGHT)
    assert found.objective == pytest.approx(central.objective, abs=1e-10)
    np.testing.assert_allclose(found.w, central.w, atol=1e-6)


def test_a_domain_in_one_chunk_only_and_a_class_that_comes_late() -> None:
    X, y, domains = table("three", n=90)
    order = np.lexsort((domains, y))  # the last class comes last, domains in stretches
    rows = X[order], y[order], domains[order]
    problem = from_batches(cut(rows, range(10, 90, 10)))
    central, found = (ax.solve(p, **TIGHT) for p in (ax.LinearDomains(X, y, domains), problem))
    assert problem.classes is not None
    assert problem.classes.tolist() == [0, 1, 2]
    assert found.objective == pytest.approx(central.objective, abs=1e-10)
    proof = ax.certify(problem, None, found.w, found.mixture, gamma=1e-2)
    assert proof.gap <= 1e-10
    far = ax.certify(problem, None, np.ones(len(found.w)), np.ones(3) / 3, gamma=1e-2)
    assert far.lower <= central.objective <= far.upper


@pytest.mark.parametrize("kind", ["weights", "sparse", "memberships", "no intercept"])
def test_all_kinds_of_chunks(kind: str) -> None:
    X, y, domains = table("binary")
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 4, size=60).astype(float) if kind == "weights" else None
    intercept = kind != "no intercept"
    given_X: Any = sparse.csr_array(X) if kind == "sparse" else X
    member: Any = rng.random((60, 2)) < 0.7 if kind == "memberships" else domains

    def chunks() -> Iterator[Any]:
        for i in range(0, 60, 7):
            part = slice(i, i + 7)
            yield given_X[part], y[part], member[part], None if weight is None else weight[part]

    whole = ax.LinearDomains(given_X, y, member, sample_weight=weight, intercept=intercept)
    problem = from_batches(chunks, intercept=intercept)
    np.testing.assert_allclose(problem.sizes, whole.sizes)
    central, found = (ax.solve(p, **TIGHT) for p in (whole, problem))
    assert found.objective == pytest.approx(central.objective, abs=1e-10)


def test_numbers_that_rounding_would_spoil_are_taken_in_good_units() -> None:
    X, y, domains = table("squared", n=300)
    rows = X * 1e-3 + [1e9, 0, 0], 1e6 * y + 1e8, domains
    whole = ax.LinearDomains(*rows, ax.SquaredError())
    problem = from_batches(cut(rows, range(50, 300, 50)), ax.SquaredError())
    central, found = (ax.solve(p, gamma=1e-4, tol=1e-9) for p in (whole, problem))
    assert found.objective == pytest.approx(central.objective, rel=1e-9)
    assert found.converged


def test_a_table_of_few_distinct_rows_is_solved_without_another_pass() -> None:
    rng = np.random.default_rng(0)
    X, domains = rng.integers(2, size=(5000, 3)).astype(float), rng.integers(3, size=5000)
    y = (X[:, 0] + rng.random(5000) > 0.9).astype(int)
    problem = from_batches(cut((X, y, domains), range(500, 5000, 500)))
    found = ax.solve(problem, **TIGHT)
    assert problem.n_passes == 1
    assert found.objective == pytest.approx(
        ax.solve(ax.LinearDomains(X, y, domains), **TIGHT).objective, abs=1e-10
    )


def test_few_passes() -> None:
    """A pass for the sample, one for the start, one a step; the proof is free or costs one."""
    rng = np.random.default_rng(0)
    n, d, p = 30_000, 8, 12
    X, domains = rng.normal(size=(n, d)), rng.integers(p, size=n)
    W = rng.normal(size=d) + 0.3 * rng.normal(size=(p, d))
    y = ((X * W[domains]).sum(axis=1) + rng.logistic(size=n) > 0).astype(int)
    problem = from_batches(cut((X, y, domains), range(4096, n, 4096)))
    found = ax.solve(problem)
    assert found.certificate.gap <= 1e-6
    assert problem.n_passes <= 2 + found.n_iter + 2 <= 12
    assert f"{problem.n_passes} passes" in repr(problem)
    passes = problem.n_passes
    front = ax.pareto_front(problem, robustness=[0.0, 0.5, 1.0])
    central = ax.pareto_front(ax.LinearDomains(X, y, domains), robustness=[0.0, 0.5, 1.0])
    np.testing.assert_allclose(front.fitted.worst, central.fitted.worst, atol=1e-4)
    assert front.domain_names.tolist() == list(range(p))
    assert problem.n_passes - passes <= 25


def test_the_memory_does_not_grow_with_the_rows() -> None:
    """Chunks are made on the fly; only a few of them are alive at any time."""
    alive, most = 0, 0
    lock = threading.Lock()

    class Counted(np.ndarray):
        def __del__(self) -> None:
            nonlocal alive
            with lock:
                alive -= bool(getattr(self, "counts", False))

    def chunks() -> Iterator[Any]:
        nonlocal alive, most
        rng = np.random.default_rng(0)
        for _ in range(60):
            X = rng.normal(size=(50, 2)).view(Counted)
            X.counts = True  # type: ignore[attr-defined]
            with lock:
                alive += 1
                most = max(most, alive)
            y = (np.asarray(X)[:, 0] > 0).astype(int)
            yield X, y, np.arange(50) % 2
            del X

    from_batches(chunks, threads=2)
    assert most <= 10


# -- what can go wrong -------------------------------------------------------------------------


def changing(changes: Any) -> Any:
    """Chunks that are others at the second pass."""
    rows, passes = table("binary"), iter(range(100))

    def chunks() -> Iterator[Any]:
        now = next(passes)
        for number, chunk in enumerate(cut(rows, [20, 40])()):
            yield changes(*chunk) if now and number == 1 else chunk

    return chunks


CHANGES: dict[str, Any] = {
    "a number": lambda X, y, d: (X + np.eye(20, 3) * 1e-9, y, d),
    "two labels": lambda X, y, d: (X, np.roll(y, 1), d),
    "a row less": lambda X, y, d: (X[1:], y[1:], d[1:]),
    "nothing left": lambda X, y, d: (X[:0], y[:0], d[:0]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_rows_that_change_between_passes_are_noticed(change: Any) -> None:
    problem = from_batches(changing(change))
    with pytest.raises(InputError, match=r"chunk 1 is not what the first pass saw"):
        ax.solve(problem)


def test_a_fingerprint_does_not_depend_on_where_the_numbers_are_in_memory() -> None:
    X, y, domains = table("squared", n=999, d=7)
    chunk = read_chunk((X, y, domains), ax.SquaredError())
    assert chunk is not None
    for shift in range(1, 64, 7):  # other alignments, as after a journey to another worker
        room = np.empty(X.nbytes + 64, dtype=np.uint8)
        moved = room[shift : shift + X.nbytes].view(np.float64) if shift % 8 == 0 else None
        moved = np.frombuffer(room, np.float64, X.size, 8 * (shift % 8)) if moved is None else moved
        there = moved.reshape(X.shape)
        there[:] = X
        assert replace(chunk, X=there).fingerprint == chunk.fingerprint
        assert replace(chunk, X=np.asfortranarray(X)).fingerprint == chunk.fingerprint
    assert replace(chunk, y=np.roll(y, 1)).fingerprint != chunk.fingerprint
    assert replace(chunk, X=X + 1e-15 * np.eye(999, 7)).fingerprint != chunk.fingerprint


def test_a_new_chunk_is_noticed() -> None:
    rows, passes = table("binary"), iter(range(100))

    def chunks() -> Iterator[Any]:
        yield from cut(rows, [30])()
        if next(passes):
            yield from cut(rows, [30])()

    problem = from_batches(chunks)
    with pytest.raises(InputError, match=r"chunk 2 is new: the first pass saw 2 chunks"):
        ax.solve(problem)


def test_a_chunk_that_is_gone_is_noticed() -> None:
    rows, passes = table("binary"), iter(range(100))

    def chunks() -> Iterator[Any]:
        whole = list(cut(rows, [30])())
        yield from whole[: 1 if next(passes) else 2]

    problem = from_batches(chunks)
    with pytest.raises(InputError, match=r"1 of 2 chunks"):
        ax.solve(problem)


BAD: dict[str, tuple[Any, str]] = {
    "other columns": (
        lambda X, y, d: (X[:, :2], y, d),
        r"chunk 2: X has 2 columns, but the chunks before have 3",
    ),
    "NaN": (
        lambda X, y, d: (np.where(np.arange(3) == 1, np.nan, X), y, d),
        r"chunk 2: X has 20 missing or infinite entries",
    ),
    "a label missing": (
        lambda X, y, d: (X, y, np.array([None, *d[1:]], dtype=object)),
        r"chunk 2: domains has missing entries",
    ),
    "no tuple": (lambda X, y, d: X, r"chunk 2 is a ndarray; give tuples"),
    "numbers for words": (
        lambda X, y, d: (X, np.arange(20), d),
        r"chunk 2: y has words in some chunks and numbers in others",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_a_bad_chunk_is_refused_by_its_number(change: Any, message: str) -> None:
    def chunks() -> Iterator[Any]:
        for number, chunk in enumerate(cut(table("binary"), [20, 40])()):
            yield change(*chunk) if number == 2 else chunk

    with pytest.raises(InputError, match=message):
        from_batches(chunks)


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="gives no chunk"):
        from_batches(lambda: iter([]))
    with pytest.raises(InputError, match="no rows in any chunk"):
        from_batches(lambda: iter([(np.zeros((0, 2)), [], [])]))
    with pytest.raises(InputError, match="make_iterator is a list"):
        from_batches([])  # type: ignore[arg-type]
    one = ([[0.0], [1.0]], [1, 1], ["a", "b"])
    with pytest.raises(InputError, match="y has one class only"):
        from_batches(lambda: iter([one]))
    with pytest.raises(InputError, match="classes lacks 1, which y has"):
        from_batches(lambda: iter([one]), classes=[0, 2])


def test_a_reader_that_fails_is_heard_and_its_thread_ends() -> None:
    def chunks() -> Iterator[Any]:
        yield from cut(table("binary"), [20, 40])()
        raise OSError("the cable is out")

    with pytest.raises(OSError, match="the cable is out"):
        from_batches(chunks)
    end = time.monotonic() + 20
    while any(t.name == "anymix-reader" for t in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_who_stops_early_ends_the_reading() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for i in range(1000):
            read.append(i)
            yield i

    for found in in_order(items(), lambda x: x, threads=2):
        if found == 3:
            break
    time.sleep(0.3)
    assert len(read) <= 12


SLEEPER = """
import time
from anymix.partitions import from_batches

def chunks():
    yield [[0.0], [1.0]], [0, 1], ["a", "b"]
    print("reading", flush=True)
    while True:
        time.sleep(0.01)

from_batches(chunks)
"""


def test_ctrl_c_ends_a_pass_whose_reader_waits_forever() -> None:
    source = str(Path(ax.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert said.rstrip().endswith("KeyboardInterrupt")


def test_a_hash_deals_rows_fairly_and_always_alike() -> None:
    keys = row_hash(np.arange(300_000))
    counts = np.bincount((keys % np.uint64(5)).astype(int))
    assert np.abs(counts / 60_000 - 1).max() < 0.02
    np.testing.assert_array_equal(keys[1000:1010], row_hash(np.arange(1000, 1010)))
    assert len(np.unique(keys)) == 300_000
