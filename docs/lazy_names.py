"""Names that a package loads when asked: griffe reads them in the stub beside `__init__.py`."""

import ast
from pathlib import Path
from typing import Any

from griffe import Extension, Module


class LazyNames(Extension):
    """What a stub imports under its own name is public."""

    def on_module_members(self, *, mod: Module, **_: Any) -> None:
        """Give the module the `__all__` that it has when it runs."""
        file = mod.filepath
        stub = file.with_suffix(".pyi") if isinstance(file, Path) else None
        if stub is not None and stub.is_file():  # of the module, and of the stub put into it
            tree = ast.parse(stub.read_text(encoding="utf-8"))
            nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
            mod.exports = [alias.name for node in nodes for alias in node.names]
