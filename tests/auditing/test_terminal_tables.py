"""Tables that fit the terminal."""

import io

import numpy as np
import pytest
from rich.console import Console

import anymix as ax
from anymix.auditing import Audit


def printed(found: object, width: int) -> str:
    sink = io.StringIO()
    Console(file=sink, width=width, highlight=False).print(found)
    return sink.getvalue()


def audits(p: int, n: int = 2000) -> tuple[Audit, Audit]:
    r = np.random.default_rng(0)
    place = r.integers(0, p, n)
    names = np.array([f"the long name of region {k}" for k in range(p)])[place]
    y = r.random(n) < 0.5
    said = (np.clip(y + r.normal(size=n) * (0.3 + 0.02 * place + s), 0.01, 0.99) for s in (0, 0.1))
    first, second = (ax.audit(y, q, names) for q in said)
    return first, second


@pytest.mark.parametrize("p", [2, 12, 40])
@pytest.mark.parametrize("width", [60, 80, 160])
def test_no_word_is_broken_and_nothing_is_too_wide(p: int, width: int) -> None:
    one, two = audits(p)
    for found in (one, ax.compare(one, two, ("ordinary", "robust"))):
        text = printed(found, width)
        assert max(map(len, text.splitlines())) <= width
        words = set(text.split())
        assert {"domain", "rows", "long", "region"} <= words
        assert "\x1b" not in text  # plain where it is not a terminal
        cells = [word for word in words if word.replace(".", "").isdigit() and "." in word]
        assert all(len(word.partition(".")[2]) >= 4 for word in cells)


def test_the_worst_ten_of_many_and_what_found_no_room() -> None:
    one, _ = audits(40)
    text = printed(one, 80)
    assert "The 10 worst of 40 domains" in text
    shown = [k for k in range(40) if f"region {k} " in " ".join(text.split())]
    worst = np.argsort(-one.domain_losses)[:10]
    names = [one.domain_names[k] for k in worst]
    assert sorted(f"the long name of region {k}" for k in shown) == sorted(names)
    assert "region 7" in printed(audits(12)[0], 80)
    assert "In a wider terminal" in printed(one, 50)
    assert "In a wider terminal" not in printed(one, 160)


def test_columns_give_way_where_no_word_is_broken() -> None:
    r = np.random.default_rng(0)
    y, place = r.random(3000) < 0.4, r.choice(["North", "South"], 3000)
    said = np.clip(0.4 * y + r.random(3000) / 2, 0.01, 0.99)
    found = ax.audit(y, said, place, metrics=["rates", "f1"])
    words = set(printed(found, 80).split())
    assert {"(guaranteed)", "calibration", "selection"} <= words
    for low, high in found.intervals:
        assert any(w.startswith(f"{low:.3f}–{high:.3f}") for w in words)
