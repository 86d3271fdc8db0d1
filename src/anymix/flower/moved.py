"""Arguments that have gone elsewhere: whoever still gives one is told where."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from anymix.errors import InputError

P = ParamSpec("P")

__all__ = ["MOVED", "refuse_moved"]

MOVED = {
    "on_missing": "patience=Patience(on_missing=...)",
    "deadline": "patience=Patience(deadline=...)",
    "min_clients": "patience=Patience(min_clients=...)",
    "max_failures": "patience=Patience(max_failures=...)",
    "min_share": "aggregation=Sum(min_share=...)",
    "privacy": "aggregation=Privacy(...)",
    "loss_bound": "limits=Limits(loss=...)",
    "update_bound": "limits=Limits(update=...)",
    "max_rows": "limits=Limits(rows=...)",
}


def refuse_moved(init: Callable[P, None]) -> Callable[P, None]:
    """The constructor, with an InputError that names the new place of each old argument."""

    @wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        for name in kwargs:
            if name in MOVED:
                raise InputError(name, "is no argument since 0.2", f"give {MOVED[name]}")
        init(*args, **kwargs)

    return checked
