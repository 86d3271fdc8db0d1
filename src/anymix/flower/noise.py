"""Differential privacy of rows, made by the client: noise at its own sums, before they leave it.

Row i of domain k, with the weight c_i = a_k, is clipped, G_i = c_i clip(∇ℓ_i, C_w)/(C_w max_k a_k)
and l_i = min(ℓ_i, C_l)/C_l; both are rounded towards 0 to multiples of 2⁻²⁰, as whole numbers. So
(Σ G_i, Σ_{i∈k} l_i), all of it one vector, moves by √2 at most when the terms of a row are made 0;
it is sent with discrete Gaussian noise of deviation √2 z, and one question is one Gaussian
mechanism of noise multiplier z. z is the least with which all questions of the ledger together
cost (ε, δ).

What that says: whether a row's terms are in the sums or zeros makes little difference to all that a
client sends, whatever is asked. Its numbers of rows m_k, which it tells, count as public. Sums of
floating-point numbers with floating-point noise would not do (Mironov, On significance of the least
significant bits for differential privacy, 2012): all is added up in whole numbers here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError, finite_number, need_extra
from anymix.flower.client_errors import CannotAnswerError, Reason
from anymix.flower.client_rows import LinearRows
from anymix.problem.rows import take

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

UNIT = 2**20  # of these in a clip
INSIDE = 1 - 1e-9  # what rounding does to a length is less
CHUNK = 2**22  # numbers that are looked at together

__all__ = ["Noise"]


@dataclass(frozen=True)
class Noise:
    """What a client adds to its own sums, so that none of its rows can be told from them.

    It is part of `ClientLimits`, which count the questions; its numbers come from the client's own
    file, and nothing of them from a message. Scale the columns by numbers that do not depend on the
    rows: the clip is in units of a row's gradient.

    Parameters
    ----------
    epsilon : float
        ε of all questions together that the ledger allows.
    delta : float
        δ, well below 1/rows.
    row_clip : float, optional
        C_w, the longest gradient of one row. None takes √D, but no more than makes the noise a
        quarter as long as the mean gradient of a client may be at all, n/(4 √2 z √D): for columns
        of deviation about 1. It depends on the number n of rows only.
    loss_clip : float
        C_l, the largest loss of one row.

    Examples
    --------
    >>> noise = Noise(epsilon=4.0)
    >>> round(noise.multiplier(60), 2), round(noise.spent(60, 60), 3), noise.spent(0, 60)
    (8.37, 4.0, 0.0)
    """

    epsilon: float
    delta: float = 1e-5
    row_clip: float | None = None
    loss_clip: float = 1.0

    def __post_init__(self) -> None:
        positive = ("epsilon", "loss_clip") + (() if self.row_clip is None else ("row_clip",))
        for name in positive:
            finite_number(name, getattr(self, name), "give a positive number", lambda x: x > 0)
        fix = "give a number in (0, 1), below 1/rows"
        finite_number("delta", self.delta, fix, lambda x: 0 < x < 1)

    def multiplier(self, questions: int) -> float:
        """z, with which so many questions cost (ε, δ).

        Parameters
        ----------
        questions : int
            How many questions the ledger allows in all.

        Returns
        -------
        float
        """
        return _multiplier(self.epsilon, self.delta, questions)

    def spent(self, questions: int, allowed: int) -> float:
        """ε of the questions that a ledger has, by the accountant of dp-accounting.

        Parameters
        ----------
        questions : int
            How many were answered.
        allowed : int
            How many the ledger allows, which fixes z.

        Returns
        -------
        float
        """
        if questions == 0:
            return 0.0
        import dp_accounting
        from dp_accounting.pld import PLDAccountant

        event = dp_accounting.GaussianDpEvent(self.multiplier(allowed))
        return float(PLDAccountant().compose(event, questions).get_epsilon(self.delta))

    def clip(self, z: float, n: float, D: int) -> float:
        """C_w for n rows and D parameters."""
        if self.row_clip is not None:
            return self.row_clip
        return min(math.sqrt(D), n / (4 * math.sqrt(2) * z * math.sqrt(D)))

    def answer(
        self, rows: LinearRows, w: Array, settings: Mapping[str, Any], questions: int
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """The reply to "train", as `client.answer` gives it, of clipped rows and with noise."""
        a, b = settings["weights"].reshape(2, -1)
        m, D, z = rows.table.sizes, rows.n_parameters, self.multiplier(questions)
        if not (np.all(np.isfinite(np.concatenate([a, b, w]))) and np.all(a >= 0)):
            found, fix = f"is {a}, {b} for w = {w}", "give finite numbers, weights ≥ 0"
            raise CannotAnswerError(Reason.FAILED, "weights", found, fix)
        clip, largest = self.clip(z, float(m.sum()), D), float(a.max(initial=0.0)) or 1.0
        sums = self._sums(rows, w, a / largest, clip)
        noisy = _with_noise(sums, math.sqrt(2) * z * UNIT) / UNIT
        update = noisy[:D] * (clip * largest)
        if settings["gamma"] > 0:
            update += float(a @ m) * settings["gamma"] * (rows.penalized * w)
        told = np.concatenate([b * noisy[D:] * self.loss_clip, ((a != 0) | (b != 0)) * m])
        return {"update": update}, {"sums": told}

    def _sums(self, rows: LinearRows, w: Array, c: Array, clip: float) -> Integers:
        """(Σ G_i, Σ_{i∈k} l_i) in units of 2⁻²⁰, exact; c ≤ 1."""
        problem, K = rows.problem, rows.problem.n_scores
        S = sparse.csc_array(problem.average)
        if S.nnz and np.max(np.diff(S.indptr)) > 1:
            fix = "give one domain for each row: a row of several has no clip"
            raise InputError("domains", "are parts of rows, with noise", fix)
        domains, total = S.indices, np.zeros(rows.n_parameters, np.int64)
        inside = np.flatnonzero(np.diff(S.indptr))  # rows that have a domain
        with np.errstate(over="ignore", invalid="ignore"):  # of a w far out; the row counts as 0
            value, slope = problem.loss.derivatives(problem.scores(w), problem.y, 1)
        slope = slope.reshape(len(slope), K)
        step = max(1, CHUNK // rows.n_parameters)
        for begin in range(0, len(inside), step):
            some = inside[begin : begin + step]
            X = take(problem.X, some)
            X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
            X = np.hstack([X, np.ones((len(some), int(problem.intercept)))])
            length = np.linalg.norm(X, axis=1) * np.linalg.norm(slope[some], axis=1)
            share = INSIDE * c[domains[begin : begin + step]] / np.maximum(length, clip)
            G = (slope[some] * share[:, None])[:, :, None] * X[:, None, :]  # (rows, K, columns)
            total += _whole(G.reshape(len(some), -1)).sum(axis=0)
        parts = _whole(np.clip(value[inside] / self.loss_clip, 0.0, 1.0)[:, None])[:, 0]
        losses = np.zeros(len(rows.table.sizes), np.int64)
        np.add.at(losses, domains, parts)
        return np.concatenate([total, losses])


@lru_cache
def _multiplier(epsilon: float, delta: float, questions: int) -> float:
    """The least noise multiplier with which so many Gaussian mechanisms cost (ε, δ)."""
    need_extra("privacy", "dp_accounting")
    from dp_accounting.pld import accountant, common

    target = common.DifferentialPrivacyParameters(epsilon, delta)
    return float(accountant.get_smallest_gaussian_noise(target, questions, 1.0))


def _whole(values: Array) -> Integers:
    """The rows of a table in units of 2⁻²⁰, none longer than 1: one that were would count as 0."""
    whole = np.trunc(np.nan_to_num(values, posinf=0.0, neginf=0.0) * UNIT)
    whole[np.linalg.norm(whole, axis=1) > UNIT] = 0.0
    return whole.astype(np.int64)


def _with_noise(sums: Integers, deviation: float) -> Array:
    """The sums with discrete Gaussian noise, drawn by opendp from the operating system's chance."""
    need_extra("privacy", "opendp")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return np.array(dp.m.make_gaussian(*space, scale=deviation)(sums.tolist()), dtype=np.float64)
