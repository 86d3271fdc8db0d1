"""The part of `anymix audit` that reads the table: into memory, or in stretches if it is large."""

import csv
import io
import math
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from anymix.cli.segments import segments_of

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
    files: ExitStack,
    domain: list[str],
    step: Callable[[str], None],
    find_segments: bool,
    **options: Any,
) -> Audited:
    """The audits of a table by column, and the only one of them or the comparison of the two."""
    from anymix.tables import audit_frame
    from anymix.tables.memory import bytes_of
    from anymix.tables.spooling import read_or_spool

    step(f"reading {table}")
    several = (options[name] for name in ("target", "prediction", "against"))
    one = (options[name] for name in ("losses", "weight"))
    named = [*chain(*several), *(column for column in one if column)]
    only = None if find_segments else [*named, *domain]  # not all columns need fit into memory
    memory = reading.pop("memory")
    limit = None if memory is None else bytes_of(memory)
    frame = read_or_spool(table, memory=limit, keep=named, text=domain, only=only, **reading)
    if hasattr(frame, "stretches"):
        files.callback(frame.close)
        audits, frame, searched, later = _on_disk(frame, files, domain, find_segments, options)
    else:
        audits, later = audit_frame(frame, domain, **options), []
        searched = list(audits.values())[-1]
    auc = list(audits.values())[-1].pooled_metrics.get("auc", math.nan)
    notes, more = [*_notes(frame, domain, options, auc), *later], dict[str, Any]()
    if find_segments:
        step("searching for segments")
        more["segments"], words = segments_of(frame, searched, domain, list(named))
        notes += words
    return Audited(audits, _compared(audits), notes, more)


def _on_disk(
    spool: Any, files: ExitStack, domain: list[str], segments: bool, options: dict[str, Any]
) -> tuple[dict[str, Any], Any, Any, list[str]]:
    """The audits of a table on disk, some of its rows, the audit of these, and notes."""
    from anymix.tables import audit_frame
    from anymix.tables.audit_on_disk import DRAWN, audit_spool, drawn_rows

    done = audit_spool(spool, domain, **options)
    files.callback(done.close)
    if not segments:
        return done.audits, done.witness, None, done.notes
    frame, notes = drawn_rows(spool), list(done.notes)
    if len(spool) > DRAWN:
        notes.append(f"segments: searched for in {len(frame):,} rows drawn at random")
    drawn = audit_frame(frame, domain, **options | {"mixtures": "simplex", "guarantee": None})
    return done.audits, frame, list(drawn.values())[-1], notes


def _notes(frame: Any, domain: list[str], options: dict[str, Any], auc: float) -> list[str]:
    """What to say of the class that a column of probabilities is about, and of odd cells."""
    from anymix.tables.audited import class_meant
    from anymix.tables.reading import odd_notes

    notes = list[str]()
    true, said = options["target"], options["prediction"]
    if len(true) == len(said) == 1 and options["classes"] is None:
        meant = class_meant(frame, true[0], said[0])
        notes += _other_class(said[0], meant.classes, auc) if auc < 0.5 else meant.notes
    return notes + odd_notes(frame, set(frame.columns) - set(domain))


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
