"""A full-batch run in PyTorch is the run of `stochastic_afl` and `optimistic_afl`."""

from itertools import islice
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import anymix as ax
from anymix.pytorch import AgnosticLoss, Optimistic
from anymix.solvers.samplers import FullBatch

Kind = Literal["euclidean", "entropic"]
STEPS = 150


def rows() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    domain = rng.integers(3, size=120)
    X = rng.normal(size=(120, 4)) + domain[:, None]
    y = (X @ [1.0, -1.0, 0.5, 0.0] + (domain - 1) + rng.normal(size=120) > 0).astype(int)
    return X, y, domain


def in_torch(kind: Kind, optimistic: bool, **options: Any) -> tuple[NDArray[Any], ...]:
    """Every w and λ of a run with SGD on logistic regression in float64."""
    X, y, domain = rows()
    x, target, ids = torch.tensor(X), torch.tensor(y, dtype=torch.float64), torch.tensor(domain)
    model = nn.Linear(4, 1, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    sgd: Any = torch.optim.SGD(model.parameters(), lr=0.3)
    sgd = Optimistic(sgd) if optimistic else sgd
    criterion = AgnosticLoss(
        ax.Simplex(3), step=0.2, adversary=kind, optimistic=optimistic, **options
    )
    each = nn.BCEWithLogitsLoss(reduction="none")
    w, lam = [], []
    for _ in range(STEPS):
        sgd.zero_grad()
        criterion(each(model(x)[:, 0], target), ids).backward()
        sgd.step()
        criterion.step()
        w.append(torch.cat([model.weight[0], model.bias]).detach().numpy().copy())
        lam.append(criterion.mixture.numpy().copy())
    return np.array(w), np.array(lam), criterion.average.numpy()


@pytest.mark.parametrize("kind", ["euclidean", "entropic"])
@pytest.mark.parametrize("optimistic", [False, True])
@pytest.mark.parametrize("options", [{}, {"mu": 0.1}, {"offsets": [0.1, 0.3, 0.2]}])
def test_the_trajectory_is_that_of_the_numpy_solver(
    kind: Kind, optimistic: bool, options: dict[str, Any]
) -> None:
    X, y, domain = rows()
    problem = ax.LinearDomains(X, y, domain)
    algorithm = ax.optimistic_afl if optimistic else ax.stochastic_afl
    run = algorithm(
        problem,
        ax.Simplex(3),
        step_w=0.3,
        step_mixture=0.2,
        sampler=FullBatch(),
        adversary=kind,
        **options,
    )
    expected = list(islice(run, STEPS))
    ours = options | ({"sizes": problem.sizes} if "mu" in options else {})
    w, lam, average = in_torch(kind, optimistic, **ours)
    np.testing.assert_allclose(w, [now.w for now in expected], rtol=0, atol=1e-9)
    np.testing.assert_allclose(lam, [now.mixture for now in expected], rtol=0, atol=1e-9)
    np.testing.assert_allclose(average, expected[-1].mixture_average, rtol=0, atol=1e-9)
    assert np.ptp(lam[:, 0]) > 0.05  # λ has really moved


def test_a_schedule_of_steps_is_asked_for_the_number_of_the_step() -> None:
    asked = []

    def step(t: int) -> float:
        asked.append(t)
        return 0.1 / t

    criterion = AgnosticLoss(ax.Simplex(2), step)
    for _ in range(3):
        criterion(torch.tensor([0.0, 1.0], requires_grad=True), torch.tensor([0, 1]))
        criterion.step()
    assert asked == [1, 2, 3]
    assert criterion.mixture[1] == pytest.approx(0.5 + 0.05 + 0.025 + 0.1 / 6)
