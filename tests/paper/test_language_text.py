"""Documents and conversations: words, what the files say, and which edition was used."""

import io
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import language_text
import numpy as np
import pytest
from data_server import sha256
from language_text import (
    CORNELL,
    DIALOGUES,
    TREEBANK,
    Language,
    encoded,
    load_language,
    of_the_lines,
    of_the_zip,
    vocabulary,
    words_of,
)

SPLITS = ("train", "valid", "test")
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


@pytest.fixture(scope="module")
def data() -> Language:
    """Out of the packages of the registry, unless the cache has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language_text, "CORNELL", replace(CORNELL, sums={"none": ""}, address=""))
        return load_language()


def test_language_is_the_papers_experiment(data: Language) -> None:
    assert len(set(data.words)) == 10_002
    assert data.words[:2] == ("<unk>", "</s>")
    assert all(word == word.upper() and word.isalnum() for word in data.words[2:])
    ends = {s: {d: int((text == 1).sum()) for d, text in getattr(data, s).items()} for s in SPLITS}
    assert [ends[s]["document"] for s in SPLITS] == [42_068, 3_370, 3_761]
    said = sum(ends[s]["conversation"] for s in SPLITS)
    assert 128_000 < said <= 128_700  # utterances that are more than punctuation
    assert ends["valid"]["conversation"] / said == pytest.approx(1 / 20, abs=0.001)
    sizes = [len(getattr(data, s)[d]) for d in ("document", "conversation") for s in SPLITS]
    assert sizes == [920_209, 72_949, 81_682, 897_078, 49_792, 50_187]  # of docs/reproduction.md
    assert "a part" in data.source


def test_the_vocabulary_is_the_most_frequent_words_of_both_training_texts(data: Language) -> None:
    counts: Counter[int] = Counter()
    for text in data.train.values():
        counts.update(text.tolist())
    in_order = [counts[i] for i in range(2, len(data.words))]
    assert in_order == sorted(in_order, reverse=True)
    assert min(in_order) > 0
    # A document's own unknown words stay unknown, and are no word.
    assert (data.train["document"] == 0).sum() > 4794


def test_fifty_lines_of_the_part_are_one_conversation() -> None:
    found = of_the_lines("".join(f"q{i}\ta{i}\n" for i in range(120)).encode())
    assert [len(c) for c in found] == [100, 100, 40]
    assert found[1][:3] == ["q50", "a50", "q51"]


def full_zip() -> bytes:
    """The full corpus in small: 40 conversations of two utterances."""
    lines = "".join(
        f"L{i} +++$+++ u{i % 2} +++$+++ m0 +++$+++ ANN +++$+++ Caf\xe9 {i}!\n" for i in range(80)
    )
    listed = "".join(
        f"u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L{i}', 'L{i + 1}']\n" for i in range(0, 80, 2)
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        folder = "cornell movie-dialogs corpus/"
        archive.writestr(f"{folder}movie_lines.txt", lines.encode("iso-8859-1"))
        archive.writestr(f"{folder}movie_conversations.txt", listed.encode("iso-8859-1"))
    return buffer.getvalue()


def test_conversations_of_the_full_corpus() -> None:
    found = of_the_zip(full_zip())
    assert len(found) == 40
    assert found[3] == ["Café 6!", "Café 7!"]


def test_texts_that_are_there_need_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: conversations 18 and 38 of 40 are for validation, 19 and 39 for the test."""
    source = "penn = {}\r\n" + "".join(f'penn["{s}"] = """ a b\r\n c\r\n"""\r\n' for s in SPLITS)
    (part,) = DIALOGUES.sums
    for origin, file, content in (
        (TREEBANK, "__init__.py", source.encode()),
        (CORNELL, language_text.CORNELL_ZIP, full_zip()),
        (DIALOGUES, part, b"q\ta\n"),
    ):
        (tmp_path / origin.name).mkdir()
        (tmp_path / origin.name / file).write_bytes(content)
        own = replace(origin, sums={file: sha256(content)}, address="", package=None)
        monkeypatch.setattr(language_text, origin.name.upper(), own)
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path))
    full = load_language(n_words=500)
    assert "the full corpus" in full.source
    ends = [int((getattr(full, s)["conversation"] == 1).sum()) for s in SPLITS]
    assert ends == [72, 4, 4]
    documents = [full.words[i] for i in full.test["document"]]
    assert documents == ["A", "B", "</s>", "C", "</s>"]
    assert "CAFÉ" in full.words
    (tmp_path / "cornell" / language_text.CORNELL_ZIP).unlink()
    assert "a part" in load_language().source
