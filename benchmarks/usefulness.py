"""Which model serves the worst domain on new rows, and what do all rows pay?

    python benchmarks/usefulness.py run --tables quick --splits 2            # some minutes
    python benchmarks/usefulness.py run --tables 22 --splits 10 --jobs 2
    python benchmarks/usefulness.py run --tables 67 --splits 2 --jobs 2
    python benchmarks/usefulness.py run --tables 22 --splits 3 --learners balanced,groupdro
    python benchmarks/usefulness.py simulate --tables 200 --jobs 2
    python benchmarks/usefulness.py page > page.md

Each table (`judging/tables.py`, 67 more in `judging/further.py`) is split at random into training
and test rows. One fit of the flagship per table and split gives the columns linear, trees, blend,
each with the domain, ours without, inferring and knowing the domain, and ours adapted to 50
unlabelled rows of a domain or 100 of a random mixture (`judging/learners.py`). The rows drawn
without their labels are among those tested. `balanced`, `groupdro`, `fairlearn` and `mcgrad` are
fits of their own (`judging/methods.py`); version 0.2's default is in `results/0.2.csv`.

The losses of all test rows are kept by table, split and learner in the folder `usefulness` of the
data's cache, or `--results`; a run that was stopped goes on where it was. Splits are run in
turn over all tables, so that an unfinished run speaks of all of them. The page is made of what is
there and says how many states of the code it comes from; `run --current` computes again what
another state of the code has left.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import multiprocessing
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from judging import learners, results, simulated
from judging.figures import Table, combined
from judging.further import FURTHER
from judging.page import add_earlier, page
from judging.results import Result, Task
from judging.tables import TABLES

from anymix import datasets

QUICK = (
    "adult-doctorate",
    "german-age-sex",
    "credit-job",
    "diamonds-clarity",
    "exams-school",
    "salaries-country",
)
SIMULATING = "candidates"  # the learner of simulated tables


# Running -----------------------------------------------------------------------------------------


def tasks(tables: Iterable[str], splits: int, names: Iterable[str]) -> list[Task]:
    """Split by split, so that what is done first covers all tables."""
    tables, names = list(tables), list(names)
    return [(t, s, learner) for s in range(splits) for learner in names for t in tables]


def pending(folder: Path, wanted: Iterable[Task], current: bool) -> list[Task]:
    """Tasks without a result; with `current` also those of another state of the code."""

    def is_there(task: Task) -> bool:
        found = results.load(folder, task)
        return found is not None and (not current or found.code == results.state_of_code())

    return [task for task in wanted if not is_there(task)]


def work(folder: Path, task: Task) -> str:
    """Do one task and keep its result; a line about it."""
    start, cpu = time.perf_counter(), time.process_time()
    table, split, learner = task
    what = f"{table}, split {split}, {learner}"
    try:
        result = learners.learn(task)
        results.save(folder, task, result)
    except Exception:  # one failure is reported; a long run goes on
        return f"{what}: FAILED\n{traceback.format_exc()}"
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    fit = float(result.facts["seconds"])
    return f"{what}: {wall:.1f} s, CPU {cpu:.1f} s, of it {fit:.1f} s to fit"


def run(folder: Path, wanted: Sequence[Task], jobs: int, current: bool = False) -> bool:
    """Do what is not done; did all go well?"""
    left = pending(folder, wanted, current)
    print(f"{len(wanted) - len(left)} of {len(wanted)} are there", flush=True)
    well = True
    for i, line in enumerate(_lines(folder, left, jobs), start=1):
        well &= "FAILED" not in line
        print(f"[{i}/{len(left)}] {line}", flush=True)
    return well


def _lines(folder: Path, left: Sequence[Task], jobs: int) -> Iterator[str]:
    if jobs == 1:
        yield from (work(folder, task) for task in left)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent) as pool:
        futures = [pool.submit(work, folder, task) for task in left]
        try:
            yield from (future.result() for future in as_completed(futures))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Idle workers would outlive a killed run: they hold both ends of their queue."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


# Reading -----------------------------------------------------------------------------------------


def found(folder: Path, table: str, learner: str) -> dict[int, Result]:
    """The results of a learner on a table, by split."""
    of: dict[int, Result] = {}
    for file in (folder / learner).glob(f"{table}__*.npz"):
        split = int(file.stem.rpartition("__")[2])
        if (result := results.load(folder, (table, split, learner))) is not None:
            of[split] = result
    return dict(sorted(of.items()))


def tables_of(folder: Path, names: Iterable[str]) -> list[Table]:
    """The tables that the flagship was fitted to, with the columns of all learners."""
    of = [n for n in learners.LEARNERS if n != SIMULATING]
    every = (combined(t, {n: found(folder, t, n) for n in of}) for t in names)
    tables = [table for table in every if table is not None]
    add_earlier(tables)
    return tables


# The command -------------------------------------------------------------------------------------


def named(text: str) -> list[str]:
    """Tables by the name of a group, or their own names."""
    groups = {"22": list(TABLES), "67": list(FURTHER), "quick": list(QUICK)}
    names = [name for part in text.split(",") for name in groups.get(part, [part])]
    known = {*TABLES, *FURTHER}
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"no table {', '.join(unknown)}")
    return names


def learners_named(text: str) -> list[str]:
    """Learners, separated by commas."""
    names = text.split(",")
    known = [name for name in learners.LEARNERS if name != SIMULATING]
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"no {', '.join(unknown)} among {', '.join(known)}")
    return names


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = p.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="fit to tables")
    run.add_argument("--tables", type=named, default=named("22"), help="22, 67, quick or names")
    run.add_argument("--splits", type=int, default=10)
    run.add_argument("--learners", type=learners_named, default=["anymix", "balanced"])
    simulate = verbs.add_parser("simulate", help="fit to simulated tables")
    simulate.add_argument(
        "--tables", type=int, default=200, help="with one law, and as many with one that differs"
    )
    for verb in (run, simulate):
        verb.add_argument("--jobs", type=int, default=1, help="processes")
        verb.add_argument("--current", action="store_true", help="of this state of the code only")
    for verb in (run, simulate, verbs.add_parser("page", help="print the figures")):
        verb.add_argument("--results", type=Path, help="folder to resume and to add to")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    folder = options.results or datasets.path("adult").parent / "benchmarks" / "usefulness"
    if options.verb == "page":
        groups = {"22": tables_of(folder, TABLES), "67": tables_of(folder, FURTHER)}
        laws = {law: list(found(folder, law, SIMULATING).values()) for law in simulated.LAWS}
        print(page(groups, laws))
        return 0
    if options.verb == "simulate":
        one, half = options.tables, (options.tables + 1) // 2
        counts = {simulated.ONE_LAW: one, simulated.TELLING: one - half, simulated.SILENT: half}
        wanted = [
            (law, i, SIMULATING) for i in range(one) for law, count in counts.items() if i < count
        ]
    else:
        wanted = tasks(options.tables, options.splits, options.learners)
    return 0 if run(folder, wanted, options.jobs, options.current) else 1


if __name__ == "__main__":
    sys.exit(main())
