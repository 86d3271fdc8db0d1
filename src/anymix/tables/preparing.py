"""A table made ready to fit: rows with coded domains and targets, and the columns to learn from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.problem.arrays import code_type, targets
from anymix.problem.cells import Coded
from anymix.problem.dealing import Split
from anymix.problem.losses import CrossEntropy, Loss, SquaredError
from anymix.problem.membership import OneDomain, small_codes
from anymix.problem.rows import ALL, Part, Rows, dense_if_small
from anymix.tables import splits as ways
from anymix.tables.columns import OTHER, Features, numbers_of
from anymix.tables.frames import column, pandas_frame
from anymix.tables.hints import alike_names, column_hints, kind_of_target
from anymix.tables.labels import (
    coded_column,
    domain_codes,
    merge_small,
    places_among,
    target_column,
)
from anymix.tables.reading import Reading, odd_notes, settled_frame

__all__ = ["Table", "followed_by", "missing_target", "weighted_rows"]


class Table:
    """A table to fit, and how its models are judged."""

    # The frames are kept only as long as X has to be made of them again; `rows` has all the rest.

    def __init__(
        self,
        frame: Any,
        target: str,
        domains: Sequence[str],
        task: str,
        drop: Iterable[str],
        min_rows: int,
        drop_missing_domain: bool = False,
        group: str | None = None,
    ) -> None:
        self.target, self.domains, self.group = target, tuple(domains), group
        _refuse_same(target, self.domains, group)
        self.without_domain = drop_missing_domain
        self.frame, self.notes = self._opened(frame)
        self.test: Any = None
        self.has_test = False
        self.splits: list[Split] = []
        self.judged_on = ""
        labels = self._labels()
        self.rows, self.merged = _coded(labels, target, self.domains, task, min_rows)
        self.groups = None if group is None else domain_codes(labels, [group])[1]
        self.notes += alike_names([str(name) for name in self.rows.names])
        self.n = len(self.rows)
        self.names = self._columns(drop)
        self.notes += odd_notes(self.frame, {*self.names, target})
        self.notes += kind_of_target(labels[target], target, task, self.rows.classes)
        self.features, learnt = self._learn(ALL)
        small = [f"domain {name!r}: too small, now in {OTHER!r}" for name in self.merged]
        self.notes += learnt + small + self._hints()

    def _opened(self, frame: Any) -> tuple[Any, list[str]]:
        """The rows whose target is known, and a note on the others."""
        written = {*self.domains, *([self.group] if self.group else [])}
        reading = Reading(labels={self.target}, as_written=written)
        return self._with_labels(settled_frame(pandas_frame(frame), reading))

    def _with_labels(self, frame: Any) -> tuple[Any, list[str]]:
        """The rows whose target, and domain if it matters, is known; and notes on the others."""
        unknown, notes = self._unlabelled(frame)
        return (frame[~unknown] if unknown.any() else frame), notes

    def _unlabelled(self, frame: Any) -> tuple[NDArray[np.bool_], list[str]]:
        """Which rows of a frame with target and domains to leave out, and notes on them."""
        missing, notes = missing_target(frame, self.target)
        for name in self.domains if self.without_domain else ():
            lost = column(frame, name).isna().to_numpy() & ~missing
            missing = missing | lost
            if lost.any():
                notes.append(f"{name!r}: {int(lost.sum()):,} rows without this domain, left out")
        return missing, notes

    def _hints(self) -> list[str]:
        """Columns that may not be meant to be learnt from."""
        return column_hints(self.frame, self.names, self.rows)

    def _labels(self) -> Any:
        """A frame that has the target and the domains."""
        return self.frame

    def _check_column(self, name: str) -> None:
        column(self.frame, name)

    def _columns(self, drop: Iterable[str]) -> list[str]:
        """The columns to learn from; the others are noted."""
        left_out = self.frame.attrs.get("left_out", ())
        for name in set(drop) - set(left_out):
            self._check_column(name)  # a name misspelt would be learnt from
        used = {self.target, *self.domains, self.group, *drop}
        names = [name for name in self.frame.columns if name not in used]
        self.notes += [f"{n!r}: left out, too many values" for n in left_out if n not in used]
        self.notes += [
            f"{name!r}: a column without a name; if it only counts the rows, drop it"
            for name in names
            if str(name).startswith("Unnamed: ")
        ]
        return names

    @property
    def is_kept(self) -> bool:
        """Whether the frames are needed after the first part is fitted."""
        return not self.has_test and (len(self.splits) > 1 or self.n <= ways.ROWS_TO_FOLD)

    def deal(self, evaluation: float | np.integer[Any] | None) -> None:
        """Judge on folds, or on a share held out."""
        found = ways.plan(self.rows, evaluation, self.groups)
        self.splits, self.judged_on = found.splits, found.judged_on
        self._reorder(found.order)
        self.rows = replace(
            self.rows,
            y=self.rows.y[found.order],
            domains=self.rows.domains.take(found.order),
        )
        self.groups = None if self.groups is None else self.groups[found.order]

    def _reorder(self, order: NDArray[np.intp]) -> None:
        self.frame = self.frame.iloc[order]
        self.frame.attrs = {}  # all is said, and pandas copies them with every column

    def follow_with(self, test: Any) -> None:
        """Judge on the rows of another table, which come after this one's."""
        self.test, _ = self._with_labels(settled_frame(pandas_frame(test), self._same_kinds()))
        self.has_test = True
        self.notes += [f"the test file, {note}" for note in self.features.unseen(self.test)]
        self.rows = followed_by(self.rows, self.test, self.target, self.domains, set(self.merged))
        held_out = slice(self.n, len(self.rows))
        self.splits, self.judged_on = [(slice(0, self.n), held_out)], "the rows of the test file"

    def _same_kinds(self) -> Reading:
        """How the cells of a second table are read: as those of the first."""
        number = {self.target: "number"} if self.rows.classes is None else {}
        return Reading(types=self.features.types | number, as_written=self.domains)

    def learnt_from(self, part: Part) -> Features:
        """The features of a part of the rows; nothing is learnt of the others."""
        return self.features if self.has_test else self._learn(part)[0]

    def _learn(self, part: Part) -> tuple[Features, list[str]]:
        return Features.learn(self.frame.iloc[part], self.names)

    def with_numbers(self, features: Features) -> Any:
        """All rows with X, those of the test table last."""
        X = features.transform(self.frame)
        if self.test is not None:
            stack: Any = sparse.vstack if sparse.issparse(X) else np.vstack
            X = stack([X, features.transform(self.test)])
        return self.rows.with_features(dense_if_small(X))

    def let_go(self) -> None:
        """Forget the frames, which may be large."""
        self.frame = self.test = None

    @property
    def closing_notes(self) -> list[str]:
        """What there is to say when all is done."""
        return []


def _refuse_same(target: str, domains: Sequence[str], group: str | None) -> None:
    """Refuse a column that is to be two things."""
    if target in (*domains, group):
        what = "a domain" if target in domains else "the group"
        fix = "name another column to predict"
        raise InputError("target", f"is {target!r}, which is {what} too", fix)


def missing_target(frame: Any, target: str) -> tuple[NDArray[np.bool_], list[str]]:
    """Which rows lack the target, (n,), and a note on them."""
    missing = column(frame, target).isna().to_numpy()
    count = int(missing.sum())
    if count == len(frame):
        raise InputError(f"column {target!r}", "is empty", "there is nothing to learn")
    return missing, [f"{target!r}: {count:,} rows without it, left out"] if count else []


def _coded(
    frame: Any, target: str, domains: Sequence[str], task: str, min_rows: int
) -> tuple[Rows, list[str]]:
    """Rows that lack X still, and the names of the domains put together."""
    classes, y = target_column(frame, target, task)
    (names, codes), merged = merge_small(domain_codes(frame, domains), min_rows)
    if len(names) < 2:
        if len(merged) > 1:
            found = f"is {min_rows}, which leaves one domain only"
            raise InputError("min_rows", found, "lower it")
        only = merged[0] if merged else str(names[0])
        raise InputError(
            "",
            f"there is one domain only, {only!r}",
            "name a domain column of two or more values",
        )
    loss: Loss = SquaredError() if classes is None else CrossEntropy()
    if classes is None:
        y, _ = targets(y, len(y), loss, None)
    else:
        y = y.astype(code_type(len(classes)))
    one = OneDomain(small_codes(codes, len(names)))
    return Rows(None, y, classes, one, names, None, loss), merged


def weighted_rows(rows: Rows, class_weight: Any, on_disk: bool) -> Rows:
    """The rows with the weights of their classes."""
    if class_weight is None:
        return rows
    if rows.classes is None or on_disk:
        why = "the task is to regress" if rows.classes is None else "the table is not in memory"
        raise InputError("class_weight", f"is {class_weight!r}, but {why}", "leave it out")
    if class_weight == "balanced":
        counts = np.bincount(rows.y, minlength=len(rows.classes))
        weight = len(rows) / (len(rows.classes) * counts)
    else:
        names = [str(name) for name in rows.classes.tolist()]
        given = {str(name): float(w) for name, w in class_weight.items()}
        if set(given) - set(names) or min(given.values(), default=0) <= 0:
            found, fix = f"is {class_weight!r}", f"give weights > 0 for {', '.join(names)}"
            raise InputError("class_weight", found, fix)
        weight = np.array([given.get(name, 1.0) for name in names])
    return replace(rows, weight=weight[rows.y])


def followed_by(
    rows: Rows, test: Any, target: str, domains: Sequence[str], merged: set[str]
) -> Rows:
    """The rows of a second table after the first's."""
    names, codes = domain_codes(test, domains)
    names = np.array([OTHER if str(v) in merged else str(v) for v in names.tolist()])
    place = places_among("domain", (names, codes), rows.names)
    counts = np.bincount(place, minlength=len(rows.names))
    if counts.min() == 0:
        raise InputError(
            f"domain {str(rows.names[np.argmin(counts)])!r}",
            "has no row in the test file",
            "add some, or judge by folds of the table",
        )
    y = _target_of(test, target, rows.classes)
    both = np.concatenate([rows.domains.key(), small_codes(place, len(rows.names))])
    y = np.concatenate([rows.y, y.astype(rows.y.dtype)])
    return replace(rows, y=y, domains=OneDomain(both))


def _target_of(test: Any, target: str, classes: NDArray[Any] | None) -> NDArray[Any]:
    if classes is None:
        return numbers_of(target, column(test, target))
    coded: Coded = coded_column(test, target)
    return places_among("class", coded, classes)
