"""How the kernels are compiled by Numba, and kept on disk until a source of theirs changes.

Numba compares a compiled function with its own file only, though it holds the code of all that it
calls: a mended `simplex.py` would leave the old code of `kernels.advance` in use. Here the name of
the file on disk says what it was compiled from: all `sources` and the version of Numba. A change of
any of them asks for a name that is not there yet, and the next file to be written takes away those
of other sources.

Where the files lie is Numba's choice: NUMBA_CACHE_DIR if set, `__pycache__` beside the source, or a
folder of the user where that cannot be written. Where none can, all is compiled in every process.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
WITHIN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def jit(function: Function) -> Function:
    """Compiled at the first call and kept on disk; other threads run meanwhile.

    Nothing is allocated in compiled code, so references to arrays need not be counted (`_nrt`):
    that would take longer than the steps.
    """
    return _compiled(function, **OPTIONS)


def part(function: Function) -> Function:
    """As `jit`, for functions that only compiled ones call."""
    return _compiled(function, **OPTIONS, **WITHIN)


def inline(function: Function) -> Function:
    """As `part`, copied to where it is called."""
    return _compiled(function, **OPTIONS, **WITHIN, forceinline=True)


def fast(function: Function) -> Function:
    """As `inline`, and numbers may be added up in any order."""
    rounding = {"reassoc", "contract", "nsz"}
    return _compiled(function, **OPTIONS, **WITHIN, forceinline=True, fastmath=rounding)


def _compiled(function: Function, **options: Any) -> Function:
    dispatcher = numba.njit(**options)(function)
    try:
        dispatcher._cache = SourceCache(function)
    except RuntimeError:  # Numba found no folder that can be written
        warnings.warn(
            "there is no folder to keep compiled code in, so every process compiles it again: set "
            "NUMBA_CACHE_DIR to one that can be written",
            RuntimeWarning,
            stacklevel=1,  # one place for all functions, so it is shown once
        )
    return cast(Function, dispatcher)


def sources(package: Traversable) -> list[str]:
    """All that compiled code is made of: the version of anymix, and every file of this folder."""
    folder = package.joinpath("solvers").joinpath("compiled")
    found = folder.iterdir() if folder.is_dir() else iter(())
    names = sorted(file.name for file in found if file.name.endswith(".py"))
    return ["__init__.py", *(f"solvers/compiled/{name}" for name in names)]


def stamp(package: Traversable) -> str:
    """A short name for the sources in a folder or in a zip file.

    A frozen program has no source files; there the stamp that Numba writes inside has to do.
    """
    digest = sha256()
    for name in sources(package):
        source = package.joinpath(name)
        text = source.read_bytes() if source.is_file() else b""
        digest.update(f"{name} {len(text)} ".encode() + text)
    return digest.hexdigest()[:16]


STAMP = stamp(files("anymix"))


@lru_cache(maxsize=1)
def _announce() -> None:
    """Say once that code is compiled, for those who listen to the log."""
    said = "compiling the stochastic solver, which takes 10 to 20 seconds once and is kept"
    logging.getLogger("anymix.solvers").info(said)


class SourceCache(FunctionCache):  # type: ignore[misc]  # Numba has no types
    """Files named after the sources and the signature, an index and the code for each signature.

    Numba numbers the signatures of a function as they come. Two processes that compile at the same
    time would both write number 1, and one of them find the other's code there later.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is on disk for a signature, or None."""
        self._cache_file = self._file(sig, target_context.codegen())
        found = super().load_overload(sig, target_context)
        if found is None:
            _announce()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write it, and remove what was compiled from other sources."""
        self._cache_file = self._file(sig, data.codegen)
        super().save_overload(sig, data)
        name = self._impl.filename_base.rpartition("-")[0]  # without the line and the Python
        for path in Path(self._cache_path).glob(f"{name}-*.nb[ci]"):
            if STAMP not in path.name:
                with suppress(OSError):  # in use, or another process was first
                    path.unlink()

    def _file(self, sig: Any, codegen: Any) -> IndexDataCacheFile:
        key = repr((numba.__version__, *self._index_key(sig, codegen)))
        name = f"{self._impl.filename_base}.{STAMP}.{sha256(key.encode()).hexdigest()[:16]}"
        return IndexDataCacheFile(self._cache_path, name, self._cache_file._source_stamp)
