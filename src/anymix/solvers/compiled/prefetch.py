"""Memory that a step will need soon is fetched to the cache, while the step before it runs.

Rows lie anywhere in memory, and waiting for them would cost more than a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import inline
from anymix.solvers.compiled.entropic_tree import Entropic
from anymix.solvers.compiled.euclidean_tree import Euclidean
from anymix.solvers.compiled.records import Choice, Data

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@inline
def fetch_ahead(
    data: Data, ahead: Choice, euclidean: Euclidean | None, entropic: Entropic | None
) -> None:
    """All that the next step will touch, if it is about these rows."""
    fetch_rows(data, ahead.rows)
    fetch_rows(data, ahead.mixture_rows)
    if euclidean is not None:
        fetch_places(euclidean.first, euclidean.low, euclidean.drag, ahead.domains)
        fetch_nodes(euclidean, ahead.domains)
    if entropic is not None:
        fetch_places(entropic.first, entropic.weight, entropic.drag, ahead.domains)


@inline
def fetch_rows(data: Data, rows: Integers) -> None:
    """Let these rows come to the cache: they lie anywhere, and waiting costs more than a step."""
    for i in rows:
        fetch(data.y, i)
        start, stop = i * data.d, (i + 1) * data.d
        if len(data.ends) > 0:
            start, stop = data.ends[i], data.ends[i + 1]
            for e in range(start, stop, 16):
                fetch(data.columns, e)
        for e in range(start, stop, 8):
            fetch(data.values, e)


@inline
def fetch_places(first: Integers, values: Array, drag: Array, domains: Integers) -> None:
    """The same for the entries that δ_λ will move in a large tree, and for the nodes above them."""
    if len(first) > 5:  # a small one is in the cache
        for j in range(len(domains) // 2):
            for level in range(3):
                place = first[level] + (domains[j] >> 3 * (level + 1) << 3)
                fetch(values, place)
                fetch(values, place + 7)
            fetch(drag, domains[j])


@inline
def fetch_nodes(tree: Euclidean, domains: Integers) -> None:
    """The same for what these nodes know."""
    if len(tree.first) > 5:
        for j in range(len(domains) // 2):
            for level in range(1, 3):
                place = tree.first[level] + (domains[j] >> 3 * (level + 1) << 3)
                fetch(tree.drag, place)
                fetch(tree.drag, place + 7)
                for c in range(0, 9, 2):
                    fetch(tree.node, 4 * (place - tree.first[1] + c))


def _fetch(context: Any, array: Any, place: Any) -> Any:
    """Start to load array[place] into the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(prefetch, [address, number(0), number(3), number(1)])  # to read, soon, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


fetch = cast(Callable[[NDArray[Any], int], None], intrinsic(_fetch))
