__all__: list[str]

from .audited import audit_frame as audit_frame
from .bounding import TableBound as TableBound
from .bounding import bound_frame as bound_frame
from .files import read_table as read_table
from .fitting import TableFit as TableFit
from .fitting import fit_table as fit_table
from .models import TableModel as TableModel
from .models import load_model as load_model
from .models import save_model as save_model
from .predicting import predict_table as predict_table
