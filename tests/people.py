"""Tables of generated people, for the tests of tables."""

from typing import Any

import numpy as np
import pandas as pd


def people(n: int = 300, seed: int = 0) -> Any:
    r = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": r.normal(40, 12, n),
            "city": r.choice(["Oslo", "Rome", "Lima"], n),
            "job": r.choice([f"job {j:02}" for j in range(30)], n),
        }
    )


def shop(n: int = 600, seed: int = 0) -> Any:
    """What is bought depends on x in the north and on minus x in the south, which is rare."""
    r = np.random.default_rng(seed)
    frame = people(n, seed).assign(x=r.normal(size=n))
    region = r.choice(["north", "south"], n, p=[0.85, 0.15])
    z = np.where(region == "north", 2 * frame["x"], -frame["x"]) + (frame["city"] == "Oslo")
    noisy = z + r.logistic(size=n)
    return frame.assign(region=region, bought=np.where(noisy > 0, "yes", "no"), spent=noisy)


def small(**columns: Any) -> Any:
    """24 rows in two domains, with these columns besides or instead."""
    n = 24
    frame = pd.DataFrame({"x": np.arange(n) % 7, "d": list("ab") * 12, "y": list("yyn") * 8})
    return frame.assign(**columns)
