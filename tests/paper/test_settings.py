"""The printed tables are copied whole, and the settings are those that the rule chooses."""

import csv
import runpy
from pathlib import Path
from typing import cast

import pytest
from linear_models import ADULT, EXPERIMENTS, Experiment, Output, Settings

PAPER = Path(__file__).parents[2] / "paper"


def test_printed_tables_are_complete() -> None:
    for experiment in EXPERIMENTS.values():
        assert experiment.printed.keys() == experiment.rows.keys()
        for entries in experiment.printed.values():
            assert len(entries) == len(experiment.columns)
            means = [mean for mean, _ in entries]
            assert means[-1] == min(means[1:-1])  # the column of the worst domain


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
