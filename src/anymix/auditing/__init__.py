"""How bad can a model get on some mixture? Audits of any model's predictions."""

from anymix.auditing.audits import audit
from anymix.auditing.comparisons import Comparison, compare
from anymix.auditing.findings import Audit
from anymix.auditing.segments import Segment, segment_labels, weak_segments

__all__ = ["Audit", "Comparison", "Segment", "audit", "compare", "segment_labels", "weak_segments"]
