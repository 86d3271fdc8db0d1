"""Online News Popularity: the experiment that the paper describes and gives no result for.

    features (0 mean, unit deviation) → dropout 20 % → ReLU → dropout 50 % → ReLU → dropout 50 %
    → score of "shared 1,400 times or more"

trained with Adam twice, for Û and for any mixture of the six domains. The six channel columns are
no features: they are the domain. Lifestyle and social media, the two smallest, are one domain, and
articles of no channel are "other". `url` and `timedelta` tell nothing about an article.
"""

import csv
import io
import zipfile
from dataclasses import asdict, dataclass
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from results import Array, Table, accuracies
from torch import nn
from torch.nn import functional

from anymix import MixtureSet, Simplex
from anymix.datasets import Dataset
from anymix.datasets.fetching import Origin, read_files
from anymix.mixtures.parsing import data_mixture
from anymix.pytorch import AgnosticLoss, DomainBatches

ZIP, CSV = "OnlineNewsPopularity.zip", "OnlineNewsPopularity/OnlineNewsPopularity.csv"
NEWS = Origin(
    name="news",
    citation="K. Fernandes, P. Vinagre and P. Cortez. A proactive intelligent decision support "
    "system for predicting the popularity of online news. EPIA 2015. UCI Machine Learning "
    "Repository, doi:10.24432/C5NS3V.",
    licence="CC BY 4.0",
    sums={ZIP: "dba2ae526f62ccef6f2f8efb53b0268319f4d0d2719bb98d88958cfe31d58a22"},
    address="https://archive.ics.uci.edu/ml/machine-learning-databases/00332/",
)
POPULAR = 1400  # shares
DOMAINS = {  # by the column data_channel_is_… that marks them
    "lifestyle": "lifestyle or social media",
    "entertainment": "entertainment",
    "bus": "business",
    "socmed": "lifestyle or social media",
    "tech": "technology",
    "world": "world",
}


@dataclass(frozen=True)
class Settings:
    """What the paper leaves open for the network."""

    units: int = 100  # of each of the two hidden layers
    rows: int = 32  # of each domain in a step
    n_steps: int = 3000
    step_w: float = 1e-3
    step_mixture: float = 1e-3


def load_news(file: Path | None = None) -> Dataset:
    """OnlineNewsPopularity.csv from a file of yours, or from UCI; every fifth article is a test."""
    if file is None:
        with zipfile.ZipFile(io.BytesIO(read_files(NEWS, progress=True)[ZIP])) as archive:
            text = archive.read(CSV).decode("utf-8")
    else:
        text = file.read_text(encoding="utf-8")
    head, *rows = csv.reader(io.StringIO(text))
    columns = dict(zip((h.strip() for h in head), np.array(rows).T, strict=True))
    marks = np.array([columns.pop(f"data_channel_is_{c}").astype(float) for c in DOMAINS]).T
    titles = np.array([*DOMAINS.values(), "other"])
    domains = titles[np.where(marks.any(axis=1), marks.argmax(axis=1), len(DOMAINS))]
    y = (columns.pop("shares").astype(float) >= POPULAR).astype(np.int64)
    for unused in ("url", "timedelta"):
        del columns[unused]
    X = np.array(list(columns.values())).T.astype(np.float64)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.split(order, [len(y) - len(y) // 5])
    return Dataset(
        *(X[train], y[train], domains[train]),
        *(X[test], y[test], domains[test]),
        tuple(columns),
        *(NEWS.name, NEWS.citation, NEWS.licence),
    )


def network(n_features: int, units: int) -> nn.Sequential:
    hidden = (nn.ReLU(), nn.Dropout(0.5))
    first, second = nn.Linear(n_features, units), nn.Linear(units, units)
    return nn.Sequential(
        nn.Dropout(0.2), first, *hidden, second, *hidden, nn.Linear(units, 1), nn.Flatten(0)
    )


def train_network(
    data: Dataset, names: tuple[str, ...], mixtures: MixtureSet, settings: Settings, seed: int
) -> tuple[NDArray[np.int64], Array]:
    """The label of each test row, and λ at the end, with PerDomain batches."""
    mean, deviation = data.X.mean(axis=0), data.X.std(axis=0)
    deviation[deviation == 0] = 1.0  # a constant column becomes 0
    scaled = ((part - mean) / deviation for part in (data.X, data.X_test))
    X, X_test = (torch.tensor(part, dtype=torch.float32) for part in scaled)
    y = torch.tensor(data.y, dtype=torch.float32)
    ids = torch.tensor([names.index(d) for d in data.domains])
    torch.manual_seed(seed)
    model = network(X.shape[1], settings.units)
    optimizer = torch.optim.Adam(model.parameters(), settings.step_w)
    criterion = AgnosticLoss(mixtures, settings.step_mixture)
    batches = DomainBatches(ids.numpy(), settings.rows * len(names), seed=seed)
    for drawn in islice(chain.from_iterable(repeat(batches)), settings.n_steps):
        scores = model(X[drawn])
        losses = functional.binary_cross_entropy_with_logits(scores, y[drawn], reduction="none")
        loss = criterion(losses, ids[drawn])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        criterion.step()
    model.eval()
    with torch.inference_mode():
        predicted = (model(X_test) > 0).numpy().astype(np.int64)
    return predicted, criterion.mixture.numpy().copy()


def run(data: Dataset, runs: int = 10, settings: Settings | None = None) -> Table:
    settings = Settings() if settings is None else settings
    names = tuple(sorted({*data.domains.tolist()}))
    sizes = np.array([np.sum(data.domains == name) for name in names], dtype=np.float64)
    sets: dict[str, MixtureSet] = {"Û": data_mixture(sizes), "agnostic": Simplex(len(names))}
    values: dict[str, Array] = {}
    facts: dict[str, Any] = {"settings": asdict(settings), "mixtures": {}}
    for row, mixtures in sets.items():
        found = [train_network(data, names, mixtures, settings, seed) for seed in range(runs)]
        values[row] = np.array(
            [accuracies(labels, data.y_test, data.domains_test, names) for labels, _ in found]
        )
        facts["mixtures"][row] = [mixture.tolist() for _, mixture in found]
    title = "Online News Popularity: test accuracy in percent"
    return Table("news", title, ("all", *names, "worst"), values, facts=facts)
