"""How `fit` takes the domains: by their name, by no other name, and not without a word."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from anymix.errors import InputError

__all__ = ["ArgumentError", "NoDomainsWarning", "by_name", "no_domains"]

Method = TypeVar("Method", bound=Callable[..., Any])

ELSEWHERE = ("domain", "group", "groups", "sensitive_features")  # what other libraries call them
ORDINARY = (
    "fit was given no domains, so it has trained an ordinary model, for all rows alike: write "
    "fit(X, y, domains=...), or domains=None if that is meant; in cross_validate and "
    'cross_val_score params={"domains": d}'
)


class ArgumentError(InputError, TypeError):
    """An argument was given in a way that a method does not take."""


class NoDomainsWarning(UserWarning):
    """A model was fitted, or one that knows the domains asked, without a word of the domains.

    What is fitted is then an ordinary model, for all rows alike; what predicts is the part that the
    domains share. `fit(X, y, domains=None)` does the same and does not warn.

    Examples
    --------
    >>> import warnings
    >>> import anymix as ax
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     model = ax.AgnosticClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> [warning.category.__name__ for warning in caught]
    ['NoDomainsWarning']
    """


def by_name(method: Method) -> Method:
    """A method of X and y that takes all else by name, and warns without domains."""
    name, known = method.__name__, list(signature(method).parameters)[1:]

    @wraps(method)
    def checked(self: Any, X: Any, y: Any = None, *more: Any, **named: Any) -> Any:
        if more:
            found = "has a third argument without a name"
            fix = f"write {name}(X, y, domains=...) or {name}(X, y, sample_weight=...)"
            raise ArgumentError(name, found, fix)
        for argument in (argument for argument in named if argument not in known):
            fix = f"write {name}(X, y, domains=...)" if argument in ELSEWHERE else f"give {known}"
            raise ArgumentError(argument, f"is no argument of {name}", fix)
        found = method(self, X, y, **named)
        knows = "domains" in named or hasattr(X, "brings_curvature")  # a problem has its own
        if not knows:
            warnings.warn(ORDINARY, NoDomainsWarning, stacklevel=2)
        return found

    return cast(Method, checked)


def no_domains(estimator: Any) -> dict[str, None]:
    """What tells `fit` of any estimator that it is to do without domains, if it takes them."""
    return {"domains": None} if "domains" in signature(estimator.fit).parameters else {}
