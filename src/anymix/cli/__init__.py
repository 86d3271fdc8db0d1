"""The `anymix` command."""

from anymix.cli.commands import app, main

__all__ = ["app", "main"]
