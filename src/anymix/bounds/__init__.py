"""What a solution is worth: guarantees for every mixture at once, step sizes, rates, variances."""

from anymix.auditing.guarantees import Guarantee, held_out
from anymix.bounds.complexity import (
    Complexity,
    Rademacher,
    finite_rademacher,
    kernel_rademacher,
    linear_rademacher,
    vc_complexity,
)
from anymix.bounds.domain_advice import (
    DomainAdvice,
    advise_domains,
    confidence_widths,
    rows_needed,
)
from anymix.bounds.monitoring import Monitor
from anymix.bounds.rates import Constants, constants, convergence, step_sizes, steps_needed
from anymix.bounds.skews import chi2, effective_sample_size, liu, skewness, worst_skewness
from anymix.bounds.theorems import Bound, generalization, tightest
from anymix.bounds.variance import Advice, Variances, advise_sampler, variances

__all__ = [
    "Advice",
    "Bound",
    "Complexity",
    "Constants",
    "DomainAdvice",
    "Guarantee",
    "Monitor",
    "Rademacher",
    "Variances",
    "advise_domains",
    "advise_sampler",
    "chi2",
    "confidence_widths",
    "constants",
    "convergence",
    "effective_sample_size",
    "finite_rademacher",
    "generalization",
    "held_out",
    "kernel_rademacher",
    "linear_rademacher",
    "liu",
    "rows_needed",
    "skewness",
    "step_sizes",
    "steps_needed",
    "tightest",
    "variances",
    "vc_complexity",
    "worst_skewness",
]
