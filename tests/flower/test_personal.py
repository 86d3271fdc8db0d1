"""Clusters, personal models and a choice of models over clients: numbers, and what leaves them."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from typing import Any, cast

import numpy as np
import pytest
from flower.left_over import alive
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from numpy.typing import NDArray

import anymix as ax
from anymix.errors import InputError
from anymix.flower import LocalGrid, MissingClientsError, federated_solve
from anymix.flower.apps import App
from anymix.flower.client_data import number_of
from anymix.flower.engines import federate
from anymix.flower.personal import (
    federated_choice,
    federated_clusters,
    federated_personal,
    personal_client_app,
    read_model,
)
from anymix.flower.processes import family_of
from anymix.flower.superlink import start_node, start_superlink
from anymix.flower.wire import MessageError, pack, unpack
from anymix.problem.blending import best_blend

Array = NDArray[np.float64]
OWN_MODELS = Path(__file__).parent / "own_models"


def load(context: Context) -> tuple[Any, Any, Any]:
    """Clients of two kinds: another slope, and another share of ones."""
    client = int(context.node_config["partition-id"])
    rng = np.random.default_rng(client)
    X, domains = rng.normal(size=(300, 3)), rng.choice(["mail", "web"], size=300)
    signal = X[:, 0] + 2 * (-1) ** client * X[:, 1] + 2 * (client % 2)
    return X, (signal + rng.logistic(size=300) > 0).astype(int), domains


class Listening(LocalGrid):
    """A grid that keeps all that clients send."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.heard: list[Message] = []

    def _answer(self, message: Message, context: Context) -> Message:
        reply = super()._answer(message, context)
        self.heard.append(reply)
        return reply


def grid_of(n: int = 6, seed: int = 0, **options: Any) -> Listening:
    return Listening(personal_client_app(load, classes=[0, 1], **options), n, seed=seed)


def models(grid: LocalGrid) -> dict[int, Any]:
    """What each client has kept, by its number."""
    contexts = sorted(grid.contexts.values(), key=lambda c: int(c.node_config["partition-id"]))
    return {i: read_model(None, context) for i, context in enumerate(contexts)}


def test_clients_of_a_kind_are_clustered() -> None:
    found = federated_clusters(grid_of(8), 2)
    assert found.by_key == {str(i): i % 2 for i in range(8)} or found.by_key == {
        str(i): 1 - i % 2 for i in range(8)
    }
    central = ax.BregmanClusters(2).fit(found.statistics, sample_weight=found.sizes)
    np.testing.assert_array_equal(central.labels_, found.labels)
    np.testing.assert_allclose(central.cluster_centers_, found.centers)
    again = federated_clusters(grid_of(8, seed=5), 2)  # other node ids, another order of replies
    np.testing.assert_array_equal(again.labels, found.labels)
    assert federated_clusters(grid_of(4)).labels.max() == 1  # by the bound
    moments = federated_clusters(grid_of(8), 2, kind="moments")
    assert moments.statistics.shape == (8, 3)


def test_a_personal_model_is_better_and_stays_where_it_is() -> None:
    grid = grid_of()
    w = federated_solve(grid, gamma=0.01).w
    grid.heard.clear()
    found = federated_personal(grid, w)
    assert found.domains == ("mail", "web")
    assert found.counts.sum() == 6 * 60  # a fifth of the rows
    assert np.all(found.personal_loss < found.shared_loss - 0.05)
    kept = models(grid)
    assert all(model.fits == 1 and 0 <= model.alpha <= 1 for model in kept.values())
    federated_personal(grid, 0.5 * w)
    assert all(model.fits == 1 and model.rounds == 2 for model in models(grid).values())


def test_what_leaves_a_client_is_sums_of_losses() -> None:
    grid = grid_of()
    federated_personal(grid, np.zeros(4))
    secrets = [m for model in models(grid).values() for m in (*model.own, model.alpha)]
    assert len(grid.heard) == 6
    for reply in grid.heard:
        assert set(reply.content) == {"arrays", "settings"}
        arrays, settings = unpack(reply.content)
        assert set(arrays) == {"shared_loss", "personal_loss", "counts"}
        assert set(settings) == {"key", "domains"}
        record, config = reply.content["arrays"], reply.content["settings"]
        assert isinstance(record, ArrayRecord)
        assert isinstance(config, ConfigRecord)
        sent = np.concatenate([array.numpy().ravel() for array in record.values()])
        moved = [s for s in secrets if s not in (0.0, 1.0)]
        assert not np.isclose(sent[:, None], moved, rtol=1e-6).any()
        assert all(len(str(value)) < 200 for value in config.values())


def test_alpha_is_that_of_the_rows_held_out() -> None:
    grid = grid_of()
    w = np.array([1.0, 0.0, 0.0, 0.5])
    federated_personal(grid, w)
    app_rows = {}
    for context in grid.contexts.values():
        client = int(context.node_config["partition-id"])
        X, y, _ = load(context)
        order = np.random.default_rng(number_of(str(client))).permutation(300)
        parts = order[:180], order[180:240]
        app_rows[client] = [(X[np.sort(p)], y[np.sort(p)]) for p in parts]
    for client, model in models(grid).items():
        (X, y), (Xh, yh) = app_rows[client]
        own = ax.AgnosticClassifier(gamma=0.01, tol=1e-8).fit(X, y, domains=None)
        np.testing.assert_allclose(model.own[:3], own.coef_[0], atol=1e-3)
        sign = np.where(yh == 1, 1, -1)
        a, b = (1 / (1 + np.exp(-sign * (Xh @ u[:3] + u[3]))) for u in (w, model.own))
        assert model.alpha == pytest.approx(best_blend(a, b, "log").alpha, abs=1e-9)


def test_a_file_keeps_the_model_beyond_the_process(tmp_path: Path) -> None:
    first = grid_of(keep_in=tmp_path)
    federated_personal(first, np.zeros(4))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 6
    second = grid_of(keep_in=lambda context: tmp_path)  # as after a restart: empty contexts
    found = federated_personal(second, np.zeros(4))
    kept = models(second)
    assert all(model.fits == 1 and model.rounds == 2 for model in kept.values())
    for i, model in models(first).items():
        np.testing.assert_array_equal(model.own, kept[i].own)
    np.testing.assert_array_equal(
        found.personal_loss, federated_personal(grid_of(), np.zeros(4)).personal_loss
    )


def test_a_kept_model_of_another_shape_is_fitted_anew(tmp_path: Path) -> None:
    def fewer(context: Context) -> tuple[Any, Any, Any]:
        X, y, domains = load(context)
        return X[:, :2], y, domains

    federated_personal(grid_of(2, keep_in=tmp_path), np.zeros(4))
    other = LocalGrid(personal_client_app(fewer, classes=[0, 1], keep_in=tmp_path), 2)
    federated_personal(other, np.zeros(3))
    assert all(model.own.shape == (3,) for model in models(other).values())


def test_a_client_of_too_few_rows_is_served_by_the_shared_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def few(context: Context) -> tuple[Any, Any, Any]:
        X, y, domains = load(context)
        n = {1: 5, 2: 1}.get(int(context.node_config["partition-id"]), 300)
        return X[:n], y[:n], domains[:n]

    app = personal_client_app(few, classes=[0, 1], keep_in=tmp_path)
    grid = Listening(app, 4)
    shared = federated_solve(grid, gamma=0.1).w  # their rows count there
    found = federated_personal(grid, shared)
    assert found.too_small == ("1", "2")
    assert "2 clients have too few rows" in caplog.text
    without = Listening(personal_client_app(load, classes=[0, 1]), 4)
    counts = federated_personal(without, shared).counts
    assert found.counts.sum() == counts.sum() / 2
    kept = models(grid)
    assert kept[1].alpha == kept[2].alpha == 1
    np.testing.assert_array_equal(kept[1].shared, shared)
    assert kept[0].fits == 1
    assert kept[1].fits == 0
    assert federated_clusters(grid, 2).keys == ("0", "1", "2", "3")
    only = LocalGrid(personal_client_app(five, classes=[0, 1]), 2)
    assert federated_personal(only, shared).domains == ()


def five(context: Context) -> tuple[Any, Any, Any]:
    X, y, domains = load(context)
    return X[:5], y[:5], domains[:5]


def test_a_client_without_rows_says_so() -> None:
    empty = LocalGrid(personal_client_app(lambda c: ([], [], []), classes=[0, 1]), 1)
    with pytest.raises(MessageError, match=r"node \d+: .* it has no rows"):
        federated_personal(empty, np.zeros(4))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda grid: federated_personal(grid, "w"), "w is not a list of numbers|w "),
        (lambda grid: federated_personal(grid, [np.nan]), "w "),
        (lambda grid: federated_choice(grid, [0.1, 0.2]), "models "),
        (lambda grid: federated_choice(grid, [["a"]]), "models "),
        (lambda grid: federated_choice(grid, np.eye(4)[:2], rounds=0), "rounds is 0"),
        (
            lambda grid: federated_choice(grid, np.eye(4)[:2], rounds=cast(Any, 1.5)),
            "rounds is 1.5",
        ),
        (lambda grid: federated_clusters(grid, cast(Any, 2.5)), "n_clusters is 2.5"),
        (lambda grid: federated_clusters(grid, kind="text"), "kind is 'text'"),
    ],
)
def test_what_cannot_be_asked_is_refused(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(grid_of(2))


def test_regression_is_personal_too() -> None:
    def numbers(context: Context) -> tuple[Any, Any, Any]:
        X, y, domains = load(context)
        sign = (-1) ** int(context.node_config["partition-id"])
        return X, 2.0 * sign * X[:, 0] + 0.1 * y, domains

    grid = LocalGrid(personal_client_app(numbers, ax.SquaredError()), 4)
    found = federated_personal(grid, np.zeros(4))
    assert np.all(found.personal_loss < 0.1 * found.shared_loss)
    with pytest.raises(InputError, match="personal models take CrossEntropy or SquaredError"):
        personal_client_app(numbers, ax.Huber())


def test_a_choice_of_models_is_ifca() -> None:
    grid = grid_of()
    start = np.array([[0.0, 0.1, 0.0, 0.0], [0.0, -0.1, 0.0, 0.0]])
    found = federated_choice(grid, start, rounds=5, step=0.7)
    assert found.choices == {str(i): i % 2 for i in range(6)}
    W, parts = start.copy(), {}
    for context in grid.contexts.values():
        X, y, _ = load(context)
        i = int(context.node_config["partition-id"])
        rows = np.random.default_rng(number_of(str(i))).permutation(300)[:180]
        parts[i] = ax.LinearDomains(X[rows], y[rows], np.zeros(180))
    for _ in range(5):
        chosen = {i: int(np.argmin([p.losses(w)[0] for w in W])) for i, p in parts.items()}
        step = [
            np.mean([parts[i].gradient(W[j], [1.0]) for i in parts if chosen[i] == j], axis=0)
            for j in range(2)
        ]
        W = W - 0.7 * np.array(step)
    np.testing.assert_allclose(found.models, W, atol=1e-12)
    assert found.history == sorted(found.history, reverse=True)


def test_a_model_that_nobody_chooses_stays() -> None:
    start = np.array([[0.0, 0.1, 0.0, 0.0], [9.0, 9.0, 9.0, 99.0]])
    found = federated_choice(grid_of(2), start, rounds=1)
    np.testing.assert_array_equal(found.models[1], start[1])


def test_clients_that_fail_or_lie_are_named() -> None:
    def broken(context: Context) -> Any:
        raise ValueError("the disk is empty")

    grid = LocalGrid(personal_client_app(broken, classes=[0, 1]), 2)
    with pytest.raises(MessageError, match=r"node \d+: .* own log"):
        federated_clusters(grid)
    with pytest.raises(MissingClientsError, match=r"2 of 3 clients answered 'query\.describe'"):
        federated_clusters(grid_of(2), n_clients=3, timeout=0.2)
    with pytest.raises(InputError, match="n_clusters is 7; give 'bound' or a number from 1 to 2"):
        federated_clusters(grid_of(2), 7)

    class Lying(Listening):
        def _answer(self, message: Message, context: Context) -> Message:
            return Message(
                pack({"sums": np.array([np.nan]), "size": np.ones(1)}, {"key": "a", "length": 1}),
                reply_to=message,
            )

    with pytest.raises(MessageError, match="client 'a': sums are not all finite numbers"):
        federated_clusters(Lying(personal_client_app(load, classes=[0, 1]), 1))


@pytest.mark.ray
def test_ray_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    here, there = ({"keep-in": str(tmp_path / name)} for name in ("local", "ray"))
    assert federate(OWN_MODELS, "ray", there) == federate(OWN_MODELS, "local", here)
    assert same_files(tmp_path / "local", tmp_path / "ray")


def same_files(one: Path, other: Path) -> bool:
    """Whether two folders have the same models of three clients, bit for bit."""
    names = [sorted(file.name for file in folder.iterdir()) for folder in (one, other)]
    arrays = [[dict(np.load(f / name)) for name in sorted(names[0])] for f in (one, other)]
    equal = [np.array_equal(a[k], b[k]) for a, b in zip(*arrays, strict=True) for k in a]
    return names[0] == names[1] and len(names[0]) == 3 and all(equal)


@pytest.mark.deployment
def test_deployment_gives_the_same_bits_and_a_killed_client_loses_nothing(tmp_path: Path) -> None:
    """kill -9 of a SuperNode between two rounds of personal models; another takes its place."""
    kept = tmp_path / "deployment"
    job = App.read(OWN_MODELS, {"out": str(tmp_path / "out.json"), "keep-in": str(kept)})
    with ExitStack() as processes:
        flower = start_superlink(processes, tmp_path, [])
        nodes = [start_node(processes, flower, job, i, f"node{i}") for i in range(3)]
        killed = False

        def kill(line: str) -> None:
            nonlocal killed
            if line.startswith("loss of the shared model") and not killed:
                killed = True
                for pid in {nodes[1].pid, *(p.pid for p in family_of(nodes[1]))}:
                    os.kill(pid, SIGKILL)
                start_node(processes, flower, job, 1, "node1-again")

        flower.run_app(job, kill)
    assert killed
    assert nodes[1].returncode == -SIGKILL
    result = json.loads((tmp_path / "out.json").read_text())
    assert result == federate(OWN_MODELS, "local", {"keep-in": str(tmp_path / "local")})
    for file in kept.iterdir():
        alpha, rounds, fits = np.load(file)["numbers"]
        assert 0 <= alpha <= 1
        assert fits == 1  # nobody had to fit anew
        assert rounds >= 2
    assert alive(str(tmp_path)) == []
