"""Λ as people give it: None, a set, a function of the domains' sizes, or a few words.

None -> the simplex,   sizes -> Λ,   "chi2:2.0" -> {λ: 1 + χ²(λ‖m̄) ≤ 2},   "file.json" -> Λ
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures.sets import Box, Chi2Ball, Hull, MixtureSet, Point, Simplex, TVBall, cvar

Array = NDArray[np.float64]
Mixtures = MixtureSet | Callable[[Array], MixtureSet] | None

__all__ = ["Mixtures", "mixture_set", "target_mixtures"]


def target_mixtures(mixtures: Mixtures, max_skewness: float | None, sizes: Array) -> MixtureSet:
    """Λ, cut to {λ: 1 + χ²(λ‖m̄) ≤ r} when max_skewness is r."""
    base: Any = Simplex(len(sizes)) if mixtures is None else mixtures
    if callable(base):
        base = base(sizes)
    if not isinstance(base, MixtureSet):
        raise ValueError(
            f"mixtures is {mixtures!r}; give a mixture set such as Simplex({len(sizes)}), a "
            "function from sizes to one, or None"
        )
    if max_skewness is None:
        return base
    try:
        return Chi2Ball(sizes, max_skewness, base=base)
    except ValueError as error:
        raise ValueError(f"max_skewness is {max_skewness!r}: {error}") from None


def mixture_set(text: str, names: Iterable[Any], sizes: Any) -> MixtureSet:
    """Λ as people write it: simplex, data, chi2:R, cvar:A, tv:R, or a JSON file.

    The file holds a mixture {"north": 0.3, "south": 0.7}, a list of them (all mixtures between), or
    limits {"lower": {"north": 0.2}, "upper": {"north": 0.6}}; a domain not named has 0, or 0 and 1.

    >>> mixture_set("cvar:0.5", ["north", "south"], [10, 30])
    Box(lower=[0., 0.], upper=[0.5, 1. ])
    """
    kind, _, number = text.partition(":")
    m = np.asarray(sizes, dtype=np.float64)
    if kind in ("simplex", "data") and not number:
        return Simplex(len(m)) if kind == "simplex" else Point(m / m.sum())
    if kind in ("chi2", "cvar", "tv"):
        try:
            value = float(number)
        except ValueError:
            example = {"chi2": "chi2:2.0", "cvar": "cvar:0.3", "tv": "tv:0.2"}[kind]
            raise ValueError(f"mixtures is {text!r}; give a number, as in {example}") from None
        made: dict[str, Callable[[], MixtureSet]] = {
            "chi2": lambda: Chi2Ball(m, value),
            "cvar": lambda: cvar(m / m.sum(), value),
            "tv": lambda: TVBall(m / m.sum(), value),
        }
        return made[kind]()
    if text.endswith(".json"):
        try:
            return _mixtures_of_file(Path(text), [str(name) for name in names])
        except ValueError as error:
            named = text in str(error)
            raise ValueError(str(error) if named else f"{text}: {error}") from None
    raise ValueError(
        f"mixtures is {text!r}; give simplex, data, chi2:2.0, cvar:0.3, tv:0.2 or a .json file"
    )


def _mixtures_of_file(path: Path, names: list[str]) -> MixtureSet:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON ({error}); correct it") from None
    if isinstance(found, dict) and set(found) <= {"lower", "upper"} and found:
        lower = _shares(path, found.get("lower", {}), names, 0.0)
        return Box(lower, _shares(path, found.get("upper", {}), names, 1.0))
    if isinstance(found, dict):
        return Point(_shares(path, found, names, 0.0))
    if isinstance(found, list) and found:
        return Hull([_shares(path, mixture, names, 0.0) for mixture in found])
    raise ValueError(f'{path} holds no mixture; write {{"{names[0]}": 1.0}} or a list of such')


def _shares(path: Path, mixture: Any, names: list[str], other: float) -> Array:
    shares = mixture.values() if isinstance(mixture, dict) else [None]
    if not all(isinstance(share, int | float) for share in shares):
        raise ValueError(f'{path} has {str(mixture)[:60]!r}; write shares, {{"{names[0]}": 1.0}}')
    unknown = [name for name in mixture if name not in names]
    if unknown:
        raise ValueError(
            f"{path} names the domain {unknown[0]!r}, which the table has not; it has "
            + ", ".join(names[:20])
        )
    return np.array([mixture.get(name, other) for name in names], dtype=np.float64)
