"""From a file to a model and back: read a table, fit it, save the model, predict, audit.

Examples
--------
>>> import tempfile
>>> from anymix.tables import fit_table, predict_table, read_table
>>> text = "x,region,bought\\n" + "0,north,no\\n1,north,yes\\n0,south,no\\n1,south,yes\\n" * 10
>>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
...     _ = file.write(text)
...     file.flush()
...     table = read_table(file.name)
>>> model = fit_table(table, target="bought", domains=["region"], gamma=0.01).model
>>> predictions, _ = predict_table(model, table)
>>> predictions["prediction"].tolist()[:4]
['no', 'yes', 'no', 'yes']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anymix.tables.audited import audit_frame
    from anymix.tables.bounding import TableBound, bound_frame
    from anymix.tables.files import read_table
    from anymix.tables.fitting import TableFit, fit_table
    from anymix.tables.models import TableModel, load_model, save_model
    from anymix.tables.predicting import predict_table

# Loading the solver takes longer than refusing a file that is not there; so each name is loaded
# when it is asked for.
_PLACE = {
    "TableBound": "bounding",
    "TableFit": "fitting",
    "TableModel": "models",
    "audit_frame": "audited",
    "bound_frame": "bounding",
    "fit_table": "fitting",
    "load_model": "models",
    "predict_table": "predicting",
    "read_table": "files",
    "save_model": "models",
}

__all__ = [
    "TableBound",
    "TableFit",
    "TableModel",
    "audit_frame",
    "bound_frame",
    "fit_table",
    "load_model",
    "predict_table",
    "read_table",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name in _PLACE:
        return getattr(import_module(f"anymix.tables.{_PLACE[name]}"), name)
    raise AttributeError(f"module 'anymix.tables' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
