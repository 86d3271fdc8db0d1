"""What is said first of an ordinary model and a robust one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from anymix import audit, compare
from anymix.auditing import Audit
from anymix.auditing.verdicts import beside_in_words, verdict


def wrong(n: Sequence[int], errors: Sequence[int], **options: Any) -> Audit:
    """Domains a, b, ... of n rows, with the first `errors` predicted wrong."""
    domains = np.repeat([*"abcdefgh"[: len(n)]], n)
    said = np.concatenate([np.arange(size) >= e for size, e in zip(n, errors, strict=True)])
    return audit(np.ones(len(domains), int), said.astype(int), domains, **options)


@pytest.mark.parametrize(("rows", "said"), [(1, "only 1 row,"), (9, "only 9 rows,"), (10, None)])
def test_a_worst_domain_of_few_rows_suggests_to_put_domains_together(
    rows: int, said: str | None
) -> None:
    pair = compare(wrong((100, rows), (40, rows)), wrong((100, rows), (39, rows)))
    text = verdict(pair, kept=True)
    assert text.startswith("Nothing to gain")
    assert (said is not None) == ("put small domains together" in text)
    assert said is None or f"'b', has {said}" in text


def test_few_rows_elsewhere_are_no_reason() -> None:
    pair = compare(wrong((100, 5), (40, 0)), wrong((100, 5), (41, 0)))
    assert "together" not in verdict(pair, kept=True)


@pytest.mark.parametrize(
    ("guess", "told"),
    [
        (
            (90, 20, 30, 30),
            "The robust model is surely worse than a constant guess by its 0-1 loss "
            "in 'b' (0.4000 against 0.2000).",
        ),
        (
            (90, 40, 29, 30),
            "As far as these rows can tell, the robust model is no better than a "
            "constant guess by its 0-1 loss in 'c' (0.3000 against 0.2900).",
        ),
        ((90, 40, 30, 30), ""),
    ],
)
def test_domains_that_a_constant_guess_serves_better_are_named(
    guess: tuple[int, ...], told: str
) -> None:
    n = (100,) * 4
    ordinary, robust = wrong(n, (20, 60, 30, 30)), wrong(n, (20, 40, 30, 30))
    pair = compare(ordinary, robust)
    said = verdict(pair, kept=False)
    assert verdict(pair, kept=False, floor=wrong(n, guess)) == f"{said} {told}".rstrip()


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ((60, 40, 12, 30), "+0.0550 on all rows; 2 of 4 domains surely pay, most 'b': +0.3000)."),
        ((60, 40, 11, 10), "+0.0025 on all rows; 1 of 4 domains surely pays, 'b': +0.3000)."),
        ((60, 12, 11, 10), "-0.0675 on all rows; no domain surely pays)."),
    ],
)
def test_the_price_says_how_many_domains_pay_and_which_pays_most(
    errors: tuple[int, ...], said: str
) -> None:
    """Two errors more among 100 rows are no sure loss, so 'c' does not count."""
    n = (100,) * 4
    pair = compare(wrong(n, (90, 10, 10, 10)), wrong(n, errors))
    assert verdict(pair, kept=False).endswith(said)


def test_the_price_of_regression_is_in_the_unit_of_the_target() -> None:
    y, d = np.full(900, 0.5), np.repeat(["near", "far", "mid"], 300)
    wobble = np.tile([-1, 1], 450)
    ordinary = audit(y, np.where(d == "far", 500, 100) + wobble + y, d)
    robust = audit(y, np.select([d == "far", d == "near"], [300, 250], 200) + y, d)
    said = verdict(compare(ordinary, robust), kept=False)
    assert said.startswith("The robust model is better")
    assert said.endswith(
        "(-200.0 RMSE; -46.69 on all rows; 2 of 3 domains surely pay, most 'near': +150.0)."
    )


def test_of_many_such_domains_the_three_worst_are_named() -> None:
    n, model = (100,) * 6, wrong((100,) * 6, (10, 50, 60, 70, 80, 90))
    said = verdict(compare(model, model), kept=True, floor=wrong(n, (60, 20, 20, 20, 20, 20)))
    assert said.endswith(
        "The ordinary model is surely worse than a constant guess by its 0-1 loss in 'f' (0.9000 "
        "against 0.2000), 'e' (0.8000 against 0.2000), 'd' (0.7000 against 0.2000) and 2 more."
    )


def test_where_there_is_no_other_model_no_gain_is_spoken_of() -> None:
    model = wrong((100, 50), (10, 20))
    said = verdict(compare(model, model), kept=True)
    assert said == "No robust model differs from the ordinary one for these mixtures: it is kept."


def test_of_two_rows_nothing_is_sure() -> None:
    n = (100, 2)
    model = wrong(n, (10, 2))
    said = verdict(compare(model, model), kept=True, floor=wrong(n, (50, 0)))
    assert "surely" not in said
    assert "As far as these rows can tell, the ordinary model is no better than" in said


def test_the_model_in_use_is_the_one_compared_with_the_guess() -> None:
    n = (100, 100)
    pair = compare(wrong(n, (10, 60)), wrong(n, (10, 20)))
    floor = wrong(n, (50, 40))
    assert "constant" in verdict(pair, kept=True, floor=floor)
    assert "constant" not in verdict(pair, kept=False, floor=floor)


def test_a_robust_model_that_has_learnt_nothing_points_to_the_domain_as_a_feature() -> None:
    n, guess = (100, 100), wrong((100, 100), (50, 50))
    idle = wrong(n, (49, 50))
    said = verdict(compare(wrong(n, (10, 70)), idle), kept=False, floor=guess)
    assert said.startswith("A constant guess is as good as the robust model in every domain")
    assert said.endswith("if the domain is known for new rows, let the model use it.")
    said = verdict(compare(idle, idle), kept=False, floor=guess)
    assert said.endswith("it has learnt nothing.")


def test_a_worst_domain_is_one_domain() -> None:
    assert wrong((10, 10), (1, 2)).worst_domain == 1
    assert wrong((10, 10), (1, 2), mixtures="cvar:0.5").worst_domain == 1
    mixed = wrong((10, 30), (5, 2), mixtures="cvar:0.5")
    assert mixed.worst_domain is None
    assert beside_in_words("it", mixed).endswith("at worst 0.2833.")
