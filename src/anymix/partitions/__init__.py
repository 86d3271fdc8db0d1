"""Tables larger than memory, or spread over machines: the same certified answer from there.

    L_k(w) = (1/m_k) Σ_chunks Σ_{i in domain k} ℓ_i(w)

The solver needs sums only, so it can run where the rows are: batches of a function, row groups of
Parquet files, parts of a Dask or Ray cluster. Each function gives a problem that takes the place of
LinearDomains in `ax.solve`, `ax.certify`, `ax.pareto_front` and the estimators' `fit`.
"""

from anymix.partitions.batches import from_batches
from anymix.partitions.folding import folds
from anymix.partitions.on_dask import from_dask
from anymix.partitions.on_ray import from_ray
from anymix.partitions.parquet_files import from_parquet

__all__ = ["folds", "from_batches", "from_dask", "from_parquet", "from_ray"]
