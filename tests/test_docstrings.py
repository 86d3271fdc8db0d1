"""Every public name is explained in numpydoc form: each parameter, and an example."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Protocol

import anymix

INTERNAL = {"anymix.cli"}  # people meet it as a command, and its help texts explain it
MODULES = {"anymix.optimizers", "anymix.samplers"}  # files that are part of the interface
LONGEST_TYPE = 70  # beyond it the line holds a sentence, not a type

Entries = dict[str, tuple[str, str]]  # name: (type, description)


def public_modules() -> Iterator[Any]:
    """`anymix`, its folders, and the modules that it offers by name."""
    yield anymix
    for found in pkgutil.walk_packages(anymix.__path__, "anymix."):
        if found.ispkg and found.name not in INTERNAL:
            yield importlib.import_module(found.name)
    for name in sorted(MODULES):
        yield getattr(anymix, name.rpartition(".")[2])


def public_names() -> dict[str, Any]:
    """Functions and classes by their full name, each once."""
    found = {
        f"{thing.__module__}.{thing.__qualname__}": thing
        for module in public_modules()
        for name in getattr(module, "__all__", ())
        if callable(thing := getattr(module, name)) and hasattr(thing, "__qualname__")
    }
    return dict(sorted(found.items()))


def sections(text: str) -> dict[str, list[str]]:
    """The lines under every heading of a docstring; a heading has a line of dashes below it."""
    lines = inspect.cleandoc(text).splitlines()
    found: dict[str, list[str]] = {}
    under: list[str] = []
    for line, following in pairwise([*lines, ""]):
        if re.fullmatch(r"-{3,}", following) and line and not line[0].isspace():
            under = found[line] = []
        elif not re.fullmatch(r"-{3,}", line):
            under.append(line)
    return found


def entries(lines: list[str]) -> Entries:
    """`name : type` with its indented description; `a, b : type` is an entry for both."""
    found: Entries = {}
    names: list[str] = []
    for line in lines:
        start = re.fullmatch(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.+))?", line)
        if start:
            names = [name.lstrip("*") for name in start[1].split(", ")]
            found |= {name: ((start[2] or "").strip(), "") for name in names}
        elif line.startswith(" "):
            found |= {name: (found[name][0], f"{found[name][1]} {line}".strip()) for name in names}
    return found


def parameters(thing: Any) -> list[str]:
    """What a caller gives; nothing where only a subclass or Python itself makes the object."""
    if inspect.isclass(thing):
        own = "__init__" in vars(thing)
        if Protocol in thing.__bases__ or (issubclass(thing, BaseException) and not own):
            return []
    return [name for name in inspect.signature(thing).parameters if name != "self"]


def complaints(thing: Any) -> Iterator[str]:
    """What the docstring lacks."""
    found = sections(thing.__doc__ or "")
    known = entries(found.get("Parameters", []))
    if inspect.isclass(thing):
        known |= entries(found.get("Attributes", []))
    for name in parameters(thing):
        kind, description = known.get(name, ("", ""))
        if not kind:
            yield f"{name}: no line '{name} : type'"
        elif len(kind) > LONGEST_TYPE or re.search(r"[.;](\s|$)", kind):
            yield f"{name}: a sentence stands where its type should be"
        elif len(description.split()) < 2:
            yield f"{name}: no sentence below its type"
    if not any(line.startswith(">>> ") for line in found.get("Examples", [])):
        yield "no Examples"


def test_every_public_name_is_explained_in_numpydoc_form() -> None:
    names = public_names()
    assert len(names) > 60
    lacking = {name: list(complaints(thing)) for name, thing in names.items()}
    report = [f"{name}\n    " + "\n    ".join(what) for name, what in lacking.items() if what]
    assert not report, f"{len(report)} of {len(names)} public names:\n" + "\n".join(report)


def test_every_public_method_and_property_is_explained() -> None:
    lacking = [
        f"{name}.{member}"
        for name, thing in public_names().items()
        if inspect.isclass(thing)
        for member, value in vars(thing).items()
        if not member.startswith("_") and not inspect.isclass(value)
        if callable(value) or isinstance(value, (property, classmethod, staticmethod))
        if not inspect.getdoc(getattr(thing, member))
    ]
    assert not lacking


class Good:
    """A class.

    Parameters
    ----------
    size : int
        How large it is.
    low, high : float, default 0
        The least and the largest value.

    Examples
    --------
    >>> good = Good(1, 2, 3)
    """

    def __init__(self, size: int, low: float, high: float = 0) -> None: ...


def bad(size: int, shape: int, weight: int, **options: Any) -> None:
    """Nearly.

    Parameters
    ----------
    size : how large it is; zero is allowed.
        And more.
    shape : int

    >>> bad(1, 2, 3)
    """


def test_what_is_good_and_what_is_bad() -> None:
    assert list(complaints(Good)) == []
    assert list(complaints(bad)) == [
        "size: a sentence stands where its type should be",
        "shape: no sentence below its type",
        "weight: no line 'weight : type'",
        "options: no line 'options : type'",
        "no Examples",
    ]
