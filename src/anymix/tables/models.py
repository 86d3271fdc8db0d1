"""A fitted model that takes tables, and its file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix import __version__
from anymix.errors import InputError
from anymix.files import write_whole
from anymix.tables.auto import AutoFit
from anymix.tables.boosting import BoostedFit
from anymix.tables.columns import OTHER, Category, Features
from anymix.tables.frames import pandas_frame
from anymix.tables.labels import domain_codes
from anymix.tables.reading import Reading, settled_frame

Array = NDArray[np.float64]

__all__ = ["TableModel", "load_model", "save_model"]

FORMAT = 2  # of saved models; raise it when an older version could not read them


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model that takes tables: `predict` and `predict_proba` of a frame's rows.

    Parameters
    ----------
    features : Features
        How the columns become numbers.
    fit : LinearFit, BoostedFit or AutoFit
        What was fitted to these.
    gamma : float or None
        γ that it was fitted with; None for trees.
    target : str
        The column that is predicted.
    domains : tuple of str
        The columns that made the domains.
    small : tuple of str
        The domains that were put together for want of rows.
    robustness : float
        t that it was fitted with.

    Examples
    --------
    >>> import pandas as pd
    >>> from anymix.tables.fitting import fit_table
    >>> table = pd.DataFrame({"x": [0.0, 1.0] * 20, "d": list("aabb") * 10, "y": list("ny") * 20})
    >>> model = fit_table(table, "y", ["d"], gamma=0.01).model
    >>> model.predict(pd.DataFrame({"x": [0.0, 0.9]})).tolist(), model.classes.tolist()
    (['n', 'y'], ['n', 'y'])
    """

    features: Features
    fit: Any
    gamma: float | None
    target: str
    domains: tuple[str, ...]
    small: tuple[str, ...] = ()
    robustness: float = 1.0

    @property
    def uses_domain(self) -> bool:
        """Whether the domain is a feature, which must be given."""
        return bool(self.fit.model.uses_domain)

    def takes_domain(self, columns: Iterable[Any]) -> bool:
        """Whether the domain of the rows of a frame with such columns is looked at."""
        optional = isinstance(self.fit, AutoFit)
        return self.uses_domain or (optional and set(self.domains) <= set(columns))

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes in the order of `predict_proba`; None in regression."""
        classes: NDArray[Any] | None = self.fit.model.classes
        return classes

    @property
    def estimator(self) -> Any:
        """The model as a fitted estimator of scikit-learn, for X of `features.transform`."""
        if isinstance(self.fit, BoostedFit):
            return self.fit.ensemble
        if isinstance(self.fit, AutoFit):
            return self.fit.estimator
        from anymix.estimators.linear import estimator_of

        assert self.gamma is not None  # a linear model has one
        return estimator_of(self.fit, self.gamma, robustness=self.robustness)

    @property
    def columns(self) -> list[str]:
        """Names of the columns that a frame must have to be predicted."""
        return [c.name for c in self.features.columns] + (self.uses_domain * [*self.domains])

    @property
    def categories(self) -> list[str]:
        """Those of them that hold categories, not numbers."""
        return [c.name for c in self.features.columns if isinstance(c, Category)]

    def predict(self, frame: Any) -> NDArray[Any]:
        """The most probable class or the value of every row, (n,)."""
        return np.asarray(self.fit.model.predict(*self._read(frame)))

    def predict_proba(self, frame: Any) -> Array:
        """Probabilities of the classes, (n, K)."""
        return np.asarray(self.fit.model.predict_proba(*self._read(frame)))

    def _read(self, frame: Any) -> tuple[Any, NDArray[Any] | None]:
        """X, and the domains of the rows if they are a feature."""
        reading = Reading(types=self.features.types, as_written=self.domains)
        table = settled_frame(pandas_frame(frame), reading)
        X = self.features.transform(table)
        if not self.takes_domain(table.columns):
            return X, None
        names, codes = domain_codes(table, self.domains)
        known = {str(name): name for name in self.fit.model.domain_names.tolist()}
        known |= {name: known[OTHER] for name in self.small if OTHER in known}
        read = [known.get(str(name)) for name in names.tolist()]  # None: one that was not fitted
        return X, np.array(read, dtype=object)[codes]

    def unseen_domains(self, frame: Any) -> list[str]:
        """A note if rows are of domains that were not fitted, and the model uses the domain."""
        return self.note_on_unseen(self.count_unseen(frame))

    def count_unseen(self, frame: Any) -> int:
        """How many rows are of domains that were not fitted; 0 if the domain does not matter."""
        read = self._read(frame)[1] if self.takes_domain(frame.columns) else None
        return 0 if read is None else sum(name is None for name in read.tolist())

    @staticmethod
    def note_on_unseen(count: int) -> list[str]:
        """What to say of so many rows."""
        rows = "1 row" if count == 1 else f"{count:,} rows"
        found = f"{rows} of domains that were not fitted, served as if it were not known"
        return [found] if count else []

    def __getstate__(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": __version__, **vars(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        made, version = state.pop("format", None), state.pop("version", "an unknown version")
        if made != FORMAT:
            fix = "fit it again, or install that version"
            raise InputError("the model", f"was saved by anymix {version}", fix)
        self.__dict__.update(state)


def save_model(model: TableModel, path: str | Path) -> Path:
    """Write a model to a file, whole or not at all.

    Parameters
    ----------
    model : TableModel
        The model.
    path : path-like
        The file, which `load_model` (or joblib.load) reads.

    Returns
    -------
    Path
        The path given.

    Examples
    --------
    >>> import pandas as pd
    >>> import tempfile
    >>> from anymix.tables import fit_table
    >>> table = pd.DataFrame({"x": [0.0, 1.0] * 20, "d": list("aabb") * 10, "y": list("ny") * 20})
    >>> model = fit_table(table, "y", ["d"], gamma=0.01).model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(model, Path(folder) / "model.joblib")
    ...     path.name, path.stat().st_size > 0
    ('model.joblib', True)
    """
    import joblib

    return write_whole(path, lambda new: joblib.dump(model, new))


def load_model(path: str | Path) -> TableModel:
    """Read a model that `save_model` wrote. A pickle: open only files that you trust.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    TableModel

    Examples
    --------
    >>> import pandas as pd
    >>> import tempfile
    >>> from anymix.tables import fit_table
    >>> table = pd.DataFrame({"x": [0.0, 1.0] * 20, "d": list("aabb") * 10, "y": list("ny") * 20})
    >>> model = fit_table(table, "y", ["d"], gamma=0.01).model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(model, Path(folder) / "model.joblib")
    ...     again = load_model(path)
    >>> again.predict(pd.DataFrame({"x": [0.0, 0.9]})).tolist(), again.target
    (['n', 'y'], 'y')
    """
    import joblib

    path = Path(path)
    try:
        model = joblib.load(path)
    except FileNotFoundError:
        raise InputError(str(path), "is not there", "give a model that was saved") from None
    except InputError as error:  # of another format
        raise InputError(str(path), error.found, error.fix) from None
    except Exception:  # whatever a file of another kind makes of the reader
        raise _no_model(path) from None
    if not isinstance(model, TableModel):
        fix = "give a model that was fitted to a table"
        raise InputError(str(path), f"holds a {type(model).__name__}", fix)
    return model


def _no_model(path: Path) -> InputError:
    fix = "give the file of a model that was saved"
    return InputError(str(path), "is no model that anymix has saved", fix)
