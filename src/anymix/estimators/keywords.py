"""`fit(X, y, weights)` would make every weight a domain: what follows y goes by its name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from anymix.errors import InputError

__all__ = ["UnnamedError", "by_name", "in_search"]

Method = TypeVar("Method", bound=Callable[..., Any])


class UnnamedError(InputError, TypeError):
    """An argument was given without its name."""


def by_name(method: Method) -> Method:
    """A method of X and y that refuses a third argument without a name, and says how to give it.

    Parameters
    ----------
    method : function
        Takes self, X and y, and then arguments by name.

    Examples
    --------
    >>> class Model:
    ...     @by_name
    ...     def fit(self, X, y=None, *, domains=None, sample_weight=None):
    ...         return domains
    >>> Model().fit([], [], domains=["a"])
    ['a']
    >>> Model().fit([], [], [1.0])
    Traceback (most recent call last):
        ...
    anymix.estimators.keywords.UnnamedError: fit has a third argument without a name; write ...
    """
    name = method.__name__

    @wraps(method)
    def checked(self: Any, X: Any, y: Any = None, *more: Any, **named: Any) -> Any:
        if more:
            found = "has a third argument without a name"
            fix = f"write {name}(X, y, domains=...) or {name}(X, y, sample_weight=...)"
            raise UnnamedError(name, found, fix)
        return method(self, X, y, **named)

    return cast(Method, checked)


def in_search() -> bool:
    """Whether one of many fits of a search or a cross-validation of scikit-learn is under way."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") == "sklearn.model_selection._validation":
            return True
    return False
