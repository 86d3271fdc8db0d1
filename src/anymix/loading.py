"""What takes long to load is loaded when it is asked for, and looked through only once.

Names of a package that take long to load, or belong to an extra, are then paid for by those alone
who use them.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["extra", "keep_what_is_loaded", "names_on_demand"]


@contextmanager
def extra(name: str, module: str) -> Iterator[None]:
    """Around imports that need `module`: where it is not installed, the error names the extra.

    Parameters
    ----------
    name : str
        The name of the extra.
    module : str
        The package that it installs.

    Examples
    --------
    >>> with extra("torch", "no_such_package"):
    ...     import no_such_package.part
    Traceback (most recent call last):
    ModuleNotFoundError: no_such_package is not installed; pip install 'anymix[torch]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        said = f"{module} is not installed; pip install 'anymix[{name}]'"
        raise ModuleNotFoundError(said, name=module) from None


def names_on_demand(
    package: str, place: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are in modules not loaded yet.

    Parameters
    ----------
    package : str
        Its name.
    place : mapping of str to str
        For each name the module that has it; for a module itself, its own name.

    Returns
    -------
    getattr, dir : function
        What Python asks for a name that the package lacks, and for all its names.

    Examples
    --------
    >>> get, names = names_on_demand("anymix.mixtures", {"Simplex": "anymix.mixtures.boxes"})
    >>> get("Simplex")(2).n_domains, "Simplex" in names()
    (2, True)
    >>> get("Sphere")
    Traceback (most recent call last):
    AttributeError: module 'anymix.mixtures' has no attribute 'Sphere'
    """

    def found(name: str) -> Any:
        if name not in place:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(place[name])
        return module if place[name].rpartition(".")[2] == name else getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *place})

    return found, names


def keep_what_is_loaded() -> None:
    """Spare Python's search for rubbish the libraries, which stay to the end of a command.

    They are many thousands of objects, which would be looked through several times while a model
    is fitted. The second call of a process does nothing: what a program made meanwhile may
    well be rubbish one day.
    """
    if not gc.get_freeze_count():
        gc.freeze()
