"""How a client trains a PyTorch module: with which optimizer, where, and how exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anymix.errors import InputError, finite_number
from anymix.flower.aggregation import count

if TYPE_CHECKING:
    import torch

__all__ = ["LocalTraining", "check_evaluate_config", "own_settings"]

OWN = ("local_epochs", "batch_size", "step")


@dataclass(frozen=True)
class LocalTraining:
    """The client's side of training a module; the server need not know of it.

    Parameters
    ----------
    optimizer : function, optional
        optimizer(parameters, config) makes the torch optimizer of the client's own epochs
        (`local_epochs` of the strategy), anew in every round; config is the `train_config` that
        the server was started with. None is SGD with the strategy's step.
    device : str
        Where the module and each batch are moved to: "cpu", "cuda", "mps".
    precision : str, optional
        The type in which the module is computed, "bfloat16" or "float16", by torch's autocast;
        parameters and updates stay what they are. None computes in the type of the parameters.

    Examples
    --------
    >>> LocalTraining(device="cpu", precision="bfloat16").precision
    'bfloat16'
    """

    optimizer: (
        Callable[[Iterable[torch.nn.Parameter], Mapping[str, Any]], torch.optim.Optimizer] | None
    ) = None
    device: str = "cpu"
    precision: str | None = None

    def __post_init__(self) -> None:
        if self.precision not in (None, "bfloat16", "float16"):
            fix = "give 'bfloat16', 'float16' or None"
            raise InputError("precision", f"is {self.precision!r}", fix)


def own_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a `train_config` that take the place of the strategy's own, checked."""
    own = {name: config[name] for name in OWN if name in config}
    for name, value in own.items():
        if name == "step":
            finite_number("train_config['step']", value, "give a number > 0", lambda s: s > 0)
        elif not (name == "batch_size" and value == 0):
            count(f"train_config[{name!r}]", value)
    return own


def check_evaluate_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of an `evaluate_config`: `chunk`, how many rows a client computes at once."""
    strange = sorted(set(config) - {"chunk"})
    if strange:
        fix = "only 'chunk' is known; rows to judge by are a matter of Judging"
        raise InputError("evaluate_config", f"has {strange}", fix)
    return {name: count("evaluate_config['chunk']", value) for name, value in config.items()}
