"""Three sentences by hand: words, vocabulary, the unknown word, end marks."""

import numpy as np
import pytest

from anymix.datasets.text import encoded, vocabulary, words_of

LINES = [
    "The cat sat.",
    "The dog sat on <unk>!",
    "A bird -- it's a well-known U.S. one, said Zoë...",
]


def test_three_sentences_by_hand() -> None:
    sentences = [words_of(line) for line in LINES]
    assert sentences == [
        ["THE", "CAT", "SAT"],
        ["THE", "DOG", "SAT", "ON", "<unk>"],
        ["A", "BIRD", "ITS", "A", "WELLKNOWN", "US", "ONE", "SAID", "ZOË"],
    ]
    words = vocabulary(sentences, n_words=4)
    assert words == ("<unk>", "</s>", "A", "SAT", "THE", "BIRD")  # equals by name
    assert encoded(sentences, words).tolist() == [
        *(4, 0, 3, 1),
        *(4, 0, 3, 0, 0, 1),
        *(2, 5, 0, 2, 0, 0, 0, 0, 0, 1),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        (" ... -- !", []),
        ("wait...what?no", ["WAIT", "WHAT", "NO"]),
        ("n't 's at&t rock_n_roll", ["NT", "S", "ATT", "ROCK", "N", "ROLL"]),
        ("straße i'm", ["STRASSE", "IM"]),
        ("<UNK> <unk>", ["UNK", "<unk>"]),
    ],
)
def test_words(line: str, words: list[str]) -> None:
    assert words_of(line) == words


def test_fewer_words_than_asked_for_and_empty_sentences() -> None:
    assert vocabulary([["B"], []], n_words=10) == ("<unk>", "</s>", "B")
    found = encoded([[], ["B"], []], ("<unk>", "</s>", "B"))
    assert found.tolist() == [2, 1]
    assert found.dtype == np.int32
