"""AgnosticLoss: values, gradients, accumulation, masks, precision, state and refusals."""

import copy
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import anymix as ax
from anymix.errors import InputError
from anymix.pytorch import AgnosticLoss, UnseenDomain

IDS = torch.tensor([0, 0, 1, 2, 2, 2])
LOSSES = [1.0, 3.0, 4.0, 0.5, 1.0, 1.5]


def losses_of(values: Any = LOSSES, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def test_the_value_is_the_mixture_of_the_means_and_its_gradient_the_weights() -> None:
    criterion = AgnosticLoss(ax.Point([0.2, 0.3, 0.5]), step=0.1)
    losses = losses_of()
    value = criterion(losses, IDS)
    assert value.item() == pytest.approx(0.2 * 2 + 0.3 * 4 + 0.5 * 1)
    value.backward()
    expected = [0.1, 0.1, 0.3, 0.5 / 3, 0.5 / 3, 0.5 / 3]
    assert losses.grad is not None
    np.testing.assert_allclose(losses.grad, expected, rtol=1e-15)


def test_gradcheck() -> None:
    criterion = AgnosticLoss(ax.Simplex(3), step=0.1)
    assert torch.autograd.gradcheck(lambda x: criterion(x, IDS), losses_of())
    mask = torch.rand(6, 2, generator=torch.manual_seed(0)) > 0.3
    x = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: criterion(x, IDS, mask), x)


@settings(max_examples=60)
@given(cuts=st.lists(st.integers(0, 6), max_size=3), seed=st.integers(0, 99))
def test_any_cut_into_calls_is_one_joined_batch(cuts: list[int], seed: int) -> None:
    """Micro-batches of any sizes, some empty, some without a domain."""
    rng = torch.manual_seed(seed)
    ids, values = torch.randint(3, (6,), generator=rng), torch.rand(6, generator=rng).double()
    whole, parts = (AgnosticLoss(ax.Simplex(3), step=0.3) for _ in range(2))
    one, many = values.clone().requires_grad_(), values.clone().requires_grad_()
    whole(one, ids).backward()
    edges = [0, *sorted(cuts), 6]
    pieces = [slice(a, b) for a, b in pairwise(edges)]
    parts.expect(*[ids[piece] for piece in pieces])
    for piece in pieces:
        parts(many[piece], ids[piece]).backward()
    assert one.grad is not None
    assert many.grad is not None
    torch.testing.assert_close(one.grad, many.grad, rtol=1e-14, atol=0)
    whole.step()
    parts.step()
    torch.testing.assert_close(whole.mixture, parts.mixture, rtol=0, atol=1e-15)


def test_without_announcement_lambda_still_sees_the_joined_batch() -> None:
    whole, parts = (AgnosticLoss(ax.Simplex(3), step=0.1) for _ in range(2))
    whole(losses_of(), IDS)
    for rows in ([0, 3], [1, 2, 4, 5]):
        parts(losses_of()[rows], IDS[rows])
    whole.step()
    parts.step()
    torch.testing.assert_close(whole.mixture, parts.mixture, rtol=0, atol=1e-15)


def test_lambda_waits_for_step() -> None:
    """WILDS moves its weights at every forward, so accumulation steps λ while w waits."""
    criterion = AgnosticLoss(ax.Simplex(3), step=0.1)
    before = criterion.mixture.clone()
    for _ in range(4):
        criterion(losses_of(), IDS)
    assert torch.equal(criterion.mixture, before)
    criterion.step()
    assert int(criterion.n_steps) == 1


def test_tokens_are_divided_by_their_number_over_all_rows_of_the_domain() -> None:
    """Not by the tokens of each row: a long text has more to say than a short one."""
    losses = torch.arange(8.0).reshape(2, 4).requires_grad_()
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
    ids = torch.tensor([0, 0])
    criterion = AgnosticLoss(ax.Simplex(1), step=0.1)
    assert criterion(losses, ids, mask).item() == pytest.approx((0 + 1 + 2 + 3 + 4) / 5)
    rows = losses.masked_fill(~mask, torch.nan)
    assert criterion(rows, ids, mask).item() == pytest.approx(2.0)  # padding may be anything


def test_masked_calls_are_one_joined_batch_too() -> None:
    rng = torch.manual_seed(0)
    values, mask = torch.rand(6, 5, generator=rng), torch.rand(6, 5, generator=rng) > 0.5
    one, many = values.clone().requires_grad_(), values.clone().requires_grad_()
    whole, parts = (AgnosticLoss(ax.Simplex(3), step=0.1) for _ in range(2))
    whole(one, IDS, mask).backward()
    parts.expect(IDS[:2], IDS[2:], mask=[mask[:2], mask[2:]])
    parts(many[:2], IDS[:2], mask[:2]).backward()
    parts(many[2:], IDS[2:], mask[2:]).backward()
    assert one.grad is not None
    torch.testing.assert_close(one.grad, many.grad)
    whole.step()
    parts.step()
    torch.testing.assert_close(whole.mixture, parts.mixture, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_within_its_rounding_and_counts_beyond_it(dtype: torch.dtype) -> None:
    """In bfloat16 256 + 1 = 256, and in float16 a sum of 70 000 is infinite."""
    n = 3000
    values = torch.full((n,), 30.0).to(dtype).requires_grad_()
    criterion = AgnosticLoss(ax.Simplex(2), step=1e-3)
    value = criterion(values, torch.arange(n) % 2)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(30, rel=1e-6)
    criterion.step()
    assert criterion.record()["loss/0"] == 30
    torch.testing.assert_close(criterion.mixture, torch.tensor([0.5, 0.5]).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_agrees_within_rounding(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x, ids = nn.Linear(8, 3), torch.randn(60, 8), torch.arange(60) % 3
    each = nn.CrossEntropyLoss(reduction="none")
    found = []
    for enabled in (False, True):
        criterion = AgnosticLoss(ax.Simplex(3), step=0.1)
        model.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            value = criterion(each(model(x), ids), ids)
        value.backward()
        criterion.step()
        assert model.weight.grad is not None
        found.append((value.detach(), model.weight.grad.clone(), criterion.mixture))
    rounding = float(torch.finfo(dtype).eps)
    for exact, rounded in zip(*found, strict=True):
        torch.testing.assert_close(rounded.to(exact), exact, rtol=0, atol=4 * rounding)


def test_lambda_stays_in_double_precision_when_the_model_is_cast() -> None:
    model, criterion = nn.Linear(2, 2), AgnosticLoss(ax.Simplex(3), 0.1)
    exact = criterion.mixture.clone()
    nn.ModuleList([model, criterion]).to(torch.bfloat16)
    assert model.weight.dtype == torch.bfloat16
    assert torch.equal(criterion.mixture, exact)
    assert all(b.dtype == torch.float64 for b in criterion.buffers())


@pytest.mark.parametrize("kind", ["euclidean", "entropic"])
def test_state_dict_round_trip_in_the_middle_of_a_step(kind: Any) -> None:
    """λ, its average, the sums under way and the step count; WILDS and SpuCo keep none of it."""

    def fresh() -> AgnosticLoss:
        return AgnosticLoss(ax.Simplex(3), 0.1, adversary=kind, optimistic=True)

    first = fresh()
    for scale in (1.0, 2.0):
        first(scale * losses_of(), IDS)
        first.step()
    first(losses_of([1.0]), IDS[:1])
    first.step()
    first(losses_of([1.0]), IDS[:1])  # under way
    state = first.state_dict()
    assert {"mixture", "average", "sums", "n_steps"} <= set(state)
    assert all(value.dtype == torch.float64 for value in state.values())
    second = fresh()
    second.load_state_dict(copy.deepcopy(state))
    third, fourth = copy.deepcopy(first), pickle.loads(pickle.dumps(first))
    for criterion in (first, second, third, fourth):
        criterion(losses_of([3.0]), IDS[:1])
        criterion.step()
        criterion(losses_of([1.0]), IDS[:1])  # the others keep the loss that they had
        criterion.step()
    for criterion in (second, third, fourth):
        for name, value in first.state_dict().items():
            assert torch.equal(value.nan_to_num(), criterion.state_dict()[name].nan_to_num()), name
        assert first.record() == criterion.record()


def test_a_state_of_another_set_is_refused_and_changes_nothing() -> None:
    criterion = AgnosticLoss(ax.Box([0.3, 0.3], [1, 1]), 0.1)
    other = AgnosticLoss(ax.Simplex(2), 5.0)
    other(losses_of([0.0, 9.0]), torch.tensor([0, 1]))
    other.step()
    before = criterion.state_dict()["mixture"].clone()
    with pytest.raises(RuntimeError, match="not in the Box"):
        criterion.load_state_dict(other.state_dict())
    assert torch.equal(criterion.mixture, before)
    assert torch.equal(criterion.state_dict()["average"], before)


def test_a_part_of_a_state_leaves_the_rest_as_it_is() -> None:
    criterion = AgnosticLoss(ax.Simplex(3), 0.01)
    for _ in range(3):
        criterion(losses_of(), IDS)
        criterion.step()
    average = criterion.average.clone()
    criterion.load_state_dict({"mixture": criterion.mixture.clone()}, strict=False)
    assert np.array_equal(criterion.adversary.average, average)
    assert criterion.record()["loss/1"] == 4


def test_evaluation_is_not_counted() -> None:
    criterion = AgnosticLoss(ax.Simplex(3), 0.1)
    with torch.no_grad():
        assert criterion(losses_of(), IDS).item() == pytest.approx(7 / 3)
    criterion.eval()
    criterion(losses_of(), IDS)
    criterion.train()
    with pytest.raises(InputError, match="has no rows"):
        criterion.step()


def test_held_out_rows_move_lambda_and_those_of_the_model_do_not() -> None:
    criterion = AgnosticLoss(ax.Simplex(2), 0.1, held_out=True)
    ids = torch.tensor([0, 1])
    criterion(losses_of([9.0, 0.0]), ids)
    criterion.step(torch.tensor([0.0, 1.0]), ids)
    assert criterion.mixture.tolist() == pytest.approx([0.45, 0.55])
    with pytest.raises(InputError, match="held_out=True"):
        criterion.step()
    with pytest.raises(InputError, match="held_out=False"):
        AgnosticLoss(ax.Simplex(2), 0.1).step(torch.tensor([0.0, 1.0]), ids)


def test_a_reference_turns_losses_into_regret() -> None:
    criterion = AgnosticLoss(ax.Simplex(2), 0.1, offsets=[3.0, 0.5])
    criterion(losses_of([3.0, 1.5]), torch.tensor([0, 1]))
    criterion.step()
    assert criterion.mixture.tolist() == pytest.approx([0.45, 0.55])  # excess 0 and 1
    assert criterion.record()["worst_domain"] == 1


def test_one_broken_row_does_not_own_lambda() -> None:
    ids = torch.tensor([0, 0, 1, 1])
    free, bounded = AgnosticLoss(ax.Simplex(2), 0.1), AgnosticLoss(ax.Simplex(2), 0.1, loss_bound=2)
    for criterion in (free, bounded):
        value = criterion(losses_of([1.0, 1e6, 1.0, 1.0]), ids)
        assert value.item() > 1e5  # the model's loss is not cut
        criterion.step()
    assert free.mixture.tolist() == [1, 0]
    assert bounded.mixture.tolist() == pytest.approx([0.525, 0.475])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_losses_that_are_not_finite_are_refused_and_lambda_stays(bad: float) -> None:
    criterion = AgnosticLoss(ax.Simplex(3), 0.1)
    before = {name: value.clone() for name, value in criterion.state_dict().items()}
    values = [*LOSSES[:2], bad, *LOSSES[3:]]
    with pytest.raises(InputError, match=r"losses .*1 .*not finite"):
        criterion(losses_of(values), IDS)
    for name, value in criterion.state_dict().items():
        assert torch.equal(value.nan_to_num(), before[name].nan_to_num()), name
    criterion.expect(IDS)
    with pytest.raises(InputError, match=r"losses .*1 .*not finite"):
        criterion(losses_of(values), IDS)
    criterion(losses_of(), IDS)  # and it goes on
    criterion.step()
    assert int(criterion.n_steps) == 1


@pytest.mark.parametrize(
    ("losses", "ids", "mask", "words"),
    [
        (losses_of(), IDS + 1, None, "domain_ids .*false number.* 0 to 2"),
        (losses_of(), IDS - 1, None, "domain_ids .*false number"),
        (losses_of(), IDS.float(), None, "domain_ids .*dtype .*torch.float32"),
        (losses_of(), IDS[:, None], None, r"domain_ids has shape \(6, 1\)"),
        (losses_of(), IDS[:4], None, r"losses .*shape .*\(6,\) .*4"),
        (losses_of().mean(), IDS, None, 'reduction="none"'),
        ([1.0], IDS, None, "losses is a list"),
        (IDS, IDS, None, "losses .*dtype .*torch.int64"),
        (losses_of(), IDS, torch.ones(3), r"mask has shape \(3,\)"),
        (losses_of(), IDS, -torch.ones(6), "mask .*not ≥ 0"),
        (losses_of(), IDS.to("meta"), None, "domain_ids .*on meta .*on cpu"),
        (losses_of().to("meta"), IDS.to("meta"), None, "losses .*on meta .*on cpu"),
    ],
)
def test_refusals(losses: Any, ids: Any, mask: Any, words: str) -> None:
    criterion = AgnosticLoss(ax.Simplex(3), 0.1)
    before = criterion.mixture.clone()
    with pytest.raises(InputError, match=words):
        criterion(losses, ids, mask)
    assert torch.equal(criterion.mixture, before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"adversary": "fancy"}, "give 'euclidean' or 'entropic'"),
        ({"mu": 0.1}, "sizes is missing"),
        ({"robustness": 0.5}, "sizes is missing"),
        ({"offsets": [1.0]}, "offsets has shape"),
        ({"gamma": 0.1}, "gamma is 0.1 .*Objective"),
        ({"norm": "plain"}, "norm is 'plain' .*Objective"),
        ({"anchor": [1.0]}, "anchor is .* Objective"),
        ({"w_radius": 1.0}, "w_radius is 1.0 .*Objective"),
        ({"loss_bound": 0}, "loss_bound is 0"),
        ({"absent": "zero"}, "absent is 'zero'"),
        ({"names": ["a"]}, "names has 1 entries"),
        ({"names": ["a", "a", "b"]}, "give 3 different names"),
    ],
)
def test_arguments_that_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        AgnosticLoss(ax.Simplex(3), 0.1, **options)


def test_a_record_is_names_and_numbers() -> None:
    criterion = AgnosticLoss(ax.Simplex(3), 0.1, names=["a", "b", "c"])
    assert np.isnan(criterion.record()["worst_loss"])
    criterion(losses_of(), IDS)
    criterion.step()
    record = criterion.record()
    assert all(type(value) is float for value in record.values())
    assert (record["loss/a"], record["loss/b"], record["loss/c"]) == (2, 4, 1)
    assert (record["worst_domain"], record["worst_loss"], record["agnostic_loss"]) == (1, 4, 4)
    assert sum(record[f"mixture/{name}"] for name in "abc") == pytest.approx(1)


def test_a_domain_unseen_for_long_warns_once() -> None:
    criterion = AgnosticLoss(ax.Simplex(2), 0.0, patience=3)
    alone = torch.tensor([0])
    for _ in range(2):
        criterion(losses_of([1.0]), alone)
        criterion.step()
    criterion(losses_of([1.0]), alone)
    with pytest.warns(UnseenDomain, match=r"domain .*1 .*no batch .*3"):
        criterion.step()
    for _ in range(5):  # a second warning would be an error
        criterion(losses_of([1.0]), alone)
        criterion.step()
    assert criterion.record()["unseen"] == 8


def test_training_with_it_leaves_compile_and_export_alone() -> None:
    torch.manual_seed(0)
    model, x, ids = nn.Linear(4, 2), torch.randn(12, 4), torch.arange(12) % 2
    compiled = torch.compile(model, backend="eager")
    each, criterion = nn.CrossEntropyLoss(reduction="none"), AgnosticLoss(ax.Simplex(2), 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        criterion(each(compiled(x), ids), ids).backward()
        optimizer.step()
        criterion.step()
    exported = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(exported(x), model(x))
    torch.testing.assert_close(compiled(x), model(x))


def trained(compiled: str | None, parts: bool, **options: Any) -> tuple[list[float], list[float]]:
    """The losses of five steps and the last λ, with all of it compiled or nothing."""
    torch.manual_seed(0)
    model, criterion = nn.Linear(3, 1), AgnosticLoss(ax.Simplex(2), 0.1, **options)
    call = criterion if compiled is None else torch.compile(criterion, backend=compiled)
    through = model if compiled is None else torch.compile(model, backend=compiled)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(5):
        X, ids = torch.randn(8, 3), torch.arange(8) % 2
        optimizer.zero_grad()
        if parts:
            criterion.expect(ids[:3], ids[3:])
        for rows in (slice(3), slice(3, 8)) if parts else (slice(8),):
            loss = call(through(X[rows]).squeeze(1) ** 2, ids[rows])
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        criterion.step()
    return losses, criterion.mixture.tolist()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # inductor's
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # PyTorch hides it
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_compiled_loss_gives_the_same_numbers(backend: str, parts: bool) -> None:
    for options in ({}, {"mu": 0.1, "sizes": [1, 3]}):
        wanted, found = trained(None, parts, **options), trained(backend, parts, **options)
        assert found[0] == pytest.approx(wanted[0], rel=1e-5)
        assert found[1] == pytest.approx(wanted[1], rel=1e-5)


def test_a_step_beyond_all_numbers_leaves_the_mixture() -> None:
    kinds: list[Any] = ["euclidean", "entropic"]  # the compiled step, and the other
    for kind in kinds:
        criterion = AgnosticLoss(ax.Simplex(2), step=1e300, adversary=kind)
        criterion(torch.tensor([1e30, 2.0]), torch.tensor([0, 1]))
        with pytest.raises(InputError) as caught:
            criterion.step()
        assert caught.value.argument == "step"
        assert criterion.mixture.tolist() == [0.5, 0.5]


def test_huge_losses_move_the_mixture_to_a_vertex() -> None:
    for size in (1e8, 1e17, 1e100, 1e290):
        criterion = AgnosticLoss(ax.Simplex(4), step=1.0)
        losses = size * torch.tensor([0.0, 1.0, 3.0, 2.0], dtype=torch.float64)
        criterion(losses, torch.arange(4))
        criterion.step()
        assert criterion.mixture.tolist() == [0, 0, 1, 0]


def test_words_for_the_mixtures_need_the_sizes() -> None:
    with pytest.raises(InputError) as caught:
        AgnosticLoss("cvar:0.5", 0.1)
    assert caught.value.argument == "sizes"
    made = AgnosticLoss("cvar:0.5", 0.1, sizes=[1, 3]).adversary.mixtures
    assert repr(made) == repr(ax.cvar([0.25, 0.75], 0.5))


def test_an_objective_says_what_the_keywords_say() -> None:
    sizes, b, losses = [1, 3, 2], [0.1, 0.0, 0.3], torch.tensor([1.0, 3.0, 2.0])
    objective = ax.Objective(ax.Simplex(3), 0.0, 0.2, offsets=b, robustness=0.7)
    ways = [
        AgnosticLoss(objective, 0.1, sizes=sizes),
        AgnosticLoss(ax.Simplex(3), 0.1, sizes=sizes, mu=0.2, offsets=b, robustness=0.7),
    ]
    for criterion in ways:
        for _ in range(50):
            criterion(losses, torch.arange(3))
            criterion.step()
    assert torch.equal(ways[0].mixture, ways[1].mixture)
    near = ax.Simplex(3).shrunk(0.7, np.array(sizes) / 6)
    assert near.contains(ways[0].mixture.numpy())
    assert not torch.equal(ways[0].mixture, AgnosticLoss(ax.Simplex(3), 0.1).mixture)
    with pytest.raises(InputError) as caught:
        AgnosticLoss(ax.Objective(ax.Simplex(3)), 0.1)  # its γ of 1e-3 would be lost
    assert caught.value.argument == "gamma"
