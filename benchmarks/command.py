"""`anymix fit`: time on a table of 7,000 rows, time and memory on a million rows.

    python benchmarks/command.py [--rows N] [--only NAME] [--repeat N] [--against SRC] [--json FILE]

`compas` has 7,000 rows, 6 domains and 11 columns of numbers, words and gaps: seconds of CPU and of
the clock, the median of several runs. `--against` names the `src` folder of another version, whose
runs are made in turn with ours; target: at most 0.6 times its seconds.

`adult` and `narrow` have a million rows. Memory is the peak of the process less that of the same
command on 1,000 rows, which is what Python and its libraries take. Targets: at most 4 times the
file, at most 60 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from anymix import datasets

SCRIPT = """
import pathlib, re
from anymix.cli import app
app(standalone_mode=False)
print(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
"""


class Run(NamedTuple):
    """One command: seconds by the clock, seconds of CPU, and peak memory in 2²⁰ bytes."""

    wall: float
    cpu: float
    peak: float


def fit(table: Path, target: str, domain: str, source: Path | None = None) -> Run:
    """Run the command, of another version if its source is given.

    The process reads its own peak: what the system reports of a child counts its parent's too.
    """
    words = ["fit", str(table), "-t", target, "-d", domain, "--model", "linear", "--quiet"]
    more = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    if source is not None:
        more["PYTHONPATH"] = str(source)
    # an installed package has its byte code, so the first run writes it and does not count
    more |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(table.parent / "bytecode")}
    start, before = time.perf_counter(), _cpu()
    peak = subprocess.check_output(
        [sys.executable, "-c", SCRIPT, *words], env=os.environ | more, text=True
    )
    return Run(time.perf_counter() - start, _cpu() - before, int(peak) / 1024)


def _cpu() -> float:
    """Seconds that the children so far have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compas(rows: int) -> Any:
    """A table of the kind people audit: six domains, two of them small, and a column with gaps."""
    rng = np.random.default_rng(0)
    race = ["African-American", "Caucasian", "Hispanic", "Other", "Asian", "Native American"]
    columns = {
        "race": rng.choice(race, rows, p=[0.51, 0.34, 0.08, 0.05, 0.012, 0.008]),
        "sex": rng.choice(["Male", "Female"], rows, p=[0.8, 0.2]),
        "age": rng.integers(18, 80, rows),
        "priors": rng.poisson(3, rows),
        **{f"juvenile {k}": rng.poisson(0.1, rows) for k in range(3)},
        "degree": rng.choice(["F", "M"], rows),
        "days": np.where(rng.random(rows) < 0.05, np.nan, rng.normal(50, 30, rows).round(1)),
        "charge": rng.choice([f"charge {k}" for k in range(60)], rows),
        "city": rng.choice(list("abcd"), rows),
    }
    z = 0.2 * columns["priors"] - 0.04 * (columns["age"] - 35) + 0.3 * (columns["sex"] == "Male")
    z = z - 0.24 * columns["priors"] * (columns["race"] == "Asian") - 0.4
    return pd.DataFrame(columns).assign(again=(z + rng.logistic(size=rows) > 0).astype(int))


def adult(rows: int) -> Any:
    """Adult's 15 columns, its rows drawn again and again; `fnlwgt` is made to differ."""
    rng = np.random.default_rng(0)
    options: Any = {"domains": "sex", "drop": (), "as_frame": True, "progress": False}
    data = datasets.load_adult(features="all", **options)
    drawn = rng.integers(0, len(data.y), rows)
    frame = data.X.iloc[drawn].assign(income=np.where(data.y == 1, ">50K", "<=50K")[drawn])
    return frame.assign(fnlwgt=frame["fnlwgt"] + rng.integers(-9000, 9000, rows))


def narrow(rows: int) -> Any:
    """Short numbers and words: 68 bytes a row, a hard case for memory."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 5)).round(4)
    sex = rng.choice(["F", "M", "X"], rows, p=[0.55, 0.4, 0.05])
    z = x[:, 0] + np.where(sex == "X", -1, 1) * x[:, 1] + rng.logistic(size=rows)
    return pd.DataFrame(
        {
            "sex": sex,
            "age": rng.integers(18, 90, rows),
            **{f"x{j}": x[:, j] for j in range(5)},
            "job": rng.choice(["clerk", "driver", "teacher", "nurse", "engineer"], rows),
            "city": rng.choice([f"city {i}" for i in range(40)], rows),
            "device": rng.choice(["phone", "tablet", "desktop"], rows),
            "income": np.where(z > 0, "high", "low"),
        }
    )


def measure(make: Any, rows: int, folder: Path) -> dict[str, float]:
    """Time and memory of a large table."""
    large, small = folder / "large.csv", folder / "small.csv"
    make(rows).to_csv(large, index=False)
    make(1000).to_csv(small, index=False)
    base = fit(small, "income", "sex").peak
    found = fit(large, "income", "sex")
    size, memory = large.stat().st_size / 2**20, found.peak - base
    ratio = memory / size
    return {"file": size, "seconds": found.wall, "cpu": found.cpu, "memory": memory, "ratio": ratio}


def measure_small(repeat: int, against: Path | None, folder: Path) -> dict[str, float]:
    """Time of a small table, ours and another version's in turn; the first runs do not count."""
    path = folder / "compas.csv"
    compas(7000).to_csv(path, index=False)
    sources = [None] if against is None else [None, against]
    runs = [[fit(path, "again", "race", source) for source in sources] for _ in range(repeat + 1)]
    medians = [
        (statistics.median(r.wall for r in column), statistics.median(r.cpu for r in column))
        for column in zip(*runs[1:], strict=True)
    ]
    found = {"seconds": medians[0][0], "cpu": medians[0][1]}
    if against is not None:
        found["seconds of the other"], found["cpu of the other"] = medians[1]
        found["ratio of seconds"] = medians[0][0] / medians[1][0]
        found["ratio of cpu"] = medians[0][1] / medians[1][1]
    return found


def show(title: str, results: dict[str, dict[str, float]]) -> None:
    columns = list(next(iter(results.values())))
    table = Table(title=title)
    for head in ("table", *columns):
        table.add_column(head, justify="right")
    for name, found in results.items():
        table.add_row(name, *(f"{found[key]:.2f}" for key in columns))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["compas", "adult", "narrow"])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    chosen = [arguments.only] if arguments.only else ["compas", "adult", "narrow"]
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        if "compas" in chosen:
            found = measure_small(arguments.repeat, arguments.against, Path(folder))
            results["compas"] = found
            show("anymix fit, 7,000 rows", {"compas": found})
        large = {
            make.__name__: measure(make, arguments.rows, Path(folder))
            for make in (adult, narrow)
            if make.__name__ in chosen
        }
    if large:
        show(f"anymix fit, {arguments.rows:,} rows (MB)", large)
    if arguments.json:
        arguments.json.write_text(json.dumps(results | large, indent=2))


if __name__ == "__main__":
    main()
