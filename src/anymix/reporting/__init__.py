"""Pages and pictures of audits, for people."""

from anymix.reporting.frontier_pictures import draw_frontier
from anymix.reporting.page import report
from anymix.reporting.pictures import picture

__all__ = ["draw_frontier", "picture", "report"]
