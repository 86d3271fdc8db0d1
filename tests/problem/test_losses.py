"""Losses against formulas written another way, finite differences and their own conjugates."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn._loss import HalfBinomialLoss, HalfMultinomialLoss, HuberLoss
from sklearn.metrics import hinge_loss, log_loss, mean_squared_error

from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss, SquaredError

Array = NDArray[np.float64]

REGRESSION: list[Loss] = [SquaredError(), Huber(1.0), Huber(0.3), Huber(1e6)]
ONE_SCORE: list[Loss] = [CrossEntropy(), Hinge(), *REGRESSION]

scores = st.floats(-60, 60)
huge = st.floats(-1e4, 1e4)
codes = st.integers(0, 1)


def targets(loss: Loss, seed: int, n: int) -> Array:
    rng = np.random.default_rng(seed)
    is_class = isinstance(loss, CrossEntropy | Hinge)
    return rng.integers(0, 2, n).astype(np.float64) if is_class else rng.normal(size=n) * 2


def slope(loss: Loss, z: Array, y: Array, h: float = 1e-6) -> Array:
    """ℓ' by a central difference."""
    return (loss.value(z + h, y) - loss.value(z - h, y)) / (2 * h)


# -- values --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(scores, codes), min_size=1, max_size=20))
def test_binary_cross_entropy_is_the_two_class_softmax(pairs: list[tuple[float, int]]) -> None:
    z, y = np.array(pairs).T
    both = np.column_stack([np.zeros_like(z), z])
    expected = logsumexp(both, axis=1) - np.where(y == 1, z, 0.0)
    np.testing.assert_allclose(CrossEntropy().value(z, y), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(CrossEntropy().gradient(z, y), expit(z) - y, rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        CrossEntropy().curvature(z, y), expit(z) * expit(-z), rtol=1e-14, atol=0
    )
    np.testing.assert_allclose(
        CrossEntropy().value(both, y), CrossEntropy().value(z, y), rtol=1e-12, atol=1e-13
    )


def test_cross_entropy_is_log_loss() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=50) * 3, rng.integers(0, 2, 50)
    assert CrossEntropy().value(z, y).mean() == pytest.approx(log_loss(y, expit(z)), rel=1e-12)
    for k in (3, 5, 10):
        z, y = rng.normal(size=(200, k)) * 3, rng.integers(0, k, 200)
        expected = log_loss(y, softmax(z, axis=1), labels=np.arange(k))
        assert CrossEntropy().value(z, y).mean() == pytest.approx(expected, rel=1e-12)


def test_one_score_losses_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    z, r = rng.normal(size=100) * 4, rng.normal(size=100) * 2
    y = rng.integers(0, 2, 100).astype(np.float64)
    binomial = HalfBinomialLoss()
    np.testing.assert_allclose(CrossEntropy().value(z, y), binomial.loss(y, z), rtol=1e-12)
    np.testing.assert_allclose(CrossEntropy().gradient(z, y), binomial.gradient(y, z), atol=1e-15)
    half = 0.5 * mean_squared_error(r, z)
    assert SquaredError().value(z, r).mean() == pytest.approx(half, rel=1e-12)
    assert Hinge().value(z, y).mean() == pytest.approx(hinge_loss(2 * y - 1, z), rel=1e-12)
    reference = HuberLoss(quantile=0.5)
    reference.closs.delta = 0.7
    np.testing.assert_allclose(Huber(0.7).value(z, r), reference.loss(r, z), rtol=1e-12)
    np.testing.assert_allclose(Huber(0.7).gradient(z, r), reference.gradient(r, z), rtol=1e-12)


@pytest.mark.parametrize("n_classes", range(3, 11))
def test_multiclass_is_that_of_scikit_learn_and_its_own_differences(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    z, y = rng.normal(size=(40, n_classes)) * 3, rng.integers(0, n_classes, 40)
    loss, reference = CrossEntropy(), HalfMultinomialLoss(n_classes=n_classes)
    value, gradient = reference.loss_gradient(y.astype(np.float64), z)
    np.testing.assert_allclose(loss.value(z, y), value, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(loss.gradient(z, y), gradient, atol=1e-14)
    h, blocks = 1e-5, loss.curvature(z, y)
    for c in range(n_classes):
        e = h * np.eye(n_classes)[c]
        difference = (loss.gradient(z + e, y) - loss.gradient(z - e, y)) / (2 * h)
        np.testing.assert_allclose(blocks[:, :, c], difference, atol=1e-9)
        difference = (loss.value(z + e, y) - loss.value(z - e, y)) / (2 * h)
        np.testing.assert_allclose(loss.gradient(z, y)[:, c], difference, atol=1e-8)


def test_huber_by_hand_and_its_limit() -> None:
    loss = Huber(2.0)
    assert loss.value([1.0, 2.0, 5.0, -5.0], [0.0] * 4).tolist() == [0.5, 2.0, 8.0, 8.0]
    assert loss.gradient([1.0, 2.0, 5.0, -5.0], [0.0] * 4).tolist() == [1.0, 2.0, 2.0, -2.0]
    assert loss.curvature([1.0, 5.0], [0.0, 0.0]).tolist() == [1.0, 0.0]
    z, y = np.linspace(-9, 9, 50), np.linspace(3, -3, 50)
    np.testing.assert_array_equal(Huber(1e3).value(z, y), SquaredError().value(z, y))


def test_hinge_by_hand() -> None:
    assert Hinge().value([0.0, 1.0, 3.0, -2.0], [0, 0, 1, 1]).tolist() == [1.0, 2.0, 0.0, 3.0]
    assert Hinge().gradient([0.0, 1.0, 3.0, -2.0], [0, 0, 1, 1]).tolist() == [1.0, 1.0, 0.0, -1.0]
    assert not Hinge().is_smooth
    with pytest.raises(ValueError, match="no curvature; use CrossEntropy"):
        Hinge().curvature([0.0], [1])


@pytest.mark.parametrize("loss", ONE_SCORE, ids=str)
def test_derivatives_are_differences(loss: Loss) -> None:
    rng = np.random.default_rng(2)
    z, y = rng.normal(size=400) * 4, targets(loss, 3, 400)
    off_kink = np.abs(loss.gradient(z + 1e-5, y) - loss.gradient(z - 1e-5, y)) < 1e-3
    assert off_kink.mean() > 0.9
    z, y = z[off_kink], y[off_kink]
    np.testing.assert_allclose(loss.gradient(z, y), slope(loss, z, y), rtol=1e-6, atol=1e-7)
    if loss.is_smooth:
        h = 1e-5
        difference = (loss.gradient(z + h, y) - loss.gradient(z - h, y)) / (2 * h)
        smooth = np.abs(loss.curvature(z + h, y) - loss.curvature(z - h, y)) < 1e-3
        np.testing.assert_allclose(
            loss.curvature(z, y)[smooth], difference[smooth], rtol=1e-5, atol=1e-8
        )


def test_many_examples_are_each_one_of_them() -> None:
    """Long arrays may be worked on in pieces."""
    rng, loss = np.random.default_rng(9), CrossEntropy()
    z, y = rng.normal(size=100_003) * 5, rng.integers(0, 2, 100_003)
    np.testing.assert_allclose(loss.value(z, y), np.logaddexp(0, z) - y * z, atol=1e-13)
    np.testing.assert_allclose(loss.gradient(z, y), expit(z) - y, atol=1e-15)
    np.testing.assert_allclose(loss.curvature(z, y), expit(z) * expit(-z), atol=1e-15)


# -- far out -------------------------------------------------------------------------------------


@given(huge, codes)
def test_binary_cross_entropy_keeps_its_relative_precision(z: float, y: int) -> None:
    """By −log σ(±z) = log1p(e^{−m}) with the margin m, in ordinary Python arithmetic."""
    m = z if y else -z
    expected = math.log1p(math.exp(-m)) if m > -700 else -m
    value = float(CrossEntropy().value([z], [y])[0])
    assert value == pytest.approx(expected, rel=1e-14, abs=0)


@given(st.lists(huge, min_size=3, max_size=10), st.integers(0, 9))
def test_softmax_far_out(z: list[float], y: int) -> None:
    row, y = np.array([z]), y % len(z)
    loss = CrossEntropy()
    expected = -log_softmax(row, axis=1)[0, y]
    np.testing.assert_allclose(loss.value(row, [y])[0], expected, rtol=1e-12, atol=1e-15)
    assert np.all(np.isfinite(loss.curvature(row, [y])))
    gradient = loss.gradient(row, [y])[0]
    assert abs(gradient.sum()) < 1e-14
    np.testing.assert_allclose(gradient, softmax(row[0]) - np.eye(len(z))[y], atol=1e-12)


@pytest.mark.parametrize("z", [1e4, -1e4, 1e300, -1e300, 0.0, 5e-324])
@pytest.mark.parametrize("y", [0, 1])
def test_no_overflow_for_classes(z: float, y: int) -> None:
    for loss in (CrossEntropy(), Hinge()):
        value = loss.value([z], [y])[0]
        assert np.isfinite(value)
        assert value >= 0
        assert abs(loss.gradient([z], [y])[0]) <= 1
    assert 0 <= CrossEntropy().curvature([z], [y])[0] <= 0.25
    wide = np.array([[z, -z, 0.0]])
    assert np.isfinite(CrossEntropy().value(wide, [y])[0])


def test_confident_and_right_is_not_rounded_to_zero() -> None:
    assert CrossEntropy().value([30.0], [1])[0] == pytest.approx(math.exp(-30), rel=1e-12, abs=0)
    assert CrossEntropy().value([300.0], [1])[0] == pytest.approx(math.exp(-300), rel=1e-12, abs=0)
    shifted = CrossEntropy().value([[1e4, 1e4 - 20.0, 1e4 - 20.0]], [0])[0]
    assert shifted == pytest.approx(2 * math.exp(-20), rel=1e-6, abs=0)


# -- conjugates ----------------------------------------------------------------------------------


def numerical_conjugate(loss: Loss, alpha: float, y: float) -> float:
    """sup_z αz − ℓ(z) by a search that knows nothing of the formula."""
    found = minimize_scalar(
        lambda z: float(loss.value([z], [y])[0]) - alpha * z, bounds=(-80, 80), method="bounded"
    )
    return -float(found.fun)


@pytest.mark.parametrize("loss", ONE_SCORE, ids=str)
def test_fenchel_and_young(loss: Loss) -> None:
    rng = np.random.default_rng(4)
    z, y = rng.normal(size=500) * 4, targets(loss, 5, 500)
    alpha = loss.gradient(rng.permutation(z), y)  # in the domain of ℓ*: slopes at other scores
    conjugate = loss.conjugate(alpha, y)
    assert np.all(np.isfinite(conjugate))
    assert np.all(loss.value(z, y) + conjugate >= alpha * z - 1e-11)
    tight = loss.gradient(z, y)
    np.testing.assert_allclose(
        loss.value(z, y) + loss.conjugate(tight, y), tight * z, rtol=1e-12, atol=1e-10
    )


@pytest.mark.parametrize("loss", ONE_SCORE, ids=str)
def test_conjugate_is_the_supremum(loss: Loss) -> None:
    rng = np.random.default_rng(6)
    z, y = rng.normal(size=40) * 2, targets(loss, 7, 40)
    alpha = 0.9 * loss.gradient(z, y)
    expected = [numerical_conjugate(loss, a, t) for a, t in zip(alpha, y, strict=True)]
    np.testing.assert_allclose(loss.conjugate(alpha, y), expected, atol=1e-6)


def test_conjugate_is_infinite_outside() -> None:
    out = np.array([0.1, -1.1, 1.1, -0.1])  # σ − y has the sign of y's complement
    y = np.array([1.0, 1.0, 0.0, 0.0])
    assert np.all(CrossEntropy().conjugate(out, y) == np.inf)
    assert np.all(Hinge().conjugate(out, y) == np.inf)
    assert np.all(Huber(0.5).conjugate(np.array([0.51, -0.51]), np.zeros(2)) == np.inf)
    edge = np.array([0.0, -1.0, 1.0, 0.0])
    assert CrossEntropy().conjugate(edge, y).tolist() == [0.0] * 4
    assert Hinge().conjugate(edge, y).tolist() == [0.0, -1.0, -1.0, 0.0]
    assert Huber(0.5).conjugate(np.array([0.5]), np.ones(1)).tolist() == [0.625]


@pytest.mark.parametrize("n_classes", [3, 6])
def test_multiclass_conjugate(n_classes: int) -> None:
    rng, loss = np.random.default_rng(8), CrossEntropy()
    y = rng.integers(0, n_classes, 30)
    z = rng.normal(size=(30, n_classes)) * 3
    alpha = loss.gradient(rng.normal(size=z.shape) * 3, y)
    product = np.einsum("ik,ik->i", alpha, z)
    assert np.all(loss.value(z, y) + loss.conjugate(alpha, y) >= product - 1e-12)
    tight = loss.gradient(z, y)
    product = np.einsum("ik,ik->i", tight, z)
    np.testing.assert_allclose(loss.value(z, y) + loss.conjugate(tight, y), product, atol=1e-12)
    for i in range(5):
        row, code = alpha[i : i + 1], y[i : i + 1]

        def negative(v: Array, row: Array = row, code: NDArray[np.intp] = code) -> float:
            return float(CrossEntropy().value([v], code)[0] - row[0] @ v)

        found = minimize(negative, np.zeros(n_classes))
        assert loss.conjugate(row, code)[0] == pytest.approx(-found.fun, abs=1e-6)


def test_multiclass_conjugate_is_infinite_outside() -> None:
    y = np.array([0, 0, 0, 0])
    alpha = np.array(
        [[-0.5, 0.6, -0.1], [0.1, -0.05, -0.05], [-0.5, 0.2, 0.2], [-1.2, 0.6, 0.6]]
    )  # a negative share; P_y > 1; P sums to 0.9, so sup over z + t(1, 1, 1) is infinite; P_y < 0
    assert np.all(CrossEntropy().conjugate(alpha, y) == np.inf)
    corner = np.array([[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    assert CrossEntropy().conjugate(corner, y[:2]).tolist() == [0.0, 0.0]


# -- constants -----------------------------------------------------------------------------------


@given(
    st.sampled_from(ONE_SCORE),
    st.floats(0, 50),
    st.floats(0, 20),
    st.floats(-1, 1),
    st.floats(-1, 1),
)
def test_bound_and_lipschitz_are_never_exceeded(
    loss: Loss, radius: float, target: float, a: float, b: float
) -> None:
    is_class = isinstance(loss, CrossEntropy | Hinge)
    z, y = a * radius, float(b > 0) if is_class else b * target
    assert loss.value([z], [y])[0] <= loss.bound(radius, target) * (1 + 1e-14)
    assert abs(loss.gradient([z], [y])[0]) <= loss.lipschitz(radius, target) * (1 + 1e-14)


@given(st.sampled_from(ONE_SCORE), st.floats(0, 50), st.floats(0, 20))
def test_bound_is_attained(loss: Loss, radius: float, target: float) -> None:
    is_class = isinstance(loss, CrossEntropy | Hinge)
    worst = loss.value([radius], [0.0 if is_class else -target])[0]
    assert worst == pytest.approx(loss.bound(radius, target), rel=1e-14)
    steepest = abs(
        loss.gradient([max(radius, 40.0) if is_class else radius], [-target * (not is_class)])[0]
    )
    assert steepest == pytest.approx(loss.lipschitz(radius, target), rel=1e-14)


@given(st.integers(3, 10), st.floats(0, 30), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0]))
def test_multiclass_constants(n_classes: int, radius: float, seed: int, corner: float) -> None:
    rng, loss = np.random.default_rng(seed), CrossEntropy()
    z = rng.uniform(-1, 1, size=(8, n_classes))
    z = radius * np.where(corner, np.sign(z), z)
    y = rng.integers(0, n_classes, 8)
    bound = loss.bound(radius, n_classes=n_classes)
    assert np.all(loss.value(z, y) <= bound * (1 + 1e-14))
    lengths = np.linalg.norm(loss.gradient(z, y), axis=1)
    assert np.all(lengths <= loss.lipschitz(radius, n_classes=n_classes) * (1 + 1e-14))
    worst = np.full((1, n_classes), radius)
    worst[0, 0] = -radius
    assert loss.value(worst, [0])[0] == pytest.approx(bound, rel=1e-14)
    far = np.array([[-50.0, 50.0] + [-50.0] * (n_classes - 2)])
    length = float(np.linalg.norm(loss.gradient(far, [0])))
    assert length == pytest.approx(loss.lipschitz(n_classes=n_classes), rel=1e-12)


def test_constants_at_infinity_and_beyond_the_square_root_of_the_largest_float() -> None:
    for loss in ONE_SCORE:
        assert loss.bound(math.inf) == math.inf
    assert CrossEntropy().bound(1e300) == 1e300
    assert CrossEntropy().bound(math.inf, n_classes=4) == math.inf
    assert SquaredError().bound(1e200) == math.inf
    assert SquaredError().lipschitz() == math.inf
    assert Huber(3.0).lipschitz() == 3.0
    assert Huber(3.0).lipschitz(1.0, 0.5) == 1.5


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ONE_SCORE, ids=str)
@pytest.mark.parametrize(
    ("z", "y", "message"),
    [
        ([0.0, np.nan], [0, 1], "scores has 1.*NaN.*infinite.*nan"),
        ([0.0, -np.inf], [0, 1], "scores has 1.* -inf"),
        ([0.0, 1.0], [np.nan, 1.0], "y has 1 entries .* nan"),
        ([0.0, 1.0], [np.inf, 1.0], "y has 1 entries .* inf"),
        ([0.0, 1.0], ["no", "yes"], "y.*not numbers"),
        ([0.0, 1.0], [None, 1], "y has 1 entries .* nan"),
        (["x", "y"], [0, 1], "scores.*not numbers"),
        ([[0.0, 1.0], [0.0]], [0, 1], "scores.*not numbers"),
        ([0.0, 1.0], [0, 1, 1], r"scores.*shape.*\(2,\).*shape.*\(3,\)"),
        (0.0, 1, r"scores.*shape.*\(\).*shape.*\(\)"),
        ([0.0, 1.0], [[0], [1]], r"y has shape \(2, 1\)"),
        (np.zeros((2, 2, 2)), [0, 1], r"scores has shape \(2, 2, 2\)"),
    ],
)
def test_bad_pairs(loss: Loss, z: Any, y: Any, message: str) -> None:
    for method in (loss.value, loss.gradient, loss.curvature):
        with pytest.raises(ValueError, match=message):
            method(z, y)


@pytest.mark.parametrize("loss", [Hinge(), *REGRESSION], ids=str)
def test_only_cross_entropy_takes_a_score_per_class(loss: Loss) -> None:
    with pytest.raises(ValueError, match=r"scores.*shape.*\(3, 3\).*\(n,\)"):
        loss.value(np.zeros((3, 3)), [0, 1, 0])


@pytest.mark.parametrize("loss", [CrossEntropy(), Hinge()], ids=str)
@pytest.mark.parametrize("bad", [-1, 2, 0.5, 1e-300])
def test_bad_codes(loss: Loss, bad: float) -> None:
    with pytest.raises(ValueError, match=f"y has the value {bad:g}; .* 2 classes .* codes 0..1"):
        loss.value([0.0, 1.0], [1, bad])


def test_bad_multiclass_codes() -> None:
    with pytest.raises(ValueError, match="y has the value 3"):
        CrossEntropy().gradient(np.zeros((2, 3)), [0, 3])


def test_codes_of_any_number_type() -> None:
    expected = CrossEntropy().value([1.0, 2.0], [0, 1]).tolist()
    for dtype in (np.bool_, np.uint8, np.int8, np.float32):
        assert CrossEntropy().value([1.0, 2.0], np.array([0, 1], dtype)).tolist() == expected
    assert CrossEntropy().value([], []).shape == (0,)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, np.inf])
def test_huber_needs_a_positive_delta(delta: float) -> None:
    with pytest.raises(ValueError, match=f"delta is {delta}; give a positive number"):
        Huber(delta)


@pytest.mark.parametrize("loss", ONE_SCORE, ids=str)
@pytest.mark.parametrize("radius", [-1.0, np.nan])
def test_a_ball_has_a_radius(loss: Loss, radius: float) -> None:
    with pytest.raises(ValueError, match=f"radius is {radius}; give a number ≥ 0"):
        loss.bound(radius)


@pytest.mark.parametrize("loss", REGRESSION, ids=str)
def test_targets_have_a_size(loss: Loss) -> None:
    for constant in (loss.bound, loss.lipschitz):
        with pytest.raises(ValueError, match=r"target is -2.0; give a number ≥ 0"):
            constant(1.0, -2.0)


def test_one_class_is_no_classification() -> None:
    with pytest.raises(ValueError, match="n_classes is 1"):
        CrossEntropy().bound(1.0, n_classes=1)
