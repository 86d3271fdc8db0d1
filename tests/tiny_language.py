"""A text of two domains small enough to train on in a second, for the tests of language models.

Documents walk up through the words 2 … 11 and conversations down, with some noise, so that a model
of one is bad at the other. Conversations have less noise: they are easier to guess.

    python tests/tiny_language.py FOLDER STEPS     trains all rows, with a checkpoint at every step
    python tests/tiny_language.py FOLDER STEPS Û   does so, and is killed (-9) when row Û is halfway
"""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from language import Plan, Scale, table
from language_text import Language
from numpy.typing import NDArray

WORDS = ("<unk>", "</s>", *"ABCDEFGHIJ")
TINY = Scale(
    "tiny",
    units=16,
    projection=12,
    dropout=0.1,
    unroll=20,
    rows=4,
    n_steps=30,
    step_w=0.3,
    clip=0.25,
    step_mixture=0.05,
    n_looks=3,
    valid_words=200,
)


def walk(n: int, direction: int, noise: float, seed: int) -> NDArray[np.int32]:
    rng = np.random.default_rng(seed)
    steps = np.where(rng.random(n) < noise, rng.integers(10, size=n), direction)
    text = 2 + np.cumsum(steps) % 10
    text[9::10] = 1  # end marks
    return text.astype(np.int32)


def tiny_language() -> Language:
    train, valid, test = (
        {"document": walk(n, 1, 0.4, i), "conversation": walk(n, -1, 0.1, 10 + i)}
        for i, n in enumerate((2000, 300, 403))
    )
    return Language(WORDS, train, valid, test, "made here", "none")


if __name__ == "__main__":
    folder, n_steps, victims = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    scale = replace(TINY, n_steps=n_steps)

    def say(line: str) -> None:
        """The first line about a row comes after a third of its steps."""
        print(line)
        if any(line.startswith(row) for row in victims):
            os.kill(os.getpid(), signal.SIGKILL)

    table(Plan(scale, tiny_language(), folder, seconds=0, say=say), runs=1)
