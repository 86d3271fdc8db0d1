"""Pages that ask nobody for anything: formulas as MathML, which browsers draw themselves.

`$$ ... $$` on lines of its own is a displayed formula, `$...$` one inside a line; both hold LaTeX.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

__all__ = ["on_page_markdown", "on_post_page", "with_formulas"]

SHIM = re.compile(r"https://[^\s\"']+/iframe-worker/shim")  # what the theme would ask for
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
BLOCK = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$(?=\S)([^$\n]+?)(?<=\S)\$")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What MkDocs calls for every page."""
    return with_formulas(markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """No request to anybody: what lets the search run from the disk is a file of the site."""
    return SHIM.sub("../" * page.url.count("/") + "worker.js", output)


def with_formulas(markdown: str) -> str:
    """The text with MathML instead of LaTeX; code is left alone.

    Examples
    --------
    >>> with_formulas("`$x$` and $x$")[:20]
    '`$x$` and <math xmln'
    """
    parts = CODE.split(markdown)
    return "".join(part if k % 2 else _converted(part) for k, part in enumerate(parts))


def _converted(text: str) -> str:
    text = BLOCK.sub(lambda found: convert(found[1], display="block"), text)
    return INLINE.sub(lambda found: convert(found[1]), text)
