"""Numbers that another library owns, by their address: x[i] reads and writes them.

To hand over an address takes a tenth of the time of making a NumPy array around the numbers. Nobody
checks i: whoever gives an address has to know how many numbers lie there.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

__all__ = ["doubles", "floats", "integers"]


def _reading(number: Any) -> Any:
    """The function address -> pointer to numbers of a type, for compiled code."""

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(typing_context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

        return types.CPointer(number)(types.int64), code

    return pointer


doubles = _reading(types.float64)
floats = _reading(types.float32)
integers = _reading(types.int64)
