"""How bad can a model get on some mixture? Audits of any model's predictions."""

from anymix.auditing.audits import Audit, Comparison, audit, compare

__all__ = ["Audit", "Comparison", "audit", "compare"]
