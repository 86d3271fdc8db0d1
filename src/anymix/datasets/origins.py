"""Where the files of a data set come from, and how to know that they are genuine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Origin", "PermissionNeededError", "quoted"]


class PermissionNeededError(OSError):
    """The data would have to come by a way that the caller has not allowed.

    Examples
    --------
    >>> raise PermissionNeededError("not without your word")
    Traceback (most recent call last):
        ...
    anymix.datasets.origins.PermissionNeededError: not without your word
    """


@dataclass(frozen=True)
class Origin:
    """Where the files of one data set come from, and how to tell that they are genuine.

    Attributes
    ----------
    name : str
        The name of the data set.
    citation : str
        The paper or page to cite when you use the data.
    licence : str
        Under which terms the data are given.
    sums : mapping of str to str
        For each file, the sha256 of its bytes, unpacked.
    address : str
        The public folder of the files; "" if there is none.
    packing : str
        What their names end in there: "" or ".gz".
    package : str
        What holds the same bytes in a package registry, in words; "" if nothing does.
    from_package : function
        Called with the names of files, an empty folder to work in and `allow_apt`; gives the bytes.
    """

    name: str
    citation: str
    licence: str
    sums: Mapping[str, str]
    address: str
    packing: str
    package: str
    from_package: Callable[[Sequence[str], Path, bool], dict[str, bytes]]


def quoted(names: Sequence[object]) -> str:
    """The names in quotes, for messages.

    Examples
    --------
    >>> quoted(["a", "b"])
    "'a', 'b'"
    """
    return ", ".join(repr(name) for name in names)
