"""How bad can a model get on some mixture? Audits of any model's predictions."""

from anymix.auditing.audits import audit
from anymix.auditing.comparisons import Comparison, compare
from anymix.auditing.findings import Audit

__all__ = ["Audit", "Comparison", "audit", "compare"]
