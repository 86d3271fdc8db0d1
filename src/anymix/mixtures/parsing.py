"""Λ as people give it: None, a set, a function of the domains' sizes, or a few words.

None -> the simplex,   sizes -> Λ,   "chi2:2.0" -> {λ: 1 + χ²(λ‖m̄) ≤ 2},   "file.json" -> Λ
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures.boxes import Box, Simplex
from anymix.mixtures.chi2_ball import Chi2Ball
from anymix.mixtures.hull import Hull
from anymix.mixtures.sets import MixtureSet, Point, data_mixture

Array = NDArray[np.float64]
Mixtures = MixtureSet | Callable[[Array], MixtureSet] | str | None

__all__ = [
    "Mixtures",
    "data_mixture",
    "is_mixture_of",
    "mixture_set",
    "target_mixtures",
]


def _kinds(of: type[MixtureSet] = MixtureSet) -> dict[str, type[MixtureSet]]:
    """The sets that have words, such as "tv:0.2", by the part before the colon."""
    kinds = {of.words.partition(":")[0]: of} if of.words else {}
    for kind in of.__subclasses__():
        kinds |= _kinds(kind)
    return dict(sorted(kinds.items()))


def _words() -> str:
    examples = ", ".join(str(kind.words) for kind in _kinds().values())
    return f"simplex, data, {examples} or a .json file"


def target_mixtures(
    mixtures: Mixtures,
    max_skewness: float | None,
    sizes: ArrayLike,
    names: Iterable[Any] | None = None,
) -> MixtureSet:
    """Λ, cut to {λ: 1 + χ²(λ‖m̄) ≤ r} when max_skewness is r."""
    sizes = np.asarray(sizes, dtype=np.float64)
    base: Any = Simplex(len(sizes)) if mixtures is None else mixtures
    if isinstance(base, str):
        base = mixture_set(base, names, sizes)
    if callable(base):
        base = base(sizes)
    if not isinstance(base, MixtureSet):
        raise InputError(
            "mixtures",
            f"is {mixtures!r}",
            f"give a mixture set such as Simplex({len(sizes)}), a function from sizes to one, "
            f"None, or {_words()}",
        )
    if base.n_domains != len(sizes):
        found = f"is over {base.n_domains} domains but the data have {len(sizes)}"
        raise InputError("mixtures", found, f"give a set over {len(sizes)}, or a function of sizes")
    if max_skewness is None:
        return base
    try:
        return Chi2Ball(sizes, max_skewness, base=base)
    except InputError as error:
        argument = "max_skewness" if error.argument == "r" else error.argument
        raise InputError(argument, error.found, error.fix) from None


def is_mixture_of(mixtures: MixtureSet, sizes: ArrayLike, n_rows: float) -> bool:
    """Whether Λ is but {m̄}, up to one row: then every model is the ordinary one."""
    m = np.asarray(sizes, dtype=np.float64)
    if not mixtures.is_point or mixtures.n_domains != m.size:
        return False
    return bool(np.allclose(mixtures.center, m / m.sum(), rtol=0, atol=1 / n_rows))


def mixture_set(text: str, names: Iterable[Any] | None, sizes: ArrayLike) -> MixtureSet:
    """Λ as people write it: simplex, data, the `words` of a set such as tv:0.2, or a file.

    The file is JSON. It holds a mixture {"north": 0.3, "south": 0.7}, a list of them (all mixtures
    between), or limits {"lower": {"north": 0.2}, "upper": {"north": 0.6}}; a domain not named has
    0, or 0 and 1.
    """
    kind, _, number = text.partition(":")
    m = np.asarray(sizes, dtype=np.float64)
    if kind in ("simplex", "data") and not number:
        return Simplex(len(m)) if kind == "simplex" else data_mixture(m)
    if kind in _kinds():
        return _around_the_data(_kinds()[kind], text, number, m)
    if not text.endswith(".json"):
        raise InputError("mixtures", f"is {text!r}", f"give {_words()}, or a mixture set")
    if names is None:
        found = f"is {text!r}, a file that names domains, but here they have no names"
        raise InputError("mixtures", found, "give a mixture set")
    try:
        return _mixtures_of_file(Path(text), [str(name) for name in names])
    except ValueError as error:
        if text in str(error):
            raise
        raise InputError(f"{text}:", str(error), "correct the file") from None


def _around_the_data(kind: type[MixtureSet], text: str, number: str, m: Array) -> MixtureSet:
    """Mixtures not too far from m̄; a number that cannot be is refused in the words given."""
    try:
        value = float(number)
    except ValueError:
        fix = f"give a number, as in {kind.words}"
        raise InputError("mixtures", f"is {text!r}", fix) from None
    try:
        return kind.around(m, value)
    except InputError as error:
        if error.argument in ("mixture", "sizes"):  # the data are at fault, not the number
            raise
        raise InputError("mixtures", f"is {text!r}", f"{error.fix}, as in {kind.words}") from None


def _mixtures_of_file(path: Path, names: list[str]) -> MixtureSet:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(str(path), f"cannot be read as JSON ({error})", "correct it") from None
    if isinstance(found, dict) and set(found) <= {"lower", "upper"} and found:
        lower = _shares(path, found.get("lower", {}), names, 0.0)
        return Box(lower, _shares(path, found.get("upper", {}), names, 1.0))
    if isinstance(found, dict):
        return Point(_shares(path, found, names, 0.0))
    if isinstance(found, list) and found:
        return Hull([_shares(path, mixture, names, 0.0) for mixture in found])
    fix = f'write {{"{names[0]}": 1.0}} or a list of such'
    raise InputError(str(path), "holds no mixture", fix)


def _shares(path: Path, mixture: Any, names: list[str], other: float) -> Array:
    given = mixture.values() if isinstance(mixture, dict) else [None]
    if not all(isinstance(share, int | float) for share in given):
        fix = f'write shares, {{"{names[0]}": 1.0}}'
        raise InputError(str(path), f"has {str(mixture)[:60]!r}", fix)
    unknown = [name for name in mixture if name not in names]
    if unknown:
        raise InputError(
            str(path),
            f"names the domain {unknown[0]!r}, which the table has not",
            "it has " + ", ".join(names[:20]),
        )
    return np.array([mixture.get(name, other) for name in names], dtype=np.float64)
