"""Which share of the data should each domain have? Weights for the training of another model.

    max_λ  Σ_k λ_k (L_k(w) − b_k)   over   λ_k ≥ floor,   b_k the loss of a reference model

A small model is trained as the w-player; the average of λ over its steps is the mixture to train
a large one with (the idea of DoReMi). A domain gets a large share where there is still much to
learn compared with the reference, not where the text is merely hard.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from anymix.errors import InputError
from anymix.files import write_whole
from anymix.mixtures import Box
from anymix.mixtures.checks import vector
from anymix.pytorch.loss import AgnosticLoss
from anymix.solvers.steps import Schedule

__all__ = ["MixtureWeights", "mixture_criterion", "mixture_weights"]


def mixture_criterion(
    reference: ArrayLike,
    step: Schedule,
    *,
    floor: ArrayLike = 0.0,
    adversary: Literal["euclidean", "entropic"] = "entropic",
    names: Sequence[str] | None = None,
    **options: Any,
) -> AgnosticLoss:
    """The loss whose λ becomes the mixture of the data.

    Parameters
    ----------
    reference : array-like of shape (p,)
        b, the loss of each domain under a reference model. To compare token by token, give zeros
        here and `losses − losses of the reference` to the loss.
    step : float or function
        The step size of λ, or a function of the step number.
    floor : float or array-like of shape (p,)
        The least share of each domain; together less than 1.
    adversary : {"entropic", "euclidean"}
        How λ steps; DoReMi's way is multiplicative.
    names : sequence of str, optional
        Names of the domains.
    **options : object
        The others of `AgnosticLoss`.

    Returns
    -------
    AgnosticLoss

    Examples
    --------
    >>> criterion = mixture_criterion([2.0, 3.0], step=0.1, floor=0.05, names=["web", "code"])
    >>> criterion
    AgnosticLoss(Box of 2 domains, entropic)
    """
    b = vector("reference", reference)
    low = vector("floor", np.broadcast_to(np.asarray(floor, dtype=np.float64), b.shape))
    if (low < 0).any() or low.sum() >= 1:
        raise InputError("floor", f"adds up to {low.sum():g}", "give shares ≥ 0, together below 1")
    box = Box(low, np.ones(len(b)))
    return AgnosticLoss(box, step, adversary=adversary, offsets=b, names=names, **options)


@dataclass(frozen=True)
class MixtureWeights:
    """The weights found, and whether they have come to rest.

    Parameters
    ----------
    weights : dict of str to float
        λ averaged over all steps: the share of each domain.
    last : dict of str to float
        λ after the last step.
    excess : dict of str to float
        The last L_k − b_k of each domain.
    steps : int
        How many steps were made.
    moved : float
        Half the sum of the changes of the average since about a third of the steps, 0..1.
    settled : bool
        Whether that is at most the tolerance.

    Examples
    --------
    >>> found = MixtureWeights({"a": 0.5, "b": 0.5}, {"a": 0.4, "b": 0.6}, {}, 100, 0.001, True)
    >>> print(found.report())
    100 steps; the average has settled (0.0010 of all data changed hands lately)
    a    0.5000  last 0.4000
    b    0.5000  last 0.6000
    """

    weights: dict[str, float]
    last: dict[str, float]
    excess: dict[str, float]
    steps: int
    moved: float
    settled: bool

    def report(self) -> str:
        """Does λ still move? A few lines to read."""
        word = (
            "has settled" if self.settled else "still moves: train longer, or with a smaller step"
        )
        head = f"{self.steps} steps; the average {word} ({self.moved:.4f} of all data changed hands"
        width = max(len(name) for name in self.weights) + 3
        lines = [
            f"{name:{width}s} {w:.4f}  last {self.last[name]:.4f}"
            for name, w in self.weights.items()
        ]
        return "\n".join([f"{head} lately)", *lines])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all of it as JSON.

        Parameters
        ----------
        path : path-like
            The file to write.
        """
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"
        return write_whole(path, lambda new: new.write_text(text, encoding="utf-8"))


def mixture_weights(criterion: AgnosticLoss, tol: float = 0.01) -> MixtureWeights:
    """The average λ of a loss, by name, and whether it has come to rest.

    Parameters
    ----------
    criterion : AgnosticLoss
        After training with it.
    tol : float
        The average has settled if it moved by at most this in the last half of the steps.

    Returns
    -------
    MixtureWeights

    Examples
    --------
    >>> import torch
    >>> criterion = mixture_criterion([1.0, 1.0], step=0.1, names=["web", "code"])
    >>> for _ in range(8):
    ...     loss = criterion(torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([0, 1]))
    ...     criterion.step()
    >>> found = mixture_weights(criterion)
    >>> found.settled, {name: round(w, 2) for name, w in found.weights.items()}
    (False, {'web': 0.39, 'code': 0.61})
    """
    if criterion.adversary.n_steps < 4:
        found = f"made {criterion.adversary.n_steps} steps"
        raise InputError("criterion", found, "an average needs at least 4")
    record, names = criterion.record(), criterion.names
    b, moved = criterion.offsets.tolist(), criterion.moved()
    return MixtureWeights(
        weights=dict(zip(names, criterion.adversary.average.tolist(), strict=True)),
        last=dict(zip(names, criterion.adversary.mixture.tolist(), strict=True)),
        excess={k: record[f"loss/{k}"] - offset for k, offset in zip(names, b, strict=True)},
        steps=criterion.adversary.n_steps,
        moved=moved,
        settled=moved <= tol,
    )
