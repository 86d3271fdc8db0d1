from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flower import solving
from flower.clients import app_of, spread, table
from flower.secure import Changed, Lossy, plain_grid, secure_grid, words
from flower.solving import LOSSES
from flwr.clientapp import ClientApp
from scipy.stats import kstest

import anymix as ax
from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    Limits,
    LocalGrid,
    MissingClientsError,
    Patience,
    Privacy,
    Robust,
    Secure,
    Sum,
    federated_certify,
    federated_fit,
    federated_solve,
    federated_train,
    secured,
)
from anymix.flower.masking import new_key, public_key
from anymix.flower.secure_client import _Secured
from anymix.flower.wire import pack, unpack
from anymix.solvers.samplers import PerDomain

STEPS: dict[str, Any] = {"step_w": 1.0, "step_mixture": 0.1, "gamma": 1e-2}


def run(grid: LocalGrid, rounds: int = 4, timeout: float = 0.05, **options: Any) -> Any:
    strategy = AgnosticStrategy(**{**STEPS, "output": "last", "aggregation": Secure(), **options})
    return strategy.start(grid, num_rounds=rounds, timeout=timeout)


# -- equal to the run without masks --------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"aggregation": Secure(by_domain=True)},
        {"local_steps": 3},
        {"sampler": PerDomain(5)},
        {"step_w": None, "step_mixture": None, "output": "best"},
        {"hold_out": 0.3, "evaluate_every": 2, "output": "best"},
        {"limits": Limits(loss=0.6, update=0.2)},
    ],
    ids=str,
)
def test_the_run_is_the_one_without_masks(options: dict[str, Any]) -> None:
    plain = run(plain_grid(), rounds=6, **{**options, "aggregation": Sum()})
    masked = run(secure_grid(), rounds=6, **options)
    np.testing.assert_allclose(masked.w_best, plain.w_best, atol=1e-12)
    np.testing.assert_allclose(masked.mixture, plain.mixture, atol=1e-12)
    for ours, theirs in zip(masked.history, plain.history, strict=True):
        np.testing.assert_allclose(ours["domain_losses"], theirs["domain_losses"], atol=1e-12)
        assert ours["clients"] == theirs["clients"] == 5
    assert masked.output == plain.output
    assert not np.array_equal(plain.w, 0 * plain.w)


def test_two_masked_trainings_are_compared_by_masked_sums() -> None:
    plain = federated_train(plain_grid(), num_rounds=4, hold_out=0.3)
    masked = federated_train(secure_grid(), num_rounds=4, hold_out=0.3, aggregation=Secure())
    assert masked.is_ordinary is plain.is_ordinary
    assert masked.error > 0
    np.testing.assert_allclose((masked.gain, masked.error), (plain.gain, plain.error), atol=1e-9)


@pytest.mark.parametrize("resolution", [2.0**-10, 2.0**-20])
def test_a_sum_is_wrong_by_half_a_step_a_client_at_most(resolution: float) -> None:
    plain = run(plain_grid(), rounds=1, aggregation=Sum())
    coarse = run(secure_grid(), rounds=1, aggregation=Secure(resolution=resolution, largest=2.0**9))
    error = np.abs(coarse.w - plain.w).max()  # one step of size 1 from 0
    assert 0 < error <= 5 * resolution / 2 * (1 + 1e-9)


# -- what the server can read --------------------------------------------------------------------


def test_single_replies_look_random_and_only_the_whole_sum_makes_sense() -> None:
    """The same question twice, from the same rows: nothing but the total is the same."""
    grid = secure_grid(n_clients=4)
    run(grid, rounds=1)
    first = {i: words(arrays) for kind, i, arrays in grid.heard if kind == "train"}
    grid.heard.clear()
    run(grid, rounds=1)
    second = {i: words(arrays) for kind, i, arrays in grid.heard if kind == "train"}
    assert set(first) == set(second) == {0, 1, 2, 3}
    for i in first:
        assert not np.any(first[i] == second[i])  # 2⁻⁶⁴ for each number by chance
    everything = np.concatenate([*first.values(), *second.values()]) / 2.0**64
    assert len(everything) > 100
    assert kstest(everything, "uniform").pvalue > 1e-9


def test_masked_numbers_are_uniform_bit_by_bit_for_a_client_that_has_nothing_to_say() -> None:
    """A client of zeros and one of ones: their replies cannot be told apart."""
    from anymix.flower.fixed_point import FixedPoint
    from anymix.flower.masking import masked, new_secret, pair_secret

    a, b = new_key(), new_key()
    secret = pair_secret(a, public_key(b))
    for value in (0.0, 1.0):
        x = FixedPoint(2.0**-50, 2.0**30).words(np.full(20_000, value))
        y = masked(x, new_secret(), "a", {"b": secret}, b"question").ravel()
        bits = np.unpackbits(y.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)  # (64,)
        assert np.all(np.abs(bits - 0.5) < 7 * 0.5 / np.sqrt(y.size))


@pytest.mark.parametrize("kind", ["train", "evaluate", "query.solve", "query.moments"])
def test_a_client_refuses_what_is_not_masked(kind: str) -> None:
    from flwr.app import Message

    grid = secure_grid()
    content = pack({"w": np.zeros(3)}, {"weights": np.ones(6)})
    [reply] = grid.send_and_receive([Message(content, grid.get_node_ids()[0], kind)])
    assert reply.has_error()
    assert "masked sums only" in str(reply.error.reason)


def test_columns_in_large_units_are_no_obstacle() -> None:
    """Squares of incomes in cents are beyond the numbers that gradients and losses need."""
    X, y, domains = table()
    parts = spread("parts", domains)
    app = app_of(X * [1e6, 1e-6] + [1e7, 0.0], y, domains, parts)
    plain = AgnosticStrategy(gamma=1e-3).start(LocalGrid(app, len(parts)), num_rounds=10)
    strategy = AgnosticStrategy(gamma=1e-3, aggregation=Secure(), patience=Patience(deadline=5.0))
    hidden = strategy.start(LocalGrid(secured(app), len(parts)), num_rounds=10)
    found, expected = hidden.history[-1], plain.history[-1]
    np.testing.assert_allclose(found["domain_losses"], expected["domain_losses"], rtol=1e-6)


def test_when_all_clients_fail_the_run_ends_and_says_why() -> None:
    """It used to wait an hour for clients that had all been left out."""
    X, y, domains = table()
    parts = spread("parts", domains)
    grid = LocalGrid(secured(app_of(1e30 * X, y, domains, parts)), len(parts))
    with pytest.raises(MissingClientsError, match=r"all clients failed.*larger `largest`"):
        AgnosticStrategy(aggregation=Secure()).start(grid, num_rounds=1)


def test_nobody_learns_how_many_rows_a_client_has() -> None:
    grid = secure_grid()
    run(grid, rounds=1)
    counts = [
        arrays["counts"] for kind, _, arrays in grid.heard if kind == "query" and "counts" in arrays
    ]
    assert counts
    assert all(np.all(one == 1) for one in counts)


def test_by_domain_clients_are_told_neither_weights_nor_sizes() -> None:
    seen: list[dict[str, Any]] = []

    class Reading(Lossy):
        def _push(self, message: Any) -> str:
            if message.metadata.message_type == "train":
                seen.append(unpack(message.content)[1])
            return super()._push(message)

    X, y, domains = table()
    app = secured(app_of(X, y, domains, spread("mixed", domains)))
    run(Reading(app, 5), rounds=2, aggregation=Secure(by_domain=True))
    assert seen
    assert all("weights" not in settings for settings in seen)


# -- clients that ask back -----------------------------------------------------------------------


def ask(grid: Lossy, change: Any) -> str:
    """Why a round fails in which the questions are changed on their way."""

    class Wrong(Lossy):
        def _push(self, message: Any) -> str:
            if message.metadata.message_type == "train":
                arrays, settings = unpack(message.content)
                change(arrays, settings)
                message.content = pack(arrays, settings)
            return super()._push(message)

    grid.__class__ = Wrong
    with pytest.raises(MissingClientsError) as caught:
        run(grid, rounds=1, patience=Patience("stop"))
    return str(caught.value)


def few_peers(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    call = settings["secure"]
    call["peers"], call["keys"], call["threshold"] = call["peers"][:2], call["keys"][:2], 2


def low_threshold(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["secure"]["threshold"] = 2


def old_turn(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["secure"]["turn"] = 1


def same_key(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["secure"]["keys"][1] = settings["secure"]["keys"][0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (few_peers, "the sum is of 2 clients"),
        (low_threshold, "the sum is of 5 clients, of which 2 can read it"),
        (old_turn, "is an old one"),
        (same_key, "the same public key"),
    ],
)
def test_a_client_refuses_a_question_that_would_show_too_much(change: Any, why: str) -> None:
    assert why in ask(secure_grid(), change)


def test_a_question_that_is_not_the_same_for_all_gives_no_sum() -> None:
    """A server that asks one client about another model gets nothing it could add up."""
    asked = []

    def other_model(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        asked.append(1)
        if len(asked) == 1:
            arrays |= {name: array + 1 for name, array in arrays.items()}

    assert "cannot read its shares" in ask(secure_grid(n_clients=3), other_model)


# -- clients that drop out, and clients that lie -------------------------------------------------


def test_shares_of_enough_clients_read_the_sum() -> None:
    plain = run(plain_grid(), aggregation=Sum())
    grid = secure_grid(lost={(1, "query.shares"): 99})
    result = run(grid)
    np.testing.assert_allclose(result.w, plain.w, atol=1e-12)
    assert grid.lost[1, "query.shares"] < 99


def test_too_few_shares_are_an_error_that_says_who_is_missing() -> None:
    lost = {(i, "query.shares"): 99 for i in (1, 3)}
    with pytest.raises(MissingClientsError, match=r"'1': 'it does not answer'.*'3'"):
        run(secure_grid(lost=lost), patience=Patience("stop"))
    assert Secure().needed(5) == 4


def test_a_lost_answer_is_asked_for_again_under_new_masks() -> None:
    grid = secure_grid(lost={(2, "train"): 1})
    result = run(grid, rounds=2)
    plain = run(plain_grid(), rounds=2, aggregation=Sum())
    np.testing.assert_allclose(result.w, plain.w, atol=1e-12)
    assert [record["attempts"] for record in result.history] == [2, 1]
    replies = [words(arrays) for kind, i, arrays in grid.heard if kind == "train" and i == 0]
    assert len(replies) == 3  # of two rounds, the first asked twice
    assert not np.any(replies[0] == replies[1])


@pytest.mark.parametrize("by_domain", [False, True])
def test_with_min_share_those_who_answer_stand_for_the_others(by_domain: bool) -> None:
    """As if the rows of the lost client did not exist: the means of the domains are of the rest."""
    X, y, domains = table()
    parts = spread("mixed", domains)
    few = LocalGrid(app_of(X, y, domains, [*parts[:2], *parts[3:]]), 4)
    plain = run(few, rounds=1, aggregation=Sum())
    secure = Secure(Sum(min_share=0.7), by_domain=by_domain)
    result = run(secure_grid(lost={(2, "train"): 1}), rounds=1, aggregation=secure)
    np.testing.assert_allclose(result.w, plain.w, atol=1e-12)
    np.testing.assert_allclose(
        result.history[0]["domain_losses"], plain.history[0]["domain_losses"], atol=1e-12
    )
    assert result.history[0]["missing"] == 1


@pytest.mark.parametrize("on_missing", ["skip", "stop"])
def test_without_an_answer_the_policy_decides(on_missing: Any) -> None:
    grid, patience = secure_grid(lost={(2, "train"): 1}), Patience(on_missing)
    if on_missing == "stop":
        with pytest.raises(MissingClientsError, match="'2': 'it does not answer'"):
            run(grid, patience=patience)
        return
    result = run(grid, patience=patience)
    assert [record["skipped"] for record in result.history] == [True, False, False, False]


def test_a_client_that_lost_its_keys_is_asked_for_new_ones() -> None:
    """As one that was started again in the middle of a run."""
    grid = secure_grid()
    forgot = []

    def forget(number: int, arrays: Any) -> None:
        if number == 2:
            context = next(iter(grid.contexts.values()))
            forgot.append(context.state.pop("anymix.secure"))

    strategy = AgnosticStrategy(**STEPS, output="last", aggregation=Secure())
    result = strategy.start(grid, num_rounds=4, timeout=1.0, evaluate_fn=forget)
    plain = run(plain_grid(), aggregation=Sum())
    np.testing.assert_allclose(result.w, plain.w, atol=1e-12)
    assert forgot
    assert not result.excluded


def no_key(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["key"] = "00" * 32


def raw_words(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    arrays["y"] = np.zeros_like(arrays["y"])


class Liar(_Secured):
    """A client that names a key whose private half it does not have."""

    def _new_key(self, context: Any) -> str:
        super()._new_key(context)
        return public_key(new_key()).hex()

    def _check(self, call: Any, kind: str, kept: Any) -> str:
        return "2"


class OneOther(ClientApp):
    """Client 2 has another app than the others."""

    def __init__(self, others: ClientApp, own: ClientApp) -> None:
        super().__init__()
        self.others, self.own = others, own

    def __call__(self, message: Any, context: Any) -> Any:
        mine = int(context.node_config["partition-id"]) == 2
        return (self.own if mine else self.others)(message, context)


def test_a_client_that_lies_about_its_key_is_found_and_left_out() -> None:
    """Nobody can read the shares that it seals; the others go on without it."""
    X, y, domains = table()
    parts = spread("mixed", domains)
    inner = app_of(X, y, domains, parts)
    result = run(Lossy(OneOther(secured(inner), Liar(inner, 3, "", None)), 5))
    assert list(result.excluded) == ["2"]
    assert "cannot read its shares" in result.excluded["2"]
    few = LocalGrid(app_of(X, y, domains, [*parts[:2], *parts[3:]]), 4)
    np.testing.assert_allclose(result.w, run(few, aggregation=Sum()).w, atol=1e-12)


def test_a_word_that_the_server_does_not_know_must_be_that_of_all() -> None:
    assert run(secure_grid(word="open sesame"), rounds=1).history[0]["clients"] == 5
    X, y, domains = table()
    inner = app_of(X, y, domains, spread("mixed", domains))
    apps = secured(inner, word="open sesame"), secured(inner, word="another")
    result = run(Lossy(OneOther(*apps), 5), rounds=2)
    assert "not their word" in result.excluded["2"]


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("query.key", no_key, "it gave no key"),
        ("train", raw_words, "do not cancel"),
    ],
)
def test_nonsense_is_an_error_and_never_a_sum(kind: str, change: Any, why: str) -> None:
    grid = secure_grid()
    grid.app = Changed(grid.app, 2, kind, change)
    with pytest.raises((MissingClientsError, InputError), match=why):
        run(grid, rounds=1, patience=Patience("wait", deadline=1.0))


# -- clients that are not secured ----------------------------------------------------------------


BARE = [
    pytest.param(lambda g: federated_solve(g, aggregation=Secure(), timeout=0.2), id="solve"),
    pytest.param(
        lambda g: federated_fit(g, folds=3, repeats=1, aggregation=Secure(), timeout=0.2), id="fit"
    ),
    pytest.param(
        lambda g: federated_train(
            g, num_rounds=1, aggregation=Secure(), patience=Patience(deadline=0.2)
        ),
        id="train",
    ),
    pytest.param(lambda g: run(g, rounds=1, patience=Patience(deadline=0.2)), id="strategy"),
    pytest.param(lambda g: run(g, rounds=1, patience=Patience("skip")), id="skip"),
]


@pytest.mark.parametrize("start", BARE)
def test_clients_that_are_not_secured_are_told_to_be_so(start: Any) -> None:
    fix = r"answer without masks; wrap the client app by secured\(...\)"
    with pytest.raises(InputError, match=f"^the clients {fix}"):
        start(plain_grid())
    plain, masked = plain_grid().app, secure_grid().app
    with pytest.raises(InputError, match=rf"^the clients \['2'\] {fix}"):
        start(Lossy(OneOther(masked, plain), 5))


def test_a_client_that_joins_a_training_without_masks_is_left_out() -> None:
    grid = Lossy(OneOther(secure_grid().app, plain_grid().app), 5)
    last = next(i for i, c in grid.contexts.items() if c.node_config["partition-id"] == 2)
    config = grid.contexts[last].node_config
    grid.leave(last)

    def join(number: int, arrays: Any) -> None:
        if number == 2:
            grid.join(config)

    options = {**STEPS, "aggregation": Secure(), "patience": Patience(deadline=0.2)}
    result = AgnosticStrategy(**options).start(grid, num_rounds=4, timeout=0.2, evaluate_fn=join)
    assert result.excluded == {"2": "it answers without masks"}
    assert [record["clients"] for record in result.history] == [4] * 4


def test_clients_that_are_secured_refuse_to_be_solved_without_masks_and_the_log_has_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(InputError, match=r"masked sums only; give the server Secure\(\)"):
        federated_solve(secure_grid(), attempts=3)
    told = [line for line in caplog.messages if "masked sums only" in line]
    assert sorted(line[:10] for line in told) == [f"client '{i}'" for i in range(5)]


# -- solving -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_the_solution_is_the_one_without_masks(name: str) -> None:
    rows = solving.table(name)
    place = np.arange(len(rows[1])) % 5
    grids = [solving.grid_of(rows, place, LOSSES[name]) for _ in range(2)]
    plain = federated_solve(grids[0], gamma=1e-2, tol=1e-8)
    grids[1].app = secured(grids[1].app)
    masked = federated_solve(grids[1], gamma=1e-2, tol=1e-8, aggregation=Secure())
    np.testing.assert_allclose(masked.w, plain.w, atol=1e-9)
    np.testing.assert_allclose(masked.sizes, plain.sizes)
    assert masked.certificate.gap <= 1e-8
    assert masked.client_keys == plain.client_keys
    assert len(masked.rounds) <= len(plain.rounds) + 2


@pytest.mark.parametrize("resolution", [2.0**-4, 2.0**-10, 2.0**-24])
@pytest.mark.parametrize("name", ["binary", "squared"])
def test_a_certificate_holds_however_coarse_the_numbers_are(name: str, resolution: float) -> None:
    rows = solving.table(name, n=30)
    whole = ax.LinearDomains(*rows, LOSSES[name])
    best = ax.solve(whole, gamma=1e-2, tol=1e-10)
    grid = solving.grid_of(rows, np.arange(30) % 5, LOSSES[name])
    grid.app = secured(grid.app)
    rng = np.random.default_rng(0)
    points = [(best.w, best.mixture), (rng.normal(size=4), rng.dirichlet(np.ones(3)))]
    for w, mixture in points:
        proof = federated_certify(
            grid, None, w, mixture, gamma=1e-2, aggregation=Secure(resolution=resolution)
        )
        reached = whole.losses(w).max() + 5e-3 * np.sum(w[whole.penalized] ** 2)
        assert proof.upper >= reached - 1e-12
        assert proof.lower <= best.certificate.upper
    near = federated_certify(grid, None, *points[0], gamma=1e-2, aggregation=Secure())
    assert near.gap < 1e-8  # and fine numbers cost nothing


def test_solving_takes_neither_noise_nor_a_part_for_the_whole() -> None:
    with pytest.raises(InputError, match="aggregation is Secure"):
        federated_solve(secure_grid(), aggregation=Secure(Privacy(1.0, 1.0, 1.0, 1.0)))
    grid = secure_grid(lost={(1, "query.solve"): 99})
    with pytest.raises(MissingClientsError, match="'1': 'it does not answer'"):
        federated_solve(grid, aggregation=Secure(Sum(0.5)), timeout=0.05, attempts=2)


# -- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Secure(Robust()), "inner is Robust"),  # type: ignore[arg-type]
        (lambda: Secure(threshold=0.5), "threshold is 0.5"),
        (lambda: Secure(resolution=8.0, largest=2.0), "resolution is 8"),
        (lambda: Secure(Privacy(1.0, 1.0, 1.0, 1.0), by_domain=True), "by_domain is True"),
        (lambda: secured(plain_grid().app, peers=2), "peers is 2"),
        (lambda: run(secure_grid(), clients_per_round=3), "clients_per_round is 3"),
        (lambda: run(secure_grid(), limits=Limits(rows=9)), "rows is 9"),
        (
            lambda: run(secure_grid(), aggregation=Secure(by_domain=True), local_steps=2),
            "by_domain is True with local steps",
        ),
    ],
)
def test_what_cannot_be_is_said(make: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        make()


def test_two_clients_are_too_few() -> None:
    patience = Patience("stop")
    with pytest.raises(MissingClientsError, match="3 clients are needed"):
        run(secure_grid(n_clients=2), rounds=1, patience=patience)
