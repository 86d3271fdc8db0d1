"""What the page says in words."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from audited import HOSTILE, two_models, words_of

import anymix as ax
from anymix.auditing import audit
from anymix.reporting import report
from anymix.reporting.words import mixture_in_words, number


def test_the_words_say_worst_case_price_and_what_is_not_covered(tmp_path: Path) -> None:
    audits = two_models(3)
    words = words_of(report(audits, tmp_path / "report.html", notes=["No value <was> missing."]))
    plain, careful = audits.values()
    text = number
    assert f"plain: log loss {text(plain.pooled_loss)} on the rows as they are" in words
    assert f"but {text(plain.agnostic_loss)} on the worst mixture, 100.0% {HOSTILE}." in words
    gain = plain.agnostic_loss - careful.agnostic_loss
    assert gain > 0
    assert f"{text(gain)} less on the worst mixture" in words
    price = careful.pooled_loss - plain.pooled_loss
    assert price > 0
    assert f"against plain, careful has {text(price)} more log loss" in words
    assert "bias inside the data is not removed" in words
    assert "Fewer than 30 rows, so little is known of: " + HOSTILE in words
    assert "No value <was> missing." in words


def test_rows_in_several_domains_are_counted_once_and_mentioned(tmp_path: Path) -> None:
    member = np.array([[True, False], [True, True], [False, True]])
    page = report(audit([1, 0, 1], [1, 1, 0], member), tmp_path / "report.html")
    assert "on 3 rows in 2 domains" in words_of(page)
    assert "Some rows are in several domains" in words_of(page)
    page = report(two_models(2), tmp_path / "report.html")
    assert "in several domains" not in words_of(page)


def test_rows_in_no_domain_are_mentioned(tmp_path: Path) -> None:
    member = np.array([[True, False], [True, True], [False, True], [False, False]])
    words = words_of(report(audit([1, 0, 1, 1], [1, 1, 0, 0], member), tmp_path / "report.html"))
    assert "on 3 rows in 2 domains" in words
    assert "in none of the domains, and count nowhere here: 1." in words
    assert "none of the domains" not in words_of(report(two_models(2), tmp_path / "report.html"))


def test_the_words_name_the_set(tmp_path: Path) -> None:
    words = words_of(report(two_models(2), tmp_path / "report.html"))
    assert "The worst case is over all mixtures of these domains." in words
    found = two_models(2, lambda sizes: ax.Chi2Ball(sizes, 1.5))
    words = words_of(report(found, tmp_path / "report.html"))
    assert "over the mixtures in Λ = Chi2Ball(" in words
    assert "one outside of it may be worse" in words


def test_a_set_of_all_mixtures_is_called_so_whatever_its_class(tmp_path: Path) -> None:
    for mixtures in (ax.Vertices(2), ax.Box([0, 0], [1, 1]), ax.Hull([[1, 0], [0, 1]])):
        words = words_of(report(two_models(2, mixtures), tmp_path / "report.html"))
        assert "The worst case is over all mixtures of these domains." in words
        assert "one outside of it" not in words
    words = words_of(report(two_models(2, ax.Box([0, 0], [0.99, 1])), tmp_path / "report.html"))
    assert "over the mixtures in Λ = Box(" in words


def test_a_mixture_in_words_adds_up() -> None:
    found = two_models(6, lambda sizes: ax.cvar(sizes / sizes.sum(), 0.9))["plain"]
    lam = found.worst_mixture
    words = mixture_in_words(found)
    shares = [float(share) for share in re.findall(r"([\d.]+)%", words)]
    assert shares[:3] == pytest.approx(sorted(100 * lam, reverse=True)[:3], abs=0.0501)
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert words.endswith(" others")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5000"),
        (0.012345, "0.0123"),
        (12.3456, "12.35"),
        (12345.6, "12,346"),
        (-3.21987, "-3.2199"),
        (0.0, "0.0000"),
        (1.5e-7, "1.5e-07"),
        (2.5e9, "2,500,000,000"),
        (math.nan, "–"),
        (math.inf, "∞"),
    ],
)
def test_numbers_have_one_format(value: float, text: str) -> None:
    assert number(value) == text
