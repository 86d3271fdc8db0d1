"""Rows of the form of Online News Popularity, made up: columns, channels, shares."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

CHANNELS = [
    f"data_channel_is_{name}"
    for name in ("lifestyle", "entertainment", "bus", "socmed", "tech", "world")
]
FEATURES = ["n_tokens_title", "n_tokens_content", *(f"feature_{i}" for i in range(50))]
# The real file has the channels in the middle, and a blank before every name but the first.
COLUMNS = ["url", "timedelta", *FEATURES[:10], *CHANNELS, *FEATURES[10:], "shares"]


def news_rows(n: int, seed: int) -> list[dict[str, Any]]:
    """Every seventh article has no channel; popular ones have a high second feature."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        row: dict[str, Any] = {"url": f"http://news/{i}, part 1/", "timedelta": 1.0}
        row |= dict(zip(FEATURES, rng.normal(size=len(FEATURES)).round(3).tolist(), strict=True))
        row |= {name: float(i % 7 == k) for k, name in enumerate(CHANNELS)}
        sign = 1 if i % 7 < 6 else -1  # articles of no channel are the other way round
        row["shares"] = 1400 + int(1000 * sign * row["n_tokens_content"])
        rows.append(row)
    return rows


def news_csv(rows: Sequence[dict[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([COLUMNS[0], *(f" {name}" for name in COLUMNS[1:])])
    writer.writerows([[row[name] for name in COLUMNS] for row in rows])
    return file.getvalue()
