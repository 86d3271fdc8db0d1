"""Table 3's training: every row for its mixtures, the same after any break, and the table."""

import json
import random
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_language import TINY, tiny_language

from anymix.reproduction import SCALES, LanguageTable, reproduce_language
from anymix.reproduction.language_experiment import DOMAINS, LANGUAGE_ROWS, PRINTED, REFERENCE
from anymix.reproduction.language_runs import Plan, Training, train_row
from anymix.reproduction.perplexities import Run
from anymix.reproduction.time_left import TimeLeft

SCRIPT = Path(__file__).parents[1] / "tiny_language.py"
PAPER = Path(__file__).parents[2] / "paper"
Runs = Mapping[tuple[str, int], Run]


def quietly(line: str) -> None:
    pass


def plan(folder: Path, *, bf16: bool = False, **changes: Any) -> Plan:
    return Plan(replace(TINY, **changes), tiny_language(), folder, 1, bf16, 1e9, quietly)


def numbers(run: Run) -> dict[str, Any]:
    """All that a run found, but how long it took."""
    looks = [{k: v for k, v in look.items() if k != "seconds"} for look in run.looks]
    return {"row": run.row, "step": run.step, "test": run.test, "looks": looks}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LanguageTable:
    scale, data = replace(TINY, n_steps=100, dropout=0.0), tiny_language()
    folder = tmp_path_factory.mktemp("runs")
    return reproduce_language(scale, 2, folder=folder, threads=1, data=data)


def test_the_papers_table_tells_the_share_of_documents() -> None:
    for row, (all_, document, conversation, worst) in PRINTED.items():
        share = np.log(all_ / conversation) / np.log(document / conversation)
        assert share == pytest.approx(REFERENCE[0], abs=1e-3), row
        assert worst == max(document, conversation)


def test_the_agnostic_model_is_best_for_the_worst_domain(table: LanguageTable) -> None:
    worst = {row: table.of(row)[:, -1] for row in LANGUAGE_ROWS}
    for row in ("document", "conversation", "Û"):
        assert (worst["agnostic"] < worst[row]).all()
    assert (table.of("document")[:, 2] > 1.3 * table.of("conversation")[:, 2]).all()
    assert (table.of("conversation")[:, 1] > 1.3 * table.of("document")[:, 1]).all()
    assert (table.ratios() < 1).all()


def test_each_row_is_trained_for_its_mixtures(table: LanguageTable) -> None:
    last = {row: table.runs[row, 0].looks[-1]["mixture"] for row in LANGUAGE_ROWS}
    assert last["document"] == [1.0, 0.0]
    assert last["conversation"] == [0.0, 1.0]
    assert last["Û"] == pytest.approx(REFERENCE)
    assert last["agnostic"][0] > 0.55  # documents are harder
    assert table.runs["agnostic", 0].test != table.runs["agnostic", 1].test


def test_perplexities_of_a_row() -> None:
    losses = np.array([4.0, 5.0])
    runs = {(row, 0): Run(row, 0, "", test=losses.tolist()) for row in LANGUAGE_ROWS}
    found = LanguageTable(TINY, "", "", 1, runs, {}).of("Û")
    assert found == pytest.approx(np.exp([[0.198 * 4 + 0.802 * 5, 4, 5, 5]]))


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
    full, half = (plan(tmp_path, bf16=bf16, dropout=0.0) for bf16 in (False, True))
    assert full.fingerprint != half.fingerprint
    found = {}
    for which in (full, half):
        torch.manual_seed(0)
        training = Training(which, "agnostic", 0)
        training.look()
        found[which, "start"] = training.run.looks[-1]["valid"]
        for _ in training.steps():
            pass
        training.look()
        found[which, "end"] = training.run.looks[-1]["valid"]
    assert found[full, "start"] == found[half, "start"]
    assert found[full, "end"] != found[half, "end"]
    assert found[full, "end"] == pytest.approx(found[half, "end"], rel=0.01)


# Breaks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stop", "bf16"), [(1, False), (9, False), (17, True), (29, False)])
def test_a_run_that_goes_on_ends_with_the_same_numbers(
    tmp_path: Path, stop: int, bf16: bool
) -> None:
    whole = train_row(plan(tmp_path / "whole", bf16=bf16), "agnostic", 3)
    broken = replace(plan(tmp_path / "broken", bf16=bf16), seconds=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
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
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(folder: Path) -> dict[str, Any]:
    """All that the runs of a folder found, but how long it took."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        found[file.name] = json.loads(file.read_text("utf-8"))
        found[file.name].pop("seconds")
        for look in found[file.name]["looks"]:
            look.pop("seconds")
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
    with start(broken, 12, "Û") as process:  # two runs are done, the third is under way
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert len(results(broken)) == 2
    assert (broken / "language_tiny_ordinary_0.pt").exists()
    tiny = replace(TINY, n_steps=12)
    for folder in (broken, whole):
        reproduce_language(tiny, folder=folder, threads=1, data=tiny_language())
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
    scale = replace(TINY, n_steps=n_steps)
    reproduce_language(scale, folder=whole, threads=1, data=tiny_language())
    assert results(broken) == results(whole)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    tiny = replace(TINY, n_steps=6)
    said: list[str] = []
    first = reproduce_language(tiny, folder=tmp_path, threads=1, data=tiny_language())
    again = reproduce_language(
        tiny, folder=tmp_path, threads=1, data=tiny_language(), say=said.append
    )
    assert said == []
    assert {k: numbers(r) for k, r in again.runs.items()} == {
        k: numbers(r) for k, r in first.runs.items()
    }
    with pytest.raises(ValueError, match="folder holds runs with other settings"):
        reproduce_language(
            replace(tiny, step_w=0.25), folder=tmp_path, threads=1, data=tiny_language()
        )


def test_the_random_numbers_and_threads_of_the_caller_stay(tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(7)
    train_row(plan(tmp_path, n_steps=2), "Û", 0)
    assert torch.rand(1) == expected
    assert torch.get_num_threads() == threads


# What people see -------------------------------------------------------------------------------


def test_progress_tells_perplexity_speed_and_time_left(tmp_path: Path) -> None:
    said: list[str] = []
    reproduce_language(TINY, folder=tmp_path, threads=1, data=tiny_language(), say=said.append)
    assert len(said) == 4 * TINY.n_looks
    assert said[0].startswith("document, seed 0: step 10 of 30, validation perplexity document ")
    assert all("words/s" in line and line.endswith(" left") for line in said)
    assert said[-1].endswith("; 0 s left")


def test_time_left_counts_all_time_and_nothing_of_an_earlier_process() -> None:
    now = [100.0]
    left = TimeLeft(50.0, clock=lambda: now[0])
    assert str(left) == "time left not known yet"
    left.total += 150  # another run
    left.add(10)
    now[0] += 600
    assert left.seconds() == pytest.approx(600 * 19)
    assert str(left) == "3.2 h left"
    left.add(500)
    assert str(left) == "0 s left"


def test_saved_files_hold_the_table(table: LanguageTable, tmp_path: Path) -> None:
    names = [file.name for file in table.save(tmp_path)]
    assert names == [f"language_tiny{end}" for end in (".json", ".csv", ".png", "_training.png")]
    saved = json.loads((tmp_path / "language_tiny.json").read_text("utf-8"))
    assert saved == table.as_dict()
    assert saved["worst agnostic / worst Û"]["paper"] == pytest.approx(0.89, abs=0.001)
    assert saved["words_per_second"]["plain"] > 0
    assert len((tmp_path / "language_tiny.csv").read_text("utf-8").splitlines()) == 1 + 8
    for name in names[2:]:
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_the_table_fits_into_80_columns() -> None:
    import io

    from rich.console import Console

    losses = np.log([1138.76, 615.75]).tolist()
    runs = {(row, seed): Run(row, seed, "", test=losses) for row in PRINTED for seed in (0, 1)}
    speeds = {"ours": 12345.0, "plain": 1234.0}
    table = LanguageTable(SCALES["medium"], "a text", "none", 2, runs, speeds)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table.grid())
    shown = console.export_text()
    assert "…" not in shown
    assert shown.count("1138.8±0.0") == 8
    assert "1.000 (1.000 to 1.000; paper 0.890)" in shown
    assert "12,345 words/s; plain torch loop 1,234" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "huge"}, "scale is 'huge'; use one of 'small', 'medium', 'paper'"),
        ({"runs": 0}, "runs is 0; give a whole number ≥ 1"),
        ({"threads": 1.5}, "threads is 1.5; give a whole number ≥ 1"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reproduce_language(folder=tmp_path, **arguments)


def test_without_torch_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # makes the import fail
    with pytest.raises(ValueError, match=r"needs PyTorch; pip install 'anymix\[torch\]'"):
        reproduce_language(folder=tmp_path)


BLOCK_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import anymix.reproduction
"""


def test_reproduction_is_imported_without_torch() -> None:
    subprocess.run([sys.executable, "-c", BLOCK_TORCH], check=True)


def test_domains_are_those_of_the_loader() -> None:
    assert tuple(tiny_language().train) == DOMAINS


# The choice of settings ------------------------------------------------------------------------


def test_settings_are_chosen_by_the_row_that_is_served_worst() -> None:
    """By hand: γ_w = 2 costs a row 0.15, γ_w = 4 none more than 0.1, γ_w = 8 is given up."""
    script = runpy.run_path(str(PAPER / "choose_language.py"))
    losses = {2.0: (5.0, 4.1, 5.15, 5.0), 4.0: (5.1, 4.1, 5.0, 5.1), 8.0: (5.0, 9.0, 5.0, 5.0)}
    asked = []

    def loss_of(row: str, settings: tuple[float, float, float]) -> float:
        asked.append(script["key"](row, settings))
        step_w, clip, step = settings
        k = list(LANGUAGE_ROWS).index(row)
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
