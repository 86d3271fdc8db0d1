"""The part of `anymix audit` that searches for groups of rows which are served badly."""

from typing import Annotated, Any

import typer

__all__ = ["FindSegments", "segments_of"]

FindSegments = Annotated[
    bool,
    typer.Option(
        "--find-segments",
        help="Also search the other columns for groups of rows that are served badly.",
    ),
]


def segments_of(
    frame: Any, losses: Any, audit: Any, named: list[str | None]
) -> tuple[list[dict[str, Any]], list[str]]:
    """What the search found, as JSON has it, and in sentences."""
    from anymix.tables.segmented import frame_segments, segment_in_words

    found = frame_segments(frame, losses, audit.confidence, [name for name in named if name])
    words = [f"Segment {segment_in_words(segment, audit)}." for segment in found]
    records = [
        {
            "conditions": list(segment.conditions),
            "share": segment.share,
            "loss": segment.loss,
            "elsewhere": segment.rest,
            "excess": list(segment.excess),
            "weak": segment.is_weak,
        }
        for segment in found
    ]
    return records, words or ["No group of rows looked worse than the others."]
