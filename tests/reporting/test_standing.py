"""Who gains and who pays, and the verdict that audits give by themselves."""

from typing import Any

import numpy as np
import pytest

import anymix as ax
from anymix.auditing import audit
from anymix.auditing.verdicts import verdict
from anymix.reporting.shown import Shown
from anymix.reporting.standing import standing_in_words, standings_of, verdict_of

Y = np.tile([0, 1], 200)
D = np.repeat(["a", "b"], 200)


def models(**wrong: Any) -> Shown:
    """Models by name; each has so many errors in domain a and in domain b."""
    audits = {}
    for name, (in_a, in_b) in wrong.items():
        said = Y.copy()
        said[:in_a] = 1 - said[:in_a]
        said[200 : 200 + in_b] = 1 - said[200 : 200 + in_b]
        audits[name] = audit(Y, said, D)
    return Shown(audits)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ((90, 120), "New is worse for everybody: keep old."),
        ((10, 20), "New is better for everybody."),
        ((42, 81), "No domain differs surely between old and new."),
        ((90, 20), "New is surely better where old is worst; one domain pays for it."),
        ((41, 20), "New is surely better where old is worst; no domain surely pays for it."),
    ],
)
def test_what_two_models_say_by_themselves(new: tuple[int, int], said: str) -> None:
    assert verdict_of(models(old=(40, 80), new=new), {}) == said


def test_a_constant_guess_can_be_the_verdict() -> None:
    shown = models(old=(40, 80), new=(50, 110))
    guess = {"a constant guess": audit(Y, np.ones(400, int), D)}
    assert verdict_of(shown, guess).startswith("New is worse for everybody")
    poor = models(old=(40, 80), new=(100, 98))
    assert verdict_of(poor, guess) == (
        "New is no better than a constant guess in any domain, by its 0-1 loss and as far as "
        "these rows can tell."
    )


def test_the_sentence_names_who_gains_and_who_pays_in_points() -> None:
    shown = models(old=(40, 80), new=(90, 20))
    (standing,) = standings_of(shown)
    assert standing.values == pytest.approx([-0.25, 0.3])
    assert standing.gains.tolist() == [False, True]
    assert standing.pays.tolist() == [True, False]
    assert standing_in_words(shown, [standing]) == (
        "In accuracy, new is surely better for b (+30.0 points); surely worse for a (−25.0 points) "
        "(joint 95% intervals). On all rows accuracy is 72.5% (+2.5 points against old)."
    )


def test_regression_stands_in_the_unit_of_the_target() -> None:
    rng = np.random.default_rng(0)
    y, noise = rng.normal(0, 1e5, 400), rng.normal(size=400)
    far = audit(y, y + 40_000 * noise, D, loss="squared")
    near = audit(y, y + np.where(D == "a", 50_000, 20_000) * noise, D, loss="squared")
    rmse, mae = standings_of(Shown({"ordinary": far, "robust": near}))
    assert (rmse.scale.title, mae.scale.title) == ("RMSE", "MAE")
    assert rmse.values == pytest.approx(near.metrics["rmse"] - far.metrics["rmse"])
    assert mae.values == pytest.approx(near.metrics["mae"] - far.metrics["mae"])
    assert rmse.gains.tolist() == [False, True]
    assert rmse.pays.tolist() == [True, False]
    pair = ax.compare(near, far, ("ordinary", "robust"))
    for text in (pair.summary(), far.summary(), verdict(pair, kept=False)):
        assert "half squared" not in text
        assert "RMSE" in text


def test_worse_for_everybody_keeps_the_ordinary_model() -> None:
    worse = list(models(ordinary=(40, 80), robust=(90, 120)).audits.values())
    kept = verdict(ax.compare(worse[0], worse[1]), kept=True)
    assert (
        kept == "A robust model is worse for everybody on rows not seen: keep the ordinary model."
    )
    mixed = list(models(ordinary=(40, 80), robust=(90, 79)).audits.values())
    assert verdict(ax.compare(mixed[0], mixed[1]), kept=True).startswith("Nothing to gain")
