"""The part of `anymix audit` that reads the table: no column that the audit does not need."""

import csv
import io
import math
import shlex
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from anymix.cli.segments import segments_of

DRAWN = 100_000  # rows searched for segments where all columns do not fit into memory

__all__ = ["Audited", "audited_table"]


class Audited(NamedTuple):
    """What was found of a table."""

    audits: dict[str, Any]
    found: Any  # the only audit, or the comparison of two
    notes: list[str]
    more: dict[str, Any]  # what only JSON has


def audited_table(
    table: Path,
    reading: dict[str, Any],
    domain: list[str],
    step: Callable[[str], None],
    find_segments: bool,
    **options: Any,
) -> Audited:
    """The audits of a table by column, and the only one of them or the comparison of the two."""
    from anymix.tables import audit_frame, read_table
    from anymix.tables.files import drawn_rows, opened_table
    from anymix.tables.memory import bytes_of, check_fits, fits
    from anymix.tables.reading import odd_notes
    from anymix.tables.segmented import row_losses

    step(f"reading {table}")
    several = (options[name] for name in ("target", "prediction", "against"))
    one = (options[name] for name in ("losses", "weight"))
    named = [*chain(*several), *(column for column in one if column)]
    memory = reading.pop("memory")
    limit = None if memory is None else bytes_of(memory)
    source = opened_table(table, reading["encoding"])
    needed = {*named, *domain}
    check_fits(source, limit, needed)
    reading |= {"source": source, "keep": named, "text": domain}
    whole = find_segments and fits(source, limit)  # the search looks at the other columns too
    frame = read_table(table, only=None if whole else sorted(needed), **reading)
    audits = audit_frame(frame, domain, **options)
    searched = list(audits.values())[-1]
    auc, more = searched.pooled_metrics.get("auc", math.nan), dict[str, Any]()
    notes = _notes(frame, options, auc)
    words = list[str]()
    if find_segments:
        losses = row_losses(frame, searched, domain, options["weight"])
        if not whole:
            step("reading the other columns of some rows")
            rows = drawn_rows(source.n, DRAWN)
            frame, losses = read_table(table, rows=rows, **reading), losses[rows]
            if len(rows) < source.n:
                notes.append(f"segments: searched for in {len(rows):,} rows drawn at random")
        step("searching for segments")
        more["segments"], words = segments_of(frame, losses, searched, list(named))
    notes += [*odd_notes(frame, set(frame.columns) - set(domain)), *words]
    return Audited(audits, _compared(audits), notes, more)


def _notes(frame: Any, options: dict[str, Any], auc: float) -> list[str]:
    """What to say of the class that a column of probabilities is about."""
    from anymix.tables.audited import class_meant

    true, said = options["target"], options["prediction"]
    if len(true) == len(said) == 1 and options["classes"] is None:
        meant = class_meant(frame, true[0], said[0])
        return _other_class(said[0], meant.classes, auc) if auc < 0.5 else meant.notes
    return []


def _other_class(column: str, classes: list[Any] | None, auc: float) -> list[str]:
    """A note that a column of probabilities may be about the first of two classes."""
    if classes is None:
        return []
    other, about = classes
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow([about, other])
    return [
        f"{column!r}: read as the probability of {str(about)!r}, but the AUC is {auc:.2f}: if it "
        f"is that of {str(other)!r}, say --classes {shlex.quote(row.getvalue())}"
    ]


def _compared(audits: dict[str, Any]) -> Any:
    from anymix.auditing import compare

    first, *second = audits
    if not second:
        return audits[first]
    return compare(audits[first], audits[second[0]], (first, second[0]))
