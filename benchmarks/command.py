"""`anymix fit` on a million rows: time, and memory against the size of the file.

    python benchmarks/command.py [--rows N] [--only NAME] [--json FILE]

Memory is the peak of the process less that of the same command on 1,000 rows, which is what
Python and its libraries take. Targets: at most 4 times the file, at most 60 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def fit(table: Path, target: str, domain: str) -> tuple[float, float]:
    """Seconds and peak memory, in 2²⁰ bytes, of one command.

    The process reads its own peak: what the system reports of a child counts its parent's too.
    """
    words = ["fit", str(table), "-t", target, "-d", domain, "--quiet"]
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    start = time.perf_counter()
    peak = subprocess.check_output(
        [sys.executable, "-c", SCRIPT, *words], env=os.environ | one_thread, text=True
    )
    return time.perf_counter() - start, int(peak) / 1024


def adult(rows: int) -> Any:
    """Adult's 15 columns, its rows drawn again and again; `fnlwgt` is made to differ."""
    rng = np.random.default_rng(0)
    data = datasets.load_adult(features="all", domain="sex", drop=(), as_frame=True, progress=False)
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
    large, small = folder / "large.csv", folder / "small.csv"
    make(rows).to_csv(large, index=False)
    make(1000).to_csv(small, index=False)
    _, base = fit(small, "income", "sex")
    seconds, peak = fit(large, "income", "sex")
    size, memory = large.stat().st_size / 2**20, peak - base
    return {"file": size, "seconds": seconds, "memory": memory, "ratio": memory / size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["adult", "narrow"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    table = Table(title=f"anymix fit, {arguments.rows:,} rows")
    for head in ("table", "file, MB", "seconds", "memory, MB", "memory/file"):
        table.add_column(head, justify="right")
    results = {}
    for make in (adult, narrow):
        if arguments.only not in (None, make.__name__):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = measure(make, arguments.rows, Path(folder))
        results[make.__name__] = found
        numbers = (f"{found[key]:.1f}" for key in ("file", "seconds", "memory", "ratio"))
        table.add_row(make.__name__, *numbers)
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
