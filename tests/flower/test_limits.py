"""The limits that a client's owner sets: what they stop, what they leave, and what is paid."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower.limited import (
    Curious,
    D,
    exchanged,
    hospitals,
    limits_in,
    n_read,
    part,
    rows_by_bisection,
    table,
)
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

import anymix as ax
from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    ClientLimits,
    Judging,
    LocalGrid,
    Noise,
    Patience,
    client_app,
    federated_certify,
    federated_fit,
    federated_solve,
)
from anymix.flower.client_errors import CannotAnswerError, Reason, RefusedError
from anymix.flower.client_limits import Ledger
from anymix.flower.wire import EVALUATE, FOLDS, MOMENTS, SOLVE, TRAIN, WHO, pack
from anymix.problem.part_sums import PROOF, Question

Array = NDArray[np.float64]
LOOK = ("losses", "jacobian")
ONES = np.ones(3)


def question(w: Array | None = None, want: tuple[str, ...] = LOOK, **options: Any) -> Question:
    return Question(np.zeros(D) if w is None else w, ONES, want, **options)


def settings(**changed: Any) -> dict[str, Any]:
    """Those of a question of a training without epochs."""
    usual = {"seed": 0, "round": 1, "batch_size": 0, "local_epochs": 0, "step": 1.0, "gamma": 0.0}
    usual["corrects"] = False
    return {**usual, "weights": np.ones(6), "hold_out": [0.0, 0], **changed}


def spent(limits: ClientLimits) -> set[tuple[int, int]]:
    return set(Ledger(limits.ledger).spent().values())


def optimum(gamma: float) -> float:
    return ax.solve(ax.LinearDomains(*table()), gamma=gamma, tol=1e-9).objective


# -- what is left: solving --------------------------------------------------------------------


@pytest.mark.parametrize(("gamma", "most"), [(1e-3, 10), (1e-5, 60)])
def test_a_certified_solve_has_room_within_the_limits(
    gamma: float, most: int, tmp_path: Path
) -> None:
    limits = limits_in(tmp_path)
    found = federated_solve(hospitals(3, limits), gamma=gamma, tol=1e-4)
    assert found.certificate.gap <= 1e-4
    assert found.objective <= optimum(gamma) + 1e-4
    [(questions, curvatures)] = spent(limits)
    assert questions <= most
    assert curvatures <= 20
    if gamma == 1e-3:  # no model on its way is too long, and it is the same to the bit
        assert questions == len(found.rounds)
        free = federated_solve(hospitals(3), gamma=gamma, tol=1e-4)
        assert np.array_equal(found.w, free.w)
        assert found.certificate == free.certificate


@pytest.mark.parametrize("gamma", [1e-2, 1e-3, 1e-4])
def test_where_curvature_is_refused_gradients_lead_to_the_optimum(
    gamma: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = limits_in(tmp_path)
    found = federated_solve(hospitals(6, limits), gamma=gamma, tol=1e-5)
    best = optimum(gamma)
    assert found.by_gradients
    assert "limits.rows" in caplog.text
    assert best - 1e-9 <= found.objective <= best + 1e-4
    assert best - 1e-5 <= found.certificate.lower <= best + 1e-9
    [(questions, curvatures)] = spent(limits)
    assert questions <= 60
    assert curvatures <= 2  # the first question, and the products of columns


def test_a_second_solve_goes_on_without_curvature(tmp_path: Path) -> None:
    limits = limits_in(tmp_path, curvatures=12)
    first = federated_solve(hospitals(2, limits), gamma=1e-3, tol=1e-4)
    second = federated_solve(hospitals(2, limits), gamma=1e-3, tol=1e-4)
    assert (first.by_gradients, second.by_gradients) == (False, True)
    assert abs(first.objective - second.objective) < 1e-4
    assert max(c for _, c in spent(limits)) == 12


def test_columns_in_any_unit_are_measured_by_their_own_spreads(tmp_path: Path) -> None:
    units = 10.0 ** np.random.default_rng(0).integers(-4, 4, size=30)
    X, y, d = table()
    server = Curious(hospitals(1, limits_in(tmp_path), [(units * (X + 7), y, d)]))
    v = np.ones(30) / np.sqrt(30)
    for length, refusals in ((29.9, set()), (30.1, {"limits.norm"})):
        w = np.append(length * v / units, -7 * length * v.sum())
        server.sums(question(w))
        assert server.refusals == refusals


def test_numbers_are_measured_by_the_spread_of_the_targets(tmp_path: Path) -> None:
    X, _, d = table()
    income = 50_000 + 20_000 * X[:, 0]
    some = np.arange(300)
    grid = hospitals(
        1, limits_in(tmp_path), [(X[some], income[some], d[some])], loss=ax.SquaredError(),
        classes=None,
    )  # fmt: skip
    found = federated_solve(grid, gamma=1e-3)
    assert found.w[-1] == pytest.approx(50_000, rel=0.1)


@pytest.mark.parametrize(("length", "refusals"), [(2.9, set()), (3.1, {"limits.norm"})])
def test_exponential_means_have_shorter_models(
    length: float, refusals: set[str], tmp_path: Path
) -> None:
    X, y, d = table()
    grid = hospitals(
        1, limits_in(tmp_path), [(X, 100.0 + y, d)], loss=ax.Poisson(), classes=None
    )  # fmt: skip
    server = Curious(grid)
    server.sums(question(np.append(length * np.eye(30)[0], np.log(100.0))))
    assert server.refusals == refusals


# -- what is stopped --------------------------------------------------------------------------


@pytest.mark.parametrize("T", [1e3, 1e13])
def test_a_model_that_switches_is_refused_at_once(T: float, tmp_path: Path) -> None:
    server = Curious(hospitals(6, limits_in(tmp_path)))
    assert read_rows(server, T) == 0
    assert (server.asked, server.refusals) == (2, {"limits.norm"})  # both ends of the line


@pytest.mark.parametrize("T", [10.0, 25.0])
def test_a_shorter_model_reads_no_row_in_sixty_questions(T: float, tmp_path: Path) -> None:
    limits = limits_in(tmp_path)
    server = Curious(hospitals(6, limits))
    assert read_rows(server, T, ends=2.9) == 0
    while not server.refusals:
        server.sums(question())
    assert (server.asked, server.refusals) == (61, {"limits.questions"})
    assert spent(limits) == {(60, 0)}


def test_the_attack_works_where_there_are_no_limits() -> None:
    assert read_rows(Curious(hospitals(6)), 1e13) > 500


def read_rows(server: Curious, T: float, ends: float = 30.0) -> int:
    v = np.random.default_rng(5).normal(size=30)
    v /= np.linalg.norm(v)

    def ask(c: float) -> Array | None:
        c = float(np.clip(c, -ends, ends))
        found = server.sums(question(np.append(T * v, -T * c)))
        return None if found is None else np.sum([a["jacobian"].sum(axis=0) for a in found], axis=0)

    return n_read(rows_by_bisection(ask))


@pytest.mark.parametrize(
    ("kind", "arrays", "changed"),
    [
        (TRAIN, {"w": np.full(D, 30.0)}, {}),
        (EVALUATE, {"w": np.full(D, 30.0)}, {"held": False}),
        (EVALUATE, {"w": np.zeros(D)}, {"held": False, "beside": np.full(D, 30.0)}),
    ],
    ids=["train", "evaluate", "beside"],
)
def test_the_norm_holds_for_every_kind(
    kind: str, arrays: Any, changed: Any, tmp_path: Path
) -> None:
    limits = limits_in(tmp_path)
    server = Curious(hospitals(2, limits))
    assert server.ask(kind, arrays, settings(**changed)) is None
    assert server.refusals == {"limits.norm"}
    assert spent(limits) == {(1 + ("beside" in changed), 0)}  # paid for all the same


@pytest.mark.parametrize("n", [20, 31, 40])
def test_two_curvatures_of_few_rows_are_refused(n: int, tmp_path: Path) -> None:
    """x12: an ordinary solve, with a practice of n ≤ D + 20 rows of one domain."""
    X, y, _ = table()
    few = [(X[:n], y[:n], ["a"] * n), (X[n:], y[n:], ["a"] * (569 - n))]
    grid = hospitals(2, limits_in(tmp_path), few)
    server = Curious(grid, grid.get_node_ids())
    for want in (("curvature",), ("diagonal",), ("product",), PROOF):
        asked = Question(np.zeros(D), np.ones(1), want, np.ones(D), n_free=1)
        assert server.sums(asked) is None
        assert server.refusals == {"limits.rows"}
    assert federated_solve(grid, gamma=1e-2).by_gradients


def test_many_curvatures_at_small_w_are_refused(tmp_path: Path) -> None:
    """x13: as many questions as a domain has rows, at |w| = 1."""
    rng = np.random.default_rng(0)
    server = Curious(hospitals(6, limits_in(tmp_path)))
    for _ in range(32):
        w = rng.normal(size=D)
        asked = question(w / np.linalg.norm(w), (*LOOK, "curvature"))
        assert server.sums(asked) is None
    assert server.refusals == {"limits.curvatures"}  # the refusals have been paid for too


def test_one_domain_of_many_rows_is_answered_about(tmp_path: Path) -> None:
    """The rule is about the domains that a question weighs, each by itself."""
    X, y, _ = table()
    d = np.where(np.arange(569) < 40, "few", "many")
    server = Curious(hospitals(1, limits_in(tmp_path), [(X, y, d)]))
    for weights, refusals in (([0.0, 1.0], set()), ([1e-9, 1.0], {"limits.rows"})):
        server.sums(Question(np.zeros(D), np.array(weights), ("curvature",)))
        assert server.refusals == refusals


@pytest.mark.parametrize(
    "asked",
    [
        question(np.full(D, np.nan)),
        question(np.append(np.zeros(30), 91.0)),
        question(want=PROOF, step=1e13 * np.ones(D), n_free=1),
        question(want=PROOF, step=np.ones(D), scale=1e13, n_free=1),
    ],
    ids=["nan", "intercept", "direction", "scale"],
)
def test_other_ways_to_a_switch_are_refused(asked: Question, tmp_path: Path) -> None:
    server = Curious(hospitals(2, limits_in(tmp_path)))
    assert server.sums(asked) is None
    assert server.refusals == {"limits.norm"}


@pytest.mark.parametrize(
    ("kind", "arrays", "changed"),
    [
        (TRAIN, {"w": np.zeros(D)}, {"batch_size": 1}),
        (TRAIN, {"w": np.zeros(D)}, {"hold_out": [0.01, 0]}),
        (TRAIN, {"w": np.zeros(D)}, {"hold_out": [-0.01, 0]}),
        (TRAIN, {"w": np.zeros(D)}, {"local_epochs": 2, "step": 1e13}),
        (TRAIN, {"w": np.zeros(D)}, {"local_epochs": 1}),
        (MOMENTS, {}, {"hold_out": [0.01, 0], "products": False}),
        (FOLDS, {}, {"folds": 500, "seed": 0, "about": "counts"}),
    ],
    ids=[
        "batch",
        "hold out",
        "hold out less",
        "local steps",
        "epochs",
        "columns of a part",
        "folds",
    ],
)
def test_sums_over_parts_of_the_rows_are_refused(
    kind: str, arrays: Any, changed: Any, tmp_path: Path
) -> None:
    limits = limits_in(tmp_path)
    server = Curious(hospitals(2, limits))
    assert server.ask(kind, arrays, settings(**changed)) is None
    assert server.refusals == {"limits.kinds"}
    assert spent(limits) == set()  # it says nothing of the rows, and costs nothing


def test_a_domain_of_few_rows_is_not_named(tmp_path: Path) -> None:
    X, y, _ = table()
    parts = [(X, y, np.where(np.arange(569) < 19, "rare", "usual"))]
    [told] = Curious(hospitals(1, limits_in(tmp_path), parts)).ask(WHO, {}, {}) or []
    assert told["domains"] == ["usual"]
    assert told["counts"].tolist() == [550.0]
    described = hospitals(
        1, limits_in(tmp_path), parts, describe=lambda context: ({"rare": 19, "usual": 550}, 30)
    )
    [told] = Curious(described).ask(WHO, {}, {}) or []
    assert told["domains"] == ["usual"]


def test_a_row_that_is_alone_in_a_column_is_read_all_the_same(tmp_path: Path) -> None:
    """docs/federated.md says so: limits are a price, and no promise."""
    X, y, d = table()
    alone = np.zeros((569, 1))
    alone[100] = 1.0
    server = Curious(hospitals(1, limits_in(tmp_path), [(np.hstack([X, alone]), y, d)]))
    at = [server.sums(question(t * np.eye(32)[30])) for t in (-30.0, 30.0)]
    low, high = (np.sum([a["jacobian"].sum(axis=0) for a in found or ()], axis=0) for found in at)
    assert np.abs((high - low)[:30] - X[100]).max() < 1e-10


# -- who is told what -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "setting"),
    [
        (lambda grid: federated_fit(grid), "limits.kinds"),
        (
            lambda grid: AgnosticStrategy(ax.Objective(gamma=0.01)).start(grid, num_rounds=70),
            "limits.questions",
        ),
        (
            lambda grid: AgnosticStrategy(judging=Judging(hold_out=0.2)).start(grid, num_rounds=2),
            "limits.kinds",
        ),
        (
            lambda grid: federated_certify(grid, None, np.zeros(D), np.ones(3) / 3, gamma=0.1),
            "limits.rows",
        ),
    ],
    ids=["cross-validation", "rounds", "held out", "certify"],
)
def test_what_is_beyond_ends_in_one_error_that_names_the_setting(
    run: Any, setting: str, tmp_path: Path
) -> None:
    grid = hospitals(6, limits_in(tmp_path))
    with pytest.raises(InputError) as raised:
        run(grid)
    assert raised.value.argument == setting
    assert isinstance(raised.value, RefusedError)


def test_cross_validation_with_limits_that_are_opened(tmp_path: Path) -> None:
    options: Any = {"folds": 2, "gammas": [0.1], "robustness": [1.0]}
    limits = limits_in(tmp_path, questions=400, curvatures=150, kinds=("solve", "parts"))
    X, y, d = table()
    many = [(np.tile(X, (4, 1)), np.tile(y, 4), np.tile(d, 4))]
    found = federated_fit(hospitals(1, limits, many), **options)
    assert np.array_equal(found.w, federated_fit(hospitals(1, None, many), **options).w)
    [(questions, curvatures)] = spent(limits)
    assert len(found.rounds) < questions  # a message may have many questions
    assert curvatures > 20


def test_a_run_of_as_many_rounds_as_are_left_ends_well(tmp_path: Path) -> None:
    found, free = (
        AgnosticStrategy(ax.Objective(gamma=1e-3)).start(hospitals(3, limits), num_rounds=57)
        for limits in (limits_in(tmp_path), None)
    )
    assert np.array_equal(found.w_best, free.w_best)
    assert max(q for q, _ in spent(limits_in(tmp_path))) == 60  # columns, and two models at the end


def test_a_client_that_refuses_is_not_asked_again(tmp_path: Path) -> None:
    limits = limits_in(tmp_path, questions=1)
    with pytest.raises(RefusedError):
        federated_solve(hospitals(3, limits), attempts=3)
    server = Curious(hospitals(3, limits))
    server.sums(question())
    assert server.refusals == {"limits.questions"}


def test_the_owner_reads_why_and_the_server_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = hospitals(6, limits_in(tmp_path))
    content = pack(*question(want=("curvature",)).to_arrays())
    [reply] = exchanged(grid, [Message(content, grid.get_node_ids()[0], SOLVE)])
    assert reply.error.reason == "limits.rows"
    assert "51" in caplog.text  # rows that are needed, in the client's log


# -- where limits come from -------------------------------------------------------------------

FILE = """
questions = 2
norm = 5.0
kinds = ["solve"]
[noise]
epsilon = 4.0
row_clip = 2.0
"""


def test_the_file_of_the_node_goes_before_the_app_and_the_run_config(tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text("questions = 2")

    def load(context: Context) -> Any:
        return part(0, 3)

    app = client_app(load, classes=[0, 1], limits=limits_in(tmp_path / "app", questions=50))
    node = {"key": "ward", "limits": str(tmp_path / "limits.toml")}
    nowhere = {"limits": str(tmp_path / "nowhere.toml"), "questions": 1000}
    server = Curious(LocalGrid(app, [node], run_config=nowhere))
    asked = [server.sums(question()) is None for _ in range(3)]
    assert asked == [False, False, True]
    assert not (tmp_path / "app").exists()
    assert {2} == {q for q, _ in Ledger(tmp_path / "ledger.db").spent().values()}


def test_a_node_whose_file_is_not_there_answers_nothing(tmp_path: Path) -> None:
    app = client_app(lambda context: part(0, 3), classes=[0, 1])
    server = Curious(LocalGrid(app, [{"key": "ward", "limits": str(tmp_path / "limits.toml")}]))
    assert server.ask(WHO, {}, {}) is None
    assert server.refusals == {"failed"}


def test_what_a_file_says(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(FILE)
    noise = Noise(4.0, row_clip=2.0)
    same = ClientLimits(tmp_path / "ledger.db", questions=2, norm=5.0, kinds=["solve"], noise=noise)
    assert ClientLimits.read(path) == same


def test_the_defaults_are_those_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/federated.md").read_text(encoding="utf-8")
    path = tmp_path / "limits.toml"
    path.write_text("#" + page.split("```toml\n# /etc/anymix/limits.toml")[1].split("```")[0])
    found, usual = ClientLimits.read(path), limits_in(tmp_path)
    assert dataclasses.replace(found, kinds=tuple(found.kinds)) == usual
    path.write_text(path.read_text().replace("# [", "[").replace("# epsilon", "epsilon"))
    assert ClientLimits.read(path).noise == Noise(4.0)


@pytest.mark.parametrize("text", ["question = 2", "[noise]\nepsilon = 1.0\nz = 0.0"])
def test_a_setting_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        ClientLimits.read(path)
    assert raised.value.argument == str(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("rows", 0), ("questions", 0), ("curvatures", -1), ("norm", 0.0), ("kinds", "solve")],
)
def test_limits_that_are_none(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        limits_in(tmp_path, **{name: value})
    assert raised.value.argument == name


def test_another_library_s_app_has_them_in_part(tmp_path: Path) -> None:
    app = ClientApp(mods=[limits_in(tmp_path, questions=2, kinds=["train"])])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        if "secret" in message.content:
            raise ValueError("Meyer Anna *1977 HIV+")
        return Message(RecordDict(), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return Message(RecordDict(), reply_to=message)

    grid = LocalGrid(app, 1)
    told = []
    for kind, content in [
        ("evaluate", RecordDict()),
        ("train", RecordDict()),
        ("train", RecordDict({"secret": pack({}, {})["settings"]})),
        ("train", RecordDict()),
    ]:
        [reply] = exchanged(grid, [Message(content, grid.get_node_ids()[0], kind)])
        told.append(reply.error.reason if reply.has_error() else None)
    assert told == ["limits.kinds", None, "failed", "limits.questions"]


# -- the ledger -------------------------------------------------------------------------------


def test_one_table_at_two_nodes_and_a_table_that_grows_have_one_account(tmp_path: Path) -> None:
    limits = limits_in(tmp_path, questions=3)
    X, y, d = table()

    def asked(key: str, n: int) -> bool:
        app = client_app(lambda context: (X[:n], y[:n], d[:n]), classes=[0, 1], limits=limits)
        return Curious(LocalGrid(app, [{"key": key}])).sums(question()) is not None

    assert [asked("a", 300), asked("b", 300), asked("a", 301)] == [True, True, True]
    assert [asked("c", 300), asked("c", 300)] == [True, False]  # three questions about the 300
    assert [asked("a", 302), asked("a", 303)] == [True, False]  # three to a


def test_nobody_pays_with_the_last_question_twice(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    price = {"questions": 1, "curvatures": 0, "most_questions": 40, "most_curvatures": 0}

    def pay(i: int) -> bool:
        try:
            ledger.pay(["rows"], "train", price, "")
            return True
        except CannotAnswerError as error:
            return error.reason != Reason.LIMIT_QUESTIONS

    with ThreadPoolExecutor(8) as pool:
        paid = list(pool.map(pay, range(80)))
    assert sum(paid) == 40
    assert ledger.spent() == {"rows": (40, 0)}


def test_a_ledger_that_was_killed_at_its_birth_is_empty(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    Path(ledger.path).touch()
    assert ledger.spent() == {}


CLIENT = """
import os, signal, sys
from pathlib import Path
import numpy as np
from flwr.app import Message
import anymix as ax
from anymix.flower import ClientLimits, LocalGrid, client_app
from anymix.flower.wire import SOLVE, pack
from anymix.problem.part_sums import Question

folder, how = Path(sys.argv[1]), sys.argv[2]

class Deadly(ax.CrossEntropy):
    def derivatives(self, z, y, order):
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)  # paid for, and not looked at yet
        return super().derivatives(z, y, order)

rng = np.random.default_rng(0)
X, y = rng.normal(size=(50, 2)), np.arange(50) % 2
limits = ClientLimits(folder / "ledger.db", questions=300)
app = client_app(lambda context: (X, y, ["a"] * 50), loss=Deadly(), classes=[0, 1], limits=limits)
grid = LocalGrid(app, 1)
node = grid.get_node_ids()[0]
print("begins", flush=True)
while True:
    content = pack(*Question(np.zeros(3), np.ones(1), ("losses",)).to_arrays())
    [reply] = grid.send_and_receive([Message(content, node, SOLVE)])
    print(reply.error.reason if reply.has_error() else "answer", flush=True)
    if reply.has_error():
        break
"""


def start(folder: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CLIENT, str(folder), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})


def n_paid(folder: Path) -> int:
    return max((q for q, _ in Ledger(folder / "ledger.db").spent().values()), default=0)


def test_killed_between_paying_and_looking_it_has_paid(tmp_path: Path) -> None:
    process = start(tmp_path, "dies")
    told, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert told.split() == ["begins"]
    assert n_paid(tmp_path) == 1


def test_no_question_is_free_whenever_it_is_killed(tmp_path: Path) -> None:
    answers = 0
    for lines in (1, 40, 90):  # then it is killed, wherever it is
        process = start(tmp_path, "lives")
        assert process.stdout is not None
        read = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        rest, _ = process.communicate(timeout=60)
        answers += [line.strip() for line in [*read, *rest.splitlines()]].count("answer")
        assert n_paid(tmp_path) >= answers
    process = start(tmp_path, "lives")
    told, _ = process.communicate(timeout=60)
    answers += told.split().count("answer")
    assert told.split()[-1] == "limits.questions"
    assert n_paid(tmp_path) == 300
    assert 297 <= answers <= 300  # each time it was killed, one may have been paid for in vain


def test_patience_does_not_buy_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A refusal ends the run at once, and is not waited for until the deadline."""
    caplog.set_level(logging.WARNING)
    strategy = AgnosticStrategy(patience=Patience("wait", deadline=600.0))
    with pytest.raises(RefusedError):
        strategy.start(hospitals(3, limits_in(tmp_path, questions=4)), num_rounds=10)
