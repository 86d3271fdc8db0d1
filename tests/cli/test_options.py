"""Refusals are said in options: every table names real ones, for all that the library is given."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import typer

from anymix.auditing import audit
from anymix.cli import app
from anymix.cli.audit import OPTIONS as AUDIT
from anymix.cli.federate import OPTIONS as FEDERATE
from anymix.cli.fit import ADVICE
from anymix.cli.fit import OPTIONS as FIT
from anymix.cli.options import Names, in_options
from anymix.cli.predict import OPTIONS as PREDICT
from anymix.errors import InputError
from anymix.tables.audited import audit_frame
from anymix.tables.fitting import fit_table


def options_of(command: str) -> set[str]:
    commands: Any = typer.main.get_command(app)
    return {option for p in commands.commands[command].params for option in p.opts}


@pytest.mark.parametrize(
    ("command", "names"),
    [("fit", FIT), ("predict", PREDICT), ("audit", AUDIT), ("federate", FEDERATE)],
)
def test_every_option_of_a_table_is_one_of_its_command(command: str, names: Names) -> None:
    assert {option for option, _ in names.values()} <= options_of(command)


@pytest.mark.parametrize(
    ("library", "names", "besides"),
    [
        (fit_table, FIT, {"frame", "progress"}),
        (audit_frame, AUDIT, {"frame"}),
        (audit, AUDIT, {"y_pred"}),  # --prediction or --losses, as the call has it
    ],
)
def test_everything_that_the_library_may_refuse_has_an_option(
    library: Any, names: Names, besides: set[str]
) -> None:
    assert set(inspect.signature(library).parameters) - besides <= set(names)


def test_advice_is_about_warnings_that_there_are() -> None:
    from anymix.solvers.gap_warning import GapWarning

    assert set(ADVICE) == {GapWarning.__name__}


def test_the_option_stands_in_for_the_argument_and_nothing_else_changes() -> None:
    found = "is 'min_rows', of domains"
    with pytest.raises(InputError) as caught, in_options(FIT):
        raise InputError("min_rows", found, "lower min_rows")
    assert str(caught.value) == f"--min-rows {found}; lower min_rows"


def test_a_command_may_have_its_own_fix() -> None:
    with pytest.raises(InputError) as caught, in_options(AUDIT):
        raise InputError("loss", "is 'ppl'", "give y_true=None")
    assert str(caught.value) == (
        "--loss is 'ppl'; give another: zero_one, log, squared or absolute, or --losses for a "
        "column of them"
    )


def test_what_is_no_argument_is_left_alone() -> None:
    with pytest.raises(InputError, match=r"^gamma\.csv is empty; add rows$"), in_options(FIT):
        raise InputError("gamma.csv", "is empty", "add rows")
    with pytest.raises(InputError, match=r"^gamma is of no"), in_options(FIT, [Path("gamma")]):
        raise InputError("gamma", "is of no known kind", "rename it")
    with pytest.raises(ValueError, match=r"^gamma is plain$"), in_options(FIT):
        raise ValueError("gamma is plain")
