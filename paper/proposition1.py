"""Proposition 1: the best model for the average mixture can be a bad one for another.

Domain D1 has only label 1; D2 has both, half and half. A model is one number, p₀, its probability
of label 0. On the uniform mixture p₀ = 1/4 is best, and costs log(4/√3) on D2; p₀ = 1/2 costs
log 2 on either.

    python paper/proposition1.py
"""

from pathlib import Path

from rich.console import Console

from anymix.reproduction import proposition1

if __name__ == "__main__":
    result = proposition1()
    Console(highlight=False).print(result.grid())
    print(result.agnostic.certificate)
    result.save(Path(__file__).parents[1] / "docs" / "reproduction")
