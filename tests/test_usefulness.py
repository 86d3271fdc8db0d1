"""benchmarks/usefulness.py: splits are fair, figures are what they say, a stopped run goes on."""

import importlib
import math
import statistics
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import anymix as ax
from anymix.tables import fit_table

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


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
    load = importlib.import_module("judging.tables").load
    monkeypatch.setitem(module.TABLES, "classes", ("classification", tiny_classes))
    monkeypatch.setitem(module.TABLES, "numbers", ("regression", lambda: tiny(240, 1)))
    load.cache_clear()
    yield module
    load.cache_clear()
    for name in [n for n in sys.modules if n == "usefulness" or n.partition(".")[0] == "judging"]:
        del sys.modules[name]


# Figures -----------------------------------------------------------------------------------------

K = np.array([0, 0, 0, 1, 1, 1])
SHARES = np.array([0.25, 0.75])


def result(
    losses: dict[str, Any],
    kind: str = "classification",
    reference: str = "linear",
    chosen: str = "t=1/2",
    simpler: str = "trees",
    **facts: Any,
) -> Any:
    """A flagship's result on six test rows of two domains; each column is [a, b] or six losses."""
    results = importlib.import_module("judging.results")
    every = {"linear": [2, 1], "trees": [2, 1], "t=1/2": [2, 1], "constant": [9, 9], **losses}
    rows = {
        name: np.asarray(of if len(of) == 6 else np.repeat(of, 3), dtype=np.float32)
        for name, of in every.items()
    }
    names = {"reference": reference, "chosen": chosen, "simpler": simpler}
    every_fact = {name: np.array(value) for name, value in (names | facts).items()}
    return results.Result(kind, np.array(["a", "b"]), SHARES, K, rows, every_fact, "0")


def combined(*results: Any, name: str = "table", **others: Any) -> Any:
    """A table of one flagship's result per split."""
    figures = importlib.import_module("judging.figures")
    return figures.combined(name, {"anymix": dict(enumerate(results)), **others})


def test_changes_are_of_means_over_splits(usefulness: Any) -> None:
    # Over both splits linear has (2, 1) and trees (1, 1.5): the worst domain is another one.
    table = combined(
        result({"linear": [3, 0], "trees": [1, 1]}), result({"linear": [1, 2], "trees": [1, 2]})
    )
    worst, pooled = table.change("trees", "linear")
    assert worst == pytest.approx(1.5 / 2 - 1)
    assert pooled == pytest.approx((0.25 * 1 + 0.75 * 1.5) / (0.25 * 2 + 0.75 * 1) - 1)
    assert table.change("ours, unused", "linear") == (0, 0)
    assert table.change("ours, inferred", "t=1/2") == (0, 0)
    assert table.change("better of linear and trees", "trees") == (0, 0)


def test_a_column_is_compared_on_its_own_splits(usefulness: Any) -> None:
    results = importlib.import_module("judging.results")
    one = results.Result(
        "classification", np.array(["a", "b"]), SHARES, K, {"rival": np.full(6, 2.0)}
    )
    ours = [result({"linear": [4, 1]}), result({"linear": [8, 1]})]
    assert combined(*ours, rival={0: one}).change("rival", "linear")[0] == pytest.approx(2 / 4 - 1)
    other = results.Result(
        "classification", np.array(["a", "b"]), SHARES, K[::-1], {"rival": np.full(6, 2.0)}
    )
    with pytest.raises(ValueError, match="tested on other rows"):
        combined(*ours, rival={0: other})


def test_paired_errors(usefulness: Any) -> None:
    figures = importlib.import_module("judging.figures")
    assert figures.paired_error(np.array([1.0, 2.0, 4.0])) == pytest.approx(
        statistics.stdev([1, 2, 4]) / 3**0.5
    )
    assert figures.paired_error(np.array([1.0])) == math.inf
    table = combined(result({"trees": [3, 4, 6, 1, 1, 1], "linear": [2, 2, 2, 1, 1, 1]}))
    assert table.error("trees", "linear", 0) == pytest.approx([figures.paired_error([1, 2, 4]), 0])


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([2.1, 2.1, 2.1, 1, 1, 1], 1),  # 5 % worse, without error
        ([2.01, 2.01, 2.01, 1, 1, 1], 0),  # less than 1 % of 2
        ([1.9, 1.9, 1.9, 1, 1, 1], -1),
        ([1.7, 1.7, 2.9, 1, 1, 1], 0),  # +0.1, its error is 0.4
        ([2.3, 2.3, 2.9, 1, 1, 1], 1),  # +0.5, its error is 0.2
        ([1, 1, 1, 2.5, 2.5, 2.5], 1),  # worse in another domain
    ],
)
def test_clearly_worse_or_better(usefulness: Any, ours: list[float], verdict: int) -> None:
    table = combined(result({"t=1/2": ours}))
    assert table.clearly("ours, inferred", "better of linear and trees") == verdict


@pytest.mark.parametrize(
    ("kind", "ours", "exceeds"),
    [
        # The reference has 0.25 · 2 + 0.75 · 1 = 1.25 on all rows.
        ("classification", [2, 1.08], False),  # 1.31, limit 1.3125
        ("classification", [2, 1.09], True),
        ("regression", [2, 1.16], False),  # 1.37, limit 1.25 · 1.05² = 1.378
        ("regression", [2, 1.18], True),
        # 1.355; of the second domain ± 0.09, of all rows ± 0.0675: 1.355 < 1.3125 + 0.0675
        ("classification", [2, 2, 2, 1.05, 1.05, 1.32], False),
        ("classification", [2, 2, 2, 1.11, 1.11, 1.38], True),
    ],
)
def test_price(usefulness: Any, kind: str, ours: list[float], exceeds: bool) -> None:
    table = combined(result({"t=1/2": ours}, kind))
    assert table.exceeds("ours, inferred", "ours, unused", 0.05) is exceeds


def test_worse_than_a_constant_guess(usefulness: Any) -> None:
    def below(constant: float, ours: list[float], chosen: str = "t=1/2") -> bool:
        table = combined(result({"constant": [9, constant], "t=1/2": ours}, chosen=chosen))
        assert table.moved() == ([0] if chosen == "t=1/2" else [])
        return bool(table.below_constant(table.moved()))

    assert below(1.1, [2, 1.2])
    assert not below(1.1, [2, 1.05])
    assert not below(0.9, [2, 1.2])  # the reference is, too
    assert not below(1.1, [2, 1.2], chosen="linear")
    assert not below(1.1, [2, 2, 2, 1.0, 1.2, 1.4])  # +0.1 ± 0.115


def test_random_mixtures(usefulness: Any) -> None:
    mixtures = np.array([[1.0, 0.0], [0.5, 0.5]])
    facts: dict[str, Any] = {"mixtures": mixtures, "mixture errors": [0.1, 0.1]}
    table = combined(
        result({"t=1/2": [3, 1]}, **(facts | {"mixture losses": [1.0, 1.5]})),
        result({"linear": [4, 3]}, **(facts | {"mixture losses": [2.0, 1.5]})),
    )
    # The reference has (2, 1.5) and (4, 3.5): on average 3 and 2.5.
    change, error = table.mixtures(None)
    np.testing.assert_allclose(change, [[-1 / 3, 0], [-2 / 3, -2 / 2.5]])
    np.testing.assert_allclose(error, [[0.1 / 3, 0.1 / 2.5]] * 2)
    change, _ = table.mixtures("ours, inferred")
    np.testing.assert_allclose(change, [[1 / 3, 0.5 / 2.5], [-2 / 3, -2 / 2.5]])
    page = importlib.import_module("judging.page")
    assert page.worst_twentieth(np.arange(40.0)) == 38.5


@pytest.mark.parametrize(
    ("value", "error", "at_least", "verdict"),
    [
        (-5.0, 1.0, False, "reached"),
        (-4.5, 1.0, False, "reached within one error"),
        (-3.5, 1.0, False, "not reached"),
        (-4.5, math.inf, False, "not reached"),
        (-4.5, 1.0, True, "reached"),
        (-5.5, 1.0, True, "reached within one error"),
        (-5.5, 0.0, True, "not reached"),
    ],
)
def test_verdicts(
    usefulness: Any, value: float, error: float, at_least: bool, verdict: str
) -> None:
    figures = importlib.import_module("judging.figures")
    line = figures.Line("text", -4.8, figures.Mean(value, error), at_least)
    assert line.verdict == verdict


def flagship(**losses: Any) -> dict[str, Any]:
    """A result with all that the page asks for."""
    facts = {
        "mixtures": [[0.5, 0.5]],
        "mixture losses": [1.4],
        "mixture errors": [0.1],
        "accepted": True,
        "seconds": 3.0,
        "parts": ["linear", "trees", "choice", "refit"],
        "seconds of parts": [0.5, 0.5, 1.5, 0.5],
    }
    columns = {"domain known": [1, 1], "50 rows, guarded": [1, 1], "blend": [2, 1], **losses}
    return {"losses": columns, **facts}


def test_acceptance_counts_tables(usefulness: Any) -> None:
    page = importlib.import_module("judging.page")
    tables = [
        combined(result(**flagship(**{"t=1/2": ours})), name=name)
        for name, ours in (("good", [1.5, 1]), ("bad", [2.5, 1]), ("dear", [1.5, 1.3]))
    ]
    lines = {line.text: line for line in page.acceptance({"22": tables, "67": []}, {})}
    worst = lines["22 classes, ours, inferred: worst domain"].found
    assert worst.value == pytest.approx((-25 + 25 - 25) / 3)
    assert worst.error == pytest.approx(statistics.stdev([-25, 25, -25]) / 3**0.5)
    assert lines["22 classes, domain known: worst domain"].found.value == pytest.approx(-50)
    better = "better of linear and trees"
    assert lines[f"tables: clearly worse than the {better}, of 3"].note == "bad"
    assert lines["tables: clearly better, of 3"].note == "good, dear"
    pays = lines["tables: all rows pay more than the price and one error"]
    assert (pays.note, pays.verdict) == ("bad, dear", "not reached")  # 1.375 and 1.35 of 1.25
    speed = lines["CPU seconds of the fit / (linear + trees, tuned apart and fitted to all rows)"]
    assert speed.found.value == pytest.approx(3 / 1.5)
    assert not any(text.startswith("67") for text in lines)
    assert "| blend " in page.page({"22": tables, "67": []}, {})


def test_simulated_tables(usefulness: Any) -> None:
    page, simulated = (importlib.import_module(f"judging.{n}") for n in ("page", "simulated"))

    def one(linear: Any, chosen: str, **losses: Any) -> Any:
        columns = {"linear": linear, "trees": linear, "t=1/2": linear, **losses}
        # What knows the domain is no measure of what can be had without it.
        told = {"domain known": [0.1, 0.1], "blend with domain": [0.1, 0.1]}
        promised = [[2.0, 1.0], [1.5, 1.0]]
        return result({**columns, **told}, chosen=chosen, promised=promised)

    same = [one([1, 1], "linear"), one([1, 1], "t=1/2", **{"t=1/2": [1, 1.004]})]
    differs = [
        one([2, 1], "trees", **{"t=1/2": [1.0, 1.05], "trees": [1.4, 1]}),  # 30 of 50 %
        one([2, 1], "trees", **{"t=1/2": [1.0, 1.05], "trees": [1.6, 1]}),  # 20 of 50 %
        one([2, 1], "linear", **{"t=1/2": [1.0, 1.7]}),  # 50 % are too dear
        one([2, 1], "linear", **{"t=1/2": [1.95, 1]}),  # no 5 % to be had
    ]
    of = {simulated.ONE_LAW: same, simulated.TELLING: differs}
    lines = [line.found.value for line in page._simulations(of)]
    assert lines == pytest.approx([50, 100 * 0.75 * 0.004 / 2, 50], rel=1e-4)
    row = page.simulated_rows(of)[3]  # all four
    assert row == ("one-differs", "4", "+25.00 %", "+12.50 %", "-10.00 %", "-5.00 %")


@pytest.mark.parametrize("law", ["one-law", "one-differs", "one-differs-silently"])
def test_simulated_laws(usefulness: Any, law: str) -> None:
    simulated = importlib.import_module("judging.simulated")
    for seed in range(8):
        rows = simulated.split(law, seed)
        assert set(np.unique(rows.domains)) == set(np.unique(rows.domains_test))
        assert rows.kind == ("regression" if seed % 2 else "classification")
        told = np.abs(rows.X_test[rows.domains_test == "00", -1].mean()) > 1
        assert told == (law == "one-differs")
        np.testing.assert_array_equal(rows.X, simulated.split(law, seed).X)


def test_results_of_version_02(usefulness: Any, tmp_path: Path) -> None:
    page = importlib.import_module("judging.page")
    file, table = tmp_path / "0.2.csv", combined(result({}))
    head = "group,table,kind,split,method,domain,test_rows,loss,accuracy\n"
    row = "first,table,classification,{},{},{},3,{},0.5\n"
    every = [(0, "ordinary", "a", 4), (0, "ordinary", "b", 1), (0, "ordinary", "(all rows)", 9)]
    every += [(0, "anymix", "a", 3), (0, "anymix", "b", 2), (1, "anymix", "a", 7)]
    file.write_text(head + "".join(row.format(*each) for each in every))
    page.add_earlier([table], file)
    assert table.change(page.OLD, page.base_of(page.OLD)) == pytest.approx(
        (3 / 4 - 1, 2.25 / 1.75 - 1)
    )
    file.write_text(head + row.format(0, "anymix", "other", 3))
    with pytest.raises(ValueError, match="other domains of table"):
        page.add_earlier([table], file)


# Running -----------------------------------------------------------------------------------------


@pytest.fixture
def counted(usefulness: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A learner "anymix" that notes the split of each call."""
    calls: list[int] = []

    def constant(rows: Any, seed: int) -> Any:
        calls.append(seed)
        if rows.kind == "regression" and seed == 7:
            raise RuntimeError("too bad")
        return {"constant": np.arange(len(rows.y_test)) + 0.5}, {"seconds": np.array(0.25)}

    monkeypatch.setitem(usefulness.learners.LEARNERS, "anymix", constant)
    return calls


def test_a_stopped_run_goes_on(
    usefulness: Any, tmp_path: Path, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["run", "--tables", "classes,numbers", "--learners", "anymix"]
    run += ["--results", str(tmp_path), "--splits"]
    assert usefulness.main([*run, "1"]) == 0
    assert counted == [0, 0]
    assert usefulness.main([*run, "2"]) == 0
    assert counted == [0, 0, 1, 1]  # nothing is computed twice

    file = tmp_path / "anymix" / "numbers__1.npz"
    whole = file.read_bytes()
    for half in (b"", whole[:-1], whole[: len(whole) // 2]):  # killed while it was written
        file.write_bytes(half)
        assert list(usefulness.found(tmp_path, "numbers", "anymix")) == [0]
        usefulness.main([*run, "2"])
        assert counted.pop() == 1
        assert len(counted) == 4
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    file.write_bytes(damaged)
    assert list(usefulness.found(tmp_path, "numbers", "anymix")) == [0]

    file.write_bytes(whole)
    found = usefulness.found(tmp_path, "numbers", "anymix")[1]
    np.testing.assert_array_equal(found.losses["constant"], np.arange(len(found.k)) + 0.5)
    assert found.facts["seconds"] == 0.25
    assert found.domains.tolist() == ["few", "many"]
    monkeypatch.setattr(usefulness.results, "state_of_code", lambda: "changed")
    usefulness.main([*run, "2"])
    assert len(counted) == 4
    usefulness.main([*run, "2", "--current"])
    assert len(counted) == 8


def test_a_failure_is_no_result(
    usefulness: Any, tmp_path: Path, counted: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = [(table, 7, "anymix") for table in ("numbers", "classes")]
    assert not usefulness.run(tmp_path, wanted, jobs=1)
    assert "RuntimeError: too bad" in capsys.readouterr().out
    assert [file.name for file in (tmp_path / "anymix").iterdir()] == ["classes__7.npz"]
    assert usefulness.pending(tmp_path, wanted, current=False) == [("numbers", 7, "anymix")]


def test_tasks_are_split_by_split(usefulness: Any) -> None:
    found = usefulness.tasks(["a", "b"], 2, ["x", "y"])
    assert found[:4] == [("a", 0, "x"), ("b", 0, "x"), ("a", 0, "y"), ("b", 0, "y")]
    assert {split for _, split, _ in found[4:]} == {1}
    assert len(usefulness.named("22,67")) == 22 + 67 + 2
    with pytest.raises(Exception, match="no table nothing"):
        usefulness.named("quick,nothing")


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


def test_test_rows_are_thinned_but_for_small_domains(usefulness: Any) -> None:
    tables = importlib.import_module("judging.tables")
    sizes = {"a": 15_000, "b": 4_000, "c": 600, "d": 400}
    domains = np.repeat(list(sizes), list(sizes.values()))
    kept = tables._thinned(domains, np.random.default_rng(0))
    assert len({*kept}) == len(kept)
    counts = dict(zip(*np.unique(domains[kept], return_counts=True), strict=True))
    assert counts == {"a": 6_000, "b": 1_600, "c": 500, "d": 400}  # 8,000 of 20,000 are 2 of 5


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


# The flagship ------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["classes", "numbers"])
def test_all_columns_come_of_one_fit(usefulness: Any, table: str) -> None:
    """They are what a user's own calls predict."""
    learners, tables = (importlib.import_module(f"judging.{n}") for n in ("learners", "tables"))
    rows = tables.split(tables.load(table), 0)
    found = learners.learn((table, 0, "anymix"))
    classify = rows.kind == "classification"
    model = (ax.AnyMixClassifier if classify else ax.AnyMixRegressor)()
    model.fit(rows.X, rows.y, domains=rows.domains)

    def losses(model: Any, **how: Any) -> Any:
        if classify:
            p = model.predict_proba(rows.X_test, **how)[:, 1]
            p = np.clip(p, 1e-6, 1 - 1e-6)
            return -np.where(rows.y_test == 1, np.log(p), np.log(1 - p))
        return (rows.y_test - model.predict(rows.X_test, **how)) ** 2

    chosen, reference = (str(found.facts[name]) for name in ("chosen", "reference"))
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    close(found.losses[chosen], losses(model))
    close(found.losses["domain known"], losses(model, domains=rows.domains_test))
    close(found.losses["domain known"], found.losses["blend with domain"])
    assert chosen == model.recommendation_.chosen
    assert reference == model.recommendation_.reference
    assert str(found.facts["simpler"]) in ("linear", "trees")
    # All test rows of "few" are drawn.
    few = rows.domains_test == "few"
    adapted = losses(model.adapted(rows.X_test[few], guard=False))
    assert few.sum() < 50
    close(found.losses["50 rows, always"][few], adapted[few])
    guarded = losses(model.adapted(rows.X_test[few]))
    close(found.losses["50 rows, guarded"][few], guarded[few])
    assert found.facts["mixtures"].shape == (20, 2)
    assert np.isfinite(found.facts["mixture losses"]).all()


# Rivals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_group_dro_steps_as_torch_does(usefulness: Any, kind: str) -> None:
    torch = pytest.importorskip("torch")
    methods = importlib.import_module("judging.methods")
    frame, score, domains = tiny(90, 5)
    X = frame[["x"]].to_numpy() - 5
    y = score if kind == "regression" else (score > 0).astype(float)
    found = next(methods._dro_epochs(kind, X, y, domains, 0.1))

    rng = np.random.default_rng(0)
    rows = [np.flatnonzero(domains == name) for name in ("few", "many")]
    batches = np.stack([rng.choice(r, (50, 32)) for r in rows], axis=1)
    w = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    q, optimizer = torch.full((2,), 0.5, dtype=torch.float64), torch.optim.Adam([w], lr=0.01)
    loss = torch.nn.MSELoss if kind == "regression" else torch.nn.BCEWithLogitsLoss
    for batch in batches:
        z = torch.tensor(X[batch, 0]) * w[0] + w[1]
        losses = loss(reduction="none")(z, torch.tensor(y[batch])).mean(dim=1)
        q = q * torch.exp(0.01 * losses.detach())
        q = q / q.sum()
        optimizer.zero_grad()
        (q @ losses + 0.05 * w[0] ** 2).backward()
        optimizer.step()
    np.testing.assert_allclose(found, w.detach().numpy(), rtol=1e-9)


# With the tables themselves ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["balanced", "groupdro", "fairlearn", "mcgrad"])
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_every_rival_learns(usefulness: Any, method: str, kind: str) -> None:
    """Where x helps in all domains, each is better for all of them than a constant."""
    learners, tables = (importlib.import_module(f"judging.{n}") for n in ("learners", "tables"))
    if method in ("fairlearn", "mcgrad"):
        pytest.importorskip(method)
    X, _, domains = tiny(600, 3)
    score = X["x"].to_numpy() - 5 + np.random.default_rng(4).normal(size=600)
    y = score if kind == "regression" else (score > 0).astype(float)
    rows = tables.split(tables.Table("agreeing", kind, X, y, domains), 0)
    losses, facts = learners.LEARNERS[method](rows, 0)
    constant = learners._losses(rows, np.full(len(rows.y_test), rows.y.mean()))
    assert facts["seconds"] > 0
    for name in np.unique(domains):
        at = rows.domains_test == name
        assert losses[method][at].mean() < 0.7 * constant[at].mean()


@pytest.mark.slow
def test_every_table_can_be_had(usefulness: Any) -> None:
    tables, page = (importlib.import_module(f"judging.{n}") for n in ("tables", "page"))
    losses = pd.read_csv(page.EARLIER, keep_default_na=False)
    own = {"classes", "numbers"}
    assert set(losses["table"]) == {*usefulness.TABLES, *usefulness.FURTHER} - own
    earlier = losses[losses["domain"] != "(all rows)"].groupby("table")["domain"].unique()
    for name in earlier.index:
        rows = tables.split(tables.load(name), 0)
        sizes = np.unique(rows.domains, return_counts=True)[1]
        assert len(sizes) >= 2
        assert sizes.min() >= 10
        assert set(rows.domains) == set(rows.domains_test) == set(earlier[name])
        assert np.isfinite(rows.X).all()
        assert np.isfinite(rows.X_test).all()
        # A column that nearly is the target would be a leak.
        assert np.abs(np.corrcoef(rows.X.T, rows.y)[-1, :-1]).max() < 0.97


@pytest.mark.slow
def test_on_the_titanic_there_is_nothing_to_gain_and_this_is_said_first(usefulness: Any) -> None:
    """Version 0.1 saved a model there that was a coin, without a word."""
    table = importlib.import_module("judging.tables").load("titanic-class")
    frame = table.features.assign(survived=table.y, passengers=table.domains)
    found = fit_table(frame, "survived", ["passengers"], task="classify")
    assert found.choice.is_ordinary
    assert found.verdict.startswith("A robust model is worse for everybody on rows not seen: keep")
    floor = found.beside["a constant guess"].domain_losses
    assert np.all(found.audits["ordinary"].domain_losses < floor)
