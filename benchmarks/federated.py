"""The federated strategy against Flower's FedAvg and an AgnosticFedAvg like FedJAX's.

    python benchmarks/federated.py [--only MEASURE] [--json FILE]

rounds   CPU time of a round on the same grid, clients and rows as FedAvg; target at most 1.1 times
memory   the most memory of a process with the same clients and rows; target at most 1.1 times
replies  bytes of a reply over the wire; target at most FedAvg's + 24 p + 512
adult    rounds until the worst-domain loss stays within 1e-2 of the certified optimum, on Adult
         over 20 clients, with the same local work; target at most those of the exponentiated
         gradient (as in fedjax.algorithms.agnostic_fed_avg), best steps of one grid for both;
         anymix is optimistic, which costs no more a round
untuned  the strategy without any step size on five problems (and on others): its gap to the
         certified optimum after 50 and 200 rounds, in parts of the first gap; target 0.01 after
         200. Beside it FedAvg and the exponentiated gradient, each with its best step of a grid,
         and CPU seconds and megabytes of 200 rounds of anymix and of FedAvg on the same clients
liars    one and three liars of 20 on Adult: what clipping and robust aggregation leave of the harm
         (liars.py)
solving  the same for federated_solve: who is named, and what a lie that agrees with itself does
"""

from __future__ import annotations

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}

import argparse
import itertools
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from liars import liars, solving
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.preprocessing import StandardScaler

import anymix as ax
from anymix import datasets
from anymix.flower import AgnosticStrategy, Judging, LocalGrid, Steps, client_app
from anymix.flower.client import answer
from anymix.flower.client_rows import LinearRows
from anymix.flower.wire import pack, through_the_wire
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Optimizer

N_ROWS, N_FEATURES = 100, 20
GAMMA = 1e-3
ZEROS = np.zeros(N_FEATURES + 1)


def load(context: Context) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    return X, np.arange(N_ROWS) % 2, rng.choice(["a", "b"], N_ROWS)


def fedavg_app(load: Any = load, loss: Any = None, classes: Any = None) -> ClientApp:
    """One gradient step of a linear model, as anyone would write it for FedAvg."""
    app, kept = ClientApp(), dict[int, ax.LinearDomains]()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        if context.node_id not in kept:
            X, y, _ = load(context)
            everywhere = np.zeros(len(y), dtype=int)
            kept[context.node_id] = ax.LinearDomains(X, y, everywhere, loss, classes=classes)
        problem = kept[context.node_id]
        w = message.content["arrays"]["w"].numpy()
        losses, slope = problem.loss.derivatives(problem.scores(w), problem.y, 1)
        step = message.content["config"]["lr"] * problem.pull_back(slope / len(slope))
        w = w - step
        content = {
            "arrays": ArrayRecord({"w": Array(w)}),
            "metrics": MetricRecord(
                {"num-examples": len(slope), "train_loss": losses.mean().item()}
            ),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


def seconds_a_round(start: Callable[[Callable[[int, ArrayRecord], None]], Any]) -> float:
    """The median CPU time between two rounds; the first ones load the rows."""
    marks: list[float] = []

    def look(number: int, arrays: ArrayRecord) -> None:
        marks.append(time.process_time())

    start(look)
    return float(np.median(np.diff(marks)[1:]))


def agnostic(grid: LocalGrid, num_rounds: int, look: Any = None) -> None:
    strategy = AgnosticStrategy(steps=Steps(0.1, 0.1), judging=Judging(output="last"))
    strategy.start(grid, ArrayRecord({"w": Array(ZEROS)}), num_rounds=num_rounds, evaluate_fn=look)


def fedavg(grid: LocalGrid, num_rounds: int, look: Any = None, start: Any = ZEROS) -> None:
    w, lr = ArrayRecord({"w": Array(start)}), ConfigRecord({"lr": 1e-6})
    FedAvg(fraction_evaluate=0.0).start(grid, w, num_rounds, train_config=lr, evaluate_fn=look)


def rounds() -> dict[str, Any]:
    found = {}
    for n, num_rounds in ((4, 100), (50, 20), (500, 5), (10_000, 4)):
        ours, theirs = LocalGrid(client_app(load), n), LocalGrid(fedavg_app(), n)
        pairs = [
            (
                seconds_a_round(partial(agnostic, ours, num_rounds)),
                seconds_a_round(partial(fedavg, theirs, num_rounds)),
            )
            for _ in range(7 if n < 1000 else 2)
        ]
        us, them = np.min(pairs, axis=0)  # the least disturbed of those in turn
        found[str(n)] = {"anymix": us, "fedavg": them, "ratio": us / them}
    return found


def peak(who: str, n: int) -> float:
    """The most memory, in MB, that this process had, all libraries loaded; n clients or none."""
    logging.disable(logging.CRITICAL)
    if n and who == "anymix":
        agnostic(LocalGrid(client_app(load), n), 4)
    elif n:
        fedavg(LocalGrid(fedavg_app(), n), 4)
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return float(status["VmHWM"].split()[0]) / 1e3


def memory() -> dict[str, Any]:
    """Each run in a process of its own: server, and all clients with their rows."""

    def most(who: str, n: int) -> float:
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            return alone.submit(peak, who, n).result()

    found, empty = {}, most("anymix", 0)
    for n in (50, 10_000):
        us, them = most("anymix", n), most("fedavg", n)
        row = {"anymix": us, "fedavg": them, "ratio": us / them, "libraries": empty}
        found[str(n)] = row | {"without libraries": (us - empty) / (them - empty)}
    return found


def replies() -> dict[str, Any]:
    """A client that holds p domains, against FedAvg's client with the same model."""
    found = {}
    for p in (1, 2, 10, 100, 1000):
        grid = LocalGrid(client_app(load), 1)
        asked = Message(RecordDict(), grid.get_node_ids()[0], "train")
        X = np.random.default_rng(0).normal(size=(p, N_FEATURES))
        rows = LinearRows(ax.LinearDomains(X, np.arange(p) % 2, np.arange(p), classes=[0, 1]))
        settings = {
            "seed": 0,
            "round": 1,
            "batch_size": 0,
            "local_epochs": 0,
            "corrects": False,
            "step": 0.1,
        }
        w = np.zeros(N_FEATURES + 1)
        weights = np.full(2 * p, 0.1)
        reply = answer(rows, "0", w, {**settings, "gamma": 0.0, "weights": weights})
        content = {
            "arrays": ArrayRecord({"w": Array(w)}),
            "metrics": MetricRecord({"num-examples": p, "train_loss": 0.5}),
        }
        us = through_the_wire(Message(pack(*reply), reply_to=asked))[1]
        them = through_the_wire(Message(RecordDict(content), reply_to=asked))[1]
        found[str(p)] = {"anymix": us, "fedavg": them, "allowed": them + 24 * p + 512}
    return found


def exponentiated(
    clients: list[ax.LinearDomains],
    sizes: Any,
    rule: Optimizer,
    step_w: float,
    step_mixture: float,
    num_rounds: int,
) -> list[Any]:
    """AgnosticFedAvg: λ_k ∝ λ_k exp(s L_k); clients step on Σ λ_k/m_k ℓ and are averaged."""
    w, mixture = np.zeros(clients[0].n_parameters), np.full(len(sizes), 1 / len(sizes))
    memory, models = rule.start(len(w)), []
    for _ in range(num_rounds):
        update, losses = np.zeros_like(w), np.zeros(len(sizes))
        for client in clients:
            share = mixture * client.sizes / sizes
            losses += client.losses(w) * client.sizes / sizes
            update += client.gradient(w, share)
        direction, memory = rule.direction(update, memory)
        w = w - step_w * direction
        mixture = mixture * np.exp(step_mixture * losses)
        mixture /= mixture.sum()
        models.append(w)
    return models


def agnostic_models(grid: LocalGrid, num_rounds: int, **options: Any) -> list[Any]:
    models: list[Any] = []
    AgnosticStrategy(**options).start(
        grid, num_rounds=num_rounds, evaluate_fn=lambda t, a: models.append(a["w"].numpy())
    )
    return models


def adult(num_rounds: int = 80, n_clients: int = 20) -> dict[str, Any]:
    data = datasets.load_adult(progress=False)
    X, y, domains = data.X, np.asarray(data.y), np.asarray(data.domains)
    whole = ax.LinearDomains(X, y, domains)
    best = ax.solve(whole, gamma=0.0).objective
    parts = np.array_split(np.random.default_rng(0).permutation(len(y)), n_clients)
    clients = [ax.LinearDomains(X[r], y[r], domains[r]) for r in parts]

    def rows_of(context: Context) -> tuple[Any, Any, Any]:
        rows = parts[int(context.node_config["partition-id"])]
        return X[rows], y[rows], domains[rows]

    def needed(models: list[Any]) -> int:
        """The first round from which on the worst-domain loss stays within 1e-2."""
        late = [t for t, w in enumerate(models, 1) if whole.losses(w).max() > best + 1e-2]
        return max(late, default=0) + 1

    grid, found = LocalGrid(client_app(rows_of), n_clients), {}
    rules: list[tuple[Optimizer, tuple[float, ...]]] = [(SGD(), (1.0,)), (Adam(), (0.05, 0.1, 0.2))]
    ours, theirs = {}, {}
    for rule, steps in rules:
        for step_w, step_mixture in itertools.product(steps, (0.3, 1.0, 3.0)):
            name = f"{rule}, {step_w}, {step_mixture}"
            models = agnostic_models(
                grid,
                num_rounds,
                steps=Steps(step_w, step_mixture, optimizer=rule, optimistic=True),
            )
            ours[name] = needed(models)
            models = exponentiated(clients, whole.sizes, rule, step_w, step_mixture, num_rounds)
            theirs[name] = needed(models)
    found["one gradient"] = {
        "anymix": min(ours.values()),
        "exponentiated": min(theirs.values()),
        "beyond": num_rounds + 1,
        "all": {name: (ours[name], theirs[name]) for name in ours},
    }
    return found


def five() -> dict[str, tuple[Any, Any, Any, Any]]:
    """Rows, targets, domains and loss; the last two are beyond the five."""
    compas = datasets.load_compas(progress=False)
    X, y, groups = np.asarray(compas.X), np.asarray(compas.y), np.asarray(compas.domains)
    census = datasets.load_adult(progress=False)
    digits, sugar, tumours = load_digits(), load_diabetes(scaled=False), load_breast_cancer()
    sex = np.where(sugar.data[:, 1] > 1, "a", "b")
    large = np.where(tumours.data[:, 0] > np.median(tumours.data[:, 0]), "large", "small")
    return {
        "COMPAS, raw": (X, y, groups, None),
        "COMPAS, scaled": (StandardScaler().fit_transform(X), y, groups, None),
        "Adult": (census.X, np.asarray(census.y), np.asarray(census.domains), None),
        "digits, linear": (digits.data / 16, digits.target, digits.target % 3, None),
        "diabetes, squared": (sugar.data, sugar.target, sex, ax.SquaredError()),
        "(digits, raw)": (digits.data, digits.target, digits.target % 3, None),
        "(cancer, raw)": (tumours.data, tumours.target, large, None),
    }


def baseline(problem: ax.LinearDomains, gap: Any, agnostic: bool, num_rounds: int) -> list[float]:
    """FedAvg or the exponentiated gradient, the step of a grid that is best in the end.

    With one local step the clients' sums are those of all rows, so no clients are needed.
    """
    found = []
    rules: list[Optimizer] = [SGD(), Adagrad()]
    for rule, step, step_mixture in itertools.product(
        rules, (0.01, 0.1, 0.3, 1.0), (0.1, 1.0) if agnostic else (0.0,)
    ):
        p = problem.n_domains
        w, mixture = np.zeros(problem.n_parameters), np.full(p, 1 / p)
        mixture = mixture if agnostic else problem.reference
        memory, gaps = rule.start(len(w)), []
        with np.errstate(all="ignore"):
            for _ in range(num_rounds):
                gradient = problem.gradient(w, mixture) + GAMMA * problem.penalized * w
                losses = problem.losses(w)
                direction, memory = rule.direction(gradient, memory)
                w = w - step * direction
                mixture = mixture * np.exp(step_mixture * (losses - losses.max()))
                mixture = mixture / mixture.sum()
                if not (np.isfinite(mixture).all() and np.isfinite(w).all()):
                    break  # this step is too long
                gaps.append(gap(w))
        if len(gaps) == num_rounds:
            found.append(np.minimum.accumulate(gaps).tolist())
    return min(found, key=lambda gaps: gaps[-1])


def untuned(num_rounds: int = 200, n_clients: int = 5) -> dict[str, Any]:
    found = {}
    for name, (X, y, domains, loss) in five().items():
        whole = ax.LinearDomains(X, y, domains, loss)
        best = ax.solve(whole, gamma=GAMMA, tol=1e-9).objective
        parts = np.array_split(np.random.default_rng(0).permutation(len(y)), n_clients)

        def gap(w: Any, whole: ax.LinearDomains = whole, best: float = best) -> float:
            size = GAMMA / 2 * float(np.sum((whole.penalized * w) ** 2))
            return float(whole.losses(w).max() + size - best)

        def rows_of(
            context: Context, data: Any = (X, y, domains), parts: Any = parts
        ) -> tuple[Any, Any, Any]:
            rows = parts[int(context.node_config["partition-id"])]
            return data[0][rows], data[1][rows], data[2][rows]

        classes = None if loss else np.unique(y)
        first = gap(np.zeros(whole.n_parameters))
        row: dict[str, Any] = {}
        for rounds_ in (50, num_rounds):
            grid = LocalGrid(client_app(rows_of, loss=loss, classes=classes), n_clients)
            began = time.process_time()
            run = AgnosticStrategy(ax.Objective(gamma=GAMMA)).start(grid, num_rounds=rounds_)
            row[f"anymix {rounds_}"] = gap(run.w_best) / first
        row |= {"s": time.process_time() - began, "MB": grid.bytes / 1e6}
        grid, began = LocalGrid(fedavg_app(rows_of, loss, classes), n_clients), time.process_time()
        fedavg(grid, num_rounds, start=np.zeros(whole.n_parameters))
        row |= {"FedAvg s": time.process_time() - began, "FedAvg MB": grid.bytes / 1e6}
        for label, agnostic in (("FedAvg", False), ("exp. gradient", True)):
            gaps = baseline(whole, gap, agnostic, num_rounds)
            row |= {f"{label} 50": gaps[49] / first, f"{label} 200": gaps[-1] / first}
        found[name] = row
    return found


MEASURES = (rounds, memory, replies, adult, untuned, liars, solving)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[measure.__name__ for measure in MEASURES])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    results = {}
    for measure in MEASURES:
        if arguments.only not in (None, measure.__name__):
            continue
        found = results[measure.__name__] = measure()
        columns = [k for k in next(iter(found.values())) if k != "all"]
        table = Table("", *columns, title=measure.__name__)
        for name, row in found.items():
            table.add_row(name, *(f"{row[k]:.4g}" for k in columns))
        Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2, default=float))


if __name__ == "__main__":
    main()
