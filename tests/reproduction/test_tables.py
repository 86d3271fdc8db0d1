"""The paper's tables: a small one that can be checked by hand, Adult in short, and (slow) both in
full against the acceptance figures. Wherever data come in, they are the genuine ones.
"""

import csv
import io
import json
import math
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from scipy.optimize import minimize
from typer.testing import CliRunner

from anymix import datasets
from anymix.cli.commands import app, main
from anymix.datasets.sets import Dataset
from anymix.mixtures.sets import Point, Simplex
from anymix.problem.linear import LinearDomains
from anymix.reproduction import tables as reproduction
from anymix.reproduction.tables import (
    ADULT,
    EXPERIMENTS,
    FASHION,
    ExactRow,
    Experiment,
    Output,
    Settings,
    Table,
    _risks,
    draw_least_risky,
    proposition1,
    reproduce,
)
from anymix.solvers.optimizers import Adagrad

PAPER = Path(__file__).parents[2] / "paper"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


# A table that can be checked by hand -----------------------------------------------------------

# Feature ±1 and label "up" for +1. Of the 20 test rows of "easy" all follow that rule, of the 10 of
# "hard" 6 do. Training rows follow it often enough that every model learns it.
ROWS = {"hard": lambda sizes: Point([0.0, 1.0]), "any": lambda sizes: Simplex(2)}


def follow(n: int, exceptions: int) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    x = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    rule = np.where(np.arange(n) < exceptions, -x, x)
    return x[:, None], np.where(rule > 0, "up", "down")


def rows(easy: tuple[int, int], hard: tuple[int, int]) -> tuple[Any, Any, Any]:
    """X, y and domains."""
    (X, y), (X_hard, y_hard) = follow(*easy), follow(*hard)
    domains = np.repeat(["easy", "hard"], [len(y), len(y_hard)])
    return np.vstack([X, X_hard]), np.concatenate([y, y_hard]), domains


def toy_data(progress: bool = True) -> Dataset:
    train, test = rows((40, 4), (30, 6)), rows((20, 0), (10, 4))
    return Dataset(*train, *test, ("x",), "toy", "made here", "none")


TOY = Experiment(
    name="toy",
    title="A toy",
    load=toy_data,
    optimizer=Adagrad(),
    domains=("hard", "easy"),  # not the order in which they are sorted
    rows=ROWS,
    settings=Settings(0.1, 0.01, 5, 60, "average"),
    printed={
        "hard": ((80.0, 1.0), (50.0, 1.0), (90.0, 1.0), (50.0, 1.0)),
        "any": ((86.0, 0.0), (60.0, 0.0), (100.0, 0.0), (60.0, 0.0)),
    },
    gammas=(0.1, 0.01),
)


@cache
def toy_table() -> Table:
    return reproduce(TOY, runs=3, jobs=1, progress=False)


def test_accuracies_by_hand() -> None:
    table = toy_table()
    expected = [100 * 26 / 30, 60, 100, 60]  # all, hard, easy, worst
    assert TOY.columns == ("all", "hard", "easy", "worst")
    for row in ROWS:
        assert table.accuracies[row] == pytest.approx(np.tile(expected, (3, 1)), abs=1e-12)
        assert table.mean(row) == pytest.approx(np.array(expected), abs=1e-12)
        assert table.std(row) == pytest.approx(np.zeros(4), abs=1e-12)
        assert table.exact[row].accuracies == pytest.approx(np.array(expected), abs=1e-12)
    assert table.difference("hard") == pytest.approx(np.array(expected) - [80, 50, 90, 50])
    assert table.runs == 3


def test_each_row_is_trained_for_its_mixtures() -> None:
    table = toy_table()
    # λ is in the order of TOY.domains: hard, easy
    assert table.mixtures["hard"] == pytest.approx(np.tile([1.0, 0.0], (3, 1)))
    assert np.ptp(table.mixtures["any"], axis=1).min() > 0  # λ has moved from the centre
    assert len(np.unique(table.mixtures["any"][:, 0])) == 3  # by another way in each run
    assert table.exact["hard"].mixture == pytest.approx([1.0, 0.0])
    assert table.exact["any"].gamma in TOY.gammas
    assert 0 <= table.exact["any"].gap <= 1e-4


def test_standard_deviation_is_that_of_a_sample() -> None:
    runs = np.array([[80.0, 1, 2, 3], [84.0, 1, 2, 3]])
    table = replace(toy_table(), accuracies={"hard": runs, "any": runs})
    assert table.std("any") == pytest.approx([math.sqrt(8), 0, 0, 0])
    single = replace(table, accuracies={"hard": runs[:1], "any": runs[:1]})
    assert single.std("any") == pytest.approx([0, 0, 0, 0])


def test_average_and_last_iterate_are_told_apart() -> None:
    # so few and so long steps that the average of ±-swings is another model than the last iterate
    def accuracies(output: Output) -> NDArray[np.float64]:
        settings = replace(ADULT.settings, n_steps=2, batch_size=1, step_w=5.0, output=output)
        short = replace(ADULT, settings=settings, rows={"Û": ADULT.rows["Û"]})
        return reproduce(short, 3, jobs=1, gammas=[0.1], progress=False).accuracies["Û"]

    assert not np.array_equal(accuracies("average"), accuracies("last"))


def test_numbers_do_not_depend_on_the_processes_or_on_later_runs() -> None:
    short = replace(
        ADULT,
        settings=replace(ADULT.settings, n_steps=30),
        rows={"agnostic": ADULT.rows["agnostic"]},
    )
    one = reproduce(short, 3, jobs=1, gammas=[0.1], progress=False)
    two = reproduce(short, 2, jobs=2, gammas=[0.1], progress=False)
    assert np.array_equal(one.accuracies["agnostic"][:2], two.accuracies["agnostic"])
    assert np.array_equal(one.mixtures["agnostic"][:2], two.mixtures["agnostic"])
    assert np.array_equal(one.exact["agnostic"].mixture, two.exact["agnostic"].mixture)
    assert len(np.unique(one.accuracies["agnostic"][:, 0])) == 3


@pytest.mark.parametrize(
    ("name", "value"), [("runs", 0), ("runs", -3), ("runs", 1.5), ("jobs", 0), ("jobs", 1.5)]
)
def test_less_than_one_run_or_process_or_a_part_of_one_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {value}; give a whole number ≥ 1"):
        reproduce(TOY, **{"runs": 1, "progress": False, name: value})  # type: ignore[arg-type]


# Files -----------------------------------------------------------------------------------------


def test_saved_files_hold_the_table(tmp_path: Path) -> None:
    table = toy_table()
    names = [file.name for file in table.save(tmp_path / "new" / "folder")]
    assert names == ["toy.json", "toy.csv", "toy.png"]
    folder = tmp_path / "new" / "folder"
    saved = json.loads((folder / "toy.json").read_text("utf-8"))
    assert saved == table.as_dict()
    assert saved["rows"]["hard"]["difference"][0] == pytest.approx(100 * 26 / 30 - 80)
    assert saved["settings"]["n_steps"] == 60
    only_hard = {"hard": pytest.approx(1.0), "easy": pytest.approx(0.0)}
    assert saved["rows"]["hard"]["mixture"] == only_hard
    assert saved["rows"]["hard"]["exact"]["mixture"] == only_hard
    with (folder / "toy.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["seed"] for line in lines] == ["0", "1", "2"] * 2
    assert [line["trained on"] for line in lines] == ["hard"] * 3 + ["any"] * 3
    assert float(lines[4]["all"]) == pytest.approx(100 * 26 / 30, abs=1e-4)
    assert (folder / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_numbers_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # makes the import fail
    assert [file.suffix for file in toy_table().save(tmp_path)] == [".json", ".csv"]
    assert [file.suffix for file in proposition1().save(tmp_path)] == [".json", ".csv"]


def test_printed_tables_are_complete() -> None:
    for experiment in EXPERIMENTS.values():
        assert experiment.printed.keys() == experiment.rows.keys()
        for entries in experiment.printed.values():
            assert len(entries) == len(experiment.columns)
            means = [mean for mean, _ in entries]
            assert means[-1] == min(means[1:-1])  # the column of the worst domain


# Proposition 1 and λ* --------------------------------------------------------------------------


def test_proposition_1_is_met_to_rounding() -> None:
    for paper, ours in proposition1().entries.values():
        assert ours == pytest.approx(paper, abs=1e-10)


def test_proposition_1_has_the_printed_closed_forms() -> None:
    papers = [paper for paper, _ in proposition1().entries.values()]
    assert papers == pytest.approx([0.25, 0.8369882, 0.5, 0.6931472, 0.1438410], abs=1e-7)


def test_least_risk_is_greatest_at_the_agnostic_mixture() -> None:
    data = toy_data()
    problem = LinearDomains(data.X, data.y, data.domains)
    shares, risks, models = _risks(problem, 0.01)
    agnostic = models["λ*"]
    assert risks.max() == pytest.approx(agnostic.objective, abs=1e-3)  # minimax, on a grid
    assert abs(shares[risks.argmax()] - agnostic.mixture[0]) <= 1 / 40
    assert np.all(np.diff(risks, 2) <= 1e-5)  # concave
    for model in models.values():  # its line lies above r and touches it at its own mixture
        losses, regularizer = problem.losses(model.w), 0.01 * model.w[0] ** 2 / 2
        line = shares * losses[0] + (1 - shares) * losses[1] + regularizer
        assert np.all(line >= risks - 1e-5)
        touched = least_risk(problem, 0.01, model.mixture)
        assert model.mixture @ losses + regularizer == pytest.approx(touched, abs=1e-5)


def least_risk(problem: LinearDomains, gamma: float, mixture: NDArray[np.float64]) -> float:
    """r(λ) by another solver, for one feature."""

    def risk(w: NDArray[np.float64]) -> float:
        return float(mixture @ problem.losses(w) + gamma * w[0] ** 2 / 2)

    return float(minimize(risk, np.zeros(2)).fun)


def test_picture_of_least_risks(tmp_path: Path) -> None:
    problem = proposition1().problem
    files = draw_least_risky({"a": (problem, 0.0), "b": (problem, 0.1)}, tmp_path / "x" / "p.png")
    assert files == [tmp_path / "x" / "p.png"]
    assert files[0].read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_nothing_is_solved_for_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # makes the import fail
    monkeypatch.delattr(reproduction, "solve")
    data = toy_data()
    problem = LinearDomains(data.X, data.y, data.domains)
    assert draw_least_risky({"toy": (problem, 0.0)}, tmp_path / "p.png") == []
    assert not any(tmp_path.iterdir())


# The paper's tables ----------------------------------------------------------------------------


def worst(table: Table, row: str) -> float:
    return float(table.mean(row)[-1])


def far(table: Table, columns: Iterable[int], limit: float) -> dict[str, list[float]]:
    """Rows in which an entry is further from the paper's than the limit."""
    differences = {row: table.difference(row)[list(columns)] for row in table.experiment.rows}
    return {row: d.tolist() for row, d in differences.items() if np.abs(d).max() > limit}


def test_adult_in_short() -> None:
    table = reproduce(ADULT, runs=4, jobs=2, gammas=[1e-2], progress=False)
    assert worst(table, "agnostic") > worst(table, "Û")
    assert worst(table, "doctorate") < min(worst(table, r) for r in ("non-doctorate", "Û"))
    assert table.mean("agnostic")[0] < table.mean("Û")[0]  # what it costs on average
    assert not far(table, range(4), limit=4.0)
    assert table.exact["agnostic"].accuracies[-1] > table.exact["Û"].accuracies[-1]


@cache
def adult_table() -> Table:
    return reproduce(ADULT, runs=50, jobs=2, progress=False)


@pytest.mark.slow
def test_adult_in_full() -> None:
    table = adult_table()
    others = {row: table.difference(row) for row in ADULT.rows if row != "doctorate"}
    assert np.abs([*others.values()]).max() <= 1.5
    assert not far(table, [0, 2, 3], limit=1.5)
    for column in (0, 3):  # overall and on the worst domain the rows rank as printed
        ours = sorted(ADULT.rows, key=lambda row: table.mean(row)[column])
        paper = sorted(ADULT.rows, key=lambda row: ADULT.printed[row][column][0])
        assert ours == paper
    assert worst(table, "agnostic") >= 71.5
    assert worst(table, "agnostic") - worst(table, "Û") >= 1.5
    assert table.exact["agnostic"].accuracies[-1] >= 72


@pytest.mark.slow
@pytest.mark.xfail(reason="72.00 where the paper has 73.58: see docs/reproduction.md")
def test_doctorates_under_their_own_model() -> None:
    assert not far(adult_table(), [1], limit=1.5)


@pytest.mark.slow
def test_fashion_in_full() -> None:
    table = reproduce(FASHION, runs=50, jobs=2, progress=False)
    assert worst(table, "agnostic") >= 74.5
    assert worst(table, "agnostic") - worst(table, "Û") >= 3
    assert not far(table, [0], limit=3.0)
    assert table.exact["agnostic"].accuracies[-1] >= 76


def test_tables_fit_into_80_columns() -> None:
    for experiment in EXPERIMENTS.values():
        runs = np.full((2, len(experiment.columns)), 99.9)
        table = Table(
            experiment,
            accuracies=dict.fromkeys(experiment.rows, runs),
            mixtures={},
            exact=dict.fromkeys(experiment.rows, ExactRow(0.1, np.ones(2) / 2, 0.0, runs[0])),
        )
        console = Console(width=80, record=True, file=io.StringIO())
        console.print(table.grid())
        shown = console.export_text()
        assert "…" not in shown
        assert shown.count("99.90±0.00") == runs[0].size * len(experiment.rows)


# The command -----------------------------------------------------------------------------------


def test_command_prints_the_paper_beside_ours(tmp_path: Path) -> None:
    shown = run("reproduce", "proposition1", "--out", str(tmp_path))
    line = next(line for line in shown.splitlines() if "worst loss log 2" in line)
    assert line.count("0.693147") == 2
    assert str(tmp_path / "proposition1.png") in shown


def test_command_prints_json_alone(tmp_path: Path) -> None:
    shown = json.loads(run("reproduce", "proposition1", "--json", "--out", str(tmp_path)))
    saved = json.loads((tmp_path / "proposition1.json").read_text("utf-8"))
    files = [str(tmp_path / f"proposition1.{end}") for end in ("json", "csv", "png")]
    assert shown["proposition1"] == saved | {"files": files}


def test_quiet_command_prints_nothing_and_saves(tmp_path: Path) -> None:
    assert run("reproduce", "proposition1", "--quiet", "--out", str(tmp_path)) == ""
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["reproduce", "atlantis"], "atlantis"),
        (["reproduce", "adult", "--runs", "0"], "--runs"),
        (["reproduce", "adult", "--runs", "many"], "--runs"),
        (["reproduce", "adult", "--jobs", "0"], "--jobs"),
        (["reproduce"], "WHAT"),
    ],
)
def test_wrong_use_is_named(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert named in result.output
    assert "Traceback" not in result.output


def test_command_on_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "adult", TOY)
    shown = run("reproduce", "adult", "--fast", "--jobs", "1", "--out", str(tmp_path))
    assert "5 runs" in shown
    assert "86.67±0.00" in shown
    assert "+6.67" in shown
    saved = json.loads((tmp_path / "toy.json").read_text("utf-8"))
    assert saved["runs"] == 5
    run("reproduce", "adult", "--fast", "--runs", "2", "-q", "--jobs", "1", "--out", str(tmp_path))
    assert json.loads((tmp_path / "toy.json").read_text("utf-8"))["runs"] == 2


def test_data_that_cannot_be_had_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path / "file"))  # no folder can be made there
    monkeypatch.setattr(sys, "argv", ["anymix", "data", "fetch", "adult"])
    with pytest.raises(SystemExit, match="1"):
        main()
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error


def test_unknown_data_set_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["anymix", "data", "path", "atlantis"])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == (
        "error: name is 'atlantis'; the data sets are 'adult', 'fashion'\n"
    )


def test_list_and_path_follow_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = datasets.fetch("adult", progress=False)
    assert run("data", "path", "adult") == f"{here}\n"
    assert json.loads(run("data", "list", "--json"))["adult"] == {
        "fetched": True,
        "path": str(here),
    }
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path))
    assert run("data", "path", "adult") == f"{tmp_path / 'adult'}\n"
    listed = [line.split() for line in run("data", "list").splitlines()]
    assert listed == [[n, "not", "fetched", str(tmp_path / n)] for n in datasets.available()]
    assert not (tmp_path / "adult").exists()  # looking makes no folders


def test_fetch_says_where_it_put_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(datasets.fetch("adult", progress=False), tmp_path / "adult")
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path))
    assert run("data", "fetch", "adult") == f"adult: {tmp_path / 'adult'}\n"
    assert run("data", "fetch", "adult", "--quiet") == ""


# The scripts -----------------------------------------------------------------------------------


def start_script(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script in folder/paper; it writes to folder/docs/reproduction."""
    (folder / "paper").mkdir(exist_ok=True)
    script = shutil.copy(PAPER / f"{name}.py", folder / "paper")
    command = [sys.executable, "-W", "error", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_script(name: str, folder: Path, *arguments: str) -> str:
    """What it prints, if nothing goes wrong."""
    done = start_script(name, folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("proposition1", {"proposition1.json", "proposition1.csv", "proposition1.png"}),
        ("figure_lambda_star", {"lambda_star.png"}),
    ],
)
def test_script_writes_its_results(name: str, files: set[str], tmp_path: Path) -> None:
    assert run_script(name, tmp_path)
    assert {file.name for file in (tmp_path / "docs" / "reproduction").iterdir()} == files


def test_figure_without_matplotlib_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "matplotlib.py").write_text("raise ImportError")  # is found first
    done = start_script("figure_lambda_star", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "anymix[report]" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "docs").exists()


@pytest.mark.parametrize("script", ["table1_adult", "table2_fashion_mnist"])
def test_script_of_a_table_refuses_no_runs(script: str, tmp_path: Path) -> None:
    done = start_script(script, tmp_path, "--runs", "0")
    assert done.returncode == 2
    assert "--runs is 0; give a whole number ≥ 1" in done.stderr
    assert "Traceback" not in done.stderr


def tried_settings(name: str) -> list[dict[str, str]]:
    """The lines of docs/reproduction/settings_<name>.csv."""
    file = PAPER.parent / "docs" / "reproduction" / f"settings_{name}.csv"
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_settings_are_those_that_the_rule_chooses(experiment: Experiment) -> None:
    script = runpy.run_path(str(PAPER / "choose_settings.py"))
    tried = [
        script["Candidate"](
            line["trained on"],
            Settings(
                float(line["step_w"]),
                float(line["step_mixture"]),
                int(line["batch_size"]),
                int(line["n_steps"]),
                cast(Output, line["output"]),
            ),
            float(line["loss"]),
            float(line["standard error"]),
        )
        for line in tried_settings(experiment.name)
    ]
    name = experiment.name
    assert {c.row for c in tried} == experiment.rows.keys()
    assert {c.settings.step_w for c in tried} == set(script["STEPS_W"][name])
    assert {c.settings.batch_size for c in tried} == set(script["BATCHES"][name])
    assert {c.settings.n_steps for c in tried} == set(script["N_STEPS"][name])
    assert script["choose"](tried) == experiment.settings
    assert script["choose"](tried[::-1]) == experiment.settings  # ties fall no other way


def test_settings_of_adult_lie_inside_the_grid() -> None:
    """Not λ-steps: the rule cannot tell them apart there, and takes the smallest."""
    script, chosen = runpy.run_path(str(PAPER / "choose_settings.py")), ADULT.settings
    for grid, value in (
        (script["STEPS_W"], chosen.step_w),
        (script["BATCHES"], chosen.batch_size),
        (script["N_STEPS"], chosen.n_steps),
    ):
        assert min(grid["adult"]) < value < max(grid["adult"])


def test_rule_is_the_least_regret_of_the_row_served_worst() -> None:
    """By hand: the regrets are (0, 4), (1, 1) and (3, 0), so the second; the λ-step is free."""
    script = runpy.run_path(str(PAPER / "choose_settings.py"))
    losses = {"Û": (1.0, 1.1, 1.3), "agnostic": (3.0, 1.5, 1.0)}  # of 1, 2 and 3 steps
    errors = {"Û": 0.1, "agnostic": 0.5}
    tried = [
        script["Candidate"](row, Settings(0.1, step, 5, n, "last"), losses[row][n - 1], errors[row])
        for row in losses
        for step in ((1e-3,) if row == "Û" else (1e-3, 1e-2, 1e-1))
        for n in (1, 2, 3)
    ]
    for order in (tried, tried[::-1]):
        assert script["choose"](order) == Settings(0.1, 1e-3, 5, 2, "last")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "name"), [("table1_adult", "adult"), ("table2_fashion_mnist", "fashion")]
)
def test_script_of_a_table(script: str, name: str, tmp_path: Path) -> None:
    assert "agnostic" in run_script(script, tmp_path, "--runs", "1")
    files = {file.name for file in (tmp_path / "docs" / "reproduction").iterdir()}
    assert files == {f"{name}.json", f"{name}.csv", f"{name}.png"}
