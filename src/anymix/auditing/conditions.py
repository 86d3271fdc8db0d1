"""Conditions on an audit, such as "worst accuracy < 0.7", for continuous integration.

    [guaranteed] worst | average  <loss or metric>  < | <= | > | >=  <number>[%]

"worst" is over the mixtures in Λ. AUC and calibration error are no means over rows: of these it is
the worst single domain that Λ has a share of, and the line that is printed says so.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass

import numpy as np

from anymix.auditing.findings import Audit
from anymix.auditing.words import metric_title, short
from anymix.errors import InputError

__all__ = ["Condition", "condition"]

EXAMPLE = "write it as in 'worst accuracy < 0.7' or 'guaranteed worst log loss > 0.6'"
COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
FORM = re.compile(
    r"\s*(?P<sure>guaranteed\s+)?(?P<over>worst|average)\s+(?P<name>[^\s<>=!][^<>=!]*?)\s*"
    r"(?P<sign><=|>=|<|>)\s*(?P<number>[-+.\deE]+)\s*(?P<percent>%?)\s*"
)
GOOD = {"accuracy", "auc"}  # the higher, the better
ONE_BY_ONE = {"auc", "calibration_error"}  # no means over rows: mixtures have no say


@dataclass(frozen=True)
class Condition:
    """Something to hold against an audit."""

    text: str  # as it was written
    is_guaranteed: bool  # whether it is about the guarantee and not the estimate
    over: str  # "worst" or "average"
    name: str  # loss or metric, as in "log loss" or "accuracy"
    sign: str  # how it is compared: "<", "<=", ">" or ">="
    number: float  # what it is compared with

    def failure(self, found: Audit) -> str | None:
        """What is wrong, in a line, if the condition is met; otherwise None."""
        value = self._value(found)
        if not COMPARED[self.sign](value, self.number):
            return None
        sure = "guaranteed " * self.is_guaranteed
        alone = self.over == "worst" and self.name.replace(" ", "_") in ONE_BY_ONE
        of = " of a single domain" * alone
        said = f"{sure}{self.over} {metric_title(self.name)}{of} is {short(value)}"
        return f"{said}, which is {self.sign} {self.number:.6g}"

    def _value(self, found: Audit) -> float:
        names = {"loss": "loss", found.loss_title.lower(): "loss", found.loss: "loss"}
        names |= {name.replace("_", " "): name for name in found.metrics}
        if self.name not in names:
            known = ", ".join(dict.fromkeys([found.loss_title, *list(names)[3:]]))
            fix = f"here there are: {known}; as in 'worst {found.loss_title.lower()} > 0.5'"
            raise InputError("condition", f"is about {self.name!r}", fix)
        name = names[self.name]
        if self.is_guaranteed:
            return self._guaranteed(found, name)
        if self.over == "average":
            return found.pooled_loss if name == "loss" else found.pooled_metrics[name]
        return found.agnostic_loss if name == "loss" else _worst(found, name)

    def _guaranteed(self, found: Audit, name: str) -> float:
        if self.over == "average" or name not in ("loss", "accuracy"):
            fix = (
                "guaranteed are the worst loss and the worst accuracy, as in 'guaranteed worst "
                "accuracy < 0.7'; of others leave the word out"
            )
            raise InputError("condition", f"is {self.text!r}", fix)
        if name not in found.guarantees:
            fix = "audit with guarantee=0.05"
            raise InputError("condition", f"is {self.text!r}, but nothing was guaranteed", fix)
        value = found.guarantees[name].value
        return 1 - value if name == "accuracy" else value


def condition(text: str) -> Condition:
    """Read a condition."""
    parts = FORM.fullmatch(text.lower())
    try:
        number = float(parts["number"]) if parts is not None else math.nan
    except ValueError:
        number = math.nan
    if parts is None or not math.isfinite(number):
        raise InputError("condition", f"is {text!r}", EXAMPLE)
    scale = 0.01 if parts["percent"] else 1.0
    name = " ".join(parts["name"].replace("_", " ").split())
    return Condition(text, bool(parts["sure"]), parts["over"], name, parts["sign"], scale * number)


def _worst(found: Audit, name: str) -> float:
    """Of a metric: over mixtures where it is a mean, else over the domains in Λ."""
    values = found.metrics[name]
    if name in ("accuracy", "mae"):
        side = -1.0 if name in GOOD else 1.0
        return float(found.mixtures.maximize(side * values) @ values)
    if name == "rmse":
        return math.sqrt(float(found.mixtures.maximize(values**2) @ values**2))
    shares = np.eye(len(values))
    there = np.array([float(found.mixtures.maximize(e) @ e) > 1e-9 for e in shares])
    known = values[np.isfinite(values) & there]
    if not known.size:
        return math.nan
    return float(known.min() if name in GOOD else known.max())
