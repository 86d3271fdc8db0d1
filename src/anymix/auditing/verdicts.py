"""Which model to use, in a sentence that comes before all numbers."""

from __future__ import annotations

import numpy as np

from anymix.auditing.comparisons import Comparison, compare
from anymix.auditing.findings import Audit
from anymix.auditing.words import FEWEST_ROWS, short, signed

__all__ = ["beside_in_words", "is_better_nowhere", "is_worse_everywhere", "verdict"]

MOST_NAMED = 3  # domains in a sentence


def verdict(
    pair: Comparison, kept: bool, floor: Audit | None = None, asked: float | None = None
) -> str:
    """What was decided between an ordinary model (a) and a robust one (b), and how sure that is.

    Domains where the model that is used loses more than a constant guess are named after it.
    """
    said = _decision(pair, kept, floor) if asked is None else _as_asked(pair, asked)
    if floor is None:
        return said
    learnt = compare(floor, pair.a if kept else pair.b)
    if is_better_nowhere(learnt):
        name = "ordinary model, which is kept," if kept else "robust model"
        return (
            f"A constant guess is as good as the {name} in every domain, as far as these rows can "
            f"tell: it has learnt nothing.{'' if kept else _instead(floor, pair.a)}"
        )
    return said + _where_worse("ordinary" if kept else "robust", learnt)


def _decision(pair: Comparison, kept: bool, floor: Audit | None) -> str:
    """The model that rows held out have chosen, and why."""
    rows = zip(pair.a.row_losses, pair.b.row_losses, strict=True)
    same = not any(np.any(a != b) for a, b in rows)
    if kept and same:
        return "No robust model differs from the ordinary one for these mixtures: it is kept."
    if kept and is_worse_everywhere(pair):
        return "A robust model is worse for everybody on rows not seen: keep the ordinary model."
    if kept and pair.is_sure_gain:
        return _not_taken(pair, floor)
    if kept:
        return (
            "Nothing to gain for the worst domain with these data and features: the ordinary "
            f"model is kept.{_too_few(pair.a)}"
        )
    if same:
        return (
            "The robust model is taken by all rows, but in every part that was judged the ordinary "
            "one was kept: nothing is known of its gain on rows not seen."
        )
    price = _price(pair)
    if pair.is_sure_gain:
        return (
            "The robust model is better where the ordinary one is worst, on rows not seen "
            f"({signed(pair.told_difference[0])} {pair.a.unit_title}; {price})."
        )
    return (
        "The robust model is taken, but its gain where the ordinary one is worst cannot be told "
        f"from none on the rows judged ({price})."
    )


def _not_taken(pair: Comparison, floor: Audit | None) -> str:
    """Why the ordinary model is kept, though a robust one is better where it is worst."""
    a, b, lam = pair.a, pair.b, pair.a.worst_mixture
    if floor is not None and lam @ floor.domain_losses <= lam @ b.domain_losses:
        why = "there a constant guess is as good"
    elif pair.price > 0:
        why = f"at a price: {_price(pair)}"
    else:
        why = "the rows that chose did not show it"
    return (
        "The ordinary model is kept. A robust one is better where it is worst "
        f"({signed(pair.told_difference[0])} {a.unit_title}), but {why}."
    )


def _price(pair: Comparison) -> str:
    """'+0.03 on all rows; 4 of 5 domains surely pay, most 'west': +0.08': what b costs, and whom.

    Those pay whose interval of the difference is above 0; the intervals hold for all at once.
    """
    a, b = pair.a, pair.b
    costs = b.in_unit(b.domain_losses) - a.in_unit(a.domain_losses)
    pay = np.flatnonzero(pair.joint_intervals[:, 0] > 0)
    price = f"{signed(b.in_unit(b.pooled_loss) - a.in_unit(a.pooled_loss))} on all rows"
    if not len(pay):
        return f"{price}; no domain surely pays"
    k = pay[np.argmax(costs[pay])]
    who = "surely pays," if len(pay) == 1 else "surely pay, most"
    name = str(pair.domain_names[k])
    return f"{price}; {len(pay)} of {len(costs)} domains {who} {name!r}: {signed(costs[k])}"


def _too_few(found: Audit) -> str:
    """What to do if the worst domain is so small that it can hardly show a gain."""
    k = found.worst_domain
    if k is None or found.sizes[k] >= FEWEST_ROWS:
        return ""
    rows = "1 row" if found.sizes[k] == 1 else f"{found.sizes[k]} rows"
    return (
        f" The worst domain, {str(found.domain_names[k])!r}, has only {rows}, too few to show a "
        "gain: put small domains together."
    )


def _instead(floor: Audit, ordinary: Audit) -> str:
    """What to do if the ordinary model has learnt something, but not for its worst domain."""
    if is_better_nowhere(compare(floor, ordinary)):
        return ""
    return (
        " The ordinary model has, but not for everybody: if the domain is known for new rows, let "
        "the model use it."
    )


def _as_asked(pair: Comparison, t: float) -> str:
    if t == 0:
        return "This is the ordinary model (robustness 0), as asked for."
    gain = "is better" if pair.is_sure_gain else "cannot be told from the ordinary one"
    return (
        f"This is the robust model of robustness {t:g}, as asked for: where the ordinary one is "
        f"worst, it {gain} on rows not seen."
    )


def is_worse_everywhere(pair: Comparison) -> bool:
    """Whether b loses no less than a in any domain, and surely more in one."""
    return bool(np.all(pair.differences >= 0) and np.any(pair.joint_intervals[:, 0] > 0))


def is_better_nowhere(pair: Comparison) -> bool:
    """Whether b is surely better than a in no domain."""
    return not np.any(pair.difference_intervals[:, 1] < 0)


def _where_worse(name: str, pair: Comparison) -> str:
    """The domains in which a constant guess (a) loses less than a model (b), and how sure.

    Of domains of very few rows nothing is sure: among many of them, some always look like it.
    """
    sure = (np.asarray(pair.a.sizes) >= FEWEST_ROWS) & (pair.joint_intervals[:, 0] > 0)
    worse = np.flatnonzero(sure if sure.any() else pair.differences > 0)
    if not len(worse):
        return ""
    order = worse[np.argsort(-pair.differences[worse], kind="stable")]
    named = ", ".join(_in_domain(pair, int(k)) for k in order[:MOST_NAMED])
    more = f" and {len(order) - MOST_NAMED} more" if len(order) > MOST_NAMED else ""
    where = f"a constant guess by its {pair.a.unit_title} in {named}{more}"
    if sure.any():
        return f" The {name} model is surely worse than {where}."
    return f" As far as these rows can tell, the {name} model is no better than {where}."


def _in_domain(pair: Comparison, k: int) -> str:
    """'north' (0.71 against 0.66): a domain, the loss of the model (b) and the guess (a)."""
    losses = (short(x.in_unit(x.domain_losses[k])) for x in (pair.b, pair.a))
    return f"{str(pair.domain_names[k])!r} ({' against '.join(losses)})"


def beside_in_words(name: str, found: Audit) -> str:
    """What another model loses on the same rows."""
    k, worst = found.worst_domain, f"at worst {short(found.in_unit(found.agnostic_loss))}"
    if k is not None:
        worst += f" ({str(found.domain_names[k])!r})"
    return (
        f"{name[0].upper()}{name[1:]} has the {found.unit_title} "
        f"{short(found.in_unit(found.pooled_loss))} on all "
        f"rows, {worst}."
    )
