"""Online News Popularity, which the paper describes without a result: the ordinary network and the
agnostic one, on the channels of a news site.

    python paper/online_news.py [OnlineNewsPopularity.csv] [--runs 10]

Without a file the data are fetched from UCI. Writes news.json and news.csv to docs/reproduction.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from rich.console import Console

from anymix.reproduction import reproduce_news

if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    try:
        table = reproduce_news(arguments.file, arguments.runs)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    Console(highlight=False).print(table.grid())
    table.save(Path(__file__).parents[1] / "docs" / "reproduction")
