from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conic import Case, random_case
from flwr.app import Context, Message
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from anymix import datasets
from anymix.certificates import certify
from anymix.domains import LinearDomains
from anymix.exact import solve
from anymix.flower import LocalGrid, client_app, federated_solve
from anymix.flower.messages import SOLVE, pack, unpack
from anymix.flower.oracle import Clients
from anymix.flower.roster import Roster, find_members
from anymix.flower.solving import federated_certify
from anymix.losses import CrossEntropy, Hinge, Huber, SquaredError
from anymix.mixtures import Chi2Ball, Point, Simplex
from anymix.penalties import DirichletPrior

Array = NDArray[np.float64]
Table = tuple[Array, Any, Any]

LOSSES = {
    "binary": CrossEntropy(),
    "three": CrossEntropy(),
    "squared": SquaredError(),
    "huber": Huber(0.5),
}


def table(name: str = "binary", n: int = 90, p: int = 3) -> Table:
    rng = np.random.default_rng(5)
    X, domains = rng.normal(size=(n, 3)), np.arange(n) % p
    y: Any = X[:, 0] * (1 + 0.5 * domains) + rng.logistic(size=n)
    if name == "binary":
        y = np.where(y > 0, "yes", "no")
    elif name == "three":
        y = np.digitize(y, [-1.0, 1.0])
    return X, y, np.array(["c", "a", "b"])[domains]


def grid_of(
    rows: Table, place: Any, loss: Any = None, kind: type[LocalGrid] = LocalGrid, seed: int = 0
) -> Any:
    """Row i lives at client place[i]."""
    X, y, domains = rows

    def load(context: Context) -> Table:
        mine = place == context.node_config["partition-id"]
        return X[mine], y[mine], domains[mine]

    classes = np.unique(y) if isinstance(loss, CrossEntropy | None) else None
    app = client_app(load, loss=loss, classes=classes)
    return kind(app, nodes=int(np.max(place)) + 1, seed=seed)


def spread(rows: Table, how: str) -> NDArray[np.int64]:
    n = len(rows[1])
    match how:
        case "a client is a domain":
            return np.unique(rows[2], return_inverse=True)[1]
        case "a domain is many clients":
            return np.unique(rows[2], return_inverse=True)[1] + 3 * (np.arange(n) % 2)
        case "a client holds several domains":
            return np.arange(n) % 7
        case _:
            return np.zeros(n, dtype=np.int64)


# -- the same answer as with all rows at one place -------------------------------------------------


@pytest.mark.parametrize(
    "how",
    ["a client is a domain", "a domain is many clients", "a client holds several domains", "one"],
)
@pytest.mark.parametrize("name", LOSSES)
def test_the_solution_is_the_one_of_all_rows(name: str, how: str) -> None:
    rows = table(name)
    problem = LinearDomains(*rows, LOSSES[name])
    central = solve(problem, gamma=1e-2, tol=1e-12)
    federated = federated_solve(
        grid_of(rows, spread(rows, how), LOSSES[name]), gamma=1e-2, tol=1e-12
    )
    assert federated.converged
    assert federated.objective == pytest.approx(central.objective, abs=1e-9)
    np.testing.assert_allclose(federated.w, central.w, atol=1e-6)
    np.testing.assert_allclose(federated.domain_losses, problem.losses(federated.w), rtol=1e-12)
    assert federated.domain_names == ("a", "b", "c")
    assert federated.sizes.tolist() == problem.sizes.tolist()


def spread_case(case: Case, n_clients: int) -> LocalGrid:
    """Rows with memberships in several domains; a client names only the domains it holds."""
    weight = 1.0 if case.weight is None else case.weight[:, None]
    members = pd.DataFrame(case.memberships * weight)
    members.columns = [f"domain {k:02}" for k in members.columns]
    place = np.arange(len(members)) % n_clients

    def load(context: Context) -> Any:
        rows = np.flatnonzero(place == context.node_config["partition-id"])
        mine = members.iloc[rows]
        return case.X[rows], case.y[rows], mine.loc[:, mine.sum() > 0]

    classes = np.unique(case.y) if isinstance(case.loss, CrossEntropy) else None
    app = client_app(load, loss=case.loss, intercept=case.intercept, classes=classes)
    return LocalGrid(app, nodes=n_clients)


@pytest.mark.parametrize("seed", range(72))
def test_objective_and_proof_are_those_of_cvxpy(seed: int) -> None:
    cases = (random_case(seed + 36 + 144 * k) for k in range(5))  # γ of 1e-6 and 1e-3
    case = next(case for case in cases if case.memberships.shape[1] > 1)
    value = case.reference()
    solution = federated_solve(spread_case(case, 3), case.mixtures, tol=1e-9, **case.objective)
    assert solution.objective == pytest.approx(value, rel=1e-7, abs=2e-8)
    assert solution.certificate.lower <= value + 1e-7 * max(1.0, abs(value))
    assert solution.converged


@pytest.mark.parametrize("name", LOSSES)
def test_without_a_regularizer(name: str) -> None:
    rows = table(name)
    central = solve(LinearDomains(*rows, LOSSES[name]), gamma=0.0, tol=1e-9)
    grid = grid_of(rows, np.arange(90) % 4, LOSSES[name])
    assert federated_solve(grid, gamma=0.0, tol=1e-9).objective == pytest.approx(
        central.objective, abs=2e-9
    )


@pytest.mark.parametrize(
    ("mixtures", "more"),
    [
        (Point([0.2, 0.3, 0.5]), {}),
        (lambda sizes: Chi2Ball(sizes, 1.3), {}),
        (lambda sizes: Point(sizes / sizes.sum()), {}),
        (Simplex(3), {"mu": 0.1}),
        (None, {"prior": DirichletPrior([1.5, 1.5, 2.0])}),
        (None, {"norm": "plain"}),
        (None, {"offsets": [0.3, 0.0, 0.1]}),
    ],
)
def test_every_objective_of_solve(mixtures: Any, more: dict[str, Any]) -> None:
    rows = table()
    problem = LinearDomains(*rows)
    chosen = mixtures(problem.sizes) if callable(mixtures) else mixtures
    central = solve(problem, chosen, tol=1e-10, **more)
    federated = federated_solve(grid_of(rows, np.arange(90) % 4), mixtures, tol=1e-10, **more)
    assert federated.objective == pytest.approx(central.objective, abs=1e-9)


def test_a_class_that_no_row_has() -> None:
    X, y, domains = table("three")
    problem = LinearDomains(X, y, domains, classes=[0, 1, 2, 3])  # its intercept goes to −∞

    def load(context: Context) -> Table:
        mine = np.arange(90) % 4 == context.node_config["partition-id"]
        return X[mine], y[mine], domains[mine]

    grid = LocalGrid(client_app(load, classes=[0, 1, 2, 3]), nodes=4)
    central, federated = solve(problem, gamma=1e-2), federated_solve(grid, gamma=1e-2)
    assert federated.certificate.gap <= 1e-6
    assert federated.objective == pytest.approx(central.objective, abs=2e-6)


def test_domains_with_one_class_each() -> None:
    X, y, _ = table("three")
    rows = X, y, np.array(["a", "b", "c"])[y]
    central = solve(LinearDomains(*rows), gamma=1e-2)
    federated = federated_solve(grid_of(rows, y), gamma=1e-2)
    assert federated.certificate.gap <= 1e-6
    assert federated.objective == pytest.approx(central.objective, abs=2e-6)
    lonely = federated_solve(grid_of(rows, y), Point([1.0, 0.0, 0.0]), gamma=1e-2)
    assert lonely.objective == pytest.approx(0.0, abs=1e-5)


def test_the_order_of_domains_can_be_chosen() -> None:
    rows, names = table(), ["c", "a", "b"]
    solution = federated_solve(grid_of(rows, np.arange(90) % 4), domains=names)
    losses = dict(zip(names, solution.domain_losses, strict=True))
    expected = LinearDomains(*rows).losses(solution.w)  # of a, b, c
    assert [losses[k] for k in "abc"] == pytest.approx(expected, rel=1e-12)


def test_small_targets_are_solved_in_their_own_unit() -> None:
    X, y, domains = table("squared")
    rows = X, 5.0 + 1e-4 * y, domains  # a gap of 1e-6 says nothing here
    solution = federated_solve(grid_of(rows, np.arange(90) % 4, SquaredError()), gamma=1e-3)
    problem = LinearDomains(*rows, SquaredError())
    assert solution.certificate.gap <= 1e-6 * problem.loss_scale < 1e-12
    assert solution.converged


def test_bits_do_not_depend_on_node_ids() -> None:
    rows, place = table("three"), np.arange(90) % 12  # keys "10" and "11" sort before "2"
    one, two = (federated_solve(grid_of(rows, place, seed=s)) for s in (0, 1))
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.mixture, two.mixture)


def test_adult_with_20_clients() -> None:
    data = datasets.load_adult()
    place = np.random.default_rng(0).integers(20, size=len(data.y))
    grid = grid_of((data.X, data.y, data.domains), place)
    solution = federated_solve(grid)
    assert solution.certificate.gap <= 1e-6
    assert len(solution.rounds) + 1 <= 20  # with the question who is there
    assert len(solution.rounds) == 1 + solution.n_iter + 1  # the start, a round a step, the proof
    problem = LinearDomains(data.X, data.y, data.domains)
    central, close = solve(problem, tol=1e-12), federated_solve(grid, tol=1e-12)
    assert close.objective == pytest.approx(central.objective, abs=1e-9)
    np.testing.assert_allclose(close.w, central.w, atol=1e-9)
    assert len(close.rounds) + 1 <= 20


# -- certificates ----------------------------------------------------------------------------------


def clients_of(grid: LocalGrid, mixture: Any) -> Clients:
    return Clients(grid, Roster.of(find_members(grid).values()), np.asarray(mixture))


@pytest.mark.parametrize("name", LOSSES)
def test_a_certificate_holds_far_from_the_optimum(name: str) -> None:
    rows = table(name)
    grid = grid_of(rows, np.arange(90) % 4, LOSSES[name])
    best = solve(LinearDomains(*rows, LOSSES[name]), gamma=0.1, tol=1e-12).objective
    rng = np.random.default_rng(0)
    clients = clients_of(grid, np.full(3, 1 / 3))
    for scale in (1e-3, 0.1, 1.0, 10.0):
        w = scale * rng.normal(size=clients.n_parameters)
        proof = certify(clients, Simplex(3), w, rng.dirichlet(np.ones(3)), gamma=0.1)
        assert proof.lower <= best + 1e-12
        assert proof.upper >= best - 1e-12


@pytest.mark.parametrize("name", LOSSES)
def test_a_model_of_any_origin_is_certified(name: str) -> None:
    rows = table(name)
    problem = LinearDomains(*rows, LOSSES[name])
    best = solve(problem, gamma=0.1, tol=1e-12)
    near = best.w + 1e-4 * np.random.default_rng(0).normal(size=len(best.w))
    grid = grid_of(rows, np.arange(90) % 4, LOSSES[name], kind=Spy)
    proof = federated_certify(grid, None, near, best.mixture, gamma=0.1)
    central = certify(problem, Simplex(3), near, best.mixture, gamma=0.1)
    assert proof.upper == pytest.approx(central.upper, rel=1e-13)
    assert best.objective - 1e-6 <= proof.lower <= best.objective + 1e-12
    assert len(grid.heard) == 4 * 3  # and the question who is there


def test_certify_refuses_as_certify_does() -> None:
    grid = grid_of(table(), np.arange(90) % 4)
    with pytest.raises(ValueError, match="mixture is not in"):
        federated_certify(grid, None, np.zeros(4), [0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="mixture is not in"):
        federated_certify(grid, None, np.zeros(4), [0.5, 0.5])
    with pytest.raises(TimeoutError, match="4 of 5 clients"):
        federated_certify(grid, None, np.zeros(4), [1.0, 0.0, 0.0], n_clients=5, timeout=0.1)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_dual_is_a_minorant_for_any_step(name: str, scale: float) -> None:
    rows = table(name)
    problem = LinearDomains(*rows, LOSSES[name])
    lam = np.array([0.2, 0.3, 0.5])
    look = clients_of(grid_of(rows, np.arange(90) % 4, LOSSES[name]), lam).at(
        np.zeros(problem.n_parameters)
    )
    rng = np.random.default_rng(1)
    for step in (None, 0.1 * rng.normal(size=problem.n_parameters)):
        value, v, _ = look.dual(lam, step, scale)
        assert np.isfinite(value)
        for w in np.repeat([0.01, 1.0], 50)[:, None] * rng.normal(size=(100, len(v))):
            assert lam @ problem.losses(w) >= value + v @ w - 1e-12


def test_hessian_of_another_mixture_is_asked_for() -> None:
    rows = table("three")
    problem, clients = LinearDomains(*rows), clients_of(grid_of(rows, np.arange(90) % 4), [1, 0, 0])
    w, lam = np.linspace(-1, 1, 12), np.array([0.1, 0.6, 0.3])
    look = clients.look(w, lam)
    n_rounds = len(clients.rounds)
    for mixture in (lam, np.array([0.5, 0.5, 0.0])):
        np.testing.assert_allclose(look.hessian(mixture), problem.hessian(w, mixture), atol=1e-14)
        np.testing.assert_allclose(look.gradient(mixture), problem.gradient(w, mixture), atol=1e-14)
    assert len(clients.rounds) == n_rounds + 1


def test_what_is_known_is_not_asked_again() -> None:
    clients = clients_of(grid_of(table(), np.arange(90) % 4), [1.0, 0.0, 0.0])
    for w in (np.zeros(4), np.ones(4), np.zeros(4), np.ones(4)):
        clients.at(w)
    assert len(clients.rounds) == 2


def test_reach_is_at_least_the_largest_number_of_every_column() -> None:
    X, _, _ = rows = table("three")
    clients = clients_of(grid_of(rows, np.arange(90) % 4), [1.0, 0.0, 0.0])
    column = np.tile(np.append(np.max(np.abs(X), axis=0), 1.0), 3)
    assert np.all(column <= clients.reach)
    assert np.all(clients.reach <= 90 ** (1 / 8) * column * (1 + 1e-12))


# -- what leaves a client --------------------------------------------------------------------------


class Spy(LocalGrid):
    """Keeps the arrays of every message and its reply."""

    def __init__(self, *a: Any, **k: Any) -> None:
        super().__init__(*a, **k)
        self.heard: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def _answer(self, message: Message, context: Context) -> Message:
        reply = super()._answer(message, context)
        if message.metadata.message_type == SOLVE:
            self.heard.append((unpack(message.content)[0], unpack(reply.content)[0]))
        return reply


def test_only_sums_leave_a_client() -> None:
    p, D = 3, 4
    look = {"losses": (p,), "jacobian": (p, D), "curvature": (D * (D + 1) // 2,)}
    about = look | {"penalized": (D,), "powers": (D,), "targets": (2,), "kind": (3,)}
    proof = {"conjugate": (2,), "slope": (D,), "error": (D,)}
    for n in (90, 900):
        grid = grid_of(table(n=n), np.arange(n) % 4, kind=Spy)
        solution = federated_solve(grid, gamma=1e-2)
        shapes = [{name: a.shape for name, a in reply.items()} for _, reply in grid.heard]
        assert shapes[:4] == [about] * 4
        assert shapes[-4:] == [proof] * 4
        assert all(shape == look for shape in shapes[4:-4])
        assert len(shapes) == 4 * len(solution.rounds)
        sent = sum(a.nbytes for question, _ in grid.heard for a in question.values())
        assert sum(r["sent"] for r in solution.rounds) - sent in range(200 * len(grid.heard) * 3)


def test_rows_without_weight_send_no_curvature() -> None:
    rows = table()
    grid = grid_of(rows, spread(rows, "a client is a domain"), kind=Spy)
    federated_solve(grid, Point([0.0, 1.0, 0.0]))
    looks = [(q["weights"], reply) for q, reply in grid.heard if "step" not in q]
    assert any(np.any(weights) for weights, _ in looks)
    for weights, reply in looks:
        assert ("curvature" in reply) == bool(np.any(weights))


def test_a_good_start_saves_rounds() -> None:
    grid = grid_of(table(), np.arange(90) % 4)
    first = federated_solve(grid, gamma=1e-2)
    again = federated_solve(grid, gamma=1.01e-2, start=first)
    cold = federated_solve(grid, gamma=1.01e-2)
    assert again.objective == pytest.approx(cold.objective, abs=2e-6)
    assert again.n_iter < cold.n_iter


# -- faults ----------------------------------------------------------------------------------------


class Faulty(LocalGrid):
    """`spoil` may change a client's reply (given its key and the number of the message) or drop it.

    It counts the messages of the solver only.
    """

    spoil: Callable[[str, int, Message], Message | None]
    count = 0

    def _push(self, message: Message) -> str:
        message_id = super()._push(message)
        context = self.contexts.get(message.metadata.dst_node_id)
        if message.metadata.message_type == SOLVE and context is not None:
            self.count += 1
            key = str(context.node_config["partition-id"])
            reply = self.spoil(key, self.count, self._replies.pop(message_id))
            if reply is not None:
                self._replies[message_id] = reply
        return message_id


def faulty(spoil: Callable[[str, int, Message], Message | None]) -> Faulty:
    grid: Faulty = grid_of(table(), np.arange(90) % 4, kind=Faulty)
    grid.spoil = spoil
    return grid


def changed(reply: Message, **arrays: Any) -> Message:
    reply.content["arrays"] = pack(unpack(reply.content)[0] | arrays, {})["arrays"]
    return reply


def test_a_lost_answer_is_asked_for_again() -> None:
    well = federated_solve(faulty(lambda key, count, reply: reply))
    grid = faulty(lambda key, count, reply: None if count in (2, 6, 7) else reply)
    solution = federated_solve(grid, timeout=0.05)
    np.testing.assert_array_equal(solution.w, well.w)
    assert [r["asked"] for r in solution.rounds[:2]] == [5, 6]


def test_a_missing_client_is_named_and_no_partial_sum_is_used() -> None:
    grid = faulty(lambda key, count, reply: None if key == "2" and count > 8 else reply)
    with pytest.raises(TimeoutError, match=r"no answer from the clients \['2'\]"):
        federated_solve(grid, timeout=0.02)
    assert grid.count == 12 + 2  # the round and two more attempts, for client 2 alone


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"losses": np.full(3, np.nan)}, "losses are not all finite"),
        ({"losses": -np.ones(3)}, "losses are negative"),
        ({"jacobian": np.ones((2, 4))}, r"sent .*\(2, 4\).* instead of"),
        ({"rows": np.ones(3)}, "rows.* instead of"),
        ({"curvature": np.ones(10, dtype=complex)}, "curvature are not all finite"),
    ],
)
def test_a_wrong_answer_is_refused_and_its_sender_named(wrong: Any, words: str) -> None:
    def spoil(key: str, count: int, reply: Message) -> Message:
        return changed(reply, **wrong) if key == "1" and count > 4 else reply

    with pytest.raises(ValueError, match=f"client '1' gave no usable answer: .*{words}"):
        federated_solve(faulty(spoil))


class Flapping(LocalGrid):
    """Client 1 dies in the third round and comes back on another node, with `config`."""

    count = 0

    def __init__(self, *a: Any, **k: Any) -> None:
        super().__init__(*a, **k)
        self.config: dict[str, Any] = {"partition-id": 1}

    def _push(self, message: Message) -> str:
        if message.metadata.message_type == SOLVE:
            self.count += 1
            if self.count == 9:
                gone = next(
                    i for i, c in self.contexts.items() if c.node_config["partition-id"] == 1
                )
                self.leave(gone)
        return super()._push(message)

    def get_node_ids(self) -> list[int]:
        if self.count >= 9 and len(self.contexts) == 3:
            self.join(self.config)
        return super().get_node_ids()


def test_a_client_may_come_back_on_another_node() -> None:
    rows, place = table(), np.arange(90) % 4
    solution = federated_solve(grid_of(rows, place, kind=Flapping), timeout=0.05)
    expected = federated_solve(grid_of(rows, place))
    np.testing.assert_array_equal(solution.w, expected.w)
    assert [r["asked"] for r in solution.rounds[:4]] == [4, 4, 5, 4]


def test_a_client_that_comes_back_with_other_rows_is_refused() -> None:
    rows, place = table(), np.arange(90) % 5
    X, y, domains = rows

    def load(context: Context) -> Table:
        mine = place == context.node_config.get("rows", context.node_config["partition-id"])
        mine &= np.arange(90) < int(context.node_config.get("until", 90))
        return X[mine], y[mine], domains[mine]

    grid = Flapping(client_app(load, classes=["no", "yes"]), nodes=4)
    grid.config = {"partition-id": 1, "rows": 4, "until": 80}
    with pytest.raises(ValueError, match="client '1' came back with other rows"):
        federated_solve(grid, timeout=0.05)


def test_too_few_clients() -> None:
    grid = grid_of(table(), np.arange(90) % 4)
    with pytest.raises(TimeoutError, match=r"4 of 5 clients answered within 0\.1 s"):
        federated_solve(grid, n_clients=5, timeout=0.1)


@pytest.mark.parametrize("n_clients", [None, 4])
def test_a_client_that_cannot_load_is_not_left_out_silently(n_clients: int | None) -> None:
    X, y, domains = table()

    def load(context: Context) -> Table:
        mine = np.arange(90) % 4 == context.node_config["partition-id"]
        if context.node_config["partition-id"] == 2:
            raise OSError("the disk is gone")
        return X[mine], y[mine], domains[mine]

    grid = LocalGrid(client_app(load), nodes=4)
    with pytest.raises(ValueError, match=r"cannot take part: .*the disk is gone"):
        federated_solve(grid, n_clients=n_clients)


def test_a_silent_client_is_not_left_out_silently() -> None:
    class Mute(LocalGrid):
        def _push(self, message: Message) -> str:
            message_id = super()._push(message)
            if message.metadata.dst_node_id == self.get_node_ids()[0]:
                self._replies.pop(message_id)
            return message_id

    with pytest.raises(TimeoutError, match="3 of 4 clients answered"):
        federated_solve(grid_of(table(), np.arange(90) % 4, kind=Mute), timeout=0.3)


def test_a_client_with_another_model_is_refused() -> None:
    X, y, domains = table()

    def load(context: Context) -> Table:
        i = int(context.node_config["partition-id"])
        mine = np.arange(90) % 4 == i
        return X[mine][:, : 3 - (i == 2)], y[mine], domains[mine]

    with pytest.raises(ValueError, match=r"client '2' has .* of 2 columns"):
        federated_solve(LocalGrid(client_app(load), nodes=4))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mixtures": Simplex(2)}, r"over the clients' 3 domains \['a', 'b', 'c'\]"),
        ({"mixtures": "all"}, "mixtures is 'all'"),
        ({"timeout": 0.0}, "timeout is 0"),
        ({"attempts": 0}, "attempts is 0"),
        ({"domains": ["a", "b"]}, "domains is"),
        ({"start": np.zeros(3)}, "give 4 finite numbers"),
        ({"tol": 0.0}, "tol is 0"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        federated_solve(grid_of(table(), np.arange(90) % 4), **arguments)


def test_a_loss_without_curvature_is_refused() -> None:
    rows = table()
    app_rows = rows[0], (rows[1] == "yes").astype(int), rows[2]
    with pytest.raises(ValueError, match="the hinge loss has no curvature"):
        federated_solve(grid_of(app_rows, np.arange(90) % 4, Hinge()))


def test_a_gap_that_stays_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        solution = federated_solve(grid_of(table(), np.arange(90) % 4), max_iter=1)
    assert not solution.converged
