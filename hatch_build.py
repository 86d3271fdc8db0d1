"""README.md as the package page shows it, where a relative link leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://)([^)\s]+)\)")  # ![text](file), [text](file)


class PackagePage(MetadataHookInterface):
    """Links lead to `repository` of pyproject.toml; while it is empty, their text alone remains."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme and the addresses."""
        repository = self.config["repository"].rstrip("/")
        addresses = {"Repository": repository, "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md"}
        metadata["urls"] = addresses if repository else {}
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": RELATIVE.sub(lambda found: absolute(repository, *found.groups()), text),
        }


def absolute(repository: str, picture: str, text: str, file: str) -> str:
    """The link or picture with an address that holds everywhere."""
    if not repository:
        return "" if picture else text
    return f"{picture}[{text}]({repository}/{'raw' if picture else 'blob'}/HEAD/{file})"
