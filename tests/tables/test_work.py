"""`fit_table` does no work twice: what is read, learnt, built and merged is counted."""

import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from people import shop

from anymix.problem import linear, membership, rows
from anymix.problem.linear import LinearDomains
from anymix.solvers.paths import Path
from anymix.tables import fitting, labels, preparing
from anymix.tables.columns import Features


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each step of the work is done."""
    counts: Counter[str] = Counter()

    def watch(owner: Any, name: str, title: str) -> None:
        work = getattr(owner, name)

        def watched(*args: Any, **options: Any) -> Any:
            counts[title] += 1
            return work(*args, **options)

        monkeypatch.setattr(owner, name, watched)

    watch(labels, "encode", "encode")
    watch(membership, "read_domains", "read again")
    watch(rows, "targets", "read again")
    watch(preparing, "domain_codes", "domains")
    watch(preparing, "target_column", "targets")
    watch(Features, "learn", "learn")
    watch(rows, "_problem", "problems")
    watch(LinearDomains, "__init__", "read again")
    watch(linear, "merge", "merged")
    watch(Path, "model", "models")
    return counts


def words(n: int = 600) -> Any:
    """A table of categories alone, whose equal rows are merged."""
    frame = shop(n)
    return frame[["city", "region", "bought"]].assign(old=np.where(frame["age"] > 40, "yes", "no"))


def test_a_table_in_folds(counted: Counter[str]) -> None:
    fitting.fit_table(words(), "bought", ["region"])
    parts = 5
    assert counted["domains"] == counted["targets"] == 1
    assert counted["encode"] == 0  # these are categories already
    assert counted["learn"] == parts + 1  # and once from all rows
    folds = 5  # of one choice, which the parts share
    known = 2 * folds + parts  # with the domain: intercepts, slopes; then the better of them
    assert counted["problems"] == folds + parts + 1 + known
    assert counted["read again"] == 0
    assert counted["merged"] <= folds + parts + 1 + known
    gammas = 3 * 11 * folds  # of γ₀ without the domain, with intercepts, with slopes
    assert (
        counted["models"] <= gammas + 4 * 5 * folds + 3 * folds + 5 * folds
    )  # candidates, between


def test_a_table_with_a_share_held_out(counted: Counter[str]) -> None:
    fitting.fit_table(words(), "bought", ["region"], evaluation=0.25, gamma=0.1)
    assert counted["learn"] == 2
    assert counted["problems"] == 5 + 2 + 1  # folds, the part without and with domain, all rows
    assert counted["domains"] == counted["targets"] == 1


def test_a_table_and_a_test_table_are_fitted_once(counted: Counter[str]) -> None:
    fitting.fit_table(words(), "bought", ["region"], evaluation=words(300), gamma=0.1)
    assert counted["learn"] == 1
    assert counted["problems"] == 5 + 2 + 1
    assert counted["domains"] == 2  # of both tables


@pytest.mark.parametrize(
    ("work", "unneeded"),
    [
        ("anymix.audit(['a', 'b'] * 9, ['a'] * 18, [1, 2, 2] * 6)", {"sklearn", "numba"}),
        # Numba has a task here: the intervals of losses are found by bets on each row.
        ("fit_table(shop(100), 'bought', ['region'])", {"sklearn", "anymix.solvers.stochastic"}),
    ],
)
def test_no_table_loads_what_it_does_not_need(work: str, unneeded: set[str]) -> None:
    """scikit-learn takes longer to load than all the rest together."""
    script = (
        "import sys, anymix; from people import shop; from anymix.tables.fitting import fit_table; "
        f"{work}; sys.exit(bool({unneeded} & set(sys.modules)))"
    )
    path = [entry for entry in sys.path if entry]
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}; {script}"], check=True
    )
