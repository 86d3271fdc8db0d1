"""Real text on the phones: what people say in films (chat) and what newspapers write (documents).

The two texts of the paper's language experiment, dealt out so that each phone holds some of both,
in proportions of its own. A two-layer LSTM predicts the next word.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anymix import datasets
from anymix.reproduction.language_model import LanguageModel, windows

LENGTH = 20  # words of a row
N_WORDS = 2000  # a small vocabulary, because the model travels in every round
ROWS = 60  # rows on a phone


@cache
def texts() -> datasets.Language:
    return datasets.load_language(n_words=N_WORDS, progress=False)


class NextWords(nn.Module):
    """The mean loss of a word for each row; a row is the words with their predecessor first."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.model = LanguageModel(len(texts().words), units=32, projection=24)

    def forward(self, rows: Tensor) -> Tensor:
        """From (n, LENGTH + 1) to (n,)."""
        losses: Tensor = self.model(rows[:, :-1].T, rows[:, 1:].T)[0]
        return losses.mean(0)


def typed_for_real(phone: int, n_phones: int) -> tuple[Any, Any, Any]:
    """Rows (n, LENGTH + 1), no targets, and the domain of each row; no row is on two phones."""
    rng = np.random.default_rng(phone)
    chats = int(ROWS * rng.uniform(0.6, 0.9))  # people chat most
    rows, domains = [], []
    for domain, n in (("conversation", chats), ("document", ROWS - chats)):
        before, after = windows(texts().train[domain], LENGTH)
        mine = torch.arange(phone, len(after), n_phones)[:n]
        rows.append(torch.cat([before[mine, :1], after[mine]], dim=1))
        domains += [domain] * len(mine)
    X = torch.cat(rows)
    return X, torch.zeros(len(X), dtype=torch.int64), domains
