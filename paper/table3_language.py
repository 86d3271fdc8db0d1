"""Table 3: one language model for documents and conversations, as on the keyboard of a phone.

One training, four sets Λ: documents alone (Penn TreeBank), conversations alone (Cornell movie
dialogues), both as they come (Û, ordinary federated learning) and any mixture of the two (the
agnostic model). Û is good where most of the text is, in conversations; the agnostic model gives
away some of that for documents, where words are harder to guess.

    python paper/table3_language.py [--scale small|medium|paper] [--runs 3] [--threads 2] [--bf16]

The runs leave checkpoints behind in --runs-in. Stopped or killed, the same command goes on where
they are, and the numbers are those of a run without a break.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from rich.console import Console

from anymix.reproduction import SCALES, reproduce_language

if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--scale", choices=list(SCALES), default="small")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="products in half precision")
    parser.add_argument("--runs-in", type=Path, default=Path("language_runs"))
    arguments = parser.parse_args()
    for name in ("runs", "threads"):
        if (value := getattr(arguments, name)) < 1:
            parser.error(f"--{name} is {value}; give a whole number ≥ 1")

    table = reproduce_language(
        arguments.scale,
        arguments.runs,
        folder=arguments.runs_in,
        threads=arguments.threads,
        bf16=arguments.bf16,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    Console(highlight=False).print(table.grid())
    print(f"The text: {table.source}. Terms: {table.licence}.")
    table.save(Path(__file__).parents[1] / "docs" / "reproduction")
