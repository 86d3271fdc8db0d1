"""The experiment of the paper's Table 3: one language model for documents and conversations.

Every row is the same training with another set Λ of mixtures of the two domains:

    document, conversation   one domain alone      Û   Point(m̄), all text as it comes
    agnostic                 Simplex(2), any mixture of the two

The paper does not say what m̄ is, but its table does: log Ū = Σ_k m̄_k log(perplexity on domain k)
holds in all four rows for m̄ = (0.198, 0.802).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anymix.mixtures import MixtureSet, Point, Simplex

__all__ = ["COLUMNS", "DOMAINS", "LANGUAGE_ROWS", "PRINTED", "REFERENCE", "SCALES", "Scale"]

DOMAINS = ("document", "conversation")
COLUMNS = ("all", *DOMAINS, "worst")
PRINTED = {
    "document": (414.96, 83.97, 615.75, 615.75),
    "conversation": (108.97, 1138.76, 61.01, 1138.76),
    "Û": (68.18, 96.98, 62.50, 96.98),
    "agnostic": (79.98, 86.33, 78.48, 86.33),
}
REFERENCE = np.array([0.198, 0.802])  # m̄ of the paper
LANGUAGE_ROWS: Mapping[str, tuple[tuple[int, ...], MixtureSet]] = {
    # the domains whose text is looked at, and Λ: mixtures of these
    "document": ((0,), Point([1.0])),
    "conversation": ((1,), Point([1.0])),
    "Û": ((0, 1), Point(REFERENCE)),
    "agnostic": ((0, 1), Simplex(2)),
}


@dataclass(frozen=True)
class Scale:
    """How large the model is and how long it is trained: what the paper leaves open, and more.

    Attributes
    ----------
    name : str
        The name for `anymix reproduce language --scale`.
    units : int
        Units of each of the two layers.
    projection : int
        Size of a word's embedding and of the projection to it.
    dropout : float
        The part left out between layers in training.
    unroll : int
        Words of a row, through which gradients go back.
    rows : int
        Rows of each domain in a step.
    n_steps : int
        How many steps are made.
    step_w : float
        γ_w at the start; it falls linearly to 0.
    momentum : float
        How much of the last direction is kept.
    clip : float
        The most that the norm of a gradient may be.
    step_mixture : float
        γ_λ, the step of λ.
    n_looks : int
        How often the validation text is looked at on the way.
    valid_words : int
        How many words of each domain's validation text.

    Examples
    --------
    >>> SCALES["paper"].units, SCALES["paper"].projection
    (512, 512)
    """

    name: str
    units: int
    projection: int
    dropout: float
    unroll: int
    rows: int
    n_steps: int
    step_w: float
    momentum: float = 0.9
    clip: float = 0.25
    step_mixture: float = 0.005
    n_looks: int = 12
    valid_words: int = 20_000

    def words(self, row: str) -> int:
        """Words that a step looks at."""
        return len(LANGUAGE_ROWS[row][0]) * self.rows * self.unroll


SCALES = {
    scale.name: scale
    for scale in (
        Scale("small", 256, 128, 0.0, unroll=32, rows=20, n_steps=2400, step_w=4.0),
        Scale("medium", 512, 256, 0.2, unroll=32, rows=20, n_steps=4000, step_w=4.0, n_looks=20),
        Scale(
            "paper",
            512,
            512,
            0.4,
            unroll=35,
            rows=20,
            n_steps=50_000,
            step_w=4.0,
            n_looks=50,
            valid_words=80_000,
        ),
    )
}
"""The sizes of the language models, by name: small, medium and paper."""
