__all__: list[str]

from .aggregation import Limits as Limits
from .aggregation import Patience as Patience
from .aggregation import Sum as Sum
from .client import client_app as client_app
from .client_data import without_small_domains as without_small_domains
from .client_limits import ClientLimits as ClientLimits
from .fit import federated_fit as federated_fit
from .local import LocalGrid as LocalGrid
from .local_training import LocalTraining as LocalTraining
from .members import MissingClientsError as MissingClientsError
from .noise import Noise as Noise
from .privacy import Privacy as Privacy
from .robust import Robust as Robust
from .solve import federated_certify as federated_certify
from .solve import federated_solve as federated_solve
from .strategy import AgnosticStrategy as AgnosticStrategy
from .strategy import Judging as Judging
from .strategy import Steps as Steps
from .strategy import Work as Work
