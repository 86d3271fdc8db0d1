"""Pages and pictures of audits, for people."""

from anymix.reporting.pages import picture, report

__all__ = ["picture", "report"]
