"""Ray's datasets: their blocks stay in the object store, and tasks sum them up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from anymix.errors import InputError
from anymix.partitions.clusters import problem_of_tables
from anymix.partitions.streamed import Streamed
from anymix.partitions.table_recipes import Wanted, column_names
from anymix.problem.losses import Loss

__all__ = ["from_ray"]


def from_ray(
    dataset: Any,
    target: str,
    domain: str | Sequence[str] | None,
    features: Sequence[str] | None = None,
    columns: Any = "auto",
    *,
    loss: Loss | None = None,
    weight: str | None = None,
    id: str | None = None,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    dense_up_to: int = 600,
) -> Streamed:
    """L_k(w) = (1/m_k) Σ_{i in domain k} ℓ(⟨w, (x_i, 1)⟩, y_i) over the blocks of a Ray dataset.

    The blocks are read once, into Ray's object store, which spills to disk what does not fit. A
    pass is one small task for each of them; a task whose worker dies is Ray's to repeat.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The rows.
    target : str
        The column to predict.
    domain : str, sequence of str or None
        The column whose values are the domains; of several, their combinations; None is one domain.
    features : sequence of str, optional
        The columns to learn from; by default all others.
    columns : "auto", "plain" or sequence of columns
        How they are encoded, as in `from_parquet`.
    loss : Loss, optional
        The loss ℓ; by default CrossEntropy for classes, SquaredError for numbers.
    weight : str, optional
        The column of the rows' weights.
    id : str, optional
        The column by which `folds` deals rows out; by default their numbers.
    intercept : bool
        Whether the model has an intercept.
    classes : array-like, optional
        All classes there are; by default those that occur.
    dense_up_to : int
        The largest number of parameters for which a pass brings the curvature along.

    Returns
    -------
    Streamed
        A problem for `ax.solve`, `ax.certify`, `ax.pareto_front` and the estimators.

    Examples
    --------
    >>> import anymix as ax
    >>> import ray  # doctest: +SKIP
    >>> dataset = ray.data.read_parquet("table/")  # doctest: +SKIP
    >>> ax.solve(from_ray(dataset, target="y", domain="region"))  # doctest: +SKIP
    """
    if not hasattr(dataset, "to_arrow_refs"):
        fix = "give a dataset of ray.data"
        raise InputError("dataset", f"is a {type(dataset).__name__}", fix)
    domains = column_names(domain)
    wanted = Wanted(target, domains, features, columns, weight, loss, id)
    parts = dataset.to_arrow_refs()
    schema = united([found for found in Ray().run(_schema, parts) if found is not None])
    made: dict[str, Any] = {"intercept": intercept, "classes": classes, "dense_up_to": dense_up_to}
    return problem_of_tables(Ray(), parts, schema, wanted, **made)


@dataclass(frozen=True, eq=False)
class Ray:
    """Ray's way to do work: tasks that it repeats where a worker dies."""

    def run(self, work: Callable[[Any, int], Any], parts: Sequence[Any]) -> list[Any]:
        """work(part, number) of every part, in their order, brought here."""
        import ray

        try:
            return list(ray.get(self.keep(work, parts)))
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, InputError):  # said where the rows are, and meant for here
                raise InputError(cause.argument, cause.found, cause.fix) from None
            raise

    def keep(self, work: Callable[[Any, int], Any], parts: Sequence[Any]) -> list[Any]:
        """The same, but left in the object store."""
        import ray

        shared, task = ray.put(work), ray.remote(_call)
        return [task.remote(shared, part, i) for i, part in enumerate(parts)]


def _schema(table: Any, number: int) -> Any:
    """The columns of a block; None if it has no rows, for then it may have none either."""
    return table.schema if table.num_rows else None


def united(schemas: Sequence[Any]) -> Any:
    """The columns of all blocks: one without any value takes the type that it has in others."""
    import pyarrow as pa

    if not schemas:
        raise InputError("dataset", "has no rows", "give some")
    try:
        return pa.unify_schemas(list(schemas), promote_options="permissive").remove_metadata()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        found = f"has blocks whose columns differ ({' '.join(str(error).split())})"
        raise InputError("dataset", found, "convert the column to one type") from None


def _call(work: Callable[[Any, int], Any], part: Any, number: int) -> Any:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # tasks are many: a core for each is best
        return work(part, number)
