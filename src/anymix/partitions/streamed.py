"""The oracle over chunks: every question of the solver is one pass over the rows.

L_k(w) = (1/m_k) Σ_chunks Σ_{i in domain k} ℓ_i(w), and so are the gradients, the curvature of a
mixture and the sums of a proof (`problem.part_sums`). A pass adds them up chunk by chunk, in the
order of the chunks; no row is kept. The solver begins at the solution on a sample of the rows that
the first pass has collected, and each of its steps then costs a pass.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.partitions.chunks import Chunk, place_among
from anymix.partitions.scanning import Scan
from anymix.problem.conditioning import Shifted, offset_of, scale_of
from anymix.problem.floors import UNIT
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Loss
from anymix.problem.membership import Domains
from anymix.problem.part_sums import Question, Sums, answer
from anymix.problem.parts import About, Parts
from anymix.problem.rows import Rows

Array = NDArray[np.float64]
Names = NDArray[Any]
Work = Callable[[Chunk | None, int], Any]  # a chunk and the number of its first row

__all__ = ["Coder", "Log", "Streamed", "Visit", "total"]

log = logging.getLogger("anymix.partitions")
SAME = "leave the data alone until the end, and give the same rows in the same order"


class Visit(Protocol):
    """How the chunks are reached: in this process one after the other, or on workers."""

    def __call__(self, work: Work) -> Iterator[Any]:
        """What `work` gives for each chunk, in their order; one call is one pass."""
        ...


@dataclass(frozen=True, eq=False)
class Coder:
    """Chunks as problems of all p domains and all classes, in good numbers."""

    classes: Names | None
    names: Names
    loss: Loss
    intercept: bool
    shift: Array | None = None
    target: float = 0.0
    scale: float = 1.0

    def rows(self, chunk: Chunk) -> Rows:
        """The chunk with its labels placed among all."""
        y, X = chunk.y, chunk.X
        if chunk.labels is not None and self.classes is not None:
            y = place_among("y", chunk.labels, self.classes)[y]
            y = y.astype(np.int8 if len(self.classes) == 2 else np.intp, copy=False)
        elif self.target or self.scale != 1:
            y = (y - self.target) / self.scale
        if self.shift is not None and np.any(self.shift):
            X = X - self.shift
        p = len(self.names)
        domains: Domains = chunk.domains
        if not np.array_equal(chunk.names, self.names):
            domains = domains.placed(place_among("domains", chunk.names, self.names), p)
        loss, intercept = self.loss, self.intercept
        return Rows(X, y, self.classes, domains, self.names, chunk.weight, loss, intercept)

    def problem(self, chunk: Chunk) -> LinearDomains:
        """The losses on one chunk; 0 in a domain that has no row there."""
        return self.rows(chunk).to_judge()

    def standing_for(self, chunk: Chunk, sizes: Array) -> LinearDomains:
        """The losses on a few rows that stand for all, of which there are `sizes`."""
        p = self.problem(chunk)
        return LinearDomains.coded(
            p.X, p.y, p.classes, p.domain_names, sizes, p.average, p.loss, p.intercept
        )


@dataclass(eq=False)
class Log:
    """What the passes over the rows cost: shared by all problems of the same rows."""

    seconds: list[float] = field(default_factory=list)

    def add(self, what: str, begun: float) -> None:
        """A pass has ended."""
        self.seconds.append(time.perf_counter() - begun)
        log.info("pass %d, %s: %.2f s", len(self.seconds), what, self.seconds[-1])


class Streamed(Parts):
    """L_1(w), …, L_p(w) over rows that are read anew at every pass.

    Made by `from_batches`, `from_parquet`, `from_dask` and `from_ray`; takes the place of
    LinearDomains in `ax.solve`, `ax.certify`, `ax.pareto_front` and the estimators' `fit`.
    """

    def __init__(
        self, visit: Visit, scan: Scan, coder: Coder, log: Log, dense_up_to: int = 600
    ) -> None:
        self._visit, self._scan, self._coder, self._log = visit, scan, coder, log
        self.classes, self.domain_names = coder.classes, coder.names
        self.loss, self.intercept = coder.loss, coder.intercept
        self.n_features = scan.n_features
        self.feature_names: list[str] | None = None
        self.columns: tuple[Any, ...] = ()
        self.notes: list[str] = []
        K = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        D = K * (self.n_features + self.intercept)
        whole = [np.arange(len(scan.sizes))]
        about = self._known_about(K)
        super().__init__(self._answers, whole, scan.sizes, D, None, dense_up_to, about)

    def _known_about(self, K: int) -> About:
        scan, coder, one = self._scan, self._coder, int(self.intercept)
        reach = scan.reach
        if coder.shift is not None:
            sides = np.abs([scan.low[:-1] - coder.shift, scan.high[:-1] - coder.shift])
            reach = sides.max(axis=0)
        penalized = np.arange(len(reach) + one) < len(reach)
        return About(
            np.tile(penalized, K),
            K,
            min(self.loss.room, 1e300),
            scan.n_rows,
            np.tile(np.append(reach, np.ones(one)), K),
            scan.loss_scale / coder.scale**2,
            self.loss.growth(np.array([scan.low[-1], scan.high[-1]])),
        )

    def __repr__(self) -> str:
        many = "passes" if self.n_passes > 1 else "pass"
        return (
            f"Streamed({self.n_rows:,} rows in {len(self._scan.fingerprints):,} chunks, "
            f"{self.n_domains} domains, {self.n_parameters} parameters; {self.n_passes} {many})"
        )

    @property
    def n_passes(self) -> int:
        """Passes over the rows so far, the first one included."""
        return len(self._log.seconds)

    # -- the questions of the solver -----------------------------------------------------------

    def _answers(self, questions: Sequence[Question]) -> list[Sums]:
        """One pass: the sums over all chunks."""
        (question,), coder = questions, self._coder
        begun = time.perf_counter()
        known = self._scan.fingerprints
        found, count = total(self._visit(Answering(coder, question, known)), question)
        if count < len(known):
            what = f"gave {count} of {len(known)} chunks at a later pass"
            raise InputError("the data", what, SAME)
        self._log.add(", ".join(question.want), begun)
        return [found]

    def merged(self) -> Any:
        """The few distinct rows with their counts, if the table has no more; else itself."""
        rows = self._scan.distinct
        if rows is None:
            return self
        problem = self._coder.problem(rows)
        problem.row_counts, problem._is_merged = rows.weight, True
        return problem

    def coarse(self) -> LinearDomains | None:
        """The sample that the first pass has collected."""
        return self._coder.standing_for(self._scan.sample, self.sizes)

    def conditioned(self) -> Shifted | None:
        """The problem with offsets taken off and targets of moderate size; None if it is so."""
        scan, d = self._scan, self.n_features
        sides = list(zip(scan.low.tolist(), scan.high.tolist(), strict=True))
        shift, target, scale = np.zeros(d), 0.0, 1.0
        if self.intercept and not scan.is_sparse:
            shift = np.array([offset_of(*side) for side in sides[:d]])
        if self.loss.of_residual:
            target = offset_of(*sides[-1]) if self.intercept else 0.0
            scale = scale_of(max(abs(side - target) for side in sides[-1]))
        if self._coder.shift is not None or not (np.any(shift) or target or scale != 1):
            return None
        loss = self.loss.in_units(scale)
        coder = replace(self._coder, loss=loss, shift=shift, target=target, scale=scale)
        inner = Streamed(self._visit, scan, coder, self._log, self.dense_up_to)
        return Shifted(inner, shift, target, scale)

    @property
    def sampled_rows(self) -> Rows:
        """The sample that the first pass has collected, as rows in memory."""
        return self._coder.rows(self._scan.sample)

    # -- as LinearDomains ----------------------------------------------------------------------

    def losses(self, w: ArrayLike) -> Array:
        """(L_1(w), …, L_p(w)); one pass, unless the solver has just been there."""
        return self.at(w).losses

    def unpack(self, w: ArrayLike) -> tuple[Array, Array]:
        """Coefficients (n_scores, d) and intercepts (n_scores,) of the flat vector w."""
        blocks = np.asarray(w, dtype=np.float64).reshape(self.n_scores, -1)
        if self.intercept:
            return blocks[:, :-1], blocks[:, -1]
        return blocks, np.zeros(self.n_scores)

    def row_shares(self, mixture: Array) -> Array:
        """λ_k/m_k, the weight of a row of domain k; as in LinearDomains."""
        return np.asarray(mixture / self.sizes)


@dataclass(frozen=True, eq=False)
class Answering:
    """The sums of one chunk: a function that can be sent to a worker."""

    coder: Coder
    question: Question
    fingerprints: Sequence[tuple[int, ...]]

    def __call__(self, chunk: Chunk | None, number: int) -> Sums | None:
        """The sums of the chunk of that number; None if it has no rows."""
        self._check(chunk, number)
        return None if chunk is None else answer(self.coder.problem(chunk), self.question)

    def _check(self, chunk: Chunk | None, number: int) -> None:
        known = self.fingerprints[number] if number < len(self.fingerprints) else None
        if known != (() if chunk is None else chunk.fingerprint):
            found = "is not what the first pass saw"
            if known is None:
                found = f"is new: the first pass saw {len(self.fingerprints)} chunks"
            raise InputError("", found, SAME)


def total(answers: Iterator[Sums | None], question: Question) -> tuple[Sums, int]:
    """The sum of the answers of all chunks, added up in their order; and how many there are."""
    found = {name: np.zeros(shape) for name, shape in question.shapes.items()}
    count = 0
    for sums in answers:
        count += 1
        for name, value in (sums or {}).items():
            found[name] += value
        if sums and "error" in found:  # and what adding them up here may lose
            found["error"] += 2 * UNIT * np.abs(sums["slope"])
    return found, count
