"""What audits found, as one self-contained page.

The page shows the losses L_k of every domain, lets its reader move the mixture λ, and marks the
worst case. It holds its data and its program (the folder `page/`), so it opens without a network.
"""

from __future__ import annotations

import base64
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import anymix
from anymix.auditing import Audit
from anymix.errors import InputError
from anymix.files import write_whole
from anymix.reporting import words
from anymix.reporting.arguments import (
    checked_audits,
    checked_beside,
    checked_file,
    checked_mixture,
    checked_verdict,
    extra_of,
)
from anymix.reporting.choice_pictures import choice_figure
from anymix.reporting.frontiers import Front, Series, checked_frontier
from anymix.reporting.panels import Panel, marks_of, panels_of
from anymix.reporting.shown import Measure, Shown
from anymix.reporting.standing import Standing, standing_in_words, standings_of, verdict_of
from anymix.selection.recommendation import Recommendation
from anymix.solvers import Certificate, Frontier

__all__ = ["report", "training_curves"]

if TYPE_CHECKING:
    from jinja2 import Template


PROGRAM = ("text", "chart", "standing", "frontier", "mixture", "maps", "ladder", "bars", "training",
           "start")  # fmt: skip
MOST_OPEN_ROWS = 12  # of a table; a longer one is folded away at first


def report(
    audits: Audit | Mapping[str, Audit],
    path: str | os.PathLike[str],
    *,
    title: str = "How bad can it get?",
    certificate: Certificate | None = None,
    history: Iterable[Mapping[str, Any]] | None = None,
    mixture: ArrayLike | None = None,
    notes: Sequence[str] = (),
    frontier: Frontier | None = None,
    recommendation: Recommendation | None = None,
    verdict: str | None = None,
    beside: Mapping[str, Audit] | None = None,
) -> Path:
    """Write a page that shows L_k, and Σ λ_k L_k for every mixture λ, of every model.

    Parameters
    ----------
    audits : Audit or mapping
        An audit, or audits of several models by name, the baseline first, over the same domains
        and the same set Λ: {"ordinary": audit(...), "robust": audit(...)}.
    path : path-like
        The HTML file; its folder is made if need be, and an older file replaced at once.
    title : str
        The heading.
    certificate : Certificate, optional
        The proof of the training, `Solution.certificate`.
    history : iterable of mappings, optional
        The course of the training: records with "iteration" or "step" and with "upper" and
        "lower" (`Solution.history`), "mixture" (p,), or both.
    mixture : array-like of shape (p,), optional
        λ* of the training, `Solution.mixture`; it is marked in the explorer.
    notes : sequence of str
        Sentences to add, such as how missing values were treated.
    frontier : Frontier, optional
        What robustness buys and costs: `frontier_` of an estimator that chooses, or what
        `pareto_front` returned, over the domains of the audits.
    recommendation : Recommendation, optional
        Which model was chosen, and from what: `recommendation_` of AnyMixClassifier. Its picture
        needs matplotlib, and is left out without it.
    verdict : str, optional
        The sentence to read first, such as `TableFit.verdict`; None is what the audits say by
        themselves.
    beside : mapping, optional
        Audits of other models on the same rows, only for the table at a glance, such as
        `TableFit.beside`: {"a constant guess": audit(...)}. A constant guess can be the verdict.

    Returns
    -------
    Path
        The path of the page.

    Examples
    --------
    >>> import tempfile
    >>> from anymix.auditing import audit
    >>> y, groups = [1, 0, 1, 1], ["a", "a", "b", "b"]
    >>> audits = {"old": audit(y, [1, 0, 0, 0], groups), "new": audit(y, [1, 1, 1, 0], groups)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report(audits, Path(folder) / "report.html", title="Old and new").name
    'report.html'
    """
    file, shown = checked_file(path), checked_audits(audits)
    others, standings = checked_beside(beside, shown), standings_of(shown)
    front = None
    if frontier is not None:
        front = checked_frontier(frontier, shown.names, rooted=shown.first.is_rooted)
    star = None if mixture is None else checked_mixture(mixture, shown.p)
    if certificate is not None and not isinstance(certificate, Certificate):
        raise InputError("certificate", f"is {certificate!r}", "give that of a Solution, or None")
    if isinstance(notes, str):
        raise InputError("notes", f"is one string, {notes!r}", "give a list of sentences")
    page = _template().render(
        title=title,
        verdict=checked_verdict(verdict) or verdict_of(shown, others),
        standing_words=standing_in_words(shown, standings),
        shown=shown,
        beside=others,
        front=front,
        choice=None if recommendation is None else _choice(recommendation),
        measures=list(shown.measures()),
        order=[int(k) for k in np.argsort(-shown.highest_losses, kind="stable")],
        most_open_rows=MOST_OPEN_ROWS,
        paragraphs=[*words.meaning(shown, certificate), *notes],
        data=_plain(_data(shown, star, training_curves(history, shown.names), front, standings)),
        version=anymix.__version__,
    )
    return write_whole(file, lambda new: new.write_text(page, encoding="utf-8"))


def _choice(found: Recommendation) -> dict[str, Any]:
    """The candidates as a picture, if it can be drawn, and as rows of a table."""
    rows = [found.row(name) for name in found.names if name not in ("reference", "recommended")]
    if find_spec("matplotlib") is None:
        return {"picture": None, "rows": rows, "chosen": found.chosen}
    drawn = io.StringIO()
    choice_figure(found).savefig(drawn, format="svg")
    code = base64.b64encode(drawn.getvalue().encode()).decode()
    return {"picture": f"data:image/svg+xml;base64,{code}", "rows": rows, "chosen": found.chosen}


def _template() -> Template:
    """page.html, ready to be filled in: every text is escaped, except our own programs."""
    with extra_of("the report"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup  # text that is HTML already
    environment = Environment(
        loader=PackageLoader("anymix.reporting", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,  # a line with a {% block %} alone leaves nothing behind
        keep_trailing_newline=True,
    )
    # The filter `tojson` writes <, >, & and ' as escapes, so that no name can end the script.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters["number"] = words.number
    own = {"css": _part("page.css"), "js": "\n".join(_part(f"{name}.js") for name in PROGRAM)}
    written = {name: Markup(text) for name, text in own.items()}
    return environment.get_template("page.html", globals={"words": words, **written})


def _part(name: str) -> str:
    return (resources.files("anymix.reporting") / "page" / name).read_text(encoding="utf-8")


def _data(
    shown: Shown,
    star: NDArray[np.float64] | None,
    training: dict[str, Any],
    front: Front | None,
    standings: list[Standing],
) -> dict[str, Any]:
    """What the page's program reads."""
    return {
        "loss": shown.loss,
        "rooted": shown.first.is_rooted,
        "standing": [standing.to_page() for standing in standings],
        "domains": shown.names,
        "sizes": shown.first.sizes,
        "sample": shown.sample,
        "models": [_model(name, audit) for name, audit in shown.audits.items()],
        "measures": [_measure(measure) for measure in shown.measures()],
        "mixture": star,
        "limits": shown.limits,
        "outline": shown.outline() if shown.p == 3 and not shown.whole else None,
        "telling": _most_telling(shown, star),
        "training": training,
        "frontierLoss": None if front is None else front.title,
        "frontier": None if front is None else [_panel(front, p) for p in panels_of(front)],
    }


def _panel(front: Front, panel: Panel) -> dict[str, Any]:
    return {
        "heading": panel.heading,
        "caption": panel.caption,
        "x": panel.x.ends,
        "y": panel.y.ends,
        "series": [_series(front, panel, s) for s in panel.series],
        "marks": [mark._asdict() for mark in marks_of(front, panel)],
        "ordinary": front.ordinary,
        "chosen": front.chosen,
    }


def _series(front: Front, panel: Panel, series: Series) -> dict[str, Any]:
    along, up = panel.errors(series)
    losses = {"pooled": series.pooled, "worst": series.worst}
    errors = {"pooled_error": along, "worst_error": up}
    return {"rows": series.rows, **losses, **errors, "hover": front.hover(series)}


def _model(name: str, audit: Audit) -> dict[str, Any]:
    return {
        "name": name,
        "losses": audit.domain_losses,
        "worst": audit.agnostic_loss,
        "worst_mixture": audit.worst_mixture,
        "accuracy": audit.metrics.get("accuracy"),  # of a mixture: Σ λ_k accuracy_k, as for losses
        "mae": audit.metrics.get("mae"),
    }


def _measure(measure: Measure) -> dict[str, Any]:
    models = [{"values": v, "low": ends[:, 0], "high": ends[:, 1]} for v, ends in measure.found]
    return {"name": measure.name, "models": models}


def _most_telling(shown: Shown, star: NDArray[np.float64] | None) -> list[int]:
    """All domains: first those in a worst mixture or in λ*, then by their loss."""
    weights = [np.asarray(a.worst_mixture) for a in shown.audits.values()]
    weight = np.max(weights if star is None else [*weights, star], axis=0).round(3)
    return [int(k) for k in np.lexsort((-shown.highest_losses, -weight))]


def _plain(value: Any) -> Any:
    """Only what JSON knows: lists instead of arrays, None for what is not finite."""
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


MOST_POINTS = 400  # of a curve
MOST_CURVES = 7  # of λ; the other domains are summed up

Record = Mapping[str, Any]


def training_curves(history: Any, names: list[str]) -> dict[str, Any]:
    """The curves of a history, from at most 400 of its records."""
    records = _records(history)
    return {
        "values": _values(_thinned([r for r in records if "upper" in r])),
        "shares": _shares(_thinned([r for r in records if "mixture" in r]), names),
    }


def _records(history: Any) -> list[Record]:
    fix = "give records, such as Solution.history"
    if history is not None and not isinstance(history, Iterable):
        raise InputError("history", f"is {history!r}", fix)
    records = [] if history is None else list(history)
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(f"history[{i}]", f"is {record!r}", fix)
        if not {"iteration", "step"} & set(record) or not {"upper", "mixture"} & set(record):
            raise InputError(
                f"history[{i}]",
                f"has the keys {sorted(record)}",
                "give 'iteration' or 'step', and 'upper' with 'lower', or 'mixture'",
            )
    return records


def _thinned(records: list[Record]) -> list[Record]:
    keep = np.unique(np.linspace(0, len(records) - 1, MOST_POINTS).astype(int))
    return [records[i] for i in keep] if len(records) > MOST_POINTS else records


def _step(record: Record) -> int:
    return int(record["iteration"] if "iteration" in record else record["step"])


def _values(records: list[Record]) -> dict[str, Any] | None:
    if not records:
        return None
    return {
        "step": [_step(r) for r in records],
        "upper": [r["upper"] for r in records],
        "lower": [r.get("lower") for r in records],
    }


def _shares(records: list[Record], names: list[str]) -> dict[str, Any] | None:
    if not records:
        return None
    path = np.array([checked_mixture(r["mixture"], len(names)) for r in records])  # (t, p)
    order = np.argsort(-path.max(axis=0), kind="stable")
    few = order if len(names) <= MOST_CURVES else order[: MOST_CURVES - 1]
    series = [{"name": names[k], "values": path[:, k]} for k in few]
    if len(few) < len(names):
        rest = 1 - path[:, few].sum(axis=1)
        series.append({"name": f"the other {len(names) - len(few)}", "values": rest})
    return {"step": [_step(r) for r in records], "series": series}
