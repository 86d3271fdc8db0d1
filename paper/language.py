"""Table 3: one language model for documents and conversations, as on the keyboard of a phone.

    state ← LSTM(embedding of the word before, state)
    P(next word = v) ∝ exp(⟨e_v, P state⟩ + b_v)        e_v the embedding of v, P a projection

Every row is the same training with another set Λ of mixtures of the two domains:

    document, conversation   one domain alone      Û   Point(m̄), all text as it comes
    agnostic                 Simplex(2), any mixture of the two

The paper does not say what m̄ is, but its table does: log Ū = Σ_k m̄_k log(perplexity on domain k)
holds in all four rows for m̄ = (0.198, 0.802). With as many units as the projection has, a
projection inside the recurrence, as the paper's, gives the same functions.

Whatever moves is in a checkpoint, so that a run that is killed goes on to the very same numbers.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from language_text import DOMAINS, Language, Tokens, load_language
from results import Array, Table, draw
from torch import Tensor, nn
from torch.nn import functional

from anymix import MixtureSet, Point, Simplex
from anymix.files import write_whole
from anymix.pytorch import AgnosticLoss, DomainBatches, load_checkpoint, save_checkpoint

COLUMNS = ("all", *DOMAINS, "worst")
PRINTED = {
    "document": (414.96, 83.97, 615.75, 615.75),
    "conversation": (108.97, 1138.76, 61.01, 1138.76),
    "Û": (68.18, 96.98, 62.50, 96.98),
    "agnostic": (79.98, 86.33, 78.48, 86.33),
}
REFERENCE = np.array([0.198, 0.802])  # m̄
ROWS: Mapping[str, tuple[tuple[int, ...], MixtureSet]] = {
    # the domains whose text is looked at, and Λ: mixtures of these
    "document": ((0,), Point([1.0])),
    "conversation": ((1,), Point([1.0])),
    "Û": ((0, 1), Point(REFERENCE)),
    "agnostic": ((0, 1), Simplex(2)),
}
PIECE = 1000  # a text is judged in pieces of so many words, each with a fresh state
CHECKPOINT = 180.0  # seconds between checkpoints


@dataclass(frozen=True)
class Scale:
    """How large the model is and how long it is trained: what the paper leaves open, and more."""

    name: str
    units: int  # of each of the two layers
    projection: int
    dropout: float  # between layers
    unroll: int  # words of a row, through which gradients go back
    rows: int  # of each domain in a step
    n_steps: int
    step_w: float = 4.0  # γ_w at the start; it falls linearly to 0
    momentum: float = 0.9
    clip: float = 0.25  # the most that the norm of a gradient may be
    step_mixture: float = 0.005  # γ_λ
    n_looks: int = 12  # at the validation text
    valid_words: int = 20_000  # of each domain


SCALES = {
    "small": Scale("small", 256, 128, 0.0, 32, 20, 2400),
    "medium": Scale("medium", 512, 256, 0.2, 32, 20, 4000, n_looks=20),
    "paper": Scale("paper", 512, 512, 0.4, 35, 20, 50_000, n_looks=50, valid_words=80_000),
}


class LanguageModel(nn.Module):
    """An LSTM of two layers; the words' embeddings are also the weights of the last layer."""

    def __init__(self, n_words: int, units: int, projection: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, projection)
        self.layers = nn.LSTM(projection, units, num_layers=2, dropout=dropout)
        self.projection = nn.Linear(units, projection)
        self.bias = nn.Parameter(torch.zeros(n_words))
        self.dropout = nn.Dropout(dropout)
        self.scale = projection**0.5
        nn.init.normal_(self.embedding.weight, std=projection**-0.5)

    def forward(self, before: Tensor, after: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """The loss of every word (T, n), −log P in nats, and the state after the last."""
        x = self.dropout(self.embedding(before) * self.scale)  # (T, n, projection)
        h, state = self.layers(x, state)
        h = self.dropout(self.projection(h)).flatten(0, 1)  # (T n, projection)
        scores = functional.linear(h, self.embedding.weight, self.bias)  # (T n, words)
        losses = functional.cross_entropy(
            scores.to(self.bias.dtype), after.flatten(), reduction="none"
        )
        return losses.view_as(after), state


def predecessors(text: Tokens) -> Tokens:
    """The word before each word; before the first comes an end mark."""
    return np.concatenate([np.array([1], dtype=text.dtype), text[:-1]])


def windows(text: Tokens, length: int) -> tuple[Tensor, Tensor]:
    """Each word's predecessor and the word itself, (rows, length); a short rest is left out."""
    rows = len(text) // length
    before, after = (
        torch.from_numpy(part[: rows * length].astype(np.int64).reshape(rows, length))
        for part in (predecessors(text), text)
    )
    return before, after


def mean_loss(model: LanguageModel, text: Tokens, batch: int = 32, unroll: int = 50) -> float:
    """The mean loss of a word; `batch` and `unroll` say only how much is done at a time."""
    n = -(-len(text) // PIECE)  # pieces
    before, after = np.ones((2, n * PIECE), dtype=np.int64)
    before[: len(text)], after[: len(text)] = predecessors(text), text
    real = np.arange(n * PIECE) < len(text)
    pieces = [torch.from_numpy(a.reshape(n, PIECE).T.copy()) for a in (before, after, real)]
    total, training = 0.0, model.training
    model.eval()
    with torch.inference_mode():
        for i in range(0, n, batch):
            state: Any = None
            for j, k in pairwise([*range(0, PIECE, unroll), PIECE]):
                b, a, r = (p[j:k, i : i + batch] for p in pieces)
                losses, state = model(b, a, state)
                total += float(losses[r].double().sum())
    model.train(training)
    return total / len(text)


@dataclass
class Run:
    """One model: where its training is, what was measured, and in the end the test losses."""

    row: str
    seed: int
    settings: dict[str, Any]
    step: int = 0
    seconds: float = 0.0
    looks: list[dict[str, Any]] = field(default_factory=list)
    test: list[float] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["settings"] != self.settings:
            raise SystemExit("the folder holds runs with other settings; name another one")
        vars(self).update(state)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be trained, on what, and where its files are."""

    scale: Scale
    data: Language
    folder: Path
    bf16: bool = False  # products of the training steps in half precision
    seconds: float = CHECKPOINT
    say: Callable[[str], Any] = print

    def file(self, row: str, seed: int, ending: str) -> Path:
        row = "ordinary" if row == "Û" else row
        return self.folder / f"language_{self.scale.name}_{row}_{seed}.{ending}"


class Training:
    """Model, optimiser, λ and rows of one run; from its checkpoint, if there is one."""

    def __init__(self, plan: Plan, row: str, seed: int) -> None:
        torch.manual_seed(seed)
        scale, n_words = plan.scale, len(plan.data.words)
        self.plan, self.domains = plan, ROWS[row][0]
        texts = [plan.data.train[DOMAINS[k]] for k in self.domains]
        parts = [windows(text, scale.unroll) for text in texts]
        self.before, self.after = (torch.cat(part) for part in zip(*parts, strict=True))
        ids = np.repeat(np.arange(len(parts)), [len(after) for _, after in parts])
        self.ids = torch.from_numpy(ids)  # (rows,)
        self.model = LanguageModel(n_words, scale.units, scale.projection, scale.dropout)
        counts = np.bincount(np.concatenate(texts), minlength=n_words) + 1.0
        with torch.no_grad():  # the first predictions are the words' frequencies
            self.model.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
        parameters = self.model.parameters()
        self.optimizer = torch.optim.SGD(parameters, scale.step_w, momentum=scale.momentum)
        self.criterion = AgnosticLoss(ROWS[row][1], scale.step_mixture)
        self.batches = DomainBatches(ids, scale.rows * len(parts), seed=seed)
        settings = asdict(scale) | {"source": plan.data.source, "bf16": plan.bf16}
        self.run, self.saved = Run(row, seed, settings), time.monotonic()
        self.file = plan.file(row, seed, "pt")
        self.parts: dict[str, Any] = {
            "model": self.model,
            "optimizer": self.optimizer,
            "criterion": self.criterion,
            "batches": self.batches,
            "run": self.run,
        }
        if self.file.exists():
            load_checkpoint(self.file, **self.parts)

    def steps(self) -> Iterator[int]:
        """Make the steps that are left; the number of each is given when it is done."""
        run, n_steps = self.run, self.plan.scale.n_steps
        while run.step < n_steps:
            for rows in self.batches:
                began = time.perf_counter()
                self.step(torch.tensor(rows))
                run.step += 1
                run.seconds += time.perf_counter() - began
                yield run.step
                if run.step == n_steps:
                    return

    def step(self, rows: Tensor) -> None:
        """w by momentum SGD on Σ_k λ_k L_k, then λ ← Π_Λ(λ + γ_λ L)."""
        scale, before, after = self.plan.scale, self.before[rows].T, self.after[rows].T  # (T, n)
        for group in self.optimizer.param_groups:
            group["lr"] = scale.step_w * (1 - self.run.step / scale.n_steps)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.plan.bf16):
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
        valid = [mean_loss(self.model, text) for text in texts]
        self.run.looks.append({"step": self.run.step, "mixture": self.mixture(), "valid": valid})

    def mixture(self) -> list[float]:
        """λ over both domains."""
        found = np.zeros(len(DOMAINS))
        found[list(self.domains)] = self.criterion.mixture.numpy()
        return [float(x) for x in found]

    def save_now_and_then(self) -> None:
        if time.monotonic() - self.saved >= self.plan.seconds:
            save_checkpoint(self.file, **self.parts)
            self.saved = time.monotonic()


def train_row(plan: Plan, row: str, seed: int) -> Run:
    """Train one model from where its files are, or from the start, and judge it."""
    training, done = Training(plan, row, seed), plan.file(row, seed, "json")
    run, scale = training.run, plan.scale
    if done.exists():
        run.load_state_dict(json.loads(done.read_text("utf-8")))
        return run
    for step in training.steps():
        if step * scale.n_looks // scale.n_steps > (step - 1) * scale.n_looks // scale.n_steps:
            training.look()
            seen = np.exp(run.looks[-1]["valid"]).round(1).tolist()
            plan.say(f"{row}, seed {seed}: step {step} of {scale.n_steps}, perplexities {seen}")
        training.save_now_and_then()
    run.test = [mean_loss(training.model, plan.data.test[d]) for d in DOMAINS]
    text = json.dumps(run.state_dict(), indent=1)
    write_whole(done, lambda path: path.write_text(text, "utf-8"), durable=True)
    training.file.unlink(missing_ok=True)
    return run


def perplexities(losses: Array) -> Array:
    """All, each domain, and the worst, (4,), from the mean losses (2,) of a word."""
    return np.exp([REFERENCE @ losses, *losses, losses.max()])


def table(plan: Plan, runs: int) -> tuple[Table, list[Run]]:
    """Every row with the seeds 0 … runs − 1."""
    found = [train_row(plan, row, seed) for seed in range(runs) for row in ROWS]
    values = {
        row: np.array([perplexities(np.array(r.test)) for r in found if r.row == row])
        for row in ROWS
    }
    facts = {
        "source": plan.data.source,
        "licence": plan.data.licence,
        "settings": found[0].settings,
        "worst agnostic / worst Û": (values["agnostic"][:, -1] / values["Û"][:, -1]).tolist(),
        "seconds": {row: [r.seconds for r in found if r.row == row] for row in ROWS},
        "mixtures": {row: [r.looks[-1]["mixture"] for r in found if r.row == row] for row in ROWS},
    }
    title = f"Table 3, language models ({plan.scale.name}): test perplexity"
    printed = {row: [(value, 0.0) for value in entries] for row, entries in PRINTED.items()}
    name = f"language_{plan.scale.name}"
    return Table(name, title, COLUMNS, values, printed, {}, facts, 1, log=True), found


def run(
    scale: str, runs: int, out: Path, *, threads: int = 2, bf16: bool = False
) -> tuple[Table, list[Path]]:
    torch.set_num_threads(threads)  # another number rounds differently
    data = load_language()
    print(f"The text: {data.source}. Terms: {data.licence}.")
    found, all_runs = table(Plan(SCALES[scale], data, out / "runs", bf16), runs)
    picture = out / f"language_{scale}_training.png"
    drawn = draw(lambda panels: _draw_training(panels, all_runs), 3, picture, 4.5)
    return found, [*found.save(out), drawn]


def _draw_training(panels: Any, runs: list[Run]) -> None:
    """Over the steps: the weight of documents, and both domains' validation perplexity."""
    colors = dict(zip(ROWS, ("tab:green", "tab:purple", "tab:orange", "tab:blue"), strict=True))
    for run in runs:
        steps = [look["step"] for look in run.looks]
        style: dict[str, Any] = {"color": colors[run.row], "alpha": 0.8}
        style["label"] = run.row if run.seed == 0 else None
        panels[0].plot(steps, [look["mixture"][0] for look in run.looks], **style)
        for k, axes in enumerate(panels[1:]):
            axes.plot(steps, [np.exp(look["valid"][k]) for look in run.looks], **style)
    panels[0].set(ylabel="λ of documents", ylim=(-0.03, 1.03), xlabel="step")
    for axes, domain in zip(panels[1:], DOMAINS, strict=True):
        axes.set(ylabel=f"validation perplexity, {domain}", yscale="log", xlabel="step")
    panels[0].legend(frameon=False)
