"""The ordinary model, the recommended one, and others, on the same rows: one table, one advice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anymix.auditing.comparisons import Comparison, compare
from anymix.auditing.findings import Audit
from anymix.auditing.intervals import mean
from anymix.auditing.words import TerminalTable, metric_title, short

__all__ = ["KNOWN", "ORDINARY", "RECOMMENDED", "SideBySide"]

ORDINARY, RECOMMENDED, KNOWN = "ordinary", "recommended", "domain known"


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Models on the same rows, of weight 1 and each in one domain, which none of them has seen."""

    # by the names of the models: "ordinary", with which the others are compared, "recommended",
    # and others such as "domain known"
    audits: Mapping[str, Audit]
    floor: Audit  # constant guess

    def pair(self, name: str) -> Comparison:
        """The ordinary model (a) and another one (b)."""
        return compare(self.audits[ORDINARY], self.audits[name], (ORDINARY, name))

    def is_same(self, name: str) -> bool:
        """Whether a model loses what the ordinary one does on every row."""
        both = zip(self.audits[ORDINARY].row_losses, self.audits[name].row_losses, strict=True)
        return not any(np.any(a != b) for a, b in both)

    def change(self, name: str) -> int:
        """On the ordinary model's worst mixture: −1 significantly better, 1 worse, 0 neither."""
        _, low, high = self.pair(name).worst_difference
        return int(low > 0) - int(high < 0)

    def change_of_all(self, name: str) -> int:
        """The same on all rows: by the interval of the mean of the paired differences."""
        a, b = self.audits[ORDINARY], self.audits[name]
        both = zip(a.row_losses, b.row_losses, strict=True)
        d = np.concatenate([y - x for x, y in both])
        found = mean(d, a.confidence)
        return int(found.low > 0) - int(found.high < 0)

    def beaten_by_constant(self, name: str) -> bool:
        """Whether a constant guess loses less on the ordinary model's worst mixture."""
        lam = self.audits[ORDINARY].worst_mixture
        return bool(lam @ self.floor.domain_losses < lam @ self.audits[name].domain_losses)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only, for JSON."""
        return {
            "audits": {name: found.to_dict() for name, found in self.audits.items()},
            "changes": {
                name: {
                    "worst_difference": list(self.pair(name).worst_difference),
                    "worst_mixture": self.change(name),
                    "all_rows": self.change_of_all(name),
                    "worse_than_constant": self.beaten_by_constant(name),
                }
                for name in list(self.audits)[1:]
            },
        }

    def advice(self) -> str:
        """What to read first: which model, for whom it is better or worse, and how sure that is."""
        if KNOWN not in self.audits:
            return self._unknown()
        changes = self._changes(KNOWN, instead=False)
        said = f"If it is known and may be used: the model with the domain is {changes}."
        return f"{self._unknown()} {said}"

    def known(self) -> str:
        """What the ordinary model would gain by the domain as a feature."""
        return (
            "If the domain of new rows is known and may be used: with it the ordinary model is "
            f"{self._changes(KNOWN, instead=True)}."
        )

    def _unknown(self) -> str:
        start = "If the domain of new rows is not known: "
        if self.is_same(RECOMMENDED):
            found = "keep the ordinary model, no other is significantly better"
            return f"{start}{found}.{self._floor()}"
        return (
            f"{start}compared with the ordinary one, the recommended model is "
            f"{self._changes(RECOMMENDED, instead=True)}.{self._floor()}"
        )

    def _changes(self, name: str, instead: bool) -> str:
        """'better in 'b' (log loss 0.6 instead of 0.7) and worse on all rows (0.4 ...)'."""
        a, b = self.audits[ORDINARY], self.audits[name]
        lam, words = a.worst_mixture, ("not significantly different", "worse", "better")
        title = f"{a.unit_title} " if instead else ""
        worst = [float(a.in_unit(float(lam @ x.domain_losses))) for x in (b, a)]
        pooled = [float(a.in_unit(x.pooled_loss)) for x in (b, a)]
        told = [" instead of ".join(map(short, x if instead else x[:1])) for x in (worst, pooled)]
        return (
            f"{words[self.change(name)]} {self._where()} ({title}{told[0]}) and "
            f"{words[self.change_of_all(name)]} on all rows ({told[1]})"
        )

    def _where(self) -> str:
        a = self.audits[ORDINARY]
        k = a.worst_domain
        return "on the worst mixture" if k is None else f"in {str(a.domain_names[k])!r}"

    def _floor(self) -> str:
        """A warning where the recommended model has learnt nothing for whom it is meant."""
        if not self.beaten_by_constant(RECOMMENDED):
            return ""
        a = self.audits[ORDINARY]
        guess = a.in_unit(float(a.worst_mixture @ self.floor.domain_losses))
        return f" A constant guess does better {self._where()} ({short(guess)})."

    def __rich__(self) -> TerminalTable:
        worst = np.max([found.domain_losses for found in self.audits.values()], axis=0)
        heads, rows = self._cells()
        return TerminalTable(heads, rows, 2, worst.tolist())

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The loss of every model, then the first metric of every model."""
        first = self.audits[ORDINARY]
        sizes = [*(f"{n:,}" for n in first.sizes), f"{first.n_rows:,}", ""]
        names = [*map(str, first.domain_names), "all rows", "worst mixture"]
        heads, columns = ["domain", "rows"], [names, sizes]
        for title, values in self._measures():
            for j, (name, found) in enumerate(values.items()):
                heads.append(f"{title} {name}" if j == 0 else name)
                columns.append([short(x) for x in found])
        return heads, [list(row) for row in zip(*columns, strict=True)]

    def _measures(self) -> Iterator[tuple[str, dict[str, list[float]]]]:
        first = self.audits[ORDINARY]
        yield (
            first.unit_title,
            {
                name: [
                    float(a.in_unit(x)) for x in (*a.domain_losses, a.pooled_loss, a.agnostic_loss)
                ]
                for name, a in self.audits.items()
            },
        )
        metrics = (m for m in first.metrics if not (m == "rmse" and first.is_rooted))
        for metric in list(metrics)[:1]:
            yield (
                metric_title(metric),
                {
                    name: [*map(float, a.metrics[metric]), a.pooled_metrics[metric], math.nan]
                    for name, a in self.audits.items()
                },
            )
