"""The page: acceptance figures, columns by group of tables, tables one by one, simulations."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from judging.figures import (
    CONSTANT,
    HONEST,
    INFERRED,
    LINEAR,
    PRICE,
    TREES,
    UNUSED,
    Line,
    Mean,
    Table,
    domain_means,
    mean,
    within,
)
from judging.learners import ALWAYS, GUARDED, KNOWN
from judging.results import Result
from judging.simulated import ONE_LAW, SILENT, TELLING

Groups = dict[str, list[Table]]  # "22", "67"
Simulated = dict[str, list[Result]]  # by law
Rows = list[Sequence[str]]

EARLIER = Path(__file__).parents[1] / "results" / "0.2.csv"
OLD_ORDINARY, OLD, OLD_TOLD = "0.2, ordinary", "0.2, default", "0.2, default with domain"
_OLD_NAMES = {"ordinary": OLD_ORDINARY, "anymix": OLD, "anymix, with domain": OLD_TOLD}

DIALS = ("t=1/16", "t=1/8", "t=1/4", "t=1/2")
COLUMNS = (
    LINEAR,
    TREES,
    "blend",
    HONEST,
    "balanced",
    "groupdro",
    "fairlearn",
    "mcgrad",
    OLD,
    OLD_TOLD,
    UNUSED,
    *DIALS,
    INFERRED,
    ALWAYS,
    GUARDED,
    "linear with domain",
    "trees with domain",
    "blend with domain",
    KNOWN,
)
TARGETS = {  # percent: worst domain and all rows of classes, then of regressions
    ("22", INFERRED): (-4.8, -2.2, -8.0, -2.0),
    ("67", INFERRED): (-2.9, -3.0, -12.5, -12.0),
    ("22", KNOWN): (-6.5, -4.2, -24.0, -23.0),
    ("67", KNOWN): (-3.6, -4.2, -19.0, -17.0),
    ("22", GUARDED): (-5.0, -3.5, -17.0, -13.0),
}
KINDS = {"classification": "classes", "regression": "regressions"}
ROUNDING = 1e-6  # losses are kept in single precision
LEAST_TO_HAVE = 0.05  # of the worst loss, for a simulated table to count as one with a gain

__all__ = ["add_earlier", "page"]


# Earlier results ---------------------------------------------------------------------------------


def add_earlier(tables: Sequence[Table], file: Path = EARLIER) -> None:
    """Add the columns of version 0.2, whose splits are the same; its test rows are all."""
    of = {table.name: table for table in tables}
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            if line["table"] in of and line["domain"] != "(all rows)":
                key = line["table"], _OLD_NAMES[line["method"]], int(line["split"])
                found.setdefault(key, {})[line["domain"]] = float(line["loss"])
    for (name, column, s), losses in found.items():
        table = of[name]
        if s not in table.k:
            continue
        if tuple(sorted(losses)) != table.domains:
            raise ValueError(f"{file.name} has other domains of {name}: {sorted(losses)}")
        D = np.array([losses[domain] for domain in table.domains])
        table.means.setdefault(column, {})[s] = D


def base_of(column: str) -> str:
    """Changes are against the linear model on the same test rows."""
    return OLD_ORDINARY if column in (OLD, OLD_TOLD) else LINEAR


# Acceptance --------------------------------------------------------------------------------------


def acceptance(groups: Groups, simulations: Simulated) -> Iterator[Line]:
    """Every figure with its target."""
    for (group, column), targets in TARGETS.items():
        yield from _changes(group, groups[group], column, targets)
    tables = [table for group in groups.values() for table in group]
    if not tables:
        return
    against = {table.name: table.clearly(INFERRED, HONEST) for table in tables}
    worse = [name for name, sign in against.items() if sign > 0]
    better = [name for name, sign in against.items() if sign < 0]
    yield _count(f"clearly worse than the {HONEST}, of {len(tables)}", 3, worse)
    yield _count(f"clearly better, of {len(tables)}", 20, better, at_least=True)
    exceed = [table.name for table in tables if table.exceeds(INFERRED, UNUSED, PRICE)]
    yield _count("all rows pay more than the price and one error", 0, exceed)
    below = [table.name for table in tables if table.below_constant(table.moved())]
    yield _count("moved, and in some domain worse than a constant guess", 2, below)
    for group, members in groups.items():
        yield from _mixtures(group, members)
    yield from _speed(tables)
    yield from _simulations(simulations)


def _changes(
    group: str, tables: Sequence[Table], column: str, targets: Sequence[float]
) -> Iterator[Line]:
    for i, (kind, label) in enumerate(KINDS.items()):
        changes = [t.change(column, LINEAR) for t in tables if t.kind == kind]
        for j, what in enumerate(("worst domain", "all rows")):
            if changes:
                found = mean([100 * change[j] for change in changes])
                text = f"{group} {label}, {column}: {what}"
                yield Line(text, targets[2 * i + j], found, note=f"{len(changes)} tables")


def _count(text: str, target: int, names: Sequence[str], at_least: bool = False) -> Line:
    found = Mean(float(len(names)), 0.0)
    return Line(f"tables: {text}", target, found, at_least, unit="", note=", ".join(names))


def _mixtures(group: str, tables: Sequence[Table]) -> Iterator[Line]:
    """20 random mixtures a table; the losses of a mixture are means over the splits."""
    if not tables:
        return
    guarded = {t.name: t.mixtures(None) for t in tables}
    worse = [name for name, (change, _) in guarded.items() if change.mean() > ROUNDING]
    surely = [n for n in worse if guarded[n][0].mean() > np.mean(guarded[n][1])]
    text = f"{group}, random mixtures, 100 rows, worse on average than the reference"
    line = _count(text, 0, worse)
    note = "; ".join(filter(None, [line.note, f"beyond one error: {len(surely)}"]))
    yield Line(line.text, 0, line.found, unit="", note=note)
    for kind, target in (("classification", 0.5), ("regression", 2.0)):
        changes = [guarded[t.name][0] for t in tables if t.kind == kind]
        if changes:
            text = f"{group} {KINDS[kind]}, random mixtures, 100 rows: worst twentieth"
            single = np.mean([100 * worst_twentieth(change.ravel()) for change in changes])
            average = np.mean([100 * change.mean() for change in changes])
            found = mean([100 * worst_twentieth(change.mean(axis=0)) for change in changes])
            note = f"mean of all {average:+.2f} %; split by split {single:+.2f} %"
            yield Line(text, target, found, note=note)
    exceed, tails = [], []
    for t in tables:
        change, error = t.mixtures(INFERRED)
        limit = within(t.kind, PRICE) - 1
        if change.mean() > limit + np.mean(error):
            exceed.append(t.name)
        tails.append(worst_twentieth(change.mean(axis=0)))
    text = f"{group}, random mixtures, no unlabelled rows, above the price and one error"
    line = _count(text, 0, exceed)
    tail = f"worst twentieth, mean over tables {100 * np.mean(tails):+.2f} %"
    note = "; ".join(filter(None, [line.note, tail]))
    yield Line(line.text, 0, line.found, unit="", note=note)


def worst_twentieth(changes: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The mean of the largest twentieth."""
    count = max(1, round(len(changes) / 20))
    return float(np.sort(changes)[-count:].mean())


def _speed(tables: Sequence[Table]) -> Iterator[Line]:
    """CPU seconds of the fit in parts of what linear model and trees take alone."""
    alone = (LINEAR, TREES, "refit")
    ratios, ours, apart, untuned = [], 0.0, 0.0, 0.0
    for table in tables:
        every = [_seconds(result) for result in table.results.values()]
        parts = [sum(each[part] for part in alone) for each in every]
        pairs = list(zip(every, parts, strict=True))
        ratios.append(float(np.mean([each["all"] / part for each, part in pairs])))
        ours += sum(each["all"] for each in every)
        apart += sum(parts)
        untuned += sum(each["refit"] for each in every)
    text = "CPU seconds of the fit / (linear + trees, tuned apart and fitted to all rows)"
    tuning = ours / (apart - untuned)
    note = f"of the sums {ours / apart:.2f}; without the last fit of these two {tuning:.2f}"
    yield Line(text, 2.5, mean(ratios), unit="", note=note)


def _seconds(result: Result) -> dict[str, float]:
    """CPU seconds of each part, and of "all"."""
    parts, seconds = (result.facts[name].tolist() for name in ("parts", "seconds of parts"))
    return dict(zip(parts, seconds, strict=True)) | {"all": float(result.facts["seconds"])}


def _simulations(simulations: Simulated) -> Iterator[Line]:
    same = [Simulation(result) for result in simulations.get(ONE_LAW, ())]
    if same:
        note = f"{len(same)} tables"
        kept = mean([100.0 * one.kept for one in same])
        yield Line("simulated, one law: reference kept", 95, kept, at_least=True, note=note)
        harm = mean([100 * one.cost for one in same])
        worst = max(100 * one.cost for one in same)
        note = f"largest {worst:+.2f} %"
        yield Line("simulated, one law: harm to all rows", 0.02, harm, note=note)
    for law, text, target in (
        (TELLING, "features tell the domain", 90),
        (SILENT, "features are silent", 80),
    ):
        tables = [Simulation(result) for result in simulations.get(law, ())]
        chance = [one for one in tables if one.to_have >= LEAST_TO_HAVE]
        if chance:
            found = mean([100.0 * (one.got >= one.to_have / 2) for one in chance])
            note = (
                f"{len(chance)} of {len(tables)} tables have ≥ 5 %; "
                f"got {100 * np.mean([one.got for one in chance]):.1f} of "
                f"{100 * np.mean([one.to_have for one in chance]):.1f} %"
            )
            label = f"simulated, one differs, {text}: half of the gain found"
            yield Line(label, target, found, at_least=True, note=note)


class Simulation:
    """What was recommended on a simulated table, and what came of it.

    Attributes
    ----------
    kept : bool
        The reference was.
    cost : float
        The relative change of all rows.
    got, to_have : float
        The relative gain of the worst domain; the largest one of a candidate within the price.
    promised_cost, promised : float
        Cost and gain on the held-out rows, each row under what the other folds chose.
    """

    def __init__(self, result: Result):
        p = len(result.shares)
        with_domain = (KNOWN, CONSTANT)
        D = {
            name: domain_means(losses, result.k, p)
            for name, losses in result.losses.items()
            if name not in with_domain and not name.endswith("with domain")
        }
        reference, chosen = (str(result.facts[name]) for name in ("reference", "chosen"))
        A = {name: float(result.shares @ each) for name, each in D.items()}
        gain = {name: 1 - each.max() / D[reference].max() for name, each in D.items()}
        limit = A[reference] * within(result.kind, PRICE)
        self.kept = chosen == reference
        self.cost = A[chosen] / A[reference] - 1
        self.got = gain[chosen]
        self.to_have = max(gain[name] for name in D if A[name] <= limit)
        held, held_chosen = result.facts["promised"]
        self.promised = float(1 - held_chosen.max() / held.max())
        self.promised_cost = float(result.shares @ held_chosen / (result.shares @ held) - 1)


def simulated_rows(simulations: Simulated) -> Rows:
    """Promises on held-out rows and what they are worth; all tables, then those that moved."""
    rows: Rows = [("simulated", "tables", "gain promised", "got", "cost promised", "paid")]
    for law, results in simulations.items():
        every = [Simulation(result) for result in results]
        for label, some in ((law, every), (f"{law}, moved", [o for o in every if not o.kept])):
            if some:
                means = np.mean(
                    [(o.promised, o.got, o.promised_cost, o.cost) for o in some], axis=0
                )
                rows.append((label, str(len(some)), *(f"{100 * x:+.2f} %" for x in means)))
    return rows


# The page ----------------------------------------------------------------------------------------


def markdown(rows: Rows) -> str:
    """A table with its head, whose columns line up in a terminal, too."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def acceptance_rows(lines: Sequence[Line]) -> Rows:
    """A row for each figure."""
    rows: Rows = [("figure", "target", "found", "", "which")]
    for line in lines:
        unit = f" {line.unit}" if line.unit else ""
        sign, digits = ("≥" if line.at_least else "≤"), (2 if line.unit or line.found.error else 0)
        found = f"{line.found.value:.{digits}f}{unit}"
        if 0 < line.found.error < math.inf:
            found += f" ± {line.found.error:.2f}"
        rows.append((line.text, f"{sign} {line.target:g}{unit}", found, line.verdict, line.note))
    return rows


def column_rows(groups: Groups) -> Rows:
    """Worst domain / all rows, percent against linear, with the error of the former's mean."""
    kinds = [(group, kind) for group in groups for kind in KINDS]
    rows: Rows = [("column", *(f"{group} {KINDS[kind]}" for group, kind in kinds))]
    for column in COLUMNS:
        cells = []
        for group, kind in kinds:
            tables = [t for t in groups[group] if t.kind == kind]
            cells.append(_column_cell(column, tables))
        if any(cells):
            rows.append((column, *cells))
    return rows


def _column_cell(column: str, tables: Sequence[Table]) -> str:
    base = base_of(column)
    have = [t for t in tables if t.splits(column, base)]
    if not have:
        return ""
    worst, pooled = (mean([100 * t.change(column, base)[j] for t in have]) for j in (0, 1))
    cell = f"{worst.value:+.1f} / {pooled.value:+.1f}"
    if math.isfinite(worst.error):
        cell += f" (± {worst.error:.1f} / {pooled.error:.1f})"
    found = sum(len(t.splits(column, base)) for t in have)
    every = sum(len(t.splits(LINEAR)) for t in tables)
    return cell if found == every else f"{cell} [{found} of {every}]"


def table_rows(tables: Sequence[Table]) -> Rows:
    """A row for each table: what was recommended in how many splits, and what came of it.

    The guard's answer is that for 100 unlabelled rows.
    """
    shown = (TREES, "blend", HONEST, INFERRED, GUARDED, KNOWN)
    head = ("table", "domains", "rows", "worst of linear", "recommended", "guard accepts")
    rows: Rows = [(*head, *shown)]
    for t in tables:
        splits = t.splits(LINEAR)
        worst = t.domain_losses(LINEAR, splits).max()
        chosen = Counter(str(r.facts["chosen"]) for r in t.results.values())
        recommended = ", ".join(f"{name} {count}" for name, count in chosen.most_common())
        changes = (t.change(column, LINEAR) for column in shown)
        cells = [f"{100 * worst:+.1f} / {100 * pooled:+.1f}" for worst, pooled in changes]
        accepted = sum(bool(r.facts["accepted"]) for r in t.results.values())
        sizes, guard = str(len(t.k[splits[0]])), f"{accepted} of {len(t.results)}"
        about = (t.name, str(len(t.domains)), sizes, f"{worst:.4f}", recommended, guard)
        rows.append((*about, *cells))
    return rows


def page(groups: Groups, simulations: Simulated) -> str:
    """All of it, as Markdown."""
    parts = ["# Which model serves the worst domain on new rows, and what do all rows pay?"]
    counts = [
        f"{len(tables)} of the {group} tables, {sum(len(t.k) for t in tables)} fits"
        for group, tables in groups.items()
    ]
    every = [r for tables in groups.values() for t in tables for r in t.results.values()]
    every += [result for results in simulations.values() for result in results]
    codes = Counter(result.code for result in every)
    states = ", ".join(f"{code} ({count})" for code, count in codes.most_common())
    parts.append(f"{'; '.join(counts)}. States of the code: {states or 'none'}.")
    lines = list(acceptance(groups, simulations))
    if lines:
        parts += ["## Acceptance", markdown(acceptance_rows(lines))]
    if any(groups.values()):
        explained = (
            "Worst domain / all rows, change against the linear model in percent, mean over tables "
            "(± their standard errors); squared errors for regressions. [a of b]: on how many of "
            "the fits the column is available. Version 0.2's are against its own linear model."
        )
        parts += ["## Columns", explained, markdown(column_rows(groups))]
    if any(simulations.values()):
        parts += ["## Simulated tables", markdown(simulated_rows(simulations))]
    for group, tables in groups.items():
        if tables:
            parts += [f"## The {group} tables", markdown(table_rows(tables))]
    return "\n\n".join(parts) + "\n"
