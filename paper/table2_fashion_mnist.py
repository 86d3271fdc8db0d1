"""Table 2: shirt, pullover or t-shirt? Each class is a domain of its own, 6,000 pictures each.

Shirts look like the other two, so the ordinary model (Û) leaves most of its errors with them. The
agnostic model spreads the errors: better on shirts, hardly worse overall.

    python paper/table2_fashion_mnist.py [--runs 50]

If the address of the data does not answer, `anymix data fetch fashion --allow-apt` gets them from a
Debian package first.
"""

from argparse import ArgumentParser
from pathlib import Path

from rich.console import Console

from anymix.reproduction import FASHION, reproduce

if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--runs", type=int, default=50)
    runs = parser.parse_args().runs
    if runs < 1:
        parser.error(f"--runs is {runs}; give a whole number ≥ 1")

    table = reproduce(FASHION, runs)
    console = Console(highlight=False)
    console.print(table.grid())
    for kind, mixture in (
        ("at the end of a run", table.mixtures["agnostic"].mean(axis=0)),
        ("by the exact solver", table.exact["agnostic"].mixture),
    ):
        weights = ", ".join(
            f"{name} {weight:.3f}" for name, weight in zip(FASHION.domains, mixture, strict=True)
        )
        console.print(f"agnostic λ {kind}: {weights}")
    table.save(Path(__file__).parents[1] / "docs" / "reproduction")
