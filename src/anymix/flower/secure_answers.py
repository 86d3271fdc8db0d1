"""What a client adds to a masked sum: its own answer, cut to limits, at its place among all.

The wrapped app answers as it does without masks; here its answer is brought into the form that all
clients share, with a place for every domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.aggregation import Contribution
from anymix.flower.fold_questions import About, join_answers, pack_questions, split_answers, unpack
from anymix.flower.fold_rows import WHOLE
from anymix.flower.policy import Limits, shortened
from anymix.flower.secure_wire import Call, places, spread
from anymix.flower.wire import EVALUATE, FOLDS, MOMENTS, SOLVE, TRAIN, WHO, Arrays, Settings
from anymix.problem.part_sums import BY_DOMAIN, POWER, Question, Sums

Array = NDArray[np.float64]
Inner = Callable[[str, Arrays, Settings], tuple[Arrays, Settings]]

__all__ = ["own_values"]


def own_values(
    kind: str, arrays: Arrays, settings: Settings, inner: Inner, names: list[str]
) -> dict[str, Array]:
    """The arrays that a client adds, as `secure_wire.shapes_of` says.

    Parameters
    ----------
    kind : str
        The type of the message.
    arrays, settings : dict
        The question.
    inner : function
        The app that answers without masks.
    names : list of str
        The client's domains.

    Returns
    -------
    dict of str to ndarray
    """
    call = Call.of(settings)
    plain = {name: value for name, value in settings.items() if name != "secure"}
    if kind == WHO:
        counts = inner(WHO, {}, plain)[0]["counts"]
        return {"counts": spread(counts, names, call.domains)}
    if kind == TRAIN:
        train = _by_domain if call.by_domain else _weighted
        return train(arrays, plain, inner, names, call)
    if kind == EVALUATE:
        sums = inner(EVALUATE, arrays, plain)[1]["sums"].reshape(-1, len(names))
        return {"sums": spread(sums, names, call.domains)}
    if kind == MOMENTS:
        return {"moments": inner(MOMENTS, arrays, plain)[0]["moments"]}
    if kind == FOLDS:
        return _folds(arrays, plain, inner, names, call)
    return _solve(arrays, plain, inner, names, call)


def _weighted(
    arrays: Arrays, settings: Settings, inner: Inner, names: list[str], call: Call
) -> dict[str, Array]:
    """Σ_k a_k Σ ∇ℓ, the b_k Σ ℓ and the counts, of rows that weigh the same at all clients."""
    own = settings["weights"].reshape(2, -1)[:, places(names, call.domains)]
    reply, rest = inner(TRAIN, arrays, settings | {"weights": own.ravel()})
    losses, counts = rest["sums"].reshape(2, -1)
    masses = own * counts  # (2, its domains)
    given = Contribution(reply["update"].astype(np.float64), losses)
    steps = int(settings.get("local_steps") or 1)
    given = _within(given, masses, call, steps)
    sums = spread(np.array([given.losses, counts]), names, call.domains)
    return {"update": given.update, "sums": sums}


def _by_domain(
    arrays: Arrays, settings: Settings, inner: Inner, names: list[str], call: Call
) -> dict[str, Array]:
    """Σ ∇ℓ, Σ ℓ and the counts of each domain, without any weights."""
    updates, sums = [], []
    for k in range(len(names)):
        one = np.zeros((2, len(names)))
        one[:, k] = 1.0
        reply, rest = inner(TRAIN, arrays, settings | {"weights": one.ravel()})
        losses, counts = rest["sums"].reshape(2, -1)
        given = Contribution(reply["update"].astype(np.float64), losses)
        given = _within(given, one * counts, call, 1)
        updates.append(given.update)
        sums.append([given.losses[k], counts[k]])
    return {
        "update": spread(np.array(updates), names, call.domains, axis=0),
        "sums": spread(np.array(sums).T, names, call.domains),
    }


def _within(given: Contribution, masses: Array, call: Call, steps: int) -> Contribution:
    """A contribution within the limits, with this client's part of the noise."""
    limits = call.limits or {}
    bounds = Limits(loss=limits.get("loss"), update=limits.get("update"))
    given = bounds.cut(given, masses[0], masses[1], steps)
    if "update_clip" not in limits:
        return given
    rng = np.random.default_rng()  # from the operating system: nobody else may know it
    parts = []
    for name, vector in (("update", given.update), ("loss", given.losses)):
        C, z = limits[f"{name}_clip"], limits[f"{name}_noise"]
        noise = rng.normal(scale=z * C / math.sqrt(call.threshold), size=vector.shape)
        parts.append(shortened(vector, C) + noise)
    return Contribution(*parts)


def _solve(
    arrays: Arrays, settings: Settings, inner: Inner, names: list[str], call: Call
) -> dict[str, Array]:
    """The sums for the exact solver, of which some are brought into a form that can be added."""
    place = places(names, call.domains)
    reply = inner(SOLVE, {**arrays, "weights": arrays["weights"][place]}, settings)[0]
    return _to_be_added(reply, Question.of_arrays(arrays, settings), place)


def _to_be_added(reply: Sums, question: Question, place: NDArray[np.intp]) -> Sums:
    """The sums over a client's own domains, at these places, as part of those over all clients."""
    values = {name: np.zeros(shape) for name, shape in question.shapes.items()}
    for name, value in reply.items():
        if name not in values:
            raise InputError("the answer", f"has {name!r}", "ask for it")
        values[name][place if name in BY_DOMAIN else ...] = value
    if "kind" in values:  # the room as a power of two below it, which rounding leaves alone
        values["kind"][2] = math.frexp(values["kind"][2])[1] - 1 if values["kind"][2] else -2000
    if "powers" in values:  # a norm, for the sum of the powers may be beyond all bounds
        values["powers"] = values["powers"] ** (1 / POWER)
    return values


def _folds(
    arrays: Arrays, settings: Settings, inner: Inner, names: list[str], call: Call
) -> dict[str, Array]:
    """What a choice of models asks about folds, of the client's domains at their places."""
    place, about = places(names, call.domains), settings["about"]
    if about == "sums":
        return {"sums": _fold_sums(arrays, settings, inner, place)}
    if about == "errors":  # a sum over the rows of all domains
        own = {name: arrays[name][:, place] for name in ("scales", "means")}
        return inner(FOLDS, {**arrays, **own}, settings)[0]
    found = inner(FOLDS, arrays, settings)[0]
    return {
        name: value if name == "totals" else spread(value, names, call.domains)
        for name, value in found.items()
    }


def _fold_sums(arrays: Arrays, settings: Settings, inner: Inner, place: NDArray[np.intp]) -> Array:
    """The sums over rows that folds fit; zeros where a fold fits none of this client's."""
    counted = inner(FOLDS, {}, {**settings, "about": "counts"})[0]["fitted"] > 0  # (folds, own)
    asked, own, at = unpack(arrays, settings), list[About](), list[NDArray[np.intp]]()
    for number, question in asked:
        at.append(place if number == WHOLE else place[counted[number]])
        own.append((number, replace(question, weights=question.weights[at[-1]])))
    some = [about for about, here in zip(own, at, strict=True) if len(here)]
    answers: Iterator[Sums] = iter(())
    if some:
        numbers, forms = pack_questions(some)
        found = inner(FOLDS, numbers, settings | forms)[0]["sums"]
        answers = iter(split_answers(found, some))
    return join_answers(
        [
            _to_be_added(next(answers) if len(here) else {}, question, here)
            for (_, question), here in zip(asked, at, strict=True)
        ]
    )
