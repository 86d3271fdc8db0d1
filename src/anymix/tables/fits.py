"""Old place of the functions of this folder, until the command imports them from their own."""

from anymix.tables.audited import audit_frame
from anymix.tables.fitting import fit_table
from anymix.tables.models import TableModel
from anymix.tables.predicting import predict_table

__all__ = ["TableModel", "audit_frame", "fit_table", "predict_table"]
