"""The language model: its perplexity is what one computes by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from language import PIECE, LanguageModel, mean_loss, windows
from language_text import encoded, vocabulary, words_of
from tiny_language import WORDS, tiny_language


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
        model.bias.copy_(torch.log(torch.tensor([2.0, 3, 3, 3, 2]) / 13))
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
