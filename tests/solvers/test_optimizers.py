"""Step rules against torch.optim itself and its formulas, written out number by number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum, Optimizer

Array = NDArray[np.float64]
RULES: list[Optimizer] = [SGD(), Momentum(0.8), Adagrad(), Adam(), Adam(0.7, 0.95, 1e-3)]
rules = pytest.mark.parametrize("rule", RULES, ids=repr)
gradients = st.lists(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), min_size=1, max_size=12
)


def directions(rule: Optimizer, sequence: list[list[float]]) -> Array:
    """(steps, parameters)."""
    memory, found = rule.start(len(sequence[0])), []
    for gradient in sequence:
        direction, memory = rule.direction(np.array(gradient), memory)
        found.append(direction)
    return np.array(found)


def sgd(g: list[float]) -> list[float]:
    return g


def momentum(g: list[float], beta: float) -> list[float]:
    """torch.optim.SGD(momentum=β): b₁ = g₁, b_t = β b_{t−1} + g_t."""
    buffer, out = g[0], [g[0]]
    for value in g[1:]:
        buffer = beta * buffer + value
        out.append(buffer)
    return out


def adagrad(g: list[float], epsilon: float) -> list[float]:
    """torch.optim.Adagrad: state_sum += g², g / (√state_sum + ε)."""
    total, out = 0.0, []
    for value in g:
        total += value * value
        out.append(value / (math.sqrt(total) + epsilon))
    return out


def adam(g: list[float], beta1: float, beta2: float, epsilon: float) -> list[float]:
    """torch.optim.Adam: (m / (1 − β₁ᵗ)) / (√v / √(1 − β₂ᵗ) + ε)."""
    m = v = 0.0
    out = []
    for t, value in enumerate(g, 1):
        m = beta1 * m + (1 - beta1) * value
        v = beta2 * v + (1 - beta2) * value * value
        denominator = math.sqrt(v) / math.sqrt(1 - beta2**t) + epsilon
        out.append((m / (1 - beta1**t)) / denominator)
    return out


@given(gradients)
def test_every_rule_follows_its_formula(sequence: list[list[float]]) -> None:
    expected: list[tuple[Optimizer, Any]] = [
        (SGD(), sgd),
        (Momentum(0.8), lambda g: momentum(g, 0.8)),
        (Momentum(0.0), sgd),
        (Adagrad(), lambda g: adagrad(g, 1e-10)),
        (Adagrad(0.5), lambda g: adagrad(g, 0.5)),
        (Adam(), lambda g: adam(g, 0.9, 0.999, 1e-8)),
        (Adam(0.7, 0.95, 1e-3), lambda g: adam(g, 0.7, 0.95, 1e-3)),
    ]
    for rule, formula in expected:
        columns = [formula(list(column)) for column in zip(*sequence, strict=True)]
        wanted = np.array(columns).T
        np.testing.assert_allclose(
            directions(rule, sequence), wanted, rtol=1e-11, atol=1e-12, err_msg=repr(rule)
        )


TORCH: list[tuple[Optimizer, Any]] = [
    (SGD(), lambda w, size: torch.optim.SGD(w, lr=size)),
    (Momentum(0.8), lambda w, size: torch.optim.SGD(w, lr=size, momentum=0.8)),
    (Adagrad(1e-3), lambda w, size: torch.optim.Adagrad(w, lr=size, eps=1e-3)),
    (
        Adagrad(initial=0.1),
        lambda w, size: torch.optim.Adagrad(w, lr=size, initial_accumulator_value=0.1),
    ),
    (Adam(), lambda w, size: torch.optim.Adam(w, lr=size)),
    (
        Adam(0.7, 0.95, 1e-3),
        lambda w, size: torch.optim.Adam(w, lr=size, betas=(0.7, 0.95), eps=1e-3),
    ),
]


@pytest.mark.parametrize(("rule", "make"), TORCH, ids=[repr(rule) for rule, _ in TORCH])
@pytest.mark.parametrize("size", [0.3, 1e-3])
def test_paths_are_those_of_torch(rule: Optimizer, make: Any, size: float) -> None:
    rng = np.random.default_rng(0)
    A, start = rng.normal(size=(6, 5)), rng.normal(size=5)
    w, memory = start.copy(), rule.start(5)
    theirs = torch.tensor(start, requires_grad=True)
    peer = make([theirs], size)
    for t in range(100):
        c = math.cos(t)  # a gradient that depends on w and on time: A'(Aw − c)/6
        direction, memory = rule.direction(A.T @ (A @ w - c) / 6, memory)
        w = w - size * direction
        theirs.grad = torch.tensor(A.T @ (A @ theirs.detach().numpy() - c) / 6)
        peer.step()
        np.testing.assert_allclose(w, theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_three_steps_by_hand() -> None:
    sequence = [[3.0, -4.0], [4.0, 3.0], [0.0, 12.0]]
    by_hand = np.array([[3.0, -4.0], [5.5, 1.0], [2.75, 12.5]])
    np.testing.assert_allclose(directions(Momentum(0.5), sequence), by_hand)
    by_hand = np.array([[1.0, -1.0], [0.8, 0.6], [0.0, 12 / 13]])
    np.testing.assert_allclose(directions(Adagrad(), sequence), by_hand, rtol=1e-9)
    # m = 1.5, 2.75, 1.375 over ½, ¾, ⅞ and v = 9·¼, 9·3/16 + 16/4, … over ¼, 7/16, 37/64
    v = [9 / 4, 9 * 3 / 16 + 4, (9 * 3 / 16 + 4) * 3 / 4]
    wanted = [
        3 / math.sqrt(v[0] / (1 / 4)),
        (2.75 / (3 / 4)) / math.sqrt(v[1] / (7 / 16)),
        (1.375 / (7 / 8)) / math.sqrt(v[2] / (37 / 64)),
    ]
    first = directions(Adam(0.5, 0.75), sequence)[:, 0]
    np.testing.assert_allclose(first, wanted, rtol=1e-7)


@rules
def test_a_step_changes_neither_its_gradient_nor_its_memory(rule: Optimizer) -> None:
    gradient, memory = np.array([1.0, -2.0]), rule.start(2)
    _, memory = rule.direction(gradient, memory)
    before = {name: value.copy() for name, value in memory.items()}
    first, after = rule.direction(gradient, memory)
    again, _ = rule.direction(gradient, memory)
    assert gradient.tolist() == [1.0, -2.0]
    assert all(np.array_equal(memory[name], before[name]) for name in before)
    assert first.tolist() == again.tolist()
    assert set(after) == set(memory)


@rules
def test_no_gradient_no_step(rule: Optimizer) -> None:
    assert not directions(rule, [[0.0, 0.0], [0.0, 0.0]]).any()


@rules
def test_a_rule_is_a_value(rule: Optimizer) -> None:
    assert rule == type(rule)(**vars(rule))
    assert hash(rule) == hash(type(rule)(**vars(rule)))
    with pytest.raises(AttributeError):
        rule.beta = 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [-0.1, 1.0, np.nan, np.inf, "a", None])
def test_bad_rates_are_refused(value: Any) -> None:
    for make in (
        lambda: Momentum(beta=value),
        lambda: Adam(beta1=value),
        lambda: Adam(beta2=value),
    ):
        with pytest.raises(ValueError, match="beta"):
            make()


@pytest.mark.parametrize("value", [0.0, -1e-8, np.nan, np.inf, "a", None])
def test_bad_epsilons_are_refused(value: Any) -> None:
    for make in (lambda: Adagrad(epsilon=value), lambda: Adam(epsilon=value)):
        with pytest.raises(ValueError, match="epsilon"):
            make()
