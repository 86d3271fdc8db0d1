"""Pages and pictures of audits, for people."""

from anymix.reporting.choice_pictures import draw_recommendation
from anymix.reporting.frontier_pictures import draw_frontier
from anymix.reporting.page import report
from anymix.reporting.pictures import picture

__all__ = ["draw_frontier", "draw_recommendation", "picture", "report"]
