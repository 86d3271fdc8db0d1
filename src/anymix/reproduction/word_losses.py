"""The exact loss of a word among many, in memory that is used again.

    ℓ_i = log Σ_v exp(s_iv) − s_{i,y_i},   s = h Eᵀ + b
    ∂ℓ_i/∂s_iv = softmax(s_i)_v − [v = y_i]

With 10,000 words this is most of the work of a language model, and torch spends a good part of it
on new memory: three tables of words × vocabulary in every step. Here it is one, made once, which
holds the scores, then exp of them, then the gradient.

The products are made in the precision of h: in half of it (bfloat16) twice as fast where the
processor can. Everything else, the sum over the words above all, is made in that of E.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["WordLosses"]


class WordLosses:
    """Losses of words given scores h Eᵀ + b; one call at a time may wait for its gradient.

    Examples
    --------
    >>> losses = WordLosses()
    >>> losses(torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(4), torch.tensor([0, 1])).exp()
    tensor([4., 4.])
    """

    def __init__(self) -> None:
        self.tables: dict[torch.dtype, Tensor] = {}
        self.n_calls = 0

    def __call__(self, h: Tensor, E: Tensor, b: Tensor, y: Tensor) -> Tensor:
        """The losses (n,) of words y (n,) for h (n, d), E (words, d) and b (words,)."""
        apply: Any = _Losses.apply
        losses: Tensor = apply(h, E, b, y, self)
        return losses

    def room(self, n: int, words: int, like: Tensor) -> Tensor:
        """A table (n, words) of this type that the next call may write to, and nobody after it."""
        table = self.tables.get(like.dtype)
        if (
            table is None
            or len(table) < n
            or table.shape[1] != words
            or table.device != like.device
        ):
            table = torch.empty(n, words, dtype=like.dtype, device=like.device)
            self.tables[like.dtype] = table
        return table[:n]


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, E: Tensor, b: Tensor, y: Tensor, losses: WordLosses) -> Tensor:
        losses.n_calls += 1
        s = losses.room(len(h), len(E), E)
        if h.dtype == E.dtype:
            torch.addmm(b, h, E.t(), out=s)
        else:
            products = losses.room(len(h), len(E), h)
            s.copy_(torch.mm(h, E.to(h.dtype).t(), out=products)).add_(b)
        own = s.gather(1, y[:, None])[:, 0]  # s_{i,y_i}
        top = s.amax(1, keepdim=True)
        z = s.sub_(top).exp_().sum(1)
        ctx.save_for_backward(h, E, y, z)
        ctx.s, ctx.losses, ctx.n_calls = s, losses, losses.n_calls
        return z.log() + top[:, 0] - own

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.n_calls != ctx.losses.n_calls:
            raise RuntimeError("the scores are gone; call backward() once, before the next losses")
        ctx.losses.n_calls += 1  # the table holds no exp(s) any more: a second backward is an error
        h, E, y, z = ctx.saved_tensors
        (g,) = grads
        s = ctx.s.mul_((g / z)[:, None])
        s.scatter_add_(1, y[:, None], -g[:, None])
        if h.dtype == E.dtype:
            return s @ E, s.t() @ h, s.sum(0), None, None
        low = ctx.losses.room(len(h), len(E), h).copy_(s)
        return low @ E.to(h.dtype), (low.t() @ h).to(E.dtype), s.sum(0), None, None
