"""Pages and pictures of audits, for people."""

from anymix.reporting.page import report
from anymix.reporting.pictures import picture

__all__ = ["picture", "report"]
