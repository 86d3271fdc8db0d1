"""Whether a table fits into memory comfortably."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from anymix.errors import InputError
from anymix.tables.files import Source

__all__ = ["available", "bytes_of", "check_fits", "fits"]

COPIES = 5  # of every number: the frame, X, and what the solver, or an audit, makes of them
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def fits(source: Source, memory: int | None = None, only: Collection[str] | None = None) -> bool:
    """Whether a table fits into so many bytes; None is half of what is free."""
    return _needed(source, only) <= _limit(memory)


def check_fits(source: Source, memory: int | None, only: Collection[str]) -> None:
    """Refuse columns that do not fit into so many bytes."""
    if not fits(source, memory, only):
        found = f"is {_limit(memory) / 1e6:,.3g} MB, but {source.n:,} rows of {len(only)} columns"
        needed = f"take about {_needed(source, only) / 1e6:,.3g} MB"
        raise InputError("memory", f"{found} {needed}", "allow more, or give some of the rows")


def _needed(source: Source, only: Collection[str] | None) -> int:
    return 8 * COPIES * source.n * len(source.names if only is None else only)


def _limit(memory: int | None) -> int:
    return available() // 2 if memory is None else memory


def bytes_of(text: str) -> int:
    """The number of bytes that people write as 700MB or 2G."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if found is None or float(found[1]) == 0:
        raise InputError("memory", f"is {text!r}", "give bytes, as in 700MB or 2GB")
    return int(float(found[1]) * UNITS[found[2]])


def available() -> int:
    """Bytes of memory that this process may still take: of the machine, or of its container."""
    limits = [_of_machine()]
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        top, now = (_number(Path("/sys/fs/cgroup") / name) for name in (limit, used))
        if top is not None and now is not None:
            limits.append(max(0, top - now))
    return min(limits)


def _of_machine() -> int:
    found = re.search(r"MemAvailable:\s+(\d+) kB", _text(Path("/proc/meminfo")))
    if found:
        return 1024 * int(found[1])
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 4 * 10**9  # nothing is known


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
