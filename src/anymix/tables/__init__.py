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

from typing import TYPE_CHECKING

from anymix.loading import names_on_demand

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
    "TableBound": "anymix.tables.bounding",
    "TableFit": "anymix.tables.fitting",
    "TableModel": "anymix.tables.models",
    "audit_frame": "anymix.tables.audited",
    "bound_frame": "anymix.tables.bounding",
    "fit_table": "anymix.tables.fitting",
    "load_model": "anymix.tables.models",
    "predict_table": "anymix.tables.predicting",
    "read_table": "anymix.tables.files",
    "save_model": "anymix.tables.models",
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

__getattr__, __dir__ = names_on_demand(__name__, _PLACE)
