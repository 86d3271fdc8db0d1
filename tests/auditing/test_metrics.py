"""Any metric of an audit: rates against fairlearn, scorers against scikit-learn, weights."""

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

from anymix.auditing import audit, compare
from anymix.errors import InputError

RNG = np.random.default_rng(0)
N = 600
D = RNG.choice(["a", "b", "c"], N)
Y = RNG.integers(0, 2, N)
Q = np.clip(0.5 + 0.3 * (Y - 0.5) + RNG.normal(0, 0.25, N), 0.01, 0.99)
SAID = (Q > 0.5).astype(int)
W = RNG.integers(1, 4, N)


def of_each(metric: Any, y: Any, said: Any, **more: Any) -> list[float]:
    return [float(metric(y[k == D], said[k == D], **{n: v[k == D] for n, v in more.items()}))
            for k in "abc"]  # fmt: skip


@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize("said", [SAID, Q], ids=["labels", "probabilities"])
def test_rates_and_their_differences_are_fairlearns(said: Any, weights: Any) -> None:
    from fairlearn import metrics as fair

    more = {} if weights is None else {"sample_weight": weights}
    found = audit(Y, said, D, metrics="rates", **more)
    for name in ("selection_rate", "true_positive_rate", "false_positive_rate"):
        assert found.metrics[name] == pytest.approx(of_each(getattr(fair, name), Y, SAID, **more))
        low, high = found.metric_intervals[name].T
        assert np.all((low < found.metrics[name]) & (found.metrics[name] < high))
    for name in ("demographic_parity_difference", "equalized_odds_difference"):
        wanted = getattr(fair, name)(Y, SAID, sensitive_features=D, **more)
        value, low, high = found.disparities[name]
        assert value == pytest.approx(wanted)
        assert low <= value <= high
    rates = found.metrics["true_positive_rate"]
    assert found.disparities["equal_opportunity_difference"].value == pytest.approx(np.ptp(rates))
    assert "Demographic parity difference: " in found.summary()
    assert found.to_dict()["disparities"]["equalized_odds_difference"][0] == value


def test_the_positive_class_is_the_last_one() -> None:
    words = np.where(Y == 1, "yes", "no")
    said = np.where(SAID == 1, "yes", "no")
    default = audit(words, said, D, metrics=["selection_rate"])
    assert default.metrics["selection_rate"] == pytest.approx(
        of_each(lambda _, z: z.mean(), Y, SAID)
    )
    turned = audit(words, said, D, metrics=["selection_rate"], classes=["yes", "no"])
    assert turned.metrics["selection_rate"] == pytest.approx(1 - default.metrics["selection_rate"])


@pytest.mark.parametrize("weights", [None, W])
def test_scorers_functions_and_names_of_scikit_learn(weights: Any) -> None:
    more = {} if weights is None else {"sample_weight": weights}
    asked = {
        "f1": "f1",
        "area": "roc_auc",
        "kappa": "cohen_kappa_score",
        "brier": sk.brier_score_loss,  # of the probabilities, as they were given
        "half": sk.make_scorer(sk.fbeta_score, beta=0.5),
    }
    if weights is not None:
        asked = {name: asked[name] for name in ("f1", "area", "brier")}
    found = audit(Y, Q, D, metrics=asked, **more)
    wanted = {
        "f1": of_each(sk.f1_score, Y, SAID, **more),
        "area": of_each(sk.roc_auc_score, Y, Q, **more),
        "kappa": of_each(sk.cohen_kappa_score, Y, SAID, **more),
        "brier": of_each(sk.brier_score_loss, Y, Q, **more),
        "half": of_each(lambda y, z, **w: sk.fbeta_score(y, z, beta=0.5, **w), Y, SAID, **more),
    }
    for name in asked:
        assert found.metrics[name] == pytest.approx(wanted[name])
        kind = "approximate" if name != "f1" else "exact" if weights is None else "guaranteed"
        assert found.interval_kinds[name] == kind
    if weights is not None:
        assert found.metrics["auc"] == pytest.approx(wanted["area"])
    values = audit(Q, Q + RNG.normal(0, 0.1, N), D, loss="squared", metrics=["r2"], **more)
    assert np.all(values.metrics["r2"] < 1)


def test_integer_weights_are_copies_of_rows() -> None:
    """But for the intervals: copies would look surer than they are."""
    again = np.repeat(np.arange(N), W)
    for y, said, loss in ((Y, Q, "log"), (Y, SAID, "zero_one"), (Q, 1 - Q, "squared")):
        found = audit(y, said, D, loss=loss, sample_weight=W)
        copies = audit(y[again], said[again], D[again], loss=loss)
        assert found.domain_losses == pytest.approx(copies.domain_losses)
        assert found.pooled_loss == pytest.approx(copies.pooled_loss)
        assert found.masses == pytest.approx(copies.sizes)
        for name, wanted in copies.metrics.items():
            assert found.metrics[name] == pytest.approx(wanted)
        widths = (np.diff(x.intervals).ravel() for x in (found, copies))
        assert np.all(np.subtract(*widths) > 0)


def test_equal_weights_change_nothing_but_exact_intervals() -> None:
    for y, said, loss in ((Y, Q, "log"), (Q, 1 - Q, "squared")):
        plain, equal = (
            audit(y, said, D, loss=loss, sample_weight=w) for w in (None, np.full(N, 0.3))
        )
        assert equal.intervals == pytest.approx(plain.intervals)
        assert equal.agnostic_interval == pytest.approx(plain.agnostic_interval)
        other = audit(y, said**2, D, loss=loss, sample_weight=np.full(N, 0.3))
        pair, paired = compare(plain, audit(y, said**2, D, loss=loss)), compare(equal, other)
        assert paired.difference_intervals == pytest.approx(pair.difference_intervals)
        assert paired.worst_difference == pytest.approx(pair.worst_difference)


def test_rows_without_weight_count_nowhere() -> None:
    w = np.where(np.arange(N) % 3 == 0, 0.0, 2.0)
    found, without = audit(Y, SAID, D, sample_weight=w), audit(Y[w > 0], SAID[w > 0], D[w > 0])
    assert found.sizes.tolist() == without.sizes.tolist()
    assert found.domain_losses == pytest.approx(without.domain_losses)
    assert found.n_outside == int(np.sum(w == 0))


def test_weighted_intervals_cover() -> None:
    """Of weights that go with the losses, the linearised rows know."""
    rng, missed = np.random.default_rng(3), 0
    for _ in range(200):
        w = rng.uniform(0.2, 3, 80)
        losses = w * rng.exponential(size=80)
        low, high = audit(None, losses, sample_weight=w).pooled_interval
        missed += not low <= (0.2**2 + 0.2 * 3 + 3**2) / 3 / 1.6 <= high  # E w² / E w
    assert 4 <= missed <= 20
    near = 5 + 0.01 * rng.normal(size=80)  # whatever the weights, the mean is about 5
    low, high = audit(None, near, sample_weight=w).pooled_interval
    assert high - low < 0.02


def test_paired_differences_of_any_metric() -> None:
    other = np.clip(Q + RNG.normal(0, 0.1, N), 0.01, 0.99)
    asked: dict[str, Any] = {"metrics": ["true_positive_rate", "f1"]}
    pair = compare(audit(Y, Q, D, **asked), audit(Y, other, D, **asked))
    for name in ("loss", "accuracy", "true_positive_rate", "f1"):
        values, ends, _, pooled = pair.difference_of(name)
        a, b = (
            (x.domain_losses, x.pooled_loss) if name == "loss"
            else (x.metrics[name], x.pooled_metrics[name]) for x in (pair.a, pair.b)
        )  # fmt: skip
        assert values == pytest.approx(b[0] - a[0])
        assert pooled == pytest.approx(b[1] - a[1])
        assert np.all((ends[:, 0] <= values) & (values <= ends[:, 1]))
    f1 = pair.difference_of("f1").intervals
    alone = [np.diff(x.metric_intervals["f1"]) for x in (pair.a, pair.b)]
    assert np.all(np.diff(f1) < np.hypot(*alone))  # what is hard for both cancels
    assert set(pair.to_dict()["metric_differences"]) == {"accuracy", "true_positive_rate", "f1"}
    with pytest.raises(InputError, match="measure is 'auc'; give one of loss, accuracy"):
        pair.difference_of("auc")


def test_the_difference_of_rmse_covers_the_truth() -> None:
    rng, missed = np.random.default_rng(5), np.zeros(2)
    for _ in range(100):
        y = rng.normal(size=120)
        shared = rng.normal(size=120)
        said = [y + shared + s * rng.normal(size=120) for s in (0.5, 1.5)]
        pair = compare(audit(y, said[0]), audit(y, said[1]))
        value, low, high = pair.told_difference
        assert value == pytest.approx(np.diff([sk.root_mean_squared_error(y, z) for z in said])[0])
        rooted = pair.difference_of("rmse")
        assert rooted.values[0] == pytest.approx(value)
        for k, (left, right) in enumerate(((low, high), rooted.intervals[0])):
            missed[k] += not left <= np.sqrt(1 + 1.5**2) - np.sqrt(1 + 0.5**2) <= right
    assert np.all((missed >= 1) & (missed <= 10))


def test_several_columns_of_labels() -> None:
    truth = {"ill": Y, "old": (np.arange(N) % 2)}
    said = {"ill": SAID, "old": np.ones(N, int)}
    found = audit(truth, said, D)
    wrong = np.mean([truth[c] != said[c] for c in truth], axis=0)
    assert found.loss_title == "share of wrong labels"
    assert found.domain_losses == pytest.approx([wrong[k == D].mean() for k in "abc"])
    assert found.domain_losses == pytest.approx(
        of_each(sk.hamming_loss, *(np.column_stack(list(x.values())) for x in (truth, said)))
    )
    for column in truth:
        alone = audit(truth[column], said[column], D)
        assert found.metrics[f"accuracy of {column}"] == pytest.approx(alone.metrics["accuracy"])
        assert found.metric_intervals[f"accuracy of {column}"] == pytest.approx(
            alone.metric_intervals["accuracy"]
        )
    tables = [np.column_stack(list(x.values())) for x in (truth, said)]
    arrays = audit(tables[0], tables[1], D)
    assert arrays.domain_losses == pytest.approx(found.domain_losses)
    chances = audit(truth, {"ill": Q, "old": np.full(N, 0.4)}, D)
    both = [audit(truth[c], q, D).domain_losses for c, q in (("ill", Q), ("old", np.full(N, 0.4)))]
    assert chances.domain_losses == pytest.approx(np.mean(both, axis=0))
    pair = compare(found, audit(truth, {"ill": 1 - SAID, "old": np.ones(N, int)}, D))
    assert pair.difference_kind == "guaranteed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": "f2"}, "metrics has 'f2', which nobody knows"),
        ({"metrics": ["neg_log_loss"]}, "metrics has 'neg_log_loss', which fails here"),
        ({"metrics": [3]}, "metrics has 3"),
        ({"metrics": {"m": lambda y, z: 1.0}, "sample_weight": W}, "'m' takes no sample_weight"),
        ({"sample_weight": -W}, "sample_weight has -3"),
        ({"sample_weight": W[:5]}, "sample_weight"),
        ({"sample_weight": np.where(D == "a", 0, 1)}, "sample_weight is 0 for every row of 'a'"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        audit(Y, SAID, D, **arguments)


def test_rates_need_two_classes_and_metrics_what_is_true() -> None:
    with pytest.raises(InputError, match="needs two classes, but there are 3"):
        audit(Y + (np.arange(N) % 7 == 0), SAID, D, metrics="rates")
    with pytest.raises(InputError, match="needs two classes, but there are values"):
        audit(Q, Q + 0.1, D, loss="squared", metrics="rates")
    with pytest.raises(InputError, match="but there are only losses"):
        audit(None, Q, D, metrics="rates")
    with pytest.raises(InputError, match="has 1 columns, but 2 are true"):
        audit({"a": Y, "b": Y}, SAID, D)
    with pytest.raises(InputError, match=r"different kinds: labels \('a'\), probabilities"):
        audit({"a": Y, "b": Y}, {"a": SAID, "b": Q}, D)
