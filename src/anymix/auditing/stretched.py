"""Numbers of rows that are on disk, taken for arrays: worked on in stretches, never all at once.

A `Stretched` stands where an array of numbers would: sums, means, extremes, counts and products of
two are computed a stretch at a time, in as many passes as there are questions; elementwise
functions, such as M − x, are only noted down until then. What needs all numbers side by side, such
as sorting, makes an array of them by `np.asarray`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

__all__ = ["STRETCH", "Run", "Stretched"]

STRETCH = 65_536  # numbers that are in memory together


@dataclass(frozen=True)
class Run:
    """Rows one after the other, such as those of a domain in a file that is sorted by it."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class Stretched(NDArrayOperatorsMixin):
    """n numbers, of which `read(start, stop)` gives some.

    Parameters
    ----------
    n : int
        How many there are.
    read : function
        (start, stop) -> an array of the numbers from start on, up to stop.

    Examples
    --------
    >>> x = Stretched(4, lambda start, stop: np.arange(4.0)[start:stop])
    >>> len(x), float(np.mean(3 - x)), float((x * x).sum()), float(x @ x), float((2 * x).max())
    (4, 1.5, 14.0, 14.0, 6.0)
    """

    def __init__(self, n: int, read: Callable[[int, int], NDArray[Any]]) -> None:
        self._n, self._read = n, read

    def __len__(self) -> int:
        return self._n

    @property
    def shape(self) -> tuple[int]:
        """That of an array."""
        return (self._n,)

    ndim = 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the numbers."""
        return self._read(0, min(1, self._n)).dtype

    def stretches(self) -> Iterator[NDArray[Any]]:
        """All numbers, some at a time."""
        for start in range(0, self._n, STRETCH):
            yield self._read(start, min(start + STRETCH, self._n))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self._read(0, self._n)
        return found if dtype is None else found.astype(dtype)

    def __getitem__(self, part: Any) -> Any:
        """A stretch, as an array if it is short; numbers at any places, as an array."""
        if isinstance(part, Run):
            found = self[part.start : part.stop]
            return np.asarray(found) if len(part) <= STRETCH else found
        if isinstance(part, Stretched):  # whether to take each of them
            pairs = (_stretch_of((self, part), s) for s in range(0, self._n, STRETCH))
            return np.concatenate([x[chosen] for x, chosen in pairs])
        if isinstance(part, slice) and part.step in (None, 1):
            first, last, _ = part.indices(self._n)
            count = max(0, last - first)
            return Stretched(count, lambda start, stop: self._read(first + start, first + stop))
        places = np.asarray(part)
        found = np.empty(len(places), dtype=self.dtype)
        for start in range(0, self._n, STRETCH):
            here = np.flatnonzero((places >= start) & (places < start + STRETCH))
            if len(here):
                values = self._read(start, min(start + STRETCH, self._n))
                found[here] = values[places[here] - start]
        return found

    # -- elementwise -----------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.matmul:
            return _product(*inputs)
        return _mapped(ufunc, inputs)

    def astype(self, kind: Any) -> Stretched:
        """The same numbers of another type."""
        return Stretched(self._n, lambda start, stop: self._read(start, stop).astype(kind))

    # -- numbers of all --------------------------------------------------------------------------

    def sum(self, **_: Any) -> Any:
        """Σ x, the stretches' sums added without rounding."""
        sums = [part.sum() for part in self.stretches()]
        return sum(sums) if not sums or sums[0].dtype.kind != "f" else np.float64(math.fsum(sums))

    def mean(self, **_: Any) -> Any:
        """Σ x/n."""
        return np.float64(self.sum() / self._n)

    def min(self, **_: Any) -> Any:
        """The least."""
        return min(part.min() for part in self.stretches())

    def max(self, **_: Any) -> Any:
        """The largest."""
        return max(part.max() for part in self.stretches())

    def any(self, **_: Any) -> bool:
        """Whether one is not 0."""
        return any(bool(part.any()) for part in self.stretches())

    def __array_function__(self, f: Any, types: Any, arguments: Any, options: Any) -> Any:
        if f in (np.mean, np.any, np.sum):
            return getattr(self, f.__name__)()
        if f is np.where:
            return _mapped(f, arguments)
        if f is np.ptp:
            return self.max() - self.min()
        if f is np.concatenate:
            return _one_after_the_other(arguments[0])
        if f is np.bincount:
            return _counted(*arguments, **options)
        return NotImplemented


def _mapped(f: Callable[..., Any], inputs: tuple[Any, ...]) -> Stretched:
    """f of numbers side by side, noted down."""
    n = next(len(x) for x in inputs if isinstance(x, Stretched))

    def read(start: int, stop: int) -> NDArray[Any]:
        return np.asarray(f(*(_stretch(x, start, stop) for x in inputs)))

    return Stretched(n, read)


def _stretch(x: Any, start: int, stop: int) -> Any:
    if isinstance(x, Stretched):
        return x._read(start, stop)
    return x[start:stop] if np.ndim(x) else x


def _stretch_of(numbers: tuple[Stretched, ...], start: int) -> list[Any]:
    return [_stretch(x, start, min(start + STRETCH, len(x))) for x in numbers]


def _product(a: Any, b: Any) -> np.float64:
    """Σ aᵢ bᵢ."""
    return np.float64(_mapped(np.multiply, (a, b)).sum())


def _one_after_the_other(parts: Any) -> Stretched:
    """The numbers of all parts, stretched or arrays."""
    ends = np.cumsum([len(part) for part in parts]).tolist()

    def read(start: int, stop: int) -> NDArray[Any]:
        found = [
            _stretch(part, max(start - end + len(part), 0), min(stop - end, 0) + len(part))
            for part, end in zip(parts, ends, strict=True)
            if start < end and stop > end - len(part)
        ]
        return np.concatenate(found or [np.zeros(0)])

    return Stretched(ends[-1], read)


def _counted(places: Any, weights: Any = None, minlength: int = 0) -> NDArray[Any]:
    """np.bincount, a stretch at a time."""
    n, total = len(places), np.zeros(minlength, dtype=np.intp if weights is None else np.float64)
    for start in range(0, n, STRETCH):
        where, w = (_stretch(x, start, min(start + STRETCH, n)) for x in (places, weights))
        found: NDArray[Any] = np.bincount(where, w, minlength=len(total))
        found[: len(total)] += total
        total = found
    return total
