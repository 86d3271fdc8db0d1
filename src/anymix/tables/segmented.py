"""Groups of a table's rows that a model serves badly, by the columns that are not predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import Audit
from anymix.auditing.segments import Segment, weak_segments
from anymix.auditing.words import short
from anymix.errors import InputError
from anymix.problem.cells import combined
from anymix.tables.frames import pandas_frame
from anymix.tables.labels import coded_column

__all__ = ["frame_segments", "row_losses", "segment_in_words"]


def row_losses(
    frame: Any, found: Audit, domains: Sequence[str], weight: str | None
) -> NDArray[np.float64]:
    """The losses of an audit in the order of its frame's rows; NaN for those of weight 0."""
    counts = np.ones(len(frame), dtype=bool) if weight is None else np.asarray(frame[weight] > 0)
    coded = {name: coded_column(frame, name) for name in domains}
    (_, codes), _ = combined(list(coded.values()), list(coded))
    losses = np.full(len(frame), np.nan)
    for k, part in enumerate(found.row_losses):
        losses[counts & (codes == k)] = part
    return losses


def frame_segments(
    frame: Any, losses: NDArray[np.float64], confidence: float, left_out: Sequence[str]
) -> list[Segment]:
    """The segments with the largest losses, by all columns but some, of rows that have a loss."""
    known = ~np.isnan(losses)
    frame, losses = pandas_frame(frame)[known], losses[known]
    said = [c for c in frame.columns if c == "prediction" or str(c).startswith("probability of ")]
    out = [*left_out, *said] if set(said) & set(left_out) else left_out
    kept = [c for c in frame.columns if c not in out and not _is_name(frame[c])]
    if not kept:
        fix = "keep some in the table, as in `anymix predict --keep age`"
        raise InputError("the table", "has no columns that could describe a segment", fix)
    return weak_segments(frame[kept], losses, confidence=confidence)


def _is_name(values: Any) -> bool:
    """Whether a column tells rows apart, such as a number of a record, and describes none."""
    if values.dtype.kind == "f":
        return False
    distinct = int(values.nunique())
    return distinct == len(values) and len(values) > 20


def segment_in_words(segment: Segment, found: Audit) -> str:
    """What was found of a segment, in a sentence."""
    low, high = segment.excess.low, segment.excess.high
    loss, rest = (short(found.in_unit(value)) for value in (segment.loss, segment.rest))
    sure = "worse than elsewhere" if segment.is_weak else "perhaps chance"
    of = " of the half squared errors" if found.is_rooted else ""
    return (
        f"{segment} ({segment.share:.1%} of the rows): {sure}; on rows not searched its "
        f"{found.unit_title} is {loss}, elsewhere {rest}; the difference{of} is between {low:.4g} "
        f"and {high:.4g} (each end at {found.confidence:.0%}, corrected for the search)"
    )
