"""The language model: its losses are torch's, its perplexity is what one computes by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tiny_language import WORDS, tiny_language
from torch.nn import functional

from anymix.datasets.text import encoded, vocabulary, words_of
from anymix.reproduction.language_model import PIECE, LanguageModel, mean_loss, windows
from anymix.reproduction.word_losses import WordLosses


def test_word_losses_are_torchs_with_their_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    h, E, b = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in ((7, 3), (11, 3), (11,))
    )
    y = torch.randint(11, (7,), generator=generator)
    weights = torch.rand(7, generator=generator, dtype=torch.float64)
    losses = WordLosses()
    for _ in range(2):  # the second time in memory that was used before
        ours = losses(h, E, b, y)
        theirs = functional.cross_entropy(functional.linear(h, E, b), y, reduction="none")
        assert torch.allclose(ours, theirs, rtol=1e-13, atol=0)
        found = torch.autograd.grad(ours @ weights, (h, E, b))
        expected = torch.autograd.grad(theirs @ weights, (h, E, b))
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def test_word_losses_with_products_in_half_precision() -> None:
    """Against torch in float64 on the same rounded h: only products are rounded, to 8 bits."""
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(50, 16, generator=generator).bfloat16().requires_grad_()
    E = torch.randn(40, 16, generator=generator).requires_grad_()
    b = torch.randn(40, generator=generator).requires_grad_()
    y = torch.randint(40, (50,), generator=generator)
    weights = torch.rand(50, generator=generator)
    losses = WordLosses()
    for _ in range(2):
        ours = losses(h, E, b, y)
        scores = functional.linear(h.double(), E.double(), b.double())
        theirs = functional.cross_entropy(scores, y, reduction="none")
        assert ours.dtype == torch.float32
        largest = float(scores.detach().abs().max())
        assert torch.allclose(ours.double(), theirs, rtol=0, atol=2**-7 * largest)
        found = torch.autograd.grad(ours @ weights, (h, E, b))
        expected = torch.autograd.grad(theirs @ weights.double(), (h, E, b))
        for one, other in zip(found, expected, strict=True):
            assert float((one - other).norm() / other.norm()) < 0.02


def test_word_losses_of_large_scores_are_finite() -> None:
    h = torch.tensor([[1000.0], [-1000.0]])
    found = WordLosses()(h, torch.tensor([[1.0], [0.0]]), torch.zeros(2), torch.tensor([1, 1]))
    assert found.tolist() == [1000.0, 0.0]


@pytest.mark.parametrize("second", ["call", "backward"])
def test_scores_that_are_overwritten_are_an_error(second: str) -> None:
    losses, h = WordLosses(), torch.ones(2, 3, requires_grad=True)
    first = losses(h, torch.ones(4, 3), torch.zeros(4), torch.tensor([0, 1])).sum()
    if second == "call":
        losses(h.detach(), torch.ones(4, 3), torch.zeros(4), torch.tensor([0, 1]))
    else:
        first.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="the scores are gone"):
        first.backward()  # type: ignore[no-untyped-call]


def test_rows_hold_every_word_with_its_predecessor() -> None:
    before, after = windows(np.array([5, 6, 7, 8, 9, 4, 3], dtype=np.int32), 3)
    assert before.tolist() == [[1, 5, 6], [7, 8, 9]]  # an end mark comes before the first word
    assert after.tolist() == [[5, 6, 7], [8, 9, 4]]


def test_perplexity_of_three_sentences_by_hand() -> None:
    """A model that looks at nothing gives every word its share, and perplexity is known."""
    sentences = [words_of(line) for line in ("the cat sat", "the dog sat", "a cat, the cat")]
    words = vocabulary(sentences, n_words=3)
    assert words == ("<unk>", "</s>", "CAT", "THE", "SAT")
    text = encoded(sentences, words)
    assert text.tolist() == [3, 2, 4, 1, 3, 0, 4, 1, 0, 2, 3, 2, 1]
    model = LanguageModel(5, units=3, projection=2)
    with torch.no_grad():
        model.projection.weight.zero_()
        model.projection.bias.zero_()
    model.start_at(np.array([1.0, 2, 2, 2, 1]))  # plus one each: 2, 3, 3, 3, 2 of 13
    p = np.array([2, 3, 3, 3, 2]) / 13
    by_hand = -(2 * math.log(p[0]) + 3 * math.log(p[1]) + 3 * math.log(p[2])
                + 3 * math.log(p[3]) + 2 * math.log(p[4])) / 13  # fmt: skip
    assert mean_loss(model, text) == pytest.approx(by_hand, rel=1e-6)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    torch.manual_seed(0)
    model = LanguageModel(len(WORDS), units=6, projection=4, dropout=0.5).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


@pytest.mark.parametrize("n", [1, 403, PIECE, 2 * PIECE + 17])
def test_perplexity_is_exp_of_the_mean_loss_whatever_the_batch_and_unroll(
    model: LanguageModel, n: int
) -> None:
    text = np.resize(tiny_language().test["document"], n)
    model.eval()
    total = 0.0
    with torch.no_grad():  # word by word, without any help of the function under test
        for start in range(0, n, PIECE):
            state: Any = None
            for i in range(start, min(start + PIECE, n)):
                word = int(text[i - 1]) if i else 1
                x = model.embedding(torch.tensor([[word]])) * 2.0  # √4
                out, state = model.layers(x, state)
                scores = model.embedding.weight @ model.projection(out[0, 0]) + model.bias
                total -= float(scores.log_softmax(0)[int(text[i])])
    model.train()
    for batch, unroll in ((32, 50), (1, PIECE), (2, 7), (3, 333)):
        found = mean_loss(model, text, batch=batch, unroll=unroll)
        assert found == pytest.approx(total / n, rel=1e-12)
    assert model.training  # as it was
