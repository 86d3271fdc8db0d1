"""Audits of the predictions, or losses, in a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import Audit, audit
from anymix.errors import InputError
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.cells import combined
from anymix.tables.frames import column, pandas, pandas_frame
from anymix.tables.labels import coded_column
from anymix.tables.reading import Reading, odd_notes, settled_frame

__all__ = ["Meant", "audit_frame", "class_meant"]


def audit_frame(
    frame: Any,
    domains: Sequence[str],
    *,
    target: str | Sequence[str] | None = None,
    prediction: Sequence[str] = (),
    losses: str | None = None,
    against: str | Sequence[str] | None = None,
    loss: str | None = None,
    mixtures: Mixtures = "simplex",
    confidence: float = 0.95,
    classes: Sequence[str] | None = None,
    loss_bound: float | None = None,
    guarantee: float | None = None,
    metrics: Any = None,
    weight: str | None = None,
) -> dict[str, Audit]:
    """Audits of a table's predictions (or losses), by the names of their columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    domains : sequence of str
        The columns whose values, or their combinations, are the domains.
    target : str, sequence of str or None
        The column of what is true; of several, each has its own column of predictions.
    prediction : sequence of str
        The column of labels, values or probabilities, or one of probabilities for each class.
    losses : str or None
        The column of each row's loss, instead of target and prediction.
    against : str, sequence of str or None
        Another model's column, or columns; its audit comes first, as the one to compare with.
    loss : str or None
        The name of the loss, as `audit` takes it.
    mixtures : str, MixtureSet, function or None
        Λ, the mixtures to guard against: words such as "chi2:2.0", a set, a function from the
        domains' sizes to one, or None for any mixture.
    confidence : float
        Level of the intervals, such as 0.95.
    classes : sequence of str or None
        Names of the classes, in the order of the columns of probabilities.
    loss_bound : float or None
        What no loss is above, as `audit` takes it.
    guarantee : float or None
        δ of what is guaranteed for every mixture, as `audit` takes it.
    metrics : str, sequence of str, mapping or None
        What else to measure, as `audit` takes it.
    weight : str or None
        The column of what each row counts.

    Returns
    -------
    dict
        Name of the columns → Audit.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"y": [1, 0, 1], "new": [1, 0, 0], "old": [0, 0, 0], "g": list("aab")})
    >>> found = audit_frame(table, ["g"], target="y", prediction=["new"], against="old")
    >>> {name: audit.agnostic_loss for name, audit in found.items()}
    {'old': 1.0, 'new': 1.0}
    """
    given = _Given.of(target, prediction, losses, against, classes)
    named = {*given.columns, *_listed(target)}
    frame = settled_frame(pandas_frame(frame), Reading(labels=named, as_written=set(domains)))
    coded = {name: coded_column(frame, name) for name in domains}
    (names, codes), _ = combined(list(coded.values()), list(coded))
    Λ = target_mixtures(mixtures, None, np.bincount(codes).astype(np.float64), names.tolist())
    labels = {name: _shared(levels)[places] for name, (levels, places) in coded.items()}
    del coded, codes
    y, said, known = given.entries(frame)
    options = {
        "sensitive_features": labels,
        "loss": loss,
        "mixtures": Λ,
        "confidence": confidence,
        "loss_bound": loss_bound,
        "guarantee": guarantee,
        "classes": known,
        "metrics": metrics,
        "sample_weight": None if weight is None else _entries(frame, [weight]),
    }
    return {
        ", ".join(columns): _audited(argument, y, said[argument], options)
        for argument, columns in given.models.items()
    }


@dataclass(frozen=True)
class _Given:
    """Which columns of a table are audited; see `audit_frame`."""

    targets: tuple[str, ...]
    prediction: tuple[str, ...]
    losses: str | None
    against: tuple[str, ...]
    classes: Sequence[str] | None

    @classmethod
    def of(
        cls,
        target: str | Sequence[str] | None,
        prediction: Sequence[str],
        losses: str | None,
        against: str | Sequence[str] | None,
        classes: Sequence[str] | None,
    ) -> _Given:
        """Those that `audit_frame` is given, if they fit together."""
        targets = _listed(target)
        if (losses is None) == (not targets or not prediction):
            raise InputError(
                "target, prediction and losses",
                "do not fit",
                "give a target and a prediction, or else losses",
            )
        return cls(targets, tuple(prediction), losses, _listed(against), classes)

    @property
    def models(self) -> dict[str, list[str]]:
        """The columns of each model, by the argument that names them."""
        other = {"against": list(self.against)} if self.against else {}
        if self.losses is not None:
            return other | {"losses": [self.losses]}
        return other | {"prediction": list(self.prediction)}

    @property
    def columns(self) -> list[str]:
        """All columns but those of the domains."""
        truth = () if self.losses is not None else self.targets
        return [*truth, *(name for names in self.models.values() for name in names)]

    def entries(self, frame: Any) -> tuple[Any, dict[str, Any], Any]:
        """What is true, what each model said, and the classes in the order of its columns."""
        targets = () if self.losses is not None else self.targets
        y = _entries(frame, targets) if targets else None
        said = {argument: _entries(frame, columns) for argument, columns in self.models.items()}
        if any(_is_text(v) for v in (y, *said.values())):  # 1 and 2 beside 3a are labels too
            y, said = _as_text(y), {argument: _as_text(v) for argument, v in said.items()}
        if y is None:
            return y, said, None
        known = None if self.classes is None else _typed_classes(self.classes, y)
        if len(targets) > 1:
            return _by_name(y, targets), {k: _by_name(v, targets) for k, v in said.items()}, known
        if known is None and len(self.prediction) == 1:
            known = class_meant(frame, targets[0], self.prediction[0]).classes
        return y, said, known


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _by_name(values: Any, targets: Sequence[str]) -> Any:
    """Columns by the names of the targets, in their order; what does not fit stays as it is."""
    fits = values.ndim == 2 and values.shape[1] == len(targets)
    return dict(zip(targets, map(_own_type, values.T), strict=True)) if fits else values


def _own_type(column: NDArray[Any]) -> NDArray[Any]:
    """A column by itself: whole numbers beside fractions are whole again."""
    if column.dtype.kind == "f" and np.all(column == np.floor(column)):
        return column.astype(np.int64)
    return np.array(column.tolist())


class Meant(NamedTuple):
    """What a single column of probabilities is about."""

    classes: list[Any] | None
    notes: list[str]


def class_meant(frame: Any, target: str, prediction: str) -> Meant:
    """Which of two classes a column of probabilities is about: the one in its name, or the last."""
    truth, said = column(frame, target).dropna(), column(frame, prediction).dropna()
    classes = sorted(truth.unique().tolist(), key=str) if truth.nunique() == 2 else []
    share = said.dtype.kind == "f" and said.between(0, 1).all() and (said % 1 != 0).any()
    if not (classes and share and truth.dtype.kind in "OiubT"):
        return Meant(None, [])
    words = re.split(r"[^\w.+-]+|_", prediction.casefold())
    named = [c for c in classes if str(c).casefold() in words]
    about = named[0] if len(named) == 1 else classes[-1]
    note = f"{prediction!r}: read as the probability of {str(about)!r}"
    why = ", as its name says" if len(named) == 1 else "; name the classes if it is the other"
    return Meant(sorted(classes, key=lambda c: c == about), [note + why])


def _audited(argument: str, y: Any, entries: Any, options: dict[str, Any]) -> Audit:
    """The audit of one model; what `audit` refuses is said of the arguments of `audit_frame`."""
    names = {
        "y_true": "target",
        "y_pred": argument,
        "losses": argument,
        "sensitive_features": "domains",
        "sample_weight": "weight",
    }
    try:
        return audit(y, entries, **options)
    except InputError as error:
        name = names.get(error.argument, error.argument)
        raise InputError(name, error.found, error.fix) from error


def _is_text(values: NDArray[Any] | None) -> bool:
    """Whether there are words among the values."""
    if values is None or values.dtype.kind in "biuf":
        return False
    return values.dtype.kind != "O" or any(isinstance(v, str) for v in values.ravel())


def _as_text(values: Any) -> Any:
    """A column of whole numbers as they are written; all else as it is."""
    digits = values is not None and values.ndim == 1 and values.dtype.kind in "iu"
    return values.astype(str) if digits else values


def _typed_classes(classes: Sequence[str], y: NDArray[Any]) -> list[Any]:
    """The classes as numbers, or truth values, where the target's are."""
    if y.dtype.kind == "b" and set(classes) <= {"False", "True"}:
        return [name == "True" for name in classes]
    if y.dtype.kind not in "iuf":
        return list(classes)
    try:
        return [float(name) for name in classes]
    except ValueError as error:
        found = f"are {list(classes)}, but the target's numbers: {error}"
        raise InputError("classes", found, "give numbers too") from None


def _entries(frame: Any, names: Sequence[str]) -> NDArray[Any]:
    """A column, or several side by side, without gaps."""
    for name in names:
        missing = int(column(frame, name).isna().sum())
        if missing:
            odd = "; ".join(odd_notes(frame, [name]))
            found = f"has {missing:,} missing values" + (f" ({odd})" if odd else "")
            raise InputError(f"column {name!r}", found, "drop those rows or fill them in")
    values = [_values(frame[name]) for name in names]
    return values[0] if len(values) == 1 else np.column_stack(values)


def _values(column: Any) -> NDArray[Any]:
    """A column as an array; rows of one category share its string, which pandas would copy."""
    if isinstance(column.dtype, pandas().CategoricalDtype):
        return np.asarray(_shared(np.asarray(column.cat.categories))[column.cat.codes])
    return np.asarray(column)


def _shared(levels: NDArray[Any]) -> NDArray[Any]:
    """Words as objects: a row then takes 8 bytes, however long its word is."""
    return levels.astype(object) if levels.dtype.kind == "U" else levels
