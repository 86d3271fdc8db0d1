"""Settings of the language models that the paper does not give, chosen on validation text alone.

One choice serves all four rows, by the same rule as in choose_settings.py: with L_r(s) the worst
validation loss of row r over its Λ after training with the settings s, in nats,

    s* = argmin_s max_r (L_r(s) − min_s' L_r(s')).

The settings are chosen one after the other, γ_w, then the clip, then γ_λ, which matters to the
agnostic row only: each from its list, with the others as they stand. Settings with which one row
is 0.2 behind what it has with others are given up, and their further rows not trained. The test
text is never looked at: training stops at the last look at the validation text, and the runs of
this script write no test losses.

    python paper/choose_language.py [--scale small] [--steps 300] [--threads 2] [--bf16]

Every setting that was tried goes to docs/reproduction/settings_language_<scale>.csv; a setting that
is in that file already is not tried again.
"""

import csv
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from language import ROWS, SCALES, Plan, Scale, Training
from language_text import Language, load_language

FOLDER = Path(__file__).parents[1] / "docs" / "reproduction"
CHOICES = {  # in the order in which they are chosen
    "step_w": (2.0, 4.0, 8.0),
    "clip": (0.125, 0.25, 0.5, 1.0),
    "step_mixture": (0.002, 0.005, 0.02),
}
Tried = dict[tuple[str, float, float, float], float]
FAR = 0.2  # nats
HEADER = ["trained on", "step_w", "clip", "step_mixture", "n_steps", "worst validation loss"]


class Settings(NamedTuple):
    """γ_w, the clip and γ_λ."""

    step_w: float
    clip: float
    step_mixture: float


def worst_validation_loss(
    scale: Scale, data: Language, row: str, threads: int, bf16: bool
) -> float:
    """max over Λ of Σ_k λ_k L_k on validation text, after training with seed 0."""
    torch.set_num_threads(threads)
    training = Training(Plan(scale, data, Path("no checkpoints are written"), bf16), row, 0)
    for _ in training.steps():
        pass
    training.look()
    domains, mixtures = ROWS[row]
    losses = np.array(training.run.looks[-1]["valid"])[list(domains)]
    return float(mixtures.maximize(losses) @ losses)


def key(row: str, settings: Settings) -> tuple[str, float, float, float]:
    """Under which name a loss is kept: γ_λ is 0 where it makes no difference."""
    step_w, clip, step_mixture = settings
    return row, step_w, clip, step_mixture if row == "agnostic" else 0.0


def least_regret(tried: Tried, candidates: list[Settings]) -> Settings:
    """Of these settings, the one of least regret for the row that is served worst."""
    losses = {s: [tried[key(row, s)] for row in ROWS] for s in candidates}
    least = [min(column) for column in zip(*losses.values(), strict=True)]
    regrets = {
        s: max(a - b for a, b in zip(found, least, strict=True)) for s, found in losses.items()
    }
    return min(candidates, key=lambda s: (regrets[s], s))


def is_far(tried: Tried, row: str, settings: Settings, candidates: list[Settings]) -> bool:
    """Whether the row is far better off with another of these settings."""
    others = [tried[key(row, s)] for s in candidates if key(row, s) in tried]
    return tried[key(row, settings)] > min(others) + FAR


def choose(start: Settings, loss_of: Callable[[str, Settings], float], tried: Tried) -> Settings:
    """Choose one setting after the other; `tried` gets every loss that was measured."""
    best = start
    for name, values in CHOICES.items():
        left = [best._replace(**{name: value}) for value in values]
        for settings, row in product(list(left), ROWS):
            if settings not in left:
                continue
            if key(row, settings) not in tried:
                tried[key(row, settings)] = loss_of(row, settings)
            if is_far(tried, row, settings, left):
                left.remove(settings)
        best = least_regret(tried, left)
    return best


def read(file: Path) -> Tried:
    """What was tried before."""
    if not file.exists():
        return {}
    with file.open(encoding="utf-8") as lines:
        return {
            (row, float(w), float(clip), float(mixture)): float(loss)
            for row, w, clip, mixture, _, loss in list(csv.reader(lines))[1:]
        }


def write(file: Path, tried: Tried, steps: int) -> None:
    """All that was tried."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows([*k, steps, f"{v:.5f}"] for k, v in tried.items())


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--scale", choices=list(SCALES), default="small")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="products in half precision")
    arguments = parser.parse_args()
    file = FOLDER / f"settings_language_{arguments.scale}.csv"
    tried, data, scale = read(file), load_language(), SCALES[arguments.scale]

    def loss_of(row: str, settings: Settings) -> float:
        """Train with these settings, and keep what came before."""
        write(file, tried, arguments.steps)
        trial = replace(
            scale,
            n_steps=arguments.steps,
            step_w=settings.step_w,
            clip=settings.clip,
            step_mixture=settings.step_mixture,
        )
        loss = worst_validation_loss(trial, data, row, arguments.threads, arguments.bf16)
        print(f"{row}: {settings}: {loss:.4f}", flush=True)
        return loss

    start = Settings(scale.step_w, scale.clip, scale.step_mixture)
    chosen = choose(start, loss_of, tried)
    write(file, tried, arguments.steps)
    print(chosen)
