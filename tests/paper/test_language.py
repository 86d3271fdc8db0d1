"""Table 3's training: every row for its mixtures, the same after any break, and the table."""

import json
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import language
import numpy as np
import pytest
import torch
from language import PRINTED, REFERENCE, ROWS, Plan, Run, Training, perplexities, train_row
from results import Table
from tiny_language import TINY, tiny_language

SCRIPT = Path(__file__).parents[1] / "tiny_language.py"
PAPER = Path(__file__).parents[2] / "paper"


def quietly(line: str) -> None:
    pass


def plan(folder: Path, *, bf16: bool = False, **changes: Any) -> Plan:
    return Plan(replace(TINY, **changes), tiny_language(), folder, bf16, 1e9, quietly)


def numbers(run: Run) -> dict[str, Any]:
    """All that a run found, but how long it took."""
    return {"row": run.row, "step": run.step, "test": run.test, "looks": run.looks}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("runs")
    return language.table(plan(folder, n_steps=100, dropout=0.0), 2)[0]


def test_the_papers_table_tells_the_share_of_documents() -> None:
    for row, (all_, document, conversation, worst) in PRINTED.items():
        share = np.log(all_ / conversation) / np.log(document / conversation)
        assert share == pytest.approx(REFERENCE[0], abs=1e-3), row
        assert worst == max(document, conversation)


def test_the_agnostic_model_is_best_for_the_worst_domain(table: Table) -> None:
    worst = {row: table.runs[row][:, -1] for row in ROWS}
    for row in ("document", "conversation", "Û"):
        assert (worst["agnostic"] < worst[row]).all()
    assert (table.runs["document"][:, 2] > 1.3 * table.runs["conversation"][:, 2]).all()
    assert (table.runs["conversation"][:, 1] > 1.3 * table.runs["document"][:, 1]).all()


def test_each_row_is_trained_for_its_mixtures(table: Table) -> None:
    last = {row: found[0] for row, found in table.facts["mixtures"].items()}
    assert last["document"] == [1.0, 0.0]
    assert last["conversation"] == [0.0, 1.0]
    assert last["Û"] == pytest.approx(REFERENCE)
    assert last["agnostic"][0] > 0.55  # documents are harder
    assert not np.array_equal(*table.runs["agnostic"])


def test_perplexities_of_a_row() -> None:
    expected = np.exp([0.198 * 4 + 0.802 * 5, 4, 5, 5])
    assert perplexities(np.array([4.0, 5.0])) == pytest.approx(expected)


def test_a_single_domain_row_looks_at_no_other_text(tmp_path: Path) -> None:
    data = tiny_language()
    other = replace(data, train={**data.train, "conversation": data.train["document"][:50]})
    first = train_row(replace(plan(tmp_path / "a"), data=data), "document", 0)
    second = train_row(replace(plan(tmp_path / "b"), data=other), "document", 0)
    assert first.test == second.test


def test_the_step_is_that_of_the_formula(tmp_path: Path) -> None:
    """One step from the same weights by autograd of Σ_k λ_k mean_k, clipped, and of λ."""
    training = Training(plan(tmp_path, dropout=0.0, momentum=0.0), "agnostic", 0)
    rows = torch.tensor(next(iter(training.batches)))
    model, ids = training.model, training.ids[rows]
    losses, _ = model(training.before[rows].T, training.after[rows].T)
    means = torch.stack([losses[:, ids == k].mean() for k in range(2)])
    assert (ids == 0).sum() == (ids == 1).sum() == TINY.rows
    gradients = torch.autograd.grad(0.5 * means.sum(), list(model.parameters()))
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))  # type: ignore[arg-type]
    factor = TINY.step_w * min(1.0, TINY.clip / float(norm.detach()))
    expected = [p.detach() - factor * g for p, g in zip(model.parameters(), gradients, strict=True)]
    training.step(rows)
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter, wanted, atol=1e-6)
    gap = float((means[0] - means[1]).detach())
    mixture = 0.5 + TINY.step_mixture * gap / 2
    assert training.mixture() == pytest.approx([mixture, 1 - mixture], abs=1e-6)


def test_half_precision_changes_little_and_judges_in_full(tmp_path: Path) -> None:
    found = {}
    for bf16 in (False, True):
        training = Training(plan(tmp_path, bf16=bf16, dropout=0.0), "agnostic", 0)
        training.look()
        for _ in training.steps():
            pass
        training.look()
        found[bf16] = [look["valid"] for look in training.run.looks]
    assert found[False][0] == found[True][0]
    assert found[False][1] != found[True][1]
    assert found[False][1] == pytest.approx(found[True][1], rel=0.01)


# Breaks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stop", "bf16"), [(1, False), (17, True), (29, False)])
def test_a_run_that_goes_on_ends_with_the_same_numbers(
    tmp_path: Path, stop: int, bf16: bool
) -> None:
    whole = train_row(plan(tmp_path / "whole", bf16=bf16), "agnostic", 3)
    broken = replace(plan(tmp_path / "broken", bf16=bf16), seconds=0.0)
    training = Training(broken, "agnostic", 3)
    for step in training.steps():
        if step % 10 == 0:
            training.look()
        training.save_now_and_then()
        if step == stop:
            break
    assert broken.file("agnostic", 3, "pt").exists()
    torch.manual_seed(12345)  # another process has other random numbers
    again = train_row(broken, "agnostic", 3)
    assert numbers(again) == numbers(whole)
    assert not broken.file("agnostic", 3, "pt").exists()


def start(folder: Path, n_steps: int, *victims: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(folder), str(n_steps), *victims]
    path = os.pathsep.join([str(PAPER), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def results(folder: Path) -> dict[str, Any]:
    """All that the runs of a folder found, but how long it took."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        found[file.name] = json.loads(file.read_text("utf-8"))
        found[file.name].pop("seconds")
    return found


def kill_when(folder: Path, n_steps: int, ready: Any) -> bool:
    """Start the runs and kill -9 them as soon as `ready()`; False if they ended before."""
    with start(folder, n_steps) as process:
        while process.poll() is None:
            if ready():
                process.kill()
                process.wait()
                return True
            time.sleep(0.002)
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read()
        return False


def test_killed_and_started_again_the_numbers_are_the_same(tmp_path: Path) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    torch.set_num_threads(1)
    with start(broken, 12, "Û") as process:  # two runs are done, the third is under way
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert len(results(broken)) == 2
    assert (broken / "language_tiny_ordinary_0.pt").exists()
    for folder in (broken, whole):
        language.table(plan(folder, n_steps=12), 1)
    assert len(results(whole)) == 4
    assert results(broken) == results(whole)


class SomeWrites:
    """Ready after so many changes in a folder, and a moment more: in the middle of anything."""

    def __init__(self, folder: Path, n: int, seconds: float) -> None:
        self.folder, self.n, self.seconds = folder, n, seconds
        self.seen: set[tuple[str, int]] = set()
        self.before = self._changes()

    def _changes(self) -> set[tuple[str, int]]:
        found = set()
        for file in self.folder.glob("language_*"):
            with suppress(FileNotFoundError):  # it was replaced or removed just now
                found.add((file.name, file.stat().st_mtime_ns))
        return found

    def __call__(self) -> bool:
        self.seen |= self._changes() - self.before
        if len(self.seen) < self.n:
            return False
        time.sleep(self.seconds)
        return True


@pytest.mark.slow
def test_killed_at_random_moments_the_numbers_are_the_same(tmp_path: Path) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    rng, kills, n_steps = random.Random(0), 0, 40
    while kill_when(broken, n_steps, SomeWrites(broken, rng.randint(5, 60), rng.uniform(0, 0.02))):
        kills += 1
    assert kills >= 3
    torch.set_num_threads(1)
    language.table(plan(whole, n_steps=n_steps), 1)
    assert results(broken) == results(whole)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    tiny, said = plan(tmp_path, n_steps=6), list[str]()
    first = language.table(tiny, 1)[1]
    again = language.table(replace(tiny, say=said.append), 1)[1]
    assert said == []
    assert [numbers(run) for run in again] == [numbers(run) for run in first]
    with pytest.raises(SystemExit):
        language.table(plan(tmp_path, n_steps=6, step_w=0.25), 1)


# The command and the choice of settings --------------------------------------------------------


def test_the_table_and_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(language.SCALES, "small", replace(TINY, name="small", n_steps=6))
    monkeypatch.setattr(language, "load_language", tiny_language)
    _, files = language.run("small", 1, tmp_path, threads=1)
    endings = (".json", ".csv", ".png", "_training.png")
    assert [file.name for file in files] == [f"language_small{end}" for end in endings]
    saved = json.loads(files[0].read_text("utf-8"))
    assert saved["rows"]["conversation"]["paper"]["mean"][1] == 1138.76
    worst = [saved["rows"][row]["ours"]["mean"][-1] for row in ("agnostic", "Û")]
    assert saved["worst agnostic / worst Û"] == pytest.approx([worst[0] / worst[1]])


def test_settings_are_chosen_by_the_row_that_is_served_worst() -> None:
    """By hand: γ_w = 2 costs a row 0.15, γ_w = 4 none more than 0.1, γ_w = 8 is given up."""
    script = runpy.run_path(str(PAPER / "choose_language.py"))
    losses = {2.0: (5.0, 4.1, 5.15, 5.0), 4.0: (5.1, 4.1, 5.0, 5.1), 8.0: (5.0, 9.0, 5.0, 5.0)}
    asked = []

    def loss_of(row: str, settings: tuple[float, float, float]) -> float:
        asked.append(script["key"](row, settings))
        step_w, clip, step = settings
        k = list(ROWS).index(row)
        agnostic = 0.01 * (step != 0.02) if row == "agnostic" else 0.0
        return losses[step_w][k] + 0.1 * (clip != 0.5) + agnostic

    start = script["Settings"](2.0, 1.0, 0.005)
    tried: dict[tuple[str, float, float, float], float] = {}
    assert script["choose"](start, loss_of, tried) == (4.0, 0.5, 0.02)
    assert len(asked) == len(set(asked)) == len(tried)  # nothing is trained twice
    assert script["choose"](start, loss_of, tried) == (4.0, 0.5, 0.02)
    assert len(asked) == len(tried)  # and what was tried before is not tried again
    assert {key[0] for key in tried if key[1] == 8.0} == {"document", "conversation"}
    tied = dict.fromkeys(tried, 1.0)
    candidates = [(4.0, 0.5, 0.02), (4.0, 0.5, 0.005)]
    assert script["least_regret"](tied, candidates) == (4.0, 0.5, 0.005)  # the smaller of equals


def test_settings_are_judged_on_validation_text_alone() -> None:
    script = runpy.run_path(str(PAPER / "choose_language.py"))
    judged, data = script["worst_validation_loss"], tiny_language()
    tiny = replace(TINY, n_steps=10)
    found = judged(tiny, data, "agnostic", 1, False)
    assert judged(tiny, replace(data, test=data.train), "agnostic", 1, False) == found
    assert judged(tiny, replace(data, valid=data.train), "agnostic", 1, False) != found
