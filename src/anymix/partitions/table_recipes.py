"""How the columns of a table are to be read, learnt from one pass over it."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anymix.errors import InputError
from anymix.partitions.arrow_cells import ArrowCells, Recipe, is_date, is_number, plain, titles_of
from anymix.partitions.learning import LevelSums, finished, sums_of
from anymix.partitions.streamed import Log
from anymix.problem.columns import MISSING
from anymix.problem.losses import CrossEntropy, Loss, SquaredError

__all__ = ["Look", "Visit", "Wanted", "column_names", "recipe_of"]

MOST_CLASSES = 10  # whole numbers up to so many are classes, unless a loss says otherwise
MOST_DOMAINS = 1_000


class Visit(Protocol):
    """A pass over some columns."""

    def __call__(self, work: Callable[[Any, int], Any], names: Sequence[str]) -> Iterable[Any]:
        """What `work` gives for the cells of each chunk and the number of its first row."""
        ...


def column_names(domain: Any) -> tuple[str, ...]:
    """The columns of the domains; none is one domain of all rows."""
    if domain is None:
        return ()
    several = isinstance(domain, Iterable) and not isinstance(domain, str)
    return tuple(domain) if several else (domain,)


@dataclass(frozen=True, eq=False)
class Wanted:
    """What somebody wants to learn from a table."""

    target: str
    domains: tuple[str, ...]
    features: Sequence[str] | None = None  # None: all others
    columns: Any = "auto"  # "auto" learns, "plain" takes them as they are
    weight: str | None = None
    loss: Loss | None = None  # None: that which suits the target
    id: str | None = None  # deals rows out to folds

    def names(self, schema: Any) -> list[str]:
        """The features of a table of this schema."""
        self._check_names()
        special = [self.target, *self.domains, *(n for n in (self.weight, self.id) if n)]
        given = [] if self.features is None else list(column_names(self.features))
        if self.target in given:
            found = f"has {self.target!r}, which is to be predicted"
            raise InputError("features", found, "leave it out")
        for name in [*special, *given]:
            if name not in schema.names:
                near = difflib.get_close_matches(name, schema.names, 1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {schema.names[:20]}"
                raise InputError("the table", f"has no column {name!r}", hint)
        self._check_types(schema)
        return given or [n for n in schema.names if n not in {*special, *self.nested(schema)}]

    def _check_names(self) -> None:
        """Refuse arrays and other things in the place of columns' names."""
        one = {"weight": self.weight, "id": self.id}
        given: list[tuple[str, Any]] = [(k, name) for k, name in one.items() if name is not None]
        given += [("target", self.target), *(("domain", name) for name in self.domains)]
        given += [("features", name) for name in column_names(self.features)]
        for argument, name in given:
            if not isinstance(name, str):
                found, fix = f"is a {type(name).__name__}", "give the name of a column"
                raise InputError(argument, found, fix)

    def nested(self, schema: Any) -> list[str]:
        """The columns of lists and records, which are no features unless they are named."""
        from pyarrow import types

        return [field.name for field in schema if types.is_nested(field.type)]

    def _check_types(self, schema: Any) -> None:
        """Refuse dates to predict, and weights that are no numbers."""
        from pyarrow import types

        if is_date(schema.field(self.target).type):
            fix = "name a target of numbers or classes"
            raise InputError(f"column {self.target!r}", "holds dates", fix)
        kind = None if self.weight is None else schema.field(self.weight).type
        if kind is not None and not (is_number(kind) or types.is_boolean(kind)):
            found = f"holds {kind}, no numbers"
            raise InputError(f"column {self.weight!r}", found, "give weights ≥ 0")


@dataclass(frozen=True, eq=False)
class Look:
    """The sums of one chunk that tell how to read the table: can be sent to a worker."""

    kinds: dict[str, str]  # features: "number", "category" or "date"
    coded: tuple[str, ...]  # target and domains, counted whatever their type
    limit: int | None = None  # of the samples for medians, where all chunks answer at once

    def __call__(self, cells: ArrowCells, start: int) -> dict[str, list[Any]]:
        """The sums of the features, and those of target and domains."""
        target, *domains = self.coded
        known = cells.known(target)
        features: list[Any] = sums_of(self.kinds, known, start, self.limit)
        labels = [_counted(known, name) for name in domains]
        return {"features": features, "coded": [_counted(cells, target), *labels]}


def _counted(cells: ArrowCells, name: str) -> LevelSums:
    """How often each value occurs; of too many no text is made."""
    codes, values = cells.coded(name)
    if len(values) > MOST_DOMAINS:
        return LevelSums(name, too_many=True)
    return LevelSums.of(name, codes, titles_of(values))


def recipe_of(
    wanted: Wanted, schema: Any, visit: Visit, log: Log, limit: int | None = None
) -> tuple[Recipe, Loss, list[str]]:
    """How to read the table, the loss, and notes."""
    names, is_auto = wanted.names(schema), isinstance(wanted.columns, str)
    if is_auto and wanted.columns not in ("auto", "plain"):
        fix = "give 'auto', 'plain', or the columns of an earlier problem"
        raise InputError("columns", f"is {wanted.columns!r}", fix)
    kinds = {name: _kind(schema.field(name).type) for name in names}
    if is_auto and wanted.columns == "plain":
        for name in [n for n in names if kinds[n] != "number"]:
            raise InputError(f"column {name!r}", "holds no numbers", "take columns='auto'")
    learnt = names if is_auto and wanted.columns == "auto" else []
    look = Look({name: kinds[name] for name in learnt}, (wanted.target, *wanted.domains), limit)
    found = _added(visit, look, [*learnt, *look.coded], log)
    columns, notes = tuple(names) if is_auto else tuple(wanted.columns), list[str]()
    if learnt:
        dates = [name for name in learnt if kinds[name] == "date"]
        columns, notes = finished(found["features"], _again(visit, log, wanted.target), dates)
    loss = wanted.loss or _loss(found["coded"][0], schema.field(wanted.target).type)
    recipe = Recipe(
        wanted.target,
        wanted.domains,
        wanted.weight,
        columns,
        loss.takes_classes,
        _words(found["coded"], schema),
        wanted.id,
    )
    missing = found["coded"][0].counts.get(MISSING, 0)
    if missing:
        notes.append(f"{wanted.target!r}: {missing:,} rows without it, left out")
    nested = [] if wanted.features else wanted.nested(schema)
    return (
        recipe,
        loss,
        notes + [f"{name!r}: left out, it holds lists or records" for name in nested],
    )


def _kind(type_: Any) -> str:
    """Whether a column of this type holds numbers, dates or levels."""
    return "number" if is_number(type_) else "date" if is_date(type_) else "category"


def _added(visit: Visit, look: Look, names: Sequence[str], log: Log) -> dict[str, list[Any]]:
    """The sums of all chunks: one pass."""
    total: dict[str, list[Any]] = {}
    begun = time.perf_counter()
    for found in visit(look, list(dict.fromkeys(names))):
        for kind, sums in found.items():
            for known, new in zip(total.setdefault(kind, sums), sums, strict=True):
                if known is not new:
                    known.add(new)
    log.add("means, scales and levels", begun)
    rows = [sums.too_many or sum(sums.counts.values()) for sums in total.get("coded", [])]
    if not any(rows):
        raise InputError("the table", "has no rows", "give some, or another filter")
    if total["coded"][0].counts.keys() == {MISSING}:
        raise InputError(f"column {look.coded[0]!r}", "is empty", "name another target")
    return total


@dataclass(frozen=True, eq=False)
class _OfLabelled:
    """What some work gives for the rows of a chunk that have a target."""

    work: Any
    target: str

    def __call__(self, cells: ArrowCells, start: int) -> Any:
        return self.work(cells.known(self.target), start)


def _again(visit: Visit, log: Log, target: str) -> Callable[[Any], Iterable[Any]]:
    """A further pass, for medians: over the columns that the work names."""

    def run(work: Any) -> list[Any]:
        begun = time.perf_counter()
        found = list(visit(_OfLabelled(work, target), [*work.names, target]))
        log.add("medians", begun)
        return found

    return run


def _loss(target: LevelSums, kind: Any) -> Loss:
    few = not target.too_many and len(target.counts.keys() - {MISSING}) <= MOST_CLASSES
    return CrossEntropy() if not is_number(kind) or (few and _are_whole(target)) else SquaredError()


def _are_whole(sums: LevelSums) -> bool:
    return all(level.lstrip("-").isdecimal() for level in sums.counts if level != MISSING)


def _words(coded: Sequence[LevelSums], schema: Any) -> frozenset[str]:
    """Which of target and domains are words: all but whole numbers without a gap."""
    from pyarrow import types

    target, *domains = coded
    for sums in domains:
        if sums.too_many or len(sums.counts) > MOST_DOMAINS:
            found, fix = f"has over {MOST_DOMAINS:,} different values", "group its values first"
            raise InputError(f"column {sums.name!r}", found, fix)
    return frozenset(
        sums.name
        for sums in [target, *domains]
        if not types.is_integer(plain(schema.field(sums.name).type)) or MISSING in sums.counts
    )
