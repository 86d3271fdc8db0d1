"""Training the language models, so that a run which is killed at any moment can go on.

    w-player   momentum SGD on Σ_k λ_k L_k, L_k the mean loss of a word of domain k in the batch
    λ-player   λ ← Π_Λ(λ + γ_λ L)

Whatever moves is in the checkpoint: weights, momentum, λ, the order of the rows, random numbers and
what was measured. So a run that goes on from it makes the very same steps.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from anymix.datasets import Language
from anymix.files import write_whole
from anymix.pytorch import AgnosticLoss, DomainBatches, load_checkpoint, save_checkpoint
from anymix.reproduction.language_experiment import DOMAINS, LANGUAGE_ROWS, Scale
from anymix.reproduction.language_model import LanguageModel, mean_loss, windows
from anymix.reproduction.perplexities import Run
from anymix.reproduction.time_left import TimeLeft

Array = NDArray[np.float64]

__all__ = ["Plan", "compare_speed", "run_all", "train_row"]


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be trained, on what, and where its files are.

    Parameters
    ----------
    scale : Scale
        How large and how long.
    data : Language
        The text.
    folder : Path
        Where checkpoints and results are kept.
    threads : int
        Threads of torch.
    bf16 : bool
        Whether products are made in half precision while training.
    seconds : float
        Seconds between checkpoints.
    say : function
        Called with a line about the progress.
    """

    scale: Scale
    data: Language
    folder: Path
    threads: int
    bf16: bool
    seconds: float
    say: Callable[[str], Any]

    @property
    def fingerprint(self) -> str:
        """Says whether a file in the folder is of this plan: settings, text, threads, precision."""
        settings = [asdict(self.scale), self.threads, self.bf16]
        digest = hashlib.sha256(json.dumps(settings).encode())
        digest.update("\n".join(self.data.words).encode())
        for split in (self.data.train, self.data.valid, self.data.test):
            for domain in DOMAINS:
                digest.update(split[domain].tobytes())
        return digest.hexdigest()

    def precision(self) -> torch.autocast:
        """The context in which the losses of a step are made; text is judged in full precision."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.bf16)

    def file(self, row: str, seed: int, ending: str) -> Path:
        """A file of a run."""
        name = {"Û": "ordinary"}.get(row, row)
        return self.folder / f"language_{self.scale.name}_{name}_{seed}.{ending}"


def run_all(plan: Plan, runs: int) -> dict[tuple[str, int], Run]:
    """Every row with the seeds 0 … runs − 1; what is done already is read, not done again.

    Parameters
    ----------
    plan : Plan
        What is to be trained.
    runs : int
        How often each row is trained.
    """
    left = TimeLeft()
    tasks = [(row, seed) for seed in range(runs) for row in LANGUAGE_ROWS]
    fingerprint = plan.fingerprint
    found = {task: _finished(plan, *task, fingerprint) for task in tasks}
    for (row, _), run in found.items():
        left.total += 0 if run else plan.scale.n_steps * plan.scale.words(row)
    for row, seed in tasks:
        if found[row, seed] is None:
            found[row, seed] = train_row(plan, row, seed, left)
    return {task: run for task, run in found.items() if run is not None}


def _finished(plan: Plan, row: str, seed: int, fingerprint: str) -> Run | None:
    """The run that an earlier start has brought to its end, if it has."""
    file = plan.file(row, seed, "json")
    if not file.exists():
        return None
    run = Run(row, seed, fingerprint)
    run.load_state_dict(json.loads(file.read_text("utf-8")))
    return run


def train_row(plan: Plan, row: str, seed: int, left: TimeLeft | None = None) -> Run:
    """Train one model from where its checkpoint is, or from the start, and judge it.

    Parameters
    ----------
    plan : Plan
        What is to be trained.
    row : str
        The row of the table.
    seed : int
        The seed of all randomness.
    left : TimeLeft, optional
        Told of every step; asked for the time that all runs still take.
    """
    scale, left = plan.scale, TimeLeft() if left is None else left
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            training = Training(plan, row, seed)
            run = training.run
            left.total -= run.step * scale.words(row)
            for _ in training.steps():
                left.add(scale.words(row))
                if _is_look(scale, run.step):
                    training.look()
                    plan.say(_line(plan, run, left))
                training.save_now_and_then()
            run.test = [mean_loss(training.model, plan.data.test[d]) for d in DOMAINS]
    finally:
        torch.set_num_threads(before)
    text = json.dumps(run.state_dict(), indent=1)
    write_whole(plan.file(row, seed, "json"), lambda p: p.write_text(text, "utf-8"), durable=True)
    plan.file(row, seed, "pt").unlink(missing_ok=True)
    return run


class Training:
    """Model, optimiser, λ and rows of one run; from its checkpoint, if there is one.

    Parameters
    ----------
    plan : Plan
        What is to be trained.
    row : str
        The row of the table.
    seed : int
        The seed of all randomness.
    """

    def __init__(self, plan: Plan, row: str, seed: int) -> None:
        scale = plan.scale
        self.plan, self.domains = plan, LANGUAGE_ROWS[row][0]
        texts = [plan.data.train[DOMAINS[k]] for k in self.domains]
        parts = [windows(text, scale.unroll) for text in texts]
        self.before, self.after = (torch.cat(part) for part in zip(*parts, strict=True))
        ids = np.repeat(np.arange(len(parts)), [len(after) for _, after in parts])
        self.ids = torch.from_numpy(ids)  # (rows,)
        self.model = LanguageModel(
            len(plan.data.words), scale.units, scale.projection, scale.dropout
        )
        self.model.start_at(
            np.bincount(np.concatenate(texts), minlength=len(plan.data.words)).astype(np.float64)
        )
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), scale.step_w, momentum=scale.momentum
        )
        self.criterion = AgnosticLoss(LANGUAGE_ROWS[row][1], scale.step_mixture)
        self.batches = DomainBatches(ids, scale.rows * len(parts), seed=seed)
        self.run = Run(row, seed, plan.fingerprint)
        self.saved = time.monotonic()
        self.file = plan.file(row, seed, "pt")
        if self.file.exists():
            load_checkpoint(self.file, **self.parts)

    @property
    def parts(self) -> dict[str, Any]:
        """All that moves."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "criterion": self.criterion,
            "batches": self.batches,
            "run": self.run,
        }

    def steps(self) -> Iterator[int]:
        """Make the steps that are left; the number of each is given when it is done."""
        run, scale = self.run, self.plan.scale
        while run.step < scale.n_steps:
            for rows in self.batches:
                began = time.perf_counter()
                self.step(torch.tensor(rows))
                run.step += 1
                run.seconds += time.perf_counter() - began
                yield run.step
                if run.step == scale.n_steps:
                    return

    def step(self, rows: Tensor) -> None:
        """One step of both players on these rows, (n,)."""
        scale, before, after = self.plan.scale, self.before[rows].T, self.after[rows].T  # (T, n)
        for group in self.optimizer.param_groups:
            group["lr"] = scale.step_w * (1 - self.run.step / scale.n_steps)
        with self.plan.precision():
            losses, _ = self.model(before, after)
        loss = self.criterion(losses.mean(0), self.ids[rows])
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), scale.clip)
        self.optimizer.step()
        self.criterion.step()

    def look(self) -> None:
        """Measure the validation losses of both domains."""
        texts = [self.plan.data.valid[d][: self.plan.scale.valid_words] for d in DOMAINS]
        self.run.looks.append(
            {
                "step": self.run.step,
                "seconds": self.run.seconds,
                "mixture": self.mixture(),
                "valid": [mean_loss(self.model, text) for text in texts],
            }
        )

    def mixture(self) -> list[float]:
        """λ over both domains."""
        found = np.zeros(len(DOMAINS))
        found[list(self.domains)] = self.criterion.mixture.numpy()
        return [float(x) for x in found]

    def save_now_and_then(self) -> None:
        """Write a checkpoint, if the last one is old enough."""
        if time.monotonic() - self.saved >= self.plan.seconds:
            save_checkpoint(self.file, **self.parts)
            self.saved = time.monotonic()


def _is_look(scale: Scale, step: int) -> bool:
    """Whether one of the n_looks equal parts of the steps ends here."""
    return step * scale.n_looks // scale.n_steps > (step - 1) * scale.n_looks // scale.n_steps


def _line(plan: Plan, run: Run, left: TimeLeft) -> str:
    seen = ", ".join(
        f"{d} {np.exp(loss):.1f}" for d, loss in zip(DOMAINS, run.looks[-1]["valid"], strict=True)
    )
    rate = run.step * plan.scale.words(run.row) / max(run.seconds, 1e-9)
    return (
        f"{run.row}, seed {run.seed}: step {run.step} of {plan.scale.n_steps}, validation "
        f"perplexity {seen}; {rate:,.0f} words/s; {left}"
    )


def compare_speed(plan: Plan, n_steps: int = 12) -> dict[str, float]:
    """Words per second of these steps, and of a plain torch loop of the same model, in turns.

    Parameters
    ----------
    plan : Plan
        What is trained.
    n_steps : int
        Steps of each.

    Returns
    -------
    dict
        `ours` and `plain`, by the median step.
    """
    scale, before = plan.scale, torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            training = Training(plan, "agnostic", seed=2**31)  # a seed that no run has
            model, optimizer = training.model, training.optimizer
            rows = torch.arange(2 * scale.rows) * (len(training.ids) // (2 * scale.rows))
            ours, plain = [], []
            for _ in range(n_steps + 2):
                ours.append(_seconds(lambda: training.step(rows)))
                plain.append(_seconds(lambda: _plain_step(training, model, optimizer, rows)))
    finally:
        torch.set_num_threads(before)
    words = scale.words("agnostic")
    return {"ours": words / median(ours[2:]), "plain": words / median(plain[2:])}


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _plain_step(training: Training, model: Any, optimizer: Any, rows: Tensor) -> None:
    """The loop that everybody writes: torch's own softmax, the mean of all losses."""
    before, after = training.before[rows].T, training.after[rows].T
    with training.plan.precision():
        h, _ = model.layers(model.dropout(model.embedding(before) * model.scale))
        h = model.dropout(model.projection(h)).flatten(0, 1)
        scores = functional.linear(h, model.embedding.weight, model.bias)
        loss: Any = functional.cross_entropy(scores, after.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), training.plan.scale.clip)
    optimizer.step()
