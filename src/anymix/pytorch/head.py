"""The last layer of a network, exact for the worst mixture, with a proof.

    min_{W, c} max_{λ∈Λ_t} Σ_k λ_k mean_k ℓ(W φ(x) + c, y) + γ R(W − W₀),   φ the network below it

is convex, so the exact solver finds it to a certified gap. It is fitted to rows that the network
was not trained on, best of all; among the candidates is the ordinary last layer, and it is kept
where rows held out show no gain for the worst mixture.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler

from anymix.errors import InputError
from anymix.estimators.linear_cv import AgnosticClassifierCV, AgnosticRegressorCV
from anymix.mixtures.parsing import Mixtures
from anymix.solvers.certificates import Certificate
from anymix.solvers.frontier import Frontier

Array = NDArray[np.float64]

__all__ = ["CertifiedHead", "certified_head", "embed"]


@dataclass(frozen=True, eq=False)
class CertifiedHead:
    """A last layer, and what is known of it.

    Parameters
    ----------
    linear : nn.Linear
        The layer: embeddings to the scores of the classes, or to one value.
    estimator : AgnosticClassifierCV or AgnosticRegressorCV
        The fit behind it, to embeddings of mean 0 and standard deviation 1.

    Examples
    --------
    >>> import torch
    >>> x, domain = torch.randn(500, 2, generator=torch.manual_seed(0)), torch.arange(500) % 5 // 4
    >>> y = (x.gather(1, domain[:, None])[:, 0] > 0).long()  # each domain has its own column
    >>> head = certified_head(torch.nn.Identity(), [(x, y, domain)], cv=2)
    >>> head.linear, head.certificate.gap <= 1e-6
    (Linear(in_features=2, out_features=2, bias=True), True)
    """

    linear: nn.Linear
    estimator: Any

    @property
    def certificate(self) -> Certificate:
        """Upper and lower value of the layer's objective on the rows fitted."""
        found: Certificate = self.estimator.certificate_
        return found

    @property
    def frontier(self) -> Frontier:
        """The layers from ordinary to robust, and their losses on rows held out."""
        found: Frontier = self.estimator.frontier_
        return found

    @property
    def is_ordinary(self) -> bool:
        """Whether no robust layer was better, so that the ordinary one was kept."""
        return bool(self.estimator.robustness_ == 0)


def certified_head(
    backbone: nn.Module,
    loader: Iterable[Any],
    domains: Any = None,
    *,
    head: nn.Linear | None = None,
    mixtures: Mixtures = None,
    **options: Any,
) -> CertifiedHead:
    """Fit the last linear layer for the worst mixture, on embeddings that are computed once.

    Parameters
    ----------
    backbone : nn.Module
        The network without its last layer: inputs to embeddings (n, d). It is put into eval mode
        for the pass and left as it was.
    loader : iterable
        Batches (x, y, domain), or (x, y) in a fixed order if `domains` is given. Whole numbers y
        are classes 0..K − 1, other numbers are values to predict.
    domains : array-like of shape (n,) or (n, p), optional
        The domain of each row in the loader's order, or memberships.
    head : nn.Linear, optional
        A layer to write the result into; None makes a new one.
    mixtures : MixtureSet, function, str or None
        Λ, the mixtures to guard against; None is any.
    **options : object
        Those of AgnosticClassifierCV (or AgnosticRegressorCV): robustness, gammas, anchor, price,
        cv, …

    Returns
    -------
    CertifiedHead

    Examples
    --------
    >>> import torch
    >>> x, domain = torch.randn(500, 2, generator=torch.manual_seed(0)), torch.arange(500) % 5 // 4
    >>> y = (x.gather(1, domain[:, None])[:, 0] > 0).long()  # each domain has its own column
    >>> model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Linear(2, 2))
    >>> found = certified_head(model[0], [(x, y, domain)], head=model[1], cv=2)
    >>> bool((model(x).argmax(1) == y).float().mean() > 0.8)
    True
    """
    X, y, found = embed(backbone, loader, domains is None)
    domains = found if domains is None else domains
    if len(domains) != len(X):
        raise InputError("domains", f"has {len(domains)} entries", f"the loader has {len(X)} rows")
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 1e-12 * (1 + np.abs(mean)), scale, 1.0)  # a constant column is no sign
    is_classes = y.dtype.kind in "iub"
    if is_classes:
        _check_classes(np.unique(y))
    make: Any = AgnosticClassifierCV if is_classes else AgnosticRegressorCV
    estimator = make(mixtures=mixtures, **options).fit((X - mean) / scale, y, domains=domains)
    weight, bias = _layer(estimator, mean, scale, is_classes)
    return CertifiedHead(_written(head, weight, bias, _device(backbone)), estimator)


def embed(
    backbone: nn.Module, loader: Iterable[Any], with_domains: bool
) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Embeddings (n, d) in float64, targets and domains of all rows of a loader, in its order."""
    if not with_domains and isinstance(loader, DataLoader):
        _check_order(loader)
    training, device = backbone.training, _device(backbone)
    backbone.eval()
    parts = []
    try:
        with torch.no_grad():
            for batch in loader:
                x, y, *rest = batch
                if with_domains and not rest:
                    fix = "let the loader give (x, y, domain), or give domains"
                    raise InputError("loader", "gives no domains", fix)
                parts.append((_matrix(backbone(x.to(device))), *map(_array, [y, *rest[:1]])))
    finally:
        backbone.train(training)
    if not parts:
        raise InputError("loader", "is empty", "give at least one batch")
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return columns[0], columns[1], columns[2] if with_domains else columns[1]


def _matrix(embeddings: Tensor) -> Array:
    if embeddings.dim() != 2:
        found = f"gives embeddings of shape {tuple(embeddings.shape)}"
        raise InputError("backbone", found, "give a row of numbers for each input: (n, d)")
    found_rows: Array = embeddings.double().cpu().numpy()
    return found_rows


def _array(values: Any) -> NDArray[Any]:
    return values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _check_order(loader: DataLoader[Any]) -> None:
    if isinstance(loader.sampler, RandomSampler):
        fix = "take shuffle=False, or let the loader give the domain of each row"
        raise InputError("domains", "are in a fixed order and the loader shuffles", fix)


def _check_classes(classes: NDArray[Any]) -> None:
    if not np.array_equal(classes, np.arange(len(classes))):
        raise InputError("y", f"has the classes {classes.tolist()}", "give all of 0..K − 1")


def _layer(estimator: Any, mean: Array, scale: Array, is_classes: bool) -> tuple[Array, Array]:
    """W and c for embeddings as they come: W((x − mean)/scale) + c."""
    W, c = np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)
    if is_classes and len(W) == 1:  # the score of class 1 less that of class 0
        W, c = np.vstack([-W / 2, W / 2]), np.concatenate([-c / 2, c / 2])
    W = W / scale
    return W, c - W @ mean


def _written(head: nn.Linear | None, W: Array, c: Array, device: torch.device) -> nn.Linear:
    head = nn.Linear(W.shape[1], W.shape[0], device=device) if head is None else head
    if tuple(head.weight.shape) != W.shape or head.bias is None:
        found = f"has weights of shape {tuple(head.weight.shape)}, bias {head.bias is not None}"
        raise InputError("head", found, f"give a Linear layer with bias, {W.shape}")
    with torch.no_grad():
        head.weight.copy_(torch.tensor(W))
        head.bias.copy_(torch.tensor(c))
    return head


def _device(module: nn.Module) -> torch.device:
    return next((t.device for t in module.parameters()), torch.device("cpu"))
