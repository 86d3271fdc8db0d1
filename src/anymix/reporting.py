"""What audits found, as one self-contained page and as pictures.

A model with losses L_k on p domains has the loss Σ_k λ_k L_k at a mixture λ, and its worst case is
max_{λ∈Λ} Σ_k λ_k L_k. The page shows L_k, lets its reader move λ, and marks the worst case. It
holds its data and its program (`page/`), so it opens without a network.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import anymix
from anymix.auditing import FEW_ROWS, Audit, compare
from anymix.certificates import Certificate
from anymix.mixtures import Simplex, Vertices

Array = NDArray[np.float64]

__all__ = ["picture", "report"]

COLORS = ("#c44e00", "#0072b2", "#00795a", "#8f4a7a", "#6b6b00")  # as in page/page.js
STAR = "#6a3d9a"
MOST_BARS = 24  # domains in a picture, those of highest loss
MOST_POINTS = 400  # of a curve
MOST_CURVES = 7  # of λ over time; the other domains are summed up


def report(
    audits: Audit | Mapping[str, Audit],
    path: str | os.PathLike[str],
    *,
    title: str = "How bad can it get?",
    certificate: Certificate | None = None,
    history: Iterable[Mapping[str, Any]] | None = None,
    mixture: ArrayLike | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write a page that shows L_k, and Σ λ_k L_k for every mixture λ, of every model; its path.

    Parameters
    ----------
    audits : an audit, or audits of several models by name, the baseline first, over the same
        domains and the same set Λ: {"uniform": audit(...), "agnostic": audit(...)}.
    path : the HTML file; its folder is made if need be, and an older file replaced at once.
    title : the heading.
    certificate : of the training, `Solution.certificate`.
    history : of the training: records with "iteration" or "step" and with "upper" and "lower"
        (`Solution.history`), "mixture" (p,), or both.
    mixture : λ* of the training, (p,), `Solution.mixture`; it is marked in the explorer.
    notes : sentences to add, such as how missing values were treated.

    >>> from anymix.auditing import audit
    >>> y, groups = [1, 0, 1, 1], ["a", "a", "b", "b"]
    >>> audits = {"old": audit(y, [1, 0, 0, 0], groups), "new": audit(y, [1, 1, 1, 0], groups)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report(audits, Path(folder) / "report.html", title="Old and new").name
    'report.html'
    """
    file, shown = _file(path), _checked(audits)
    star = None if mixture is None else _mixture(mixture, shown.p)
    training = _training(history, shown.names)
    _check_words(certificate, notes)
    page = Template(_part("page.html")).substitute(
        title=escape(title),
        lead=escape(_lead(shown)),
        summary=_summary_table(shown),
        bars_note=escape(_bars_note(shown)),
        table=_domain_table(shown),
        table_open=" open" if shown.p <= 12 else "",
        meaning=_paragraphs(_meaning(shown, certificate), notes),
        version=escape(anymix.__version__),
        css=_part("page.css"),
        js=_part("page.js"),
        plotly=_plotly(),
        data=_embedded(_data(shown, star, training)),
    )
    return _written(file, lambda new: new.write_text(page, encoding="utf-8"))


def picture(
    audits: Audit | Mapping[str, Audit],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    mixture: ArrayLike | None = None,
) -> Path:
    """Draw L_k with intervals, and Σ λ_k L_k over the mixtures λ, as PNG, SVG or PDF; its path.

    The mixtures are a line for p = 2, a triangle shaded by the best model's loss for p = 3, and
    the range between the least and the largest L_k for more. The path's ending names the format;
    the arguments are those of `report`.

    >>> from anymix.auditing import audit
    >>> found = audit(None, [0.25, 0.5, 1.0], ["a", "b", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture(found, Path(folder) / "losses.svg").name
    'losses.svg'
    """
    file, shown = _file(path), _checked(audits)
    star = None if mixture is None else _mixture(mixture, shown.p)
    if file.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"path ends in {file.suffix!r}; name the format with .png, .svg or .pdf")
    figure = _figure(shown, star, title)
    return _written(file, lambda new: figure.savefig(new, dpi=150))


@dataclass(frozen=True)
class _Shown:
    """The audits by name, and what they share."""

    audits: dict[str, Audit]
    names: list[str]  # of the domains

    @property
    def first(self) -> Audit:
        return next(iter(self.audits.values()))

    @property
    def p(self) -> int:
        return len(self.names)

    @property
    def sample(self) -> Array:
        """m̄, the domains' shares of the rows."""
        sizes = np.asarray(self.first.sizes, dtype=np.float64)
        return np.asarray(sizes / sizes.sum())


def _checked(audits: Any) -> _Shown:
    named = {"model": audits} if isinstance(audits, Audit) else audits
    if not isinstance(named, Mapping):
        raise ValueError(
            f"audits is a {type(audits).__name__}; give what audit() returned, or several by name: "
            "{'old': ..., 'new': ...}"
        )
    named = {str(name): audit for name, audit in named.items()}
    if not named:
        raise ValueError("audits is empty; give at least one audit")
    first_name, first = next(iter(named.items()))
    for name, audit in named.items():
        try:
            compare(first, audit)
        except ValueError as error:
            raise ValueError(
                f"audits[{name!r}] cannot stand beside audits[{first_name!r}]: {error}"
            ) from None
        if not np.all(np.isfinite(audit.domain_losses)):
            k = int(np.argmin(np.isfinite(audit.domain_losses)))
            raise ValueError(
                f"audits[{name!r}] has loss {audit.domain_losses[k]} on domain "
                f"{audit.domain_names[k]!r}, so a mixture with it has none; leave that domain out"
            )
    return _Shown(named, [str(name) for name in first.domain_names])


def _mixture(mixture: ArrayLike, p: int) -> Array:
    lam = np.asarray(mixture, dtype=np.float64)
    if lam.shape != (p,) or not (np.all(lam >= -1e-9) and abs(lam.sum() - 1) <= 1e-6):
        raise ValueError(
            f"mixture is {lam} of shape {lam.shape}; give {p} shares ≥ 0 of sum 1, one a domain"
        )
    return lam


def _check_words(certificate: Any, notes: Any) -> None:
    if certificate is not None and not isinstance(certificate, Certificate):
        raise ValueError(f"certificate is {certificate!r}; give that of a Solution, or None")
    if isinstance(notes, str):
        raise ValueError(f"notes is one string, {notes!r}; give a list of sentences")


# The data of the page --------------------------------------------------------------------------


def _data(shown: _Shown, star: Array | None, training: dict[str, Any]) -> dict[str, Any]:
    limits = _limits(shown)
    whole = bool(np.all(limits[:, 1] >= 1 - 1e-9))  # every vertex is in Λ, so all of Δ_p is
    return {
        "loss": shown.first.loss_title,
        "domains": shown.names,
        "sizes": shown.first.sizes,
        "sample": shown.sample,
        "models": [_model(name, audit) for name, audit in shown.audits.items()],
        "measures": _measures(shown),
        "mixture": star,
        "limits": limits,
        "outline": _outline(shown) if shown.p == 3 and not whole else None,
        "telling": _most_telling(shown, star),
        "training": training,
    }


def _model(name: str, audit: Audit) -> dict[str, Any]:
    return {
        "name": name,
        "losses": audit.domain_losses,
        "worst": audit.agnostic_loss,
        "worst_mixture": audit.worst_mixture,
        "accuracy": audit.metrics.get("accuracy"),  # of a mixture: Σ λ_k accuracy_k, as for losses
    }


def _measures(shown: _Shown) -> list[dict[str, Any]]:
    """The loss, and the metrics that all models have: a name, and (values, intervals) by model."""
    audits = list(shown.audits.values())
    losses = _measure(shown.first.loss_title, [(a.domain_losses, a.intervals) for a in audits])
    return [losses] + [
        _measure(_title(name), [(a.metrics[name], a.metric_intervals[name]) for a in audits])
        for name in _common_metrics(shown)
    ]


def _common_metrics(shown: _Shown) -> list[str]:
    audits = list(shown.audits.values())
    return [name for name in audits[0].metrics if all(name in a.metrics for a in audits)]


def _title(name: str) -> str:
    return name.upper() if name in ("auc", "mae", "rmse") else name.replace("_", " ")


def _measure(name: str, found: list[tuple[Array, Array]]) -> dict[str, Any]:
    return {
        "name": name,
        "models": [
            {"values": values, "low": ends[:, 0], "high": ends[:, 1]} for values, ends in found
        ],
    }


def _limits(shown: _Shown) -> Array:
    """Least and largest share of every domain in Λ, (p, 2)."""
    maximize, units = shown.first.mixtures.maximize, np.eye(shown.p)
    return np.array([[maximize(-e) @ e, maximize(e) @ e] for e in units])


def _outline(shown: _Shown, n_directions: int = 180) -> Array:
    """The border of conv Λ for p = 3: its extreme points in turn, (n, 3)."""
    angles = np.linspace(0, 2 * np.pi, n_directions, endpoint=False)
    across, up = np.array([-1, 1, 0]) / math.sqrt(2), np.array([-1, -1, 2]) / math.sqrt(6)
    directions = np.outer(np.cos(angles), across) + np.outer(np.sin(angles), up)
    corners = np.array([shown.first.mixtures.maximize(d) for d in directions])
    moved = np.abs(corners - np.roll(corners, 1, axis=0)).max(axis=1) > 1e-9
    return corners[moved] if moved.any() else corners[:1]


def _most_telling(shown: _Shown, star: Array | None) -> list[int]:
    """All domains: first those in a worst mixture or in λ*, then by their loss."""
    weights = [np.asarray(a.worst_mixture) for a in shown.audits.values()]
    weight = np.max(weights if star is None else [*weights, star], axis=0).round(3)
    loss = np.max([a.domain_losses for a in shown.audits.values()], axis=0)
    return [int(k) for k in np.lexsort((-loss, -weight))]


def _training(history: Any, names: list[str]) -> dict[str, Any]:
    """Curves of upper and lower value, and of λ, from at most MOST_POINTS records."""
    if history is not None and not isinstance(history, Iterable):
        raise ValueError(f"history is {history!r}; give records, such as Solution.history")
    records = [] if history is None else list(history)
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise ValueError(f"history[{i}] is {record!r}; give records, such as Solution.history")
        if not {"iteration", "step"} & set(record) or not {"upper", "mixture"} & set(record):
            raise ValueError(
                f"history[{i}] has the keys {sorted(record)}; give 'iteration' or 'step', and "
                "'upper' with 'lower', or 'mixture'"
            )
    bounds = _thinned([r for r in records if "upper" in r])
    mixtures = _thinned([r for r in records if "mixture" in r])
    return {"values": _bounds(bounds), "shares": _shares(mixtures, names)}


def _thinned(records: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    keep = np.unique(np.linspace(0, len(records) - 1, MOST_POINTS).astype(int))
    return [records[i] for i in keep] if len(records) > MOST_POINTS else records


def _step(record: Mapping[str, Any]) -> int:
    return int(record["iteration"] if "iteration" in record else record["step"])


def _bounds(records: list[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not records:
        return None
    lower = [r.get("lower") for r in records]
    return {"step": [_step(r) for r in records], "upper": [r["upper"] for r in records],
            "lower": lower}  # fmt: skip


def _shares(records: list[Mapping[str, Any]], names: list[str]) -> dict[str, Any] | None:
    if not records:
        return None
    path = np.array([_mixture(r["mixture"], len(names)) for r in records])  # (t, p)
    order = np.argsort(-path.max(axis=0), kind="stable")
    few = order if len(names) <= MOST_CURVES else order[: MOST_CURVES - 1]
    series = [{"name": names[k], "values": path[:, k]} for k in few]
    if len(few) < len(names):
        rest = 1 - path[:, few].sum(axis=1)
        series.append({"name": f"the other {len(names) - len(few)}", "values": rest})
    return {"step": [_step(r) for r in records], "series": series}


def _embedded(data: dict[str, Any]) -> str:
    """JSON that no text in it can end early: `<` is written as an escape, nan and ∞ as null."""
    text = json.dumps(_plain(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Words and tables ------------------------------------------------------------------------------


def _lead(shown: _Shown) -> str:
    models = "one model" if len(shown.audits) == 1 else f"{len(shown.audits)} models"
    domains = "one domain" if shown.p == 1 else f"{shown.p} domains"
    return (
        f"{shown.first.loss_title.capitalize()} of {models} on {shown.first.n_rows:,} rows in "
        f"{domains}, and on every mixture of the domains. Lower is better."
    )


def _bars_note(shown: _Shown) -> str:
    return (
        f"Thin lines are {_level(shown)} confidence intervals: how far chance alone may move a "
        f"number ({_kinds(shown)}). Domains with the highest loss come first."
    )


def _kinds(shown: _Shown) -> str:
    """'log loss guaranteed, accuracy exact, AUC approximate'."""
    titles = {"loss": shown.first.loss_title} | {m: _title(m) for m in _common_metrics(shown)}
    kinds = shown.first.interval_kinds
    return ", ".join(f"{title} {kinds[name]}" for name, title in titles.items())


def _meaning(shown: _Shown, certificate: Certificate | None) -> Iterator[str]:
    title, audits = shown.first.loss_title, shown.audits
    for name, a in audits.items():
        yield (
            f"{name}: {title} {_number(a.pooled_loss)} on the rows as they are, but "
            f"{_number(a.agnostic_loss)} on the worst mixture, {_mixture_in_words(a, shown.names)}."
        )
    (first, *_, last), (a, *_, b) = [*audits, *audits], [*audits.values(), *audits.values()]
    if len(audits) > 1:
        found = compare(a, b)
        yield (
            f"The price of robustness: against {first}, {last} has {_change(found.price)} {title} "
            f"on the rows as they are, and {_change(-found.gain)} on the worst mixture."
        )
    yield f"The worst case is over {_set_in_words(a)}."
    if a.n_outside:
        yield f"Rows that are in none of the domains, and count nowhere here: {a.n_outside:,}."
    if a.sizes.sum() > a.n_rows:
        yield (
            "Some rows are in several domains, so the mixture by the domains' sizes (“as sampled”) "
            "is not quite the rows as they are."
        )
    small = [shown.names[k] for k in np.flatnonzero(a.sizes < FEW_ROWS)]
    if small:
        more = f" and {len(small) - 8} more" if len(small) > 8 else ""
        yield (
            f"Fewer than {FEW_ROWS} rows, so little is known of: {', '.join(small[:8])}{more}. "
            "Read their intervals, not their bars."
        )
    if certificate is not None:
        yield (
            f"Proof of the training: its objective (the worst mixture's training loss, plus the "
            f"regulariser) reaches {certificate.upper:.6g}, and no model of this kind gets below "
            f"{certificate.lower:.6g}: at most {certificate.gap:.1e} is left to gain. It speaks of "
            "the training rows; the numbers above are measured on the audited rows."
        )
    yield (
        "What this does not say: bias inside the data is not removed. If labels or features of a "
        "domain are wrong, missing or unjust, a model that is good on every mixture of such data "
        "repeats it. Groups that are not among the domains are not protected, and neither is a "
        "domain that changes by itself."
    )


def _mixture_in_words(audit: Audit, names: list[str]) -> str:
    """'70.0% a, 30.0% b', at most three names."""
    lam = audit.worst_mixture
    order = np.argsort(-lam, kind="stable")[:3]
    parts = [f"{lam[k]:.1%} {names[k]}" for k in order if lam[k] >= 5e-4]
    rest = 1 - lam[order].sum()
    return ", ".join(parts) + (f", {rest:.1%} others" if rest >= 5e-4 else "")


def _set_in_words(audit: Audit) -> str:
    if isinstance(audit.mixtures, Simplex | Vertices):
        return "all mixtures of these domains"
    return f"the mixtures in Λ = {audit.mixtures!r}; one outside of it may be worse"


def _number(x: float) -> str:
    """Four digits, as in page.js."""
    if not math.isfinite(x):
        return "–" if math.isnan(x) else "∞" if x > 0 else "−∞"
    if x == 0:
        return "0"
    digits = math.floor(math.log10(abs(x)))
    return f"{x:.{max(3 - digits, 0)}f}" if -4 <= digits < 6 else f"{x:.3e}"


def _change(x: float) -> str:
    return f"{_number(abs(x))} {'more' if x >= 0 else 'less'}"


def _level(shown: _Shown) -> str:
    return f"{100 * shown.first.confidence:.4g}%"


def _paragraphs(sentences: Iterable[str], notes: Sequence[str]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in (*sentences, *notes))


def _summary_table(shown: _Shown) -> str:
    heads = ["model", "rows as they are", "worst mixture", "which mixture that is"]
    rows = [
        [escape(name), _cell(a.pooled_loss, a.pooled_interval),
         _cell(a.agnostic_loss, a.agnostic_interval), escape(_mixture_in_words(a, shown.names))]
        for name, a in shown.audits.items()
    ]  # fmt: skip
    kind = shown.first.interval_kinds["agnostic_loss"]  # never surer than that of all rows
    caption = f"{shown.first.loss_title}, with {_level(shown)} intervals ({kind})"
    return _table(caption, heads, rows, words={3})


def _domain_table(shown: _Shown) -> str:
    measures = _measures(shown)
    several = len(shown.audits) > 1
    heads = ["domain", "rows"] + [
        f"{measure['name']}, {name}" if several else measure["name"]
        for measure in measures
        for name in shown.audits
    ]
    rows = [
        [escape(name), f"{shown.first.sizes[k]:,}"]
        + [
            _cell(m["values"][k], (m["low"][k], m["high"][k]))
            for x in measures
            for m in x["models"]
        ]
        for k, name in enumerate(shown.names)
    ]
    return _table("Every domain, with intervals", heads, rows)


def _cell(value: float, ends: Sequence[float]) -> str:
    low, high = (_number(end) for end in ends)
    return f'{_number(value)}<span class="interval">{low} to {high}</span>'


def _table(
    caption: str, heads: list[str], rows: list[list[str]], words: Collection[int] = ()
) -> str:
    """An HTML table; the cells are HTML already."""
    kind = [' class="words"' if j in words else "" for j in range(len(heads))]
    head = "".join(f'<th scope="col"{c}>{escape(h)}</th>' for c, h in zip(kind, heads, strict=True))
    body = "".join(
        f'<tr><th scope="row">{first}</th>'
        + "".join(f"<td{c}>{cell}</td>" for c, cell in zip(kind[1:], cells, strict=True))
        + "</tr>\n"
        for first, *cells in rows
    )
    caption = f"<caption>{escape(caption)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


# Pictures --------------------------------------------------------------------------------------


def _figure(shown: _Shown, star: Array | None, title: str | None) -> Any:
    try:
        from matplotlib.figure import Figure  # not pyplot: no window, no global state
    except ImportError:
        raise ValueError("a picture needs matplotlib; pip install 'anymix[report]'") from None
    n_bars = min(shown.p, MOST_BARS)
    height = max(4.0, 1.2 + n_bars * (0.12 + 0.16 * len(shown.audits)))
    figure = Figure(figsize=(10, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_bars(left, shown)
    draw = {2: _draw_line, 3: _draw_triangle}.get(shown.p, _draw_range)
    draw(right, shown, star)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    if title is not None:
        figure.suptitle(_literal(title))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _literal(text: str) -> str:
    """A dollar sign is one, not the start of a formula."""
    return text.replace("$", r"\$")


def _colored(shown: _Shown) -> Iterator[tuple[str, str, Audit]]:
    for i, (name, audit) in enumerate(shown.audits.items()):
        yield COLORS[(i + (len(shown.audits) == 1)) % len(COLORS)], _literal(name), audit


def _draw_bars(axes: Any, shown: _Shown) -> None:
    most = np.max([a.domain_losses for a in shown.audits.values()], axis=0)
    order = np.argsort(-most, kind="stable")[:MOST_BARS]
    width = 0.8 / len(shown.audits)
    reach = 2 * np.abs(most).max() or 1.0  # one wide interval must not flatten all the bars
    for i, (color, _, audit) in enumerate(_colored(shown)):
        values = audit.domain_losses[order]
        ends = np.clip(audit.intervals[order], -2 * reach, 2 * reach)
        at = np.arange(len(order)) + (i - (len(shown.audits) - 1) / 2) * width
        error = np.abs(ends.T - values)
        axes.barh(at, values, width, xerr=error, color=color, error_kw={"elinewidth": 0.8})
    names = [_literal(textwrap.shorten(shown.names[k], 28, placeholder="…")) for k in order]
    axes.set_yticks(np.arange(len(order)), names)
    axes.invert_yaxis()
    left, right = axes.get_xlim()
    axes.set_xlim(max(left, -reach), min(right, reach))
    more = f", the {MOST_BARS} highest of {shown.p}" if shown.p > MOST_BARS else ""
    kind = shown.first.interval_kinds["loss"]
    axes.set_xlabel(f"{shown.first.loss_title} and {_level(shown)} interval ({kind}){more}")


def _draw_line(axes: Any, shown: _Shown, star: Array | None) -> None:
    for color, name, audit in _colored(shown):
        axes.plot([0, 1], audit.domain_losses, color=color, label=name, linewidth=2)
        at, worst = audit.worst_mixture[1], audit.agnostic_loss
        axes.plot(at, worst, "D", color=color, **_EDGED, label=f"worst case of {name}")
    axes.axvline(shown.sample[1], color="#55606b", linestyle=":", label="data as sampled")
    if star is not None:
        axes.axvline(star[1], color=STAR, linestyle="-.", label="λ* of the training")
    for low, high in ((0, _limits(shown)[1, 0]), (_limits(shown)[1, 1], 1)):
        if high - low > 1e-9:
            axes.axvspan(low, high, color="#dde2e7", zorder=0)
    axes.set(xlabel=f"share of {_literal(shown.names[1])}", ylabel=shown.first.loss_title)
    axes.set(xlim=(0, 1), ylim=(min(0, axes.get_ylim()[0]), None))


def _draw_triangle(axes: Any, shown: _Shown, star: Array | None) -> None:
    corners = np.array([[0, 0], [1, 0], [0.5, math.sqrt(0.75)]])  # of the three domains
    grid = np.array([(i, j, 60 - i - j) for i in range(61) for j in range(61 - i)]) / 60  # (n, 3)
    losses = np.array([grid @ a.domain_losses for a in shown.audits.values()])  # (models, n)
    x, y = (grid @ corners).T
    best = axes.tricontourf(x, y, losses.min(axis=0), levels=12, cmap="Greys", alpha=0.6)
    axes.figure.colorbar(best, ax=axes, label=f"{shown.first.loss_title} of the best model")
    for color, name, audit in _colored(shown):
        at = audit.worst_mixture @ corners
        axes.plot(*at, "D", color=color, **_EDGED, label=f"worst case of {name}")
    axes.plot(*(shown.sample @ corners), "o", color="white", **_EDGED, label="data as sampled")
    if star is not None:
        axes.plot(*(star @ corners), "*", color=STAR, markersize=11, label="λ* of the training")
    difference = losses[0] - losses[-1]
    if difference.min() < 0 < difference.max():
        axes.tricontour(x, y, difference, levels=[0.0], colors=["black"])
        axes.plot([], [], "k-", label="first and last model are equal")
    border = _outline(shown)
    axes.plot(
        *(np.vstack([border, border[:1]]) @ corners).T, "k--", linewidth=1, label="border of Λ"
    )
    for (cx, cy), name, above in zip(corners, shown.names, (False, False, True), strict=True):
        axes.annotate(_literal(name), (cx, cy), (0, 8 if above else -8), ha="center",
                      va="bottom" if above else "top", textcoords="offset points")  # fmt: skip
    axes.set_aspect("equal")
    axes.set_axis_off()


def _draw_range(axes: Any, shown: _Shown, star: Array | None) -> None:
    for i, (color, _, audit) in enumerate(_colored(shown)):
        marks = [
            ("D", color, audit.worst_mixture, "worst case in Λ"),
            ("o", "white", shown.sample, "data as sampled"),
            *([] if star is None else [("*", STAR, star, "λ* of the training")]),
        ]
        level = np.full(shown.p, i)
        label = None if i else "one domain alone"
        axes.plot(audit.domain_losses, level, "|", color=color, markersize=16, label=label)
        for mark, fill, lam, what in marks:
            at, label = lam @ audit.domain_losses, None if i else what
            axes.plot(at, i - 0.2, mark, color=fill, **_EDGED, label=label)
    axes.set_yticks(range(len(shown.audits)), [_literal(name) for name in shown.audits])
    axes.set(ylim=(len(shown.audits) - 0.5, -0.5), xlabel=shown.first.loss_title)


_EDGED: dict[str, Any] = {"markeredgecolor": "black", "clip_on": False}


# Files -----------------------------------------------------------------------------------------


def _part(name: str) -> str:
    return (resources.files("anymix") / "page" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ValueError("the report needs plotly; pip install 'anymix[report]'") from None
    return str(get_plotlyjs())


def _file(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path is {path!r}; give the name of a file")
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"path is the folder {str(path)!r}; name a file in it, say report.html")
    return file


def _written(path: Path, write: Callable[[Path], object]) -> Path:
    """Write beside the path, then rename: whoever opens the path sees a whole file or the old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        new = Path(folder) / path.name
        write(new)
        os.replace(new, path)
    return path
