"""The findings of audits in numbers and sentences, for people who do not read formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from anymix.auditing import Audit
from anymix.auditing.words import FEW_ROWS, metric_title, short
from anymix.reporting.shown import Shown
from anymix.solvers import Certificate

__all__ = [
    "bars_note",
    "lead",
    "meaning",
    "mixture_in_words",
    "number",
    "promised",
    "set_in_words",
    "standing_note",
]

BIAS = (
    "What this does not say: bias inside the data is not removed. If labels or features of a "
    "domain are wrong, missing or unjust, a model that is good on every mixture of such data "
    "repeats it. Groups that are not among the domains are not protected, and neither is a domain "
    "that changes by itself."
)


def number(x: float) -> str:
    """A number as the whole page writes it, text.js too; see `auditing.words.short`."""
    if not math.isfinite(x):
        return "–" if math.isnan(x) else "∞" if x > 0 else "−∞"
    return short(x)


def mixture_in_words(audit: Audit) -> str:
    """The worst mixture of an audit, by its three largest shares."""
    lam = audit.worst_mixture
    order = np.argsort(-lam, kind="stable")[:3]
    parts = [f"{lam[k]:.1%} {audit.domain_names[k]}" for k in order if lam[k] >= 5e-4]
    rest = 1 - lam[order].sum()
    return ", ".join(parts) + (f", {rest:.1%} others" if rest >= 5e-4 else "")


def promised(audit: Audit) -> str:
    """What is guaranteed of a model, for the table at a glance."""
    if "loss" not in audit.guarantees:
        return "–"
    return f"at most {number(audit.in_unit(audit.guarantees['loss'].value))}"


def set_in_words(shown: Shown) -> str:
    """The set Λ that the worst case is taken over."""
    if shown.whole:
        return "all mixtures of these domains"
    return f"the mixtures in Λ = {shown.first.mixtures!r}; one outside of it may be worse"


def lead(shown: Shown) -> str:
    """The sentence under the page's heading: what was measured, and on what."""
    models = "one model" if len(shown.audits) == 1 else f"{len(shown.audits)} models"
    domains = "one domain" if shown.p == 1 else f"{shown.p} domains"
    return (
        f"{shown.loss[0].upper()}{shown.loss[1:]} of {models} on {shown.first.n_rows:,} rows in "
        f"{domains}, and on every mixture of the domains. Lower is better."
    )


def standing_note(shown: Shown) -> str:
    """How to read the first picture."""
    few = "The ten domains of highest loss; the table below has all. " if shown.p > 10 else ""
    if len(shown.audits) == 1:
        return f"{few}Lines are {shown.level} confidence intervals."
    return (
        f"{few}Lines are {shown.level} confidence intervals of the difference, paired row by row: "
        "one that does not reach the middle is sure. Each is about one domain alone."
    )


def bars_note(shown: Shown) -> str:
    """How to read the bars of the domains."""
    kinds = ", ".join(f"{measure.name} {measure.kind}" for measure in shown.measures())
    return (
        f"Thin lines are {shown.level} confidence intervals: how far chance alone may move a "
        f"number ({kinds}); an arrow is where one goes on beyond the picture. Domains with the "
        "highest loss come first."
    )


def meaning(shown: Shown, certificate: Certificate | None) -> Iterator[str]:
    """The page in words: worst cases, what robustness costs, and what is not known."""
    for name, a in shown.audits.items():
        yield (
            f"{name}: {shown.loss} {number(a.in_unit(a.pooled_loss))} on the rows as they are, but "
            f"{number(a.in_unit(a.agnostic_loss))} on the worst mixture, {mixture_in_words(a)}."
        )
        if "loss" in a.guarantees:
            yield f"{name}, guaranteed: {a.guarantees['loss'].explain()}"
    if len(shown.audits) > 1:
        yield _price(shown)
    yield from _apart(shown)
    yield f"The worst case is over {set_in_words(shown)}."
    yield from _counting(shown.first)
    yield from _little_known(shown)
    if certificate is not None:
        yield _proof(certificate)
    yield BIAS


def _price(shown: Shown) -> str:
    """What the last model costs on average against the first, and what it gains at worst."""
    names, audits = list(shown.audits), list(shown.audits.values())
    (pooled, worst), (new_pooled, new_worst) = (
        (a.in_unit(a.pooled_loss), a.in_unit(a.agnostic_loss)) for a in (audits[0], audits[-1])
    )
    return (
        f"The price of robustness: against {names[0]}, {names[-1]} has "
        f"{_change(new_pooled - pooled)} {shown.loss} on the rows as they are, and "
        f"{_change(new_worst - worst)} on the worst mixture."
    )


def _apart(shown: Shown) -> Iterator[str]:
    """How far apart the domains' rates are, if rates were asked for."""
    for name, a in shown.audits.items():
        found = [
            f"{metric_title(what)} {number(d.value)} ({number(d.low)} to {number(d.high)})"
            for what, d in a.disparities.items()
        ]
        if found:
            yield f"{name}, how far the domains are apart: {', '.join(found)}."


def _change(x: float) -> str:
    return f"{number(abs(x))} {'more' if x >= 0 else 'less'}"


def _counting(a: Audit) -> Iterator[str]:
    """Rows that count in no domain, or in several."""
    if a.n_outside:
        yield f"Rows that are in none of the domains, and count nowhere here: {a.n_outside:,}."
    if a.sizes.sum() > a.n_rows:
        yield (
            "Some rows are in several domains, so the mixture by the domains' sizes (“as sampled”) "
            "is not quite the rows as they are."
        )


def _little_known(shown: Shown) -> Iterator[str]:
    small = [shown.names[k] for k in np.flatnonzero(shown.first.sizes < FEW_ROWS)]
    if small:
        more = f" and {len(small) - 8} more" if len(small) > 8 else ""
        yield (
            f"Fewer than {FEW_ROWS} rows, so little is known of: {', '.join(small[:8])}{more}. "
            "Read their intervals, not their bars."
        )


def _proof(certificate: Certificate) -> str:
    return (
        f"Proof of the training: its objective (the loss that is trained, with its "
        f"regulariser) reaches {certificate.upper:.6g}, and no model of this kind gets below "
        f"{certificate.lower:.6g}: at most {certificate.gap:.1e} is left to gain. It speaks of the "
        "training rows; the numbers above are measured on the audited rows."
    )
