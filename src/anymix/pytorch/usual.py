"""The usual case in two compiled calls: rows of one process on the CPU, and λ in all of Δ.

They give what the general way gives, to rounding. A step of a small model takes a millisecond, and
the general way a third of one. Whatever is not usual is left to that way: the functions then say
so and have changed nothing. Compiled code is given addresses, so all is checked here: the type of
the numbers, how many they are, that they lie one after the other, and on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anymix.mixtures import Adversary
from anymix.mixtures.penalties import NoPenalty
from anymix.pytorch.absence import Estimates
from anymix.solvers.compiled.loss_steps import climb, weigh

Array = NDArray[np.float64]

__all__ = ["climbed", "outside_graphs", "takes_usual_steps", "weighed"]

float32, float64, int64 = torch.float32, torch.float64, torch.int64
is_tracing = torch.compiler.is_dynamo_compiling
Method = TypeVar("Method", bound=Callable[..., Any])


def outside_graphs(method: Method) -> Method:
    """A break in the graph of torch.compile: NumPy and what is kept between calls are no graph."""

    @wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        if is_tracing():  # only then, for `disable` loads all of the compiler
            eager: Any = torch.compiler.disable(method)  # type: ignore[no-untyped-call]
            return eager(*args, **kwargs)
        return method(*args, **kwargs)

    return cast(Method, called)


def takes_usual_steps(adversary: Adversary) -> bool:
    """Whether `climbed` can do the steps: euclidean ones in the simplex, without a penalty.

    Parameters
    ----------
    adversary : Adversary
        Who holds λ.
    """
    plain = adversary.kind == "euclidean" and not adversary.optimistic
    return plain and isinstance(adversary.penalty, NoPenalty) and adversary.mixtures.is_simplex


def weighed(losses: Tensor, ids: Tensor, mixture: Tensor | None, sums: Tensor) -> Tensor | None:
    """c_i = λ_k / n_k of each row, (n,), with S, N and R of the domains written to `sums`.

    None where the rows are not usual: no float32 or float64, other ids than int64 from 0 to p − 1,
    a sum that is not finite, gaps in memory, another device.

    Parameters
    ----------
    losses : Tensor of shape (n,)
        The loss of every row.
    ids : Tensor of shape (n,)
        The domain of every row.
    mixture : Tensor of shape (p,)
        λ.
    sums : Tensor of shape (3, p + 1)
        Where to write, float64 on the CPU.
    """
    if type(losses) is not Tensor or type(ids) is not Tensor:
        return None
    dtype, p = losses.dtype, sums.shape[1] - 1
    if (dtype is not float32 and dtype is not float64) or ids.dtype is not int64:
        return None
    if not (losses.is_cpu and ids.is_cpu and losses.stride() == (1,) and ids.stride() == (1,)):
        return None
    n, lam = losses.shape[0], _address(mixture, p)
    if ids.shape[0] != n or not lam:
        return None
    weights = torch.empty_like(losses)
    places = losses.data_ptr(), ids.data_ptr(), n, lam, p, sums.data_ptr(), weights.data_ptr()
    return weights if weigh(dtype is float64, *places) else None


def climbed(
    sums: Tensor,
    adversary: Adversary,
    estimates: Estimates,
    reference: Array,
    size: float,
    buffers: dict[str, Tensor | None],
) -> bool:
    """Whether λ made its step by δ = S/N − b; it does not where a domain has no rows.

    Parameters
    ----------
    sums : Tensor of shape (3, p + 1)
        S, N and R, finite; the last is overwritten.
    adversary : Adversary
        Who holds λ, and takes usual steps.
    estimates : Estimates
        Who remembers S/N.
    reference : ndarray of shape (p,)
        b.
    size : float
        γ ≥ 0, the size of the step.
    buffers : dict of str to Tensor
        Where λ, its average and the number of steps are to be read: mixture, average, n_steps.
    """
    p = reference.size
    found = _address(sums, 3 * (p + 1))
    lam, average = _address(buffers["mixture"], p), _address(buffers["average"], p)
    n_steps = _address(buffers["n_steps"], 1)
    return bool(found and lam and average and n_steps) and adversary.step_with(
        climb, found, reference, size, estimates.last, estimates.unseen, lam, average, n_steps
    )


def _address(tensor: Tensor | None, n: int) -> int:
    """Where n numbers of float64 lie one after the other on the CPU; 0 if they do not."""
    if tensor is None or tensor.dtype is not float64 or not tensor.is_cpu or tensor.numel() != n:
        return 0
    return tensor.data_ptr() if tensor.is_contiguous() else 0
