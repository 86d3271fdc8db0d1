"""What a page or a picture is asked for, checked before anything is made of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.auditing import Audit, compare
from anymix.errors import InputError
from anymix.reporting.shown import Shown

__all__ = [
    "checked_audits",
    "checked_beside",
    "checked_file",
    "checked_mixture",
    "checked_verdict",
    "extra_of",
]


def checked_audits(audits: Any) -> Shown:
    """Audits that can stand side by side: of the same domains, loss, set Λ and confidence."""
    named = {"model": audits} if isinstance(audits, Audit) else audits
    if not isinstance(named, Mapping):
        fix = "give what audit() returned, or several by name: {'old': ..., 'new': ...}"
        raise InputError("audits", f"is a {type(audits).__name__}", fix)
    named = {str(name): audit for name, audit in named.items()}
    if not named:
        raise InputError("audits", "is empty", "give at least one audit")
    first = next(iter(named))
    for name, audit in named.items():
        _check_comparable(first, named[first], f"audits[{name!r}]", audit)
        _check_finite(f"audits[{name!r}]", audit)
    return Shown(named)


def checked_beside(beside: Any, shown: Shown) -> dict[str, Audit]:
    """Audits of other models that can stand beside those shown."""
    if beside is None:
        return {}
    if not isinstance(beside, Mapping):
        fix = "give audits by name: {'a constant guess': ...}"
        raise InputError("beside", f"is a {type(beside).__name__}", fix)
    named = {str(name): audit for name, audit in beside.items()}
    for name, audit in named.items():
        _check_comparable(next(iter(shown.audits)), shown.first, f"beside[{name!r}]", audit)
        _check_finite(f"beside[{name!r}]", audit)
    return named


def _check_comparable(first: str, audit: Any, argument: str, other: Any) -> None:
    try:
        compare(audit, other)
    except ValueError as error:
        reason, _, fix = str(error).partition("; ")
        found = f"cannot stand beside audits[{first!r}]: {reason}"
        raise InputError(argument, found, fix) from None


def _check_finite(argument: str, audit: Audit) -> None:
    finite = np.isfinite(audit.domain_losses)
    if not np.all(finite):
        k = int(np.argmin(finite))
        found = f"has loss {audit.domain_losses[k]} on domain {audit.domain_names[k]!r}"
        found += ", so a mixture with it has none"
        raise InputError(argument, found, "leave that domain out")


def checked_mixture(mixture: ArrayLike, p: int) -> NDArray[np.float64]:
    """A mixture of p domains: shares λ_k ≥ 0 with Σ λ_k = 1."""
    lam = np.asarray(mixture, dtype=np.float64)
    if lam.shape != (p,) or not (np.all(lam >= -1e-9) and abs(lam.sum() - 1) <= 1e-6):
        fix = f"give {p} shares ≥ 0 of sum 1, one a domain"
        raise InputError("mixture", f"is {lam} of shape {lam.shape}", fix)
    return lam


def checked_verdict(verdict: Any) -> str | None:
    """A sentence, or nothing."""
    if verdict is None:
        return None
    if not isinstance(verdict, str) or not verdict.strip():
        raise InputError("verdict", f"is {verdict!r}", "give a sentence, or None")
    return verdict


def checked_file(path: Any) -> Path:
    """The path of a file that may be written, which a folder's is not."""
    if not isinstance(path, str | os.PathLike):
        raise InputError("path", f"is {path!r}", "give the name of a file")
    file = Path(path)
    if file.is_dir():
        fix = "name a file in it, say report.html"
        raise InputError("path", f"is the folder {str(path)!r}", fix)
    return file


@contextmanager
def extra_of(wanted_by: str) -> Iterator[None]:
    """Around imports of the extra `report`: what is missing becomes an error with its remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        found = f"{wanted_by} needs {str(error.name).partition('.')[0]}"
        raise InputError("", found, "pip install 'anymix[report]'") from None
