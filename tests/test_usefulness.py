"""benchmarks/usefulness.py: splits are fair, figures are what they say, a stopped run goes on."""

import importlib
import json
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anymix.tables import fit_table

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
QUICK = ["constant", "ordinary", "ordinary, with domain", "balanced", "anymix"]


def tiny(n: int, seed: int) -> tuple[pd.DataFrame, Any, Any]:
    """Two thirds of the rows are of "many", where x helps; in "few" it misleads."""
    rng = np.random.default_rng(seed)
    domains = np.where(np.arange(n) % 3 == 0, "few", "many")
    x, noise = rng.normal(size=(2, n))
    score = np.where(domains == "few", -0.5, 2.0) * x + noise
    return pd.DataFrame({"x": 5 + 3 * x, "c": rng.choice(["a", "b"], n)}), score, domains


def tiny_classes() -> tuple[pd.DataFrame, Any, Any]:
    X, score, domains = tiny(240, 0)
    return X, score > 0, domains


@pytest.fixture
def usefulness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The benchmark with two tables of its own."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("usefulness")
    monkeypatch.setitem(module.TABLES, "classes", ("classification", tiny_classes))
    monkeypatch.setitem(module.TABLES, "numbers", ("regression", lambda: tiny(240, 1)))
    module.load.cache_clear()
    yield module
    module.load.cache_clear()
    for name in [n for n in sys.modules if n == "usefulness" or n.partition(".")[0] == "judging"]:
        del sys.modules[name]


def main(usefulness: Any, folder: Path, *options: str, methods: list[str]) -> list[dict[str, Any]]:
    """Run two splits of both tables; gives the whole lines in the file of results."""
    file = folder / "results.jsonl"
    what = ["--tables", "classes", "numbers", "--splits", "2", "--results", str(file)]
    usefulness.main([*what, "--methods", *methods, *options])
    lines = file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def cells(page: str, table: str) -> dict[str, list[str]]:
    """The cells of every method's row under a heading."""
    part = page.split(f"## {table}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows[1:]}


def test_figures_are_those_of_the_splits(
    usefulness: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = main(usefulness, tmp_path, "--markdown", str(tmp_path / "page.md"), methods=QUICK)
    assert len(lines) == 2 * 2 * len(QUICK)
    assert not any("error" in line for line in lines)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert page in capsys.readouterr().out

    # The constant model's losses by hand, domain by domain and split by split.
    of: dict[str, list[float]] = {"few": [], "many": []}
    for seed in range(2):
        rows = usefulness.split(usefulness.load("classes"), seed)
        p = rows.y.mean()
        for name, losses in of.items():
            y = rows.y_test[rows.domains_test == name]
            losses.append(statistics.mean(-math.log(p if one else 1 - p) for one in y))
    worst = max(of, key=lambda name: statistics.mean(of[name]))
    row = cells(page, "classes")["constant"]
    assert row[:2] == [f"{statistics.mean(of[worst]):.4f}", worst]

    ordinary = [line for line in lines if line["method"] == "ordinary"][:2]
    assert ordinary[0]["table"] == "classes"
    theirs = {k: [line["losses"][i] for line in ordinary] for i, k in enumerate(("few", "many"))}
    bad = max(theirs, key=lambda name: statistics.mean(theirs[name]))
    assert bad == "few"  # where x misleads
    for cell, name in ((row[2], worst), (row[3], bad)):
        each = [a - b for a, b in zip(of[name], theirs[bad], strict=True)]
        error = statistics.stdev(each) / 2**0.5
        assert cell == f"{statistics.mean(each):+.4f} ± {error:.4f}"
    assert cells(page, "classes")["ordinary"][2:4] == ["", ""]
    assert cells(page, "numbers")["constant"][5] == "–"  # no accuracy
    assert float(cells(page, "numbers")["constant"][4]) == pytest.approx(1, abs=0.3)
    assert set(cells(page, "Summary: regression")) == set(QUICK) - {"ordinary"}


def test_of_further_tables_there_is_a_line_each(
    usefulness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the figures of the page that has a table for each."""
    monkeypatch.setattr(usefulness, "FURTHER", {"classes": None, "numbers": None})
    methods, file = ["ordinary", "anymix"], tmp_path / "page.md"
    main(usefulness, tmp_path, "--markdown", str(file), methods=methods)
    whole = file.read_text(encoding="utf-8")
    results = ["--results", str(tmp_path / "results.jsonl"), "--splits", "2"]
    usefulness.main(["--further", *results, "--methods", *methods, "--markdown", str(file)])
    brief = file.read_text(encoding="utf-8")
    assert "\n## classes" not in brief
    for table in ("classes", "numbers"):
        row = next(line for line in brief.splitlines() if line.startswith(f"| {table}"))
        _, p, worst, change, price = (cell.strip() for cell in row.strip("|").split("|"))
        found = cells(whole, table)
        assert (p, worst, change) == ("2", found["ordinary"][0], found["anymix"][2])
        pooled = float(found["anymix"][4]) / float(found["ordinary"][4]) - 1
        assert float(price.removesuffix(" %")) == pytest.approx(100 * pooled, abs=0.1)


def test_a_stopped_run_goes_on(usefulness: Any, tmp_path: Path) -> None:
    file, both = tmp_path / "results.jsonl", ["constant", "ordinary"]
    first = main(usefulness, tmp_path, methods=["constant"])
    assert len(first) == 4
    text = file.read_text(encoding="utf-8")
    file.write_text(text[:-20], encoding="utf-8")  # killed while it wrote the last line
    again = main(usefulness, tmp_path, methods=["constant"])
    assert [line["losses"] for line in again] == [line["losses"] for line in first]
    assert file.read_text(encoding="utf-8").startswith(text[:-20] + "\n")  # the rest was kept

    assert len(main(usefulness, tmp_path, methods=both)) == 4 + 4
    assert len(main(usefulness, tmp_path, methods=both)) == 8  # nothing is computed twice
    assert len(main(usefulness, tmp_path, "--again", "constant", methods=both)) == 8 + 4


def test_a_method_that_fails_is_a_row(
    usefulness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*rows: object) -> object:
        raise ImportError("no such package")

    def broken(*rows: object) -> object:
        raise ValueError("too | bad")

    for of_kind in usefulness.METHODS.values():
        monkeypatch.setitem(of_kind, "fairlearn", missing)
        monkeypatch.setitem(of_kind, "balanced", broken)
    methods = ["ordinary", "fairlearn", "balanced"]
    page = tmp_path / "page.md"
    assert len(main(usefulness, tmp_path, "--markdown", str(page), methods=methods)) == 12
    found = cells(page.read_text(encoding="utf-8"), "numbers")
    assert found["fairlearn"][0] == "not installed"
    assert found["balanced"][0] == "ValueError: too / bad"
    # A failure is tried again, a result is not.
    assert len(main(usefulness, tmp_path, methods=methods)) == 12 + 8


# Tables ------------------------------------------------------------------------------------------


def table(tables: Any, n: int, kind: str = "classification") -> Any:
    X, score, domains = tiny(n, 2)
    y = score if kind == "regression" else (score > 0).astype(float)
    return tables.Table("made up", kind, X, y, domains)


@pytest.mark.parametrize(("n", "n_train", "n_test"), [(300, 200, 100), (30_000, 6_000, 20_000)])
def test_splits_keep_the_mixture(usefulness: Any, n: int, n_train: int, n_test: int) -> None:
    tables = importlib.import_module("judging.tables")
    made = table(tables, n)
    train, test = tables._draw(made.domains, np.random.default_rng(0))
    assert (len(train), len(test)) == (n_train, n_test)
    assert len({*train, *test}) == n_train + n_test  # no row twice
    for part in (train, test):
        assert abs(np.mean(made.domains[part] == "few") - 1 / 3) < 0.01
    other, _ = tables._draw(made.domains, np.random.default_rng(1))
    assert set(other) != set(train)


def test_only_training_rows_set_the_scale(usefulness: Any) -> None:
    tables = importlib.import_module("judging.tables")
    made = table(tables, 300, "regression")
    rows = tables.split(made, 0)
    np.testing.assert_allclose([rows.X[:, 0].mean(), rows.y.mean()], 0, atol=1e-12)
    np.testing.assert_allclose([rows.X[:, 0].std(), rows.y.std()], 1)
    train, test = tables._draw(made.domains, np.random.default_rng(0))
    x = made.features["x"].to_numpy()
    np.testing.assert_allclose(rows.X_test[:, 0], (x[test] - x[train].mean()) / x[train].std())
    y = (made.y[test] - made.y[train].mean()) / made.y[train].std()
    np.testing.assert_allclose(rows.y_test, y)


def test_missing_values_and_new_levels(usefulness: Any) -> None:
    tables = importlib.import_module("judging.tables")
    train = pd.DataFrame({"x": [1.0, 3.0, None], "c": ["a", None, "b"], "same": [7, 7, 7]})
    test = pd.DataFrame({"x": [None, 4.0], "c": ["new", "b"], "same": [7, 8]})
    X, X_test = tables._encoded(train, test)
    # x, whether x is missing, a, b, missing
    np.testing.assert_array_equal(X, [[-1, 0, 1, 0, 0], [1, 0, 0, 0, 1], [0, 1, 0, 1, 0]])
    np.testing.assert_array_equal(X_test, [[0, 1, 0, 0, 0], [2, 0, 0, 1, 0]])


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"a": 9, "b": 8}, {"a": 9, "b": 8}),
        ({"a": 9, "b": 3, "c": 2}, {"a": 9, "other": 5}),
        ({"a": 9, "b": 8, "c": 1}, {"a": 9, "other": 9}),  # 1 alone would be rare again
        ({"a": 2, "b": 1}, {"other": 3}),
    ],
)
def test_rare_domains_are_merged(
    usefulness: Any, sizes: dict[str, int], expected: dict[str, int]
) -> None:
    tables = importlib.import_module("judging.tables")
    merged = tables.merge_rare(np.repeat(list(sizes), list(sizes.values())), 5)
    names, counts = np.unique(merged, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == expected


def test_a_changed_wheel_is_not_opened(
    usefulness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = importlib.import_module("judging.tables")
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path))
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / tables.WHEEL).write_bytes(b"not the wheel")
    with pytest.raises(OSError, match="damaged or another file"):
        tables.r_table("carData/TitanicSurvival")


# With all methods, and with the tables themselves ------------------------------------------------


@pytest.mark.slow
def test_every_method_learns(
    usefulness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where x helps in all domains, every method is better for each of them than a constant."""

    def agreeing() -> tuple[pd.DataFrame, Any, Any]:
        X, _, domains = tiny(600, 3)
        noise = np.random.default_rng(4).normal(size=600)
        return X, X["x"] - 5 + noise, domains

    def classes() -> tuple[pd.DataFrame, Any, Any]:
        X, y, domains = agreeing()
        return X, y > 0, domains

    monkeypatch.setitem(usefulness.TABLES, "classes", ("classification", classes))
    monkeypatch.setitem(usefulness.TABLES, "numbers", ("regression", agreeing))
    lines = main(usefulness, tmp_path, methods=list(usefulness.ALL_METHODS))
    assert not [line for line in lines if "error" in line]
    losses = {(r["table"], r["split"], r["method"]): r["losses"] for r in lines}
    assert len(losses) == 2 * 2 * len(usefulness.ALL_METHODS)
    for (name, seed, method), found in losses.items():
        if method != "constant":
            assert np.all(np.array(found) < 0.7 * np.array(losses[name, seed, "constant"]))


@pytest.mark.slow
def test_every_table_can_be_had(usefulness: Any) -> None:
    for name in [*usefulness.TABLES, *usefulness.FURTHER]:
        rows = usefulness.split(usefulness.load(name), 0)
        sizes = np.unique(rows.domains, return_counts=True)[1]
        assert len(sizes) >= 2
        assert sizes.min() >= 10
        assert set(rows.domains) == set(rows.domains_test)
        assert np.isfinite(rows.X).all()
        assert np.isfinite(rows.X_test).all()
        # A column that nearly is the target would be a leak.
        assert np.abs(np.corrcoef(rows.X.T, rows.y)[-1, :-1]).max() < 0.97


@pytest.mark.slow
def test_on_the_titanic_there_is_nothing_to_gain_and_this_is_said_first(usefulness: Any) -> None:
    """Version 0.1 saved a model there that was a coin, without a word."""
    table = usefulness.load("titanic-class")
    frame = table.features.assign(survived=table.y, passengers=table.domains)
    found = fit_table(frame, "survived", ["passengers"], task="classify")
    assert found.choice.is_ordinary
    assert found.verdict.startswith("A robust model is worse for everybody on rows not seen: keep")
    floor = found.beside["a constant guess"].domain_losses
    assert np.all(found.audits["ordinary"].domain_losses < floor)
