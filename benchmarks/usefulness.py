"""Does the robust model help the worst domain on rows not seen?

    python benchmarks/usefulness.py                                  # all tables: some hours
    python benchmarks/usefulness.py --tables compas-race titanic-class --splits 20 --jobs 2
    python benchmarks/usefulness.py --methods ordinary balanced "anymix" --markdown page.md
    python benchmarks/usefulness.py --further --methods ordinary balanced "anymix"   # 67 others

Each table (`judging/tables.py`) is split at random into training and test rows, 10 times or as
often as `--splits` says. Each method (`judging/methods.py`) learns from the training rows and is
judged on the test rows by its log loss, or by its squared error in units of the target's variance:

- L_k is the loss of domain k: the mean over its test rows, then over the splits.
- *worst* is max_k L_k with its domain, and *pooled* the mean over all test rows, then splits.
- *against ordinary* is worst − the ordinary model's worst, each on its own worst domain.
- *where ordinary is worst* is L_k − the ordinary model's L_k on the one domain on which the
  ordinary model is worst. That domain was chosen by its losses on these same rows, part of which
  is bad luck, so this column flatters every method that differs from the ordinary one.
- *accuracy* is the least over the domains, and the pooled one; a regression has none.
- *seconds* of one processor for one split: learning with all tuning, and predicting.

After ± stands a standard error: the standard deviation over the splits of the same difference in
one split (the domains fixed as above), divided by the square root of the number of splits. Both
models see the same rows, so what they share cancels. The splits draw from one table and overlap:
the errors speak of other splits of this table and are too small for rows from elsewhere.

Results are kept as JSON lines (`--results`, by default usefulness.jsonl in the folder `benchmarks`
of the data's cache), one for each table, split and method. What is there is not computed again, so
a run can be stopped, resumed and widened. After changing a method, name it after `--again`.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import json
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from judging.further import FURTHER
from judging.methods import METHODS, ORDINARY, log_loss, squared_error
from judging.tables import TABLES, load, split
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from anymix import datasets

Array = NDArray[np.float64]
Record = dict[str, Any]
Task = tuple[str, int, str]  # table, split, method

NOT_INSTALLED = "not installed"
OURS = "anymix"
ALL_METHODS = tuple(METHODS["classification"])


# Running -----------------------------------------------------------------------------------------


def judge(table: str, seed: int, method: str) -> Record:
    """One method on one split: its loss (and accuracy) on the test rows of every domain."""
    rows = split(load(table), seed)
    record: Record = {"table": table, "split": seed, "method": method, "kind": rows.kind}
    learn = METHODS[rows.kind][method]
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", ConvergenceWarning)
            answers = learn(rows.X, rows.y, rows.domains, rows.X_test, rows.domains_test)
    except ImportError:
        return record | {"error": NOT_INSTALLED}
    except Exception as error:  # one method's failure is a result, not the end of a long run
        return record | {"error": f"{type(error).__name__}: {error}"}
    record["seconds"] = time.process_time() - start
    record["warnings"] = sorted({str(one.message) for one in caught})
    classify = rows.kind == "classification"
    losses = (log_loss if classify else squared_error)(rows.y_test, answers)
    hits = (answers > 0.5) == (rows.y_test == 1) if classify else None
    return record | _by_domain(rows.domains_test, losses, hits)


def _by_domain(domains: NDArray[np.str_], losses: Array, hits: NDArray[np.bool_] | None) -> Record:
    names, k, sizes = np.unique(domains, return_inverse=True, return_counts=True)
    found: Record = {
        "domains": names.tolist(),
        "sizes": sizes.tolist(),
        "losses": (np.bincount(k, losses) / sizes).tolist(),
        "pooled": float(losses.mean()),
    }
    if hits is not None:
        found["accuracies"] = (np.bincount(k, hits) / sizes).tolist()
        found["pooled_accuracy"] = float(hits.mean())
    return found


def judge_all(tasks: Sequence[Task], jobs: int) -> Iterator[Record]:
    """The records of the tasks, as they become ready."""
    if jobs == 1:
        yield from (judge(*task) for task in tasks)
        return
    from joblib import Parallel, delayed

    run = Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from run(delayed(judge)(*task) for task in tasks)


def pending(
    tables: Iterable[str], splits: int, methods: Iterable[str], done: Iterable[Task]
) -> list[Task]:
    """What is to be computed: split after split of one table, so that it is loaded once."""
    known = set(done)
    tasks = ((t, s, m) for t in tables for s in range(splits) for m in methods)
    return [task for task in tasks if task not in known]


# Results -----------------------------------------------------------------------------------------


def read(file: Path) -> dict[Task, Record]:
    """The records in a file by their task; a half-written last line of a killed run is left out."""
    found: dict[Task, Record] = {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[record["table"], record["split"], record["method"]] = record
    return found


def run(
    file: Path,
    tables: Sequence[str],
    splits: int,
    methods: Sequence[str],
    jobs: int,
    again: set[str],
) -> dict[Task, Record]:
    """Compute what the file lacks, write it there line by line, and give all that was asked for."""
    records = read(file)
    good = (task for task, r in records.items() if "error" not in r and task[2] not in again)
    tasks = pending(tables, splits, methods, good)
    file.parent.mkdir(parents=True, exist_ok=True)
    _end_last_line(file)
    with file.open("a", encoding="utf-8") as out:
        for i, record in enumerate(judge_all(tasks, jobs), start=1):
            records[record["table"], record["split"], record["method"]] = record
            out.write(json.dumps(record) + "\n")
            out.flush()
            what = f"{record['table']}, split {record['split']}, {record['method']}"
            fault = f": {record['error']}" if "error" in record else ""
            print(f"[{i}/{len(tasks)}] {what}{fault}", flush=True)
    return {task: records[task] for task in pending(tables, splits, methods, ())}


def _end_last_line(file: Path) -> None:
    """A killed run may have left half a line, to which nothing must be appended."""
    if file.exists() and (data := file.read_bytes()) and not data.endswith(b"\n"):
        with file.open("ab") as out:
            out.write(b"\n")


# Judging -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judged:
    """A method on a table, over S splits and p domains.

    Attributes
    ----------
    losses : ndarray of shape (S, p)
        The loss of every domain in every split.
    pooled : ndarray of shape (S,)
        The mean loss of all test rows in every split.
    accuracies : ndarray of shape (S, p) or None
        The same for the accuracy.
    pooled_accuracy : float or None
        The mean over the splits.
    seconds : float
        The mean over the splits.
    """

    losses: Array
    pooled: Array
    accuracies: Array | None
    pooled_accuracy: float | None
    seconds: float

    @property
    def worst(self) -> int:
        """The domain of the largest mean loss."""
        return int(self.losses.mean(axis=0).argmax())


@dataclass(frozen=True)
class Difference:
    """A mean over splits and its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ± {self.error:.4f}"

    @property
    def is_clear(self) -> bool:
        """More than two standard errors."""
        return abs(self.mean) > 2 * self.error


def difference(method: Array, ordinary: Array) -> Difference:
    """Of two losses in each of S splits: mean and sd / √S of method − ordinary."""
    each = method - ordinary
    error = each.std(ddof=1) / math.sqrt(len(each)) if len(each) > 1 else math.nan
    return Difference(float(each.mean()), float(error))


def judged(records: Sequence[Record]) -> Judged:
    """One method's records of all splits of a table."""
    accuracies = [r["accuracies"] for r in records if "accuracies" in r]
    return Judged(
        np.array([r["losses"] for r in records]),
        np.array([r["pooled"] for r in records]),
        np.array(accuracies) if accuracies else None,
        float(np.mean([r["pooled_accuracy"] for r in records])) if accuracies else None,
        float(np.mean([r["seconds"] for r in records])),
    )


# The page ----------------------------------------------------------------------------------------

Rows = list[Sequence[str]]


def markdown(rows: Rows) -> str:
    """A table with its head, whose columns line up in a terminal, too."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


HEAD = (
    "method",
    "worst",
    "its domain",
    "against ordinary",
    "where ordinary is worst",
    "pooled",
    "accuracy",
    "pooled accuracy",
    "seconds",
)


def table_rows(records: dict[str, list[Record]], names: Sequence[str]) -> Rows:
    """A line for each method; an error instead of figures if it failed in any split."""
    found = {m: judged(rs) for m, rs in records.items() if not any("error" in r for r in rs)}
    ordinary = found.get(ORDINARY)
    rows: Rows = [HEAD]
    for method, rs in records.items():
        if method not in found:
            fault = next(r["error"] for r in rs if "error" in r)
            rows.append((method, fault.replace("|", "/")[:60], *[""] * (len(HEAD) - 2)))
            continue
        rows.append((method, *_cells(found[method], ordinary, names)))
    return rows


def _cells(j: Judged, ordinary: Judged | None, names: Sequence[str]) -> Iterator[str]:
    k = j.worst
    yield f"{j.losses[:, k].mean():.4f}"
    yield names[k]
    if ordinary is None or ordinary is j:
        yield from ("", "")
    else:
        k0 = ordinary.worst
        yield str(difference(j.losses[:, k], ordinary.losses[:, k0]))
        yield str(difference(j.losses[:, k0], ordinary.losses[:, k0]))
    yield f"{j.pooled.mean():.4f}"
    yield "–" if j.accuracies is None else f"{j.accuracies.mean(axis=0).min():.3f}"
    yield "–" if j.pooled_accuracy is None else f"{j.pooled_accuracy:.3f}"
    yield f"{j.seconds:.1f}"


SUMMARY_HEAD = (
    "method",
    "tables",
    "worst domain better",
    "worse",
    "above one error",
    "change of the worst loss",
    "of the pooled loss",
)


def summary_rows(tables: dict[str, dict[str, list[Record]]], methods: Sequence[str]) -> Rows:
    """Of each method: on how many tables it is clearly better or worse than ordinary.

    Changes are relative to the ordinary model's loss, their mean over the tables.
    """
    rows: Rows = [SUMMARY_HEAD]
    for method in methods:
        pairs = [
            (judged(of[method]), judged(of[ORDINARY]))
            for of in tables.values()
            if all(m in of and not any("error" in r for r in of[m]) for m in (method, ORDINARY))
        ]
        if method == ORDINARY or not pairs:
            continue
        worst = [(j.losses[:, j.worst], o.losses[:, o.worst]) for j, o in pairs]
        changes = [difference(a, b) for a, b in worst]
        clear = [d.mean for d in changes if d.is_clear]
        above = sum(d.mean > d.error for d in changes)
        change = np.mean([a.mean() / b.mean() - 1 for a, b in worst])
        pooled = np.mean([j.pooled.mean() / o.pooled.mean() - 1 for j, o in pairs])
        better, worse = sum(d < 0 for d in clear), sum(d > 0 for d in clear)
        counts = (str(len(pairs)), str(better), str(worse), str(above))
        rows.append((method, *counts, f"{100 * change:+.1f} %", f"{100 * pooled:+.1f} %"))
    return rows


BRIEF_HEAD = ("table", "domains", "ordinary, worst", OURS, "change of the pooled loss")


def brief_rows(tables: dict[str, dict[str, list[Record]]]) -> Rows:
    """A line for each data set: our worst loss against the ordinary model's, and the price."""
    rows: Rows = [BRIEF_HEAD]
    for table, of in tables.items():
        if any("error" in r for m in (OURS, ORDINARY) for r in of[m]):
            rows.append((table, *["failed"] * (len(BRIEF_HEAD) - 1)))
            continue
        j, o = judged(of[OURS]), judged(of[ORDINARY])
        change = difference(j.losses[:, j.worst], o.losses[:, o.worst])
        price = f"{100 * (j.pooled.mean() / o.pooled.mean() - 1):+.1f} %"
        worst = f"{o.losses[:, o.worst].mean():.4f}"
        rows.append((table, str(o.losses.shape[1]), worst, str(change), price))
    return rows


def page(records: dict[Task, Record], methods: Sequence[str], brief: bool = False) -> str:
    """The summary for each kind of table, then a table for each data set, or a line."""
    by_table: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for (table, _, method), record in records.items():
        by_table[table][method].append(record)
    parts = ["# Does the robust model help the worst domain on rows not seen?", _explained()]
    for kind in METHODS:
        of_kind = {t: of for t, of in by_table.items() if _kind(of) == kind}
        if of_kind and ORDINARY in methods:
            parts += [f"## Summary: {kind}", markdown(summary_rows(of_kind, methods))]
            if brief and OURS in methods:
                parts.append(markdown(brief_rows(of_kind)))
    if brief:
        return "\n\n".join(parts) + "\n"
    for table, of in by_table.items():
        names, sizes, splits = _domains(of)
        about = f"{splits} splits; test rows: " + ", ".join(
            f"{name} {n}" for name, n in zip(names, sizes, strict=True)
        )
        parts += [f"## {table}", f"{_kind(of)}, {about}.", markdown(table_rows(of, names))]
    return "\n\n".join(parts) + "\n"


def _explained() -> str:
    """What the columns mean, as the docstring of this file says it."""
    text = __doc__ or ""
    counts = "In a summary, better and worse count the tables on which *against ordinary* is below "
    counts += (
        "or above 0 by more than two standard errors, and *above one error* those on which it is "
    )
    counts += "above 0 by more than one; changes are means over the tables."
    return text[text.index("- L_k") : text.index("\n\nResults are")] + f"\n\n{counts}"


def _kind(of: dict[str, list[Record]]) -> str:
    return str(next(r["kind"] for records in of.values() for r in records))


def _domains(of: dict[str, list[Record]]) -> tuple[list[str], list[int], int]:
    """Names and sizes of the domains in the test rows, the same in each split; how many splits."""
    for records in of.values():
        for r in records:
            if "domains" in r:
                return r["domains"], r["sizes"], len(records)
    return [], [], 0


# The command -------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    about = (__doc__ or "").partition("\n")[0]
    p = argparse.ArgumentParser(description=about)
    known = {**TABLES, **FURTHER}
    which = p.add_mutually_exclusive_group()
    which.add_argument("--tables", nargs="+", choices=known, default=list(TABLES), metavar="TABLE")
    which.add_argument("--further", action="store_true", help="the further tables, a line for each")
    p.add_argument(
        "--methods", nargs="+", choices=ALL_METHODS, default=list(ALL_METHODS), metavar="METHOD"
    )
    p.add_argument("--splits", type=int, default=10)
    p.add_argument("--jobs", type=int, default=1, help="processes")
    p.add_argument("--results", type=Path, help="JSON lines to resume and to add to")
    p.add_argument("--again", nargs="+", choices=ALL_METHODS, default=[], metavar="METHOD")
    p.add_argument("--markdown", type=Path, metavar="FILE", help="write the page there, too")
    return p


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    cache = datasets.path("adult").parent / "benchmarks" / "usefulness.jsonl"
    records = run(
        options.results or cache,
        list(FURTHER) if options.further else options.tables,
        options.splits,
        options.methods,
        options.jobs,
        set(options.again),
    )
    text = page(records, options.methods, brief=options.further)
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
