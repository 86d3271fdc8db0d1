"""A two-layer LSTM that predicts the next word, and its perplexity.

    state ← LSTM(embedding of the word before, state)
    P(next word = v) ∝ exp(⟨e_v, P state⟩ + b_v)        e_v the embedding of v, P a projection

With as many units as the projection has, a projection inside the recurrence, as the paper's, gives
the same functions: its matrix and the recurrent one come as a product, which can be any matrix.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anymix.reproduction.word_losses import WordLosses

Array = NDArray[np.float64]
Tokens = NDArray[np.int32]
State = tuple[Tensor, Tensor]

__all__ = ["LanguageModel", "mean_loss", "windows"]

END = 1  # the number of the end mark
PIECE = 1000  # a text is judged in pieces of so many words, each with a fresh state


class LanguageModel(nn.Module):
    """An LSTM of two layers; the words' embeddings are also the weights of the last layer.

    Parameters
    ----------
    n_words : int
        Words in the vocabulary, the marks included.
    units : int
        Units of each layer.
    projection : int
        Size of an embedding, and of the projection to it.
    dropout : float
        The part of the numbers between layers that is left out in training.
    """

    def __init__(self, n_words: int, units: int, projection: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, projection)
        self.layers = nn.LSTM(projection, units, num_layers=2, dropout=dropout)
        self.projection = nn.Linear(units, projection)
        self.bias = nn.Parameter(torch.zeros(n_words))
        self.dropout = nn.Dropout(dropout)
        self.word_losses = WordLosses()
        self.scale = projection**0.5
        nn.init.normal_(self.embedding.weight, std=projection**-0.5)

    def forward(
        self, before: Tensor, after: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """The loss of every word, and the state after the last.

        Parameters
        ----------
        before, after : Tensor of shape (T, n)
            n texts of T words: each word's predecessor, and the word itself.
        state : pair of Tensors, optional
            The state before the first word; 0 by default.

        Returns
        -------
        losses : Tensor of shape (T, n)
            −log P(word), in nats.
        state : pair of Tensors
        """
        x = self.embedding(before) * self.scale  # (T, n, projection), entries of about unit size
        x = self.dropout(x)
        h, state = self.layers(x, state)
        h = self.dropout(self.projection(h)).flatten(0, 1)  # (T n, projection)
        losses = self.word_losses(h, self.embedding.weight, self.bias, after.flatten())
        return losses.view_as(after), state

    def start_at(self, counts: Array) -> None:
        """Let the first predictions be the words' frequencies, whatever came before.

        Parameters
        ----------
        counts : ndarray of shape (n_words,)
            How often each word occurs; one is added to each.
        """
        smoothed = counts + 1.0
        with torch.no_grad():
            self.bias.copy_(torch.from_numpy(np.log(smoothed / smoothed.sum())))


def windows(text: Tokens, length: int) -> tuple[Tensor, Tensor]:
    """A text cut into rows of `length` words; a rest that is too short is left out.

    Parameters
    ----------
    text : ndarray of shape (n,)
        Numbers of words. Before the first comes an end mark.
    length : int
        Words of a row.

    Returns
    -------
    before, after : Tensor of shape (rows, length)
        Each word's predecessor, and the word itself.
    """
    rows = len(text) // length
    before, after = (
        torch.from_numpy(part[: rows * length].astype(np.int64).reshape(rows, length))
        for part in (_predecessors(text), text)
    )
    return before, after


def _predecessors(text: Tokens) -> Tokens:
    return np.concatenate([np.array([END], dtype=text.dtype), text[:-1]])


def mean_loss(model: LanguageModel, text: Tokens, *, batch: int = 32, unroll: int = 50) -> float:
    """The mean loss of a word of the text; the perplexity is exp of it.

    The text is judged in pieces of 1,000 words, each from a fresh state that goes on through the
    piece. So the number depends neither on `batch` nor on `unroll`, which only say how much is
    done at a time.

    Parameters
    ----------
    model : LanguageModel
        The model; dropout is off for the time being.
    text : ndarray of shape (n,)
        Numbers of words.
    batch : int
        Pieces at a time.
    unroll : int
        Words of each piece at a time.

    Returns
    -------
    float
        In nats.
    """
    n = -(-len(text) // PIECE)  # pieces
    before, after = np.full((2, n * PIECE), END, dtype=np.int64)
    before[: len(text)], after[: len(text)] = _predecessors(text), text
    real = np.arange(n * PIECE) < len(text)
    pieces = [torch.from_numpy(a.reshape(n, PIECE).T.copy()) for a in (before, after, real)]
    training = model.training
    model.eval()
    with torch.no_grad():  # in inference mode the table of scores could not be used afterwards
        total = sum(
            _sum_of_losses(model, [p[:, i : i + batch] for p in pieces], unroll)
            for i in range(0, n, batch)
        )
    model.train(training)
    return total / len(text)


def _sum_of_losses(model: LanguageModel, pieces: list[Tensor], unroll: int) -> float:
    """The sum over the words that are real, with the state carried from part to part."""
    total, state = 0.0, None
    for i, j in pairwise([*range(0, PIECE, unroll), PIECE]):
        before, after, real = (p[i:j] for p in pieces)
        if not real.any():
            break
        losses, state = model(before, after, state)
        total += float(losses[real].double().sum())
    return total
