"""From lines of text to numbers: words, a vocabulary, and the marks of what is not a word.

    "Mr. O'Neill -- is <unk>!"  ->  MR ONEILL IS <unk> </s>  ->  numbers

Punctuation is removed and letters are upper case. One mark that stands inside a word vanishes
(U.S. is US, YOU'RE is YOURE), any other mark separates words. The vocabulary is the most frequent
words; every other one is the unknown word, number 0. A sentence ends with the end mark, number 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]

__all__ = ["END", "UNKNOWN", "encoded", "vocabulary", "words_of"]

UNKNOWN, END = "<unk>", "</s>"
_INSIDE = re.compile(r"(?<=[^\W_])['’.&/-](?=[^\W_])")  # between two letters or digits
_WORD = re.compile(r"<unk>|[^\W_]+")


def words_of(line: str) -> list[str]:
    """The words of a line, without punctuation, in upper case.

    Parameters
    ----------
    line : str
        A sentence or an utterance; "<unk>" in it stands for a word that is not known.

    Returns
    -------
    list of str

    Examples
    --------
    >>> words_of("mr. <unk> 's u.s. well-known -- you're late...really?")
    ['MR', '<unk>', 'S', 'US', 'WELLKNOWN', 'YOURE', 'LATE', 'REALLY']
    """
    found = _WORD.findall(_INSIDE.sub("", line))
    return [word if word == UNKNOWN else word.upper() for word in found]


def vocabulary(sentences: Iterable[Sequence[str]], n_words: int) -> tuple[str, ...]:
    """The unknown word, the end mark, and the most frequent words; of equals the first by name.

    Parameters
    ----------
    sentences : iterable of sequences of str
        Words, as `words_of` gives them.
    n_words : int
        How many words to know at most.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> vocabulary([["B", "A", "<unk>"], ["C", "B"]], n_words=2)
    ('<unk>', '</s>', 'B', 'A')
    """
    counts = Counter(chain.from_iterable(sentences))
    del counts[UNKNOWN]
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return (UNKNOWN, END, *order[:n_words])


def encoded(sentences: Iterable[Sequence[str]], words: Sequence[str]) -> Tokens:
    """All sentences as numbers, one after the other, each with its end mark.

    Parameters
    ----------
    sentences : iterable of sequences of str
        Words, as `words_of` gives them; empty sentences are left out.
    words : sequence of str
        The vocabulary; a word's place is its number.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> encoded([["B", "Z"], [], ["A"]], ("<unk>", "</s>", "B", "A"))
    array([2, 0, 1, 3, 1], dtype=int32)
    """
    number = {word: i for i, word in enumerate(words)}
    unknown, end = number[UNKNOWN], number[END]
    return np.fromiter(
        chain.from_iterable(
            chain((number.get(word, unknown) for word in sentence), (end,))
            for sentence in sentences
            if sentence
        ),
        dtype=np.int32,
    )
