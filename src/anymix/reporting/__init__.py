"""Pages and pictures of audits, for people."""

from anymix.reporting.page import report
from anymix.reporting.pictures import draw_frontier, picture

__all__ = ["draw_frontier", "picture", "report"]
