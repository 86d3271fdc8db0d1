"""Settings of the language models that the paper does not give, chosen on validation text alone.

One choice serves all four rows, by the same rule as in choose_settings.py: with L_r(s) the worst
validation loss of row r over its Λ after training with the settings s, in nats,

    s* = argmin_s max_r (L_r(s) − min_s' L_r(s')).

γ_λ matters to the agnostic row only. The test text is never looked at: training stops at the last
look at the validation text, and the runs of this script write no test losses.

    python paper/choose_language.py [--scale small] [--steps 600] [--threads 2]

Every setting that was tried goes to docs/reproduction/settings_language_<scale>.csv; a setting that
is in that file already is not tried again.
"""

import csv
from argparse import ArgumentParser
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from anymix.datasets import Language, load_language
from anymix.reproduction import SCALES, Scale
from anymix.reproduction.language_experiment import LANGUAGE_ROWS
from anymix.reproduction.language_runs import Plan, Training

FOLDER = Path(__file__).parents[1] / "docs" / "reproduction"
STEPS_W = (1.0, 2.0, 4.0)
CLIPS = (0.25, 0.5, 1.0)
STEPS_MIXTURE = (0.002, 0.005, 0.02)
HEADER = ["trained on", "step_w", "clip", "step_mixture", "n_steps", "worst validation loss"]


def worst_validation_loss(scale: Scale, data: Language, row: str, threads: int) -> float:
    """max over Λ of Σ_k λ_k L_k on validation text, after training with seed 0."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    nowhere = Path("no checkpoints are written")
    training = Training(Plan(scale, data, nowhere, threads, float("inf"), print), row, 0)
    for _ in training.steps():
        pass
    training.look()
    domains, mixtures = LANGUAGE_ROWS[row]
    losses = np.array(training.run.looks[-1]["valid"])[list(domains)]
    return float(mixtures.maximize(losses) @ losses)


def choose(tried: dict[tuple[str, float, float, float], float]) -> tuple[float, float, float]:
    """The settings (γ_w, clip, γ_λ) of least regret for the row that is served worst."""
    least = {row: min(v for k, v in tried.items() if k[0] == row) for row in LANGUAGE_ROWS}
    regrets: dict[tuple[float, float, float], float] = {}
    for step_w, clip, step_mixture in product(STEPS_W, CLIPS, STEPS_MIXTURE):
        regrets[step_w, clip, step_mixture] = max(
            tried[row, step_w, clip, step_mixture if row == "agnostic" else 0.0] - least[row]
            for row in LANGUAGE_ROWS
        )
    return min(regrets, key=lambda s: (regrets[s], s))


def read(file: Path) -> dict[tuple[str, float, float, float], float]:
    """What was tried before."""
    if not file.exists():
        return {}
    with file.open(encoding="utf-8") as lines:
        return {
            (row, float(w), float(clip), float(mixture)): float(loss)
            for row, w, clip, mixture, _, loss in list(csv.reader(lines))[1:]
        }


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--scale", choices=list(SCALES), default="small")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    file = FOLDER / f"settings_language_{arguments.scale}.csv"
    tried, data = read(file), load_language()
    for row, step_w, clip in product(LANGUAGE_ROWS, STEPS_W, CLIPS):
        for step_mixture in STEPS_MIXTURE if row == "agnostic" else (0.0,):
            if (row, step_w, clip, step_mixture) in tried:
                continue
            scale = replace(
                SCALES[arguments.scale],
                n_steps=arguments.steps,
                step_w=step_w,
                clip=clip,
                step_mixture=step_mixture or 0.005,
            )
            loss = worst_validation_loss(scale, data, row, arguments.threads)
            tried[row, step_w, clip, step_mixture] = loss
            print(f"{row}: γ_w {step_w}, clip {clip}, γ_λ {step_mixture}: {loss:.4f}", flush=True)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("w", newline="", encoding="utf-8") as out:
                writer = csv.writer(out, lineterminator="\n")
                writer.writerow(HEADER)
                writer.writerows([*k, arguments.steps, f"{v:.5f}"] for k, v in tried.items())
    print("γ_w, clip, γ_λ:", choose(tried))
