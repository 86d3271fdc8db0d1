"""The paper's tables and figures, its numbers beside ours.

    python paper/tables.py adult           Table 1; --fast: 5 runs instead of 50, every other γ
    python paper/tables.py fashion         Table 2
    python paper/tables.py language        Table 3; --scale small, medium or paper; needs PyTorch
    python paper/tables.py news            Online News, without numbers to compare; needs PyTorch
    python paper/tables.py proposition1    Proposition 1
    python paper/tables.py lambda-star     the figure of λ*, for Proposition 1 and for Adult
    python paper/tables.py education       Table 1 with the education among the features

Writes JSON, CSV (every run) and a picture to --out. Training of language models is kept in --out:
after a stop, the same command goes on from there and ends with the same numbers.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import replace
from functools import partial
from pathlib import Path

import linear_models
import proposition1
from rich.console import Console

from anymix import LinearDomains
from anymix.datasets import load_adult

WITH_EDUCATION = replace(
    linear_models.ADULT,
    name="adult_with_education",
    title="Adult with the education among the features: test accuracy in percent",
    load=partial(load_adult, drop=()),
)
LINEAR = {**linear_models.EXPERIMENTS, "education": WITH_EDUCATION}
OTHERS = ("language", "news", "proposition1", "lambda-star")


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*LINEAR, *OTHERS])
    parser.add_argument("--runs", type=int, help="of each row, with other seeds")
    parser.add_argument("--fast", action="store_true", help="5 runs, every other γ")
    parser.add_argument("--scale", choices=("small", "medium", "paper"), default="small")
    parser.add_argument("--jobs", type=int, default=2, help="processes; threads for language")
    parser.add_argument("--bf16", action="store_true", help="language: train in half precision")
    parser.add_argument("--file", type=Path, help="news: OnlineNewsPopularity.csv")
    parser.add_argument("--out", type=Path, default=Path("reproduction"))
    asked = parser.parse_args()
    for name in ("runs", "jobs"):
        if (value := getattr(asked, name)) is not None and value < 1:
            parser.error(f"--{name} is {value}; give a whole number ≥ 1")

    if asked.what in LINEAR:
        experiment = LINEAR[asked.what]
        gammas = experiment.gammas[1::2] if asked.fast else None
        runs = asked.runs or (5 if asked.fast else 50)
        table = linear_models.run(experiment, runs, asked.jobs, gammas)
        files = table.save(asked.out)
    elif asked.what == "language":
        import language

        table, files = language.run(
            asked.scale, asked.runs or 1, asked.out, threads=asked.jobs, bf16=asked.bf16
        )
    elif asked.what == "news":
        import news

        table = news.run(news.load_news(asked.file), asked.runs or 10)
        files = table.save(asked.out)
    elif asked.what == "proposition1":
        shown, files = proposition1.run(asked.out)
    else:
        data = load_adult()
        adult = LinearDomains(data.X, data.y, data.domains)
        problems = {"Proposition 1": (proposition1.COINS, 0.0), "Adult, γ = 0.001": (adult, 1e-3)}
        files = [proposition1.draw_least_risks(problems, asked.out)]
    console = Console(highlight=False)
    if asked.what != "lambda-star":
        console.print(shown if asked.what == "proposition1" else table.grid())
    console.print("Files: " + ", ".join(map(str, files)), soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
