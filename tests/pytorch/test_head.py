"""certified_head: an exact last layer, with its proof, written back."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import anymix as ax
from anymix.errors import InputError
from anymix.estimators import NothingGained
from anymix.pytorch import certified_head
from anymix.pytorch.head import embed

QUICK: dict[str, Any] = {
    "cv": 2,
    "price": np.inf,
    "gammas": (1.0, 0.01),
    "robustness": (1.0,),
}


def rows(n: int = 400) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.manual_seed(0)
    x = 3 + 5 * torch.randn(n, 4, generator=rng)
    domain = (torch.arange(n) % 8 == 0).long()
    y = ((x[:, 0] - 3) * (1 - domain) + (x[:, 1] - 3) * domain > 0).long()
    return x, y, domain


class Backbone(nn.Module):
    """Embeddings of very different scales, one of them constant; dropout to see eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout, self.scale = nn.Dropout(0.5), nn.Parameter(torch.tensor([1.0, 100, 0.01, 1]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.dropout(x) * self.scale, torch.full((len(x), 1), 7.0)], dim=1)


def test_the_layer_is_the_estimator_and_better_for_the_worst_domain() -> None:
    x, y, domain = rows()
    backbone = Backbone()
    loader = DataLoader(TensorDataset(x, y, domain), batch_size=64, shuffle=True)
    found = certified_head(backbone, loader, **QUICK)
    assert backbone.training
    assert found.certificate.gap <= 1e-6
    assert found.frontier.held_out is not None
    backbone.eval()
    model = nn.Sequential(backbone, found.linear)
    X, _, _ = embed(backbone, [(x, y, domain)], True)
    scaled = (X - X.mean(0)) / np.where(X.std(0) > 1e-9, X.std(0), 1.0)
    with torch.no_grad():
        probability = torch.softmax(model(x), dim=1).double().numpy()
    np.testing.assert_allclose(found.estimator.predict_proba(scaled), probability, atol=1e-4)
    rare = domain == 1
    pooled = found.estimator.ordinary_.predict(scaled)[rare.numpy()]
    assert not found.is_ordinary
    right = (probability.argmax(1) == y.numpy())[rare.numpy()].mean()
    assert right > (pooled == y[rare].numpy()).mean() + 0.05


def test_its_objective_is_that_of_the_exact_solver() -> None:
    x, y, domain = rows()
    options = QUICK | {"gammas": (0.1,), "anchor": None}
    found = certified_head(nn.Identity(), [(x, y, domain)], **options)
    X = x.double().numpy()
    X = (X - X.mean(0)) / X.std(0)
    problem = ax.LinearDomains(X, y.numpy(), domain.numpy())
    gamma = found.estimator.gamma_
    exact = ax.solve(problem, ax.Simplex(2), gamma=gamma)
    assert found.certificate.upper == pytest.approx(exact.certificate.upper, abs=2e-6)


def test_three_classes_and_a_layer_to_write_into() -> None:
    x, _, domain = rows()
    y = (x[:, 0] > 1).long() + (x[:, 0] > 5).long()
    last = nn.Linear(4, 3)
    model = nn.Sequential(nn.Identity(), last)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingGained)
        found = certified_head(model[0], [(x, y)], domain, head=last, **QUICK)
    assert found.linear is last
    assert (model(x).argmax(1) == y).double().mean() > 0.9


def test_numbers_are_regressed() -> None:
    x, _, domain = rows()
    y = x[:, 0] * (1 - domain) + x[:, 1] * domain
    found = certified_head(nn.Identity(), [(x, y, domain)], **QUICK)
    assert tuple(found.linear.weight.shape) == (1, 4)
    with torch.no_grad():
        scaled = (x - x.mean(0)) / x.std(0, correction=0)
        expected = found.estimator.predict(scaled.double().numpy())
        np.testing.assert_allclose(found.linear(x)[:, 0], expected, rtol=1e-3, atol=1e-3)


def test_refusals() -> None:
    x, y, domain = rows(40)
    shuffled = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    with pytest.raises(InputError, match="the loader shuffles"):
        certified_head(nn.Identity(), shuffled, domain)
    with pytest.raises(InputError, match="gives no domains"):
        certified_head(nn.Identity(), [(x, y)])
    with pytest.raises(InputError, match="domains has 3 entries"):
        certified_head(nn.Identity(), [(x, y)], [0, 1, 0])
    with pytest.raises(InputError, match="is empty"):
        certified_head(nn.Identity(), [])
    with pytest.raises(InputError, match="gives embeddings of shape"):
        certified_head(nn.Unflatten(1, (2, 2)), [(x, y, domain)])
    with pytest.raises(InputError, match="y has the classes"):
        certified_head(nn.Identity(), [(x, y + 1, domain)], **QUICK)
    x, y, domain = rows()
    with pytest.raises(InputError, match=r"head .*weights of shape"):
        certified_head(nn.Identity(), [(x, y, domain)], head=nn.Linear(4, 5), **QUICK)
