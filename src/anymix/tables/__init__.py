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

import lazy_loader

# Loading the solver takes longer than refusing a file that is not there.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
