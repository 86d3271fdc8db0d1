"""The figure of λ*: where the hardest mixture lies in Λ, here with real losses.

For two domains Λ is a line. Over it: the least risk that any model has on that mixture, and the
risks of three models. A model's risk is linear in the mixture and touches the curve where the model
is best, so the model that is best at the top of the curve, λ*, is the one with the least worst
case. The mixture of the data, λ_Ū, lies elsewhere.

    python paper/figure_lambda_star.py
"""

import sys
from pathlib import Path

from anymix import LinearDomains
from anymix.datasets import load_adult
from anymix.reproduction import draw_least_risky, proposition1

FOLDER = Path(__file__).parents[1] / "docs" / "reproduction"

if __name__ == "__main__":
    data = load_adult()
    adult = LinearDomains(data.X, data.y, data.domains)
    problems = {"Proposition 1": (proposition1().problem, 0.0), "Adult, γ = 0.001": (adult, 1e-3)}
    files = draw_least_risky(problems, FOLDER / "lambda_star.png")
    if not files:
        sys.exit("error: there is no matplotlib to draw with; pip install 'anymix[report]'")
    print("Files:", *files)
