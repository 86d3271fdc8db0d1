"""The `anymix` command: what people type, and what is printed. The work is done elsewhere.

Nothing here imports the rest of the library before it is needed, so that help and refusals come at
once.
"""

from anymix.cli.program import app, main

__all__ = ["app", "main"]
