"""Predictions of a saved model for the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.tables.columns import Features
from anymix.tables.frames import column, pandas, pandas_frame
from anymix.tables.models import TableModel
from anymix.tables.reading import Reading, odd_notes, settled_frame

__all__ = ["notes_on", "predict_table", "predicted_stretches"]


def predict_table(
    model: TableModel, frame: Any, keep: Sequence[str] = (), kept: Any = None
) -> tuple[Any, list[str]]:
    """What a model says of each row: `prediction` and, for classes, `probability of <class>`.

    Parameters
    ----------
    model : TableModel
        The model, of `fit_table` or `load_model`.
    frame : pandas.DataFrame
        The rows to predict.
    keep : sequence of str
        Columns to copy into the result, before the predictions.
    kept : pandas.DataFrame or None
        Another frame of the same rows to copy them from.

    Returns
    -------
    tuple
        The frame, and notes on levels that the training had not.

    Examples
    --------
    >>> import pandas as pd
    >>> from anymix.tables.fitting import fit_table
    >>> table = pd.DataFrame({"c": list("uv") * 20, "d": list("aabb") * 10, "y": list("ny") * 20})
    >>> model = fit_table(table, "y", ["d"], gamma=0.01).model
    >>> predictions, notes = predict_table(model, pd.DataFrame({"c": ["v", "w"]}), keep=["c"])
    >>> predictions.columns.tolist(), predictions["prediction"].tolist()[0]
    (['c', 'prediction', 'probability of n', 'probability of y'], 'y')
    >>> notes
    ["'c': 1 level that the training had not, such as 'w'"]
    """
    given = pandas_frame(frame)
    frame = settled_frame(given, Reading(types=model.features.types, as_written=model.domains))
    source = given if kept is None else pandas_frame(kept)
    if len(source) != len(frame):
        found = f"has {len(source)} rows but frame has {len(frame)}"
        raise InputError("kept", found, "give the same")
    beside = {name: column(source, name) for name in keep}
    made = _predictions(model, frame)
    clash = [name for name in keep if name in made]
    if clash:
        found = f"is {clash[0]!r}, but a column of that name is made"
        raise InputError("keep", found, "rename that of the table")
    return pandas().DataFrame(beside | made), [
        *odd_notes(frame, model.columns),
        *model.features.unseen(frame),
        *model.unseen_domains(frame),
    ]


def predicted_stretches(
    model: TableModel, spool: Any, keep: Sequence[str] = (), kept: Any = None
) -> Iterator[Any]:
    """The frames of `predict_table`, a stretch of a table on disk at a time."""
    source = spool if kept is None else kept
    names = [*model.columns, *_optional(model, spool)]
    for rows in spool.stretches():
        frame, beside = spool.frame([*names, *keep], rows), source.frame(keep, rows)
        yield predict_table(model, frame, keep, beside)[0]


def notes_on(model: TableModel, spool: Any) -> list[str]:
    """Notes on levels and domains of a table on disk that the training had not."""
    notes = odd_notes(spool, model.columns) + [
        note
        for c in model.features.columns
        for note in Features((c,)).unseen(spool.frame([c.name]))
    ]
    if not model.takes_domain(spool.columns):
        return notes
    names = [*model.columns, *_optional(model, spool)]
    parts = (spool.frame(names, rows) for rows in spool.stretches())
    return [*notes, *model.note_on_unseen(sum(map(model.count_unseen, parts)))]


def _optional(model: TableModel, spool: Any) -> list[str]:
    """The columns of the domains, where a model looks at them and does not need them."""
    return [] if model.uses_domain or not model.takes_domain(spool.columns) else [*model.domains]


def _predictions(model: TableModel, frame: Any) -> dict[str, NDArray[Any]]:
    if model.classes is None:
        return {"prediction": model.predict(frame)}
    P, classes = model.predict_proba(frame), model.classes
    shares = {f"probability of {name}": P[:, k] for k, name in enumerate(classes.tolist())}
    return {"prediction": classes[np.argmax(P, axis=1)]} | shares
