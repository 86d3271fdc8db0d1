"""The part of `anymix audit` that reads the table: into memory, or in stretches if it is large."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Audited", "audited_table"]


class Audited(NamedTuple):
    """What was found of a table, and rows to look at."""

    audits: dict[str, Any]
    found: Any  # the only audit, or the comparison of two
    frame: Any  # the table; of a large one, some of its rows
    searched: Any  # the audit of the model on the rows of the frame
    notes: list[str]


def audited_table(
    table: Path,
    reading: dict[str, Any],
    files: ExitStack,
    domain: list[str],
    segments: bool,
    **options: Any,
) -> Audited:
    """The audits of a table by column, and the only one of them or the comparison of the two.

    Parameters
    ----------
    table : Path
        The file.
    reading : dict
        How its cells are read, and `memory`, what may be used.
    files : ExitStack
        Removes temporary files at its end; until then the audits read from them.
    domain : list of str
        The columns of the domains.
    segments : bool
        Whether columns are needed that are not audited.
    **options
        The arguments of `audit_frame`.
    """
    from anymix.tables import audit_frame
    from anymix.tables.memory import bytes_of
    from anymix.tables.spooling import read_or_spool

    one = (options[name] for name in ("target", "losses", "against"))
    named = [*options["prediction"], *(column for column in one if column)]
    only = None if segments else [*named, *domain]  # not all columns need fit into memory
    memory = reading.pop("memory")
    limit = None if memory is None else bytes_of(memory)
    frame = read_or_spool(table, memory=limit, keep=named, text=domain, only=only, **reading)
    if hasattr(frame, "stretches"):
        files.callback(frame.close)
        return _on_disk(frame, files, domain, segments, options)
    audits = audit_frame(frame, domain, **options)
    return Audited(audits, _compared(audits), frame, list(audits.values())[-1], [])


def _on_disk(
    spool: Any, files: ExitStack, domain: Sequence[str], segments: bool, options: dict[str, Any]
) -> Audited:
    """The same of a table on disk; segments are searched for in rows drawn from it."""
    from anymix.tables import audit_frame
    from anymix.tables.audit_on_disk import DRAWN, audit_spool, drawn_rows

    done = audit_spool(spool, domain, **options)
    files.callback(done.close)
    found, notes = _compared(done.audits), list(done.notes)
    if not segments:
        return Audited(done.audits, found, done.witness, None, notes)
    frame = drawn_rows(spool)
    if len(spool) > DRAWN:
        notes.append(f"segments: searched for in {len(frame):,} rows drawn at random")
    drawn = audit_frame(frame, domain, **options | {"mixtures": "simplex", "guarantee": None})
    return Audited(done.audits, found, frame, list(drawn.values())[-1], notes)


def _compared(audits: dict[str, Any]) -> Any:
    from anymix.auditing import compare

    first, *second = audits
    if not second:
        return audits[first]
    return compare(audits[first], audits[second[0]], (first, second[0]))
