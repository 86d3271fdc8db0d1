"""Which model to use, in a sentence that comes before all numbers."""

from __future__ import annotations

import numpy as np

from anymix.auditing.comparisons import Comparison, compare
from anymix.auditing.findings import Audit
from anymix.auditing.words import short, signed

__all__ = ["beside_in_words", "verdict"]


def verdict(
    pair: Comparison, kept: bool, floor: Audit | None = None, asked: float | None = None
) -> str:
    """What was decided between an ordinary model (a) and a robust one (b), and how sure that is.

    Parameters
    ----------
    pair : Comparison
        The ordinary model and the robust one, on rows that neither has seen.
    kept : bool
        Whether the ordinary model was kept.
    floor : Audit or None
        A constant guess on the same rows.
    asked : float or None
        The robustness t that was asked for; None if rows held out have chosen it.

    Returns
    -------
    str

    Examples
    --------
    >>> from anymix import audit, compare
    >>> y, d = [1, 0, 1, 1, 1, 0], ["x", "x", "x", "x", "y", "y"]
    >>> ordinary, robust = audit(y, [1, 0, 1, 1, 0, 1], d), audit(y, [1, 0, 1, 0, 0, 1], d)
    >>> verdict(compare(ordinary, robust, ("ordinary", "robust")), kept=True)
    'Nothing to gain for the worst domain with these data and features: the ordinary model is kept.'
    """
    useless = None if floor is None else _no_better_than_constant(pair, kept, floor)
    if useless is not None:
        return useless
    if asked is not None:
        return _as_asked(pair, asked)
    if kept and _is_worse_for_everybody(pair):
        return "A robust model is worse for everybody on rows not seen: keep the ordinary model."
    if kept:
        return (
            "Nothing to gain for the worst domain with these data and features: the ordinary "
            "model is kept."
        )
    if not any(np.any(a != b) for a, b in zip(pair.a.row_losses, pair.b.row_losses, strict=True)):
        return (
            "The robust model is taken by all rows, but in every part that was judged the ordinary "
            "one was kept: nothing is known of its gain on rows not seen."
        )
    costs = pair.b.in_unit(pair.b.pooled_loss) - pair.a.in_unit(pair.a.pooled_loss)
    price = f"{signed(costs)} on all rows"
    if pair.is_sure_gain:
        return (
            "The robust model is better where the ordinary one is worst, on rows not seen "
            f"({signed(pair.told_difference[0])} {pair.a.unit_title}; {price})."
        )
    return (
        "The robust model is taken, but its gain where the ordinary one is worst cannot be told "
        f"from none on the rows judged ({price})."
    )


def _is_worse_for_everybody(pair: Comparison) -> bool:
    """Whether b loses no less than a in any domain, and surely more in one."""
    return bool(np.all(pair.differences >= 0) and np.any(pair.difference_intervals[:, 0] > 0))


def _as_asked(pair: Comparison, t: float) -> str:
    if t == 0:
        return "This is the ordinary model (robustness 0), as asked for."
    gain = "is better" if pair.is_sure_gain else "cannot be told from the ordinary one"
    return (
        f"This is the robust model of robustness {t:g}, as asked for: where the ordinary one is "
        f"worst, it {gain} on rows not seen."
    )


def _no_better_than_constant(pair: Comparison, kept: bool, floor: Audit) -> str | None:
    """A warning if a constant guess is as good in every domain as the model that is used."""
    used = pair.a if kept else pair.b
    if np.any(compare(floor, used).difference_intervals[:, 1] < 0):  # surely better somewhere
        return None
    name = "ordinary model, which is kept," if kept else "robust model"
    return (
        f"A constant guess is as good as the {name} in every domain, as far as these rows can "
        "tell: it has learnt nothing."
    )


def beside_in_words(name: str, found: Audit) -> str:
    """What another model loses on the same rows.

    Parameters
    ----------
    name : str
        The model, as the subject of a sentence.
    found : Audit
        Of that model.

    Returns
    -------
    str

    Examples
    --------
    >>> from anymix import audit
    >>> beside_in_words("a constant guess", audit([1, 0, 1, 1], [1, 1, 1, 1], ["a", "a", "b", "b"]))
    "A constant guess has the 0-1 loss 0.2500 on all rows, at worst 0.5000 ('a')."
    """
    k = int(np.argmax(found.worst_mixture))
    worst = f"at worst {short(found.in_unit(found.agnostic_loss))}"
    if found.worst_mixture[k] > 1 - 1e-9:
        worst += f" ({str(found.domain_names[k])!r})"
    return (
        f"{name[0].upper()}{name[1:]} has the {found.unit_title} "
        f"{short(found.in_unit(found.pooled_loss))} on all "
        f"rows, {worst}."
    )
