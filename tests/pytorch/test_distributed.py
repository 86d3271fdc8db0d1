"""Two ranks of torchrun do what one process does with the joined batch."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch import ranks

HERE = Path(__file__).parent
Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What both ranks found."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(HERE / "ranks.py"),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    files = [folder / f"rank{r}.pt" for r in range(2)]
    assert all(file.exists() for file in files), done.stderr
    return [torch.load(file, weights_only=True) for file in files]


def single(name: str) -> dict[str, Any]:
    if name in ("plain", "accumulated"):
        return ranks.plain_run(0, 1)  # accumulation is one joined batch, too
    return ranks.sampled_run(0, 1, name)


@pytest.mark.parametrize("name", ["plain", "accumulated", "weighted", "proportional"])
def test_two_ranks_are_one_with_the_joined_batch(found: Found, name: str) -> None:
    expected = single(name)
    for rank in found:
        torch.testing.assert_close(rank[name]["w"], expected["w"], rtol=0, atol=1e-6)
        torch.testing.assert_close(rank[name]["mixture"], expected["mixture"], rtol=0, atol=1e-12)
    assert torch.equal(found[0][name]["mixture"], found[1][name]["mixture"])
    assert (expected["mixture"] - 1 / 3).abs().max() > 0.01  # λ has moved


def test_accumulation_in_one_process_is_one_big_batch() -> None:
    big, parts = ranks.plain_run(0, 1), ranks.accumulated_run(0, 1)
    torch.testing.assert_close(big["w"], parts["w"], rtol=0, atol=1e-12)
    torch.testing.assert_close(big["mixture"], parts["mixture"], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nan", "domain 1 are not finite"),
        ("announced nan", "domain 1 are not finite"),
        ("ids", "false number"),
    ],
)
def test_a_fault_on_one_rank_is_an_error_on_all_and_lambda_stays(
    found: Found, fault: str, words: str
) -> None:
    for rank in found:
        assert words in rank[fault]["words"]
        assert rank[fault]["stayed"]
    assert torch.equal(found[0][fault]["mixture"], found[1][fault]["mixture"])


def test_weights_of_each_rank_alone_would_not_be_the_same(found: Found) -> None:
    """No public loss adds over the ranks: λ then follows the rows that a rank happens to have."""
    x, y, ids = ranks.data()
    mixtures = []
    for rank in range(2):
        model, optimizer, criterion = ranks.begin(1)
        for step in (0, 1, 4):  # where both have rows
            part = ranks.own_rows(step, rank, 2)
            optimizer.zero_grad()
            criterion(ranks.each(model(x[part]), y[part]), ids[part]).backward()
            criterion.step()
        mixtures.append(criterion.mixture)
    assert (mixtures[0] - mixtures[1]).abs().max() > 1e-3
