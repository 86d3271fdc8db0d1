"""What a run leaves behind: nothing, it is hoped."""

from __future__ import annotations

from pathlib import Path


def alive(home: str) -> list[str]:
    """Commands of processes that were started with a FLWR_HOME of ours and still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_text(errors="replace")
            if f"FLWR_HOME={home}" in environment:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it ended while we looked
            continue
    return found
