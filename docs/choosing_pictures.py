"""The pictures of docs/choosing.md:  python docs/choosing_pictures.py"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anymix as ax
from anymix.estimators import describe_clients

Array = NDArray[np.float64]
FOLDER = Path(__file__).parent / "img"
INK, BLUE, ORANGE, GREEN, GREY = "#333333", "#0072b2", "#d55e00", "#009e73", "#999999"


def rows(seed: int = 0) -> tuple[Array, Any, Any]:
    """Three regions in which other columns matter."""
    rng = np.random.default_rng(seed)
    region = np.repeat(["city", "coast", "rural"], [600, 300, 100])
    place = np.repeat([0, 1, 2], [600, 300, 100])
    X = rng.normal(size=(1000, 3))
    return X, X[np.arange(1000), place] * 2 + rng.logistic(size=1000) > 0, region


def flow(axes: Any) -> None:
    """From questions to names."""
    steps = [
        ("Are the groups given?", "no: BregmanClusters,\nweak_segments"),
        ("Is the group known\nwhen you predict?", "yes: domain_features,\nor Personalized"),
        ("What mix may come?", "any: Simplex · near today's: TVBall,\nChi2Ball · a list: Hull"),
        ("Do you know it roughly?", "yes: DirichletPrior,\nLogPrior"),
        ("How robust?", "not sure: AgnosticClassifierCV\nchooses by rows held out"),
        (
            "A loss with a kink,\nor a neural network?",
            "yes: stochastic_afl,\nAgnosticLoss",
        ),
    ]
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": INK}
    for k, (question, answer) in enumerate(steps):
        y = len(steps) - k
        axes.text(0.25, y, question, ha="center", va="center", bbox=box)
        axes.text(0.75, y, answer, ha="center", va="center", color=BLUE)
        axes.annotate("", (0.55, y), (0.42, y), arrowprops={"arrowstyle": "->", "color": BLUE})
        if k:
            arrow = {"arrowstyle": "->", "color": INK}
            axes.annotate("", (0.25, y + 0.36), (0.25, y + 0.66), arrowprops=arrow)
    axes.set(xlim=(0, 1), ylim=(0.4, len(steps) + 0.6))
    axes.axis("off")


def domains(axes: Any) -> None:
    """The bound against the number of clusters, of sixty clients of three kinds."""
    rng = np.random.default_rng(0)
    kinds = rng.dirichlet(np.ones(4), size=3)
    client = np.repeat(np.arange(60), 100)
    word = [rng.choice(4, p=kinds[c % 3]) for c in client]
    found = describe_clients(client, labels=word)
    model = ax.BregmanClusters("bound").fit(found.statistics, sample_weight=found.sizes)
    axes.plot(np.arange(1, 21), model.bounds_, "o-", color=BLUE)
    axes.axvline(model.n_clusters_, color=GREY, linestyle=":")
    axes.set(xlabel="domains made of 60 clients", ylabel="what the bound adds")


def sets(axes: Any) -> None:
    """The worst loss over sets of growing size."""
    losses, sizes = np.array([0.2, 0.3, 0.9]), np.array([500, 400, 100])
    m = sizes / sizes.sum()
    named: dict[str, ax.MixtureSet] = {
        "Point": ax.Point(m),
        "TVBall 0.15": ax.TVBall(m, 0.15),
        "cvar 0.5": ax.cvar(m, 0.5),
        "Chi2Ball 2": ax.Chi2Ball(sizes, 2.0),
        "Simplex": ax.Simplex(3),
    }
    worst = [float(s.maximize(losses) @ losses) for s in named.values()]
    axes.barh(list(named), worst, color=[GREY, BLUE, BLUE, BLUE, ORANGE])
    axes.set(xlabel="worst loss over the set")
    axes.invert_yaxis()


def robustness(axes: Any) -> None:
    """Mean and worst loss from ordinary (t = 0) to agnostic (t = 1)."""
    X, y, region = rows()
    at = np.linspace(0, 1, 11)
    found = [ax.AgnosticClassifier(robustness=t).fit(X, y, domains=region) for t in at]
    share = np.array([0.6, 0.3, 0.1])
    axes.plot(at, [m.domain_losses_.max() for m in found], color=ORANGE, label="worst region")
    axes.plot(at, [m.domain_losses_ @ share for m in found], color=BLUE, label="all rows")
    axes.set(xlabel="robustness t", ylabel="loss")
    axes.legend(frameon=False)


def penalties(axes: Any) -> None:
    """How the weight of the worst region shrinks with μ, and under a cap r."""
    X, y, region = rows()
    mus = np.logspace(-3, 1, 13)
    lam = [ax.AgnosticClassifier(mu=mu).fit(X, y, domains=region).mixture_[2] for mu in mus]
    axes.semilogx(mus, lam, "o-", color=BLUE, label="price μ")
    capped = ax.AgnosticClassifier(max_skewness=1.1).fit(X, y, domains=region).mixture_[2]
    axes.axhline(capped, color=ORANGE, label="cap r = 1.1")
    axes.axhline(0.1, color=GREY, linestyle=":", label="its share of the rows")
    axes.set(xlabel="μ", ylabel="λ of the rural rows")
    axes.legend(frameon=False)


def priors(axes: Any) -> None:
    """λ under Dirichlet priors that are more and more sure of 60 : 30 : 10."""
    X, y, region = rows()
    strength, names = [0.1, 0.3, 1, 3, 10, 30, 100], ["city", "coast", "rural"]
    sure = [ax.DirichletPrior(1 + s * np.array([0.6, 0.3, 0.1])) for s in strength]
    models = [ax.AgnosticClassifier(objective=ax.Objective(prior=p)) for p in sure]
    lam = [model.fit(X, y, domains=region).mixture_ for model in models]
    for k, color in enumerate((BLUE, GREEN, ORANGE)):
        axes.semilogx(strength, [v[k] for v in lam], "o-", color=color, label=names[k])
    axes.set(xlabel="Σ(α − 1)", ylabel="λ")
    axes.legend(frameon=False)


def solvers(axes: Any) -> None:
    """The gap of both stochastic algorithms, step by step."""
    X, y, region = rows()
    problem = ax.LinearDomains(X, y, region)
    options: dict[str, Any] = {"step_w": 0.3, "step_mixture": 0.05, "gamma": 1e-3, "every": 500}
    steps = np.arange(1, 21) * 500
    runs = (ax.stochastic_afl, ax.optimistic_afl)
    for run, color, name in zip(runs, (ORANGE, BLUE), ("stochastic", "optimistic"), strict=True):
        points = list(islice(run(problem, **options), 20))
        gaps = [ax.certify(problem, None, p.w_average, p.mixture_average).gap for p in points]
        axes.loglog(steps, gaps, color=color, label=name)
    axes.loglog(
        steps, np.full(20, max(ax.solve(problem).certificate.gap, 1e-9)), color=GREEN, label="exact"
    )
    axes.set(xlabel="steps", ylabel="certified gap")
    axes.legend(frameon=False)


def samplers(axes: Any) -> None:
    """Rows that a step looks at, against the number of domains."""
    p = np.array([2, 5, 10, 30, 100, 300, 1000])
    axes.loglog(p, p, color=ORANGE, label="PerDomain()")
    axes.loglog(p, np.ones(len(p)), color=BLUE, label="Weighted()")
    axes.set(xlabel="domains p", ylabel="rows in a step of w")
    axes.legend(frameon=False)


def personal(axes: Any) -> None:
    """The loss of three kinds of models against the rows of a domain, on rows not fitted."""
    from sklearn.linear_model import LogisticRegression

    from anymix.estimators import PersonalizedCV

    rng = np.random.default_rng(1)
    steps = np.array([20, 40, 80, 160, 320, 640])
    sizes = np.repeat(steps, 8)
    k = np.repeat(np.arange(len(sizes)), sizes)
    w = np.array([1.0, 0.0, 1.0]) + 0.5 * rng.normal(size=(len(sizes), 3))
    X = rng.normal(size=(len(k), 3))
    y = np.sum(X * w[k], axis=1) + rng.logistic(size=len(k)) > 0
    found = PersonalizedCV(LogisticRegression()).fit(X, y, domains=k).held_out_losses_
    for name, color in (("agnostic", BLUE), ("local", ORANGE), ("personal", GREEN)):
        mean = found[name].reshape(len(steps), 8).mean(axis=1)
        axes.semilogx(steps, mean, "o-", color=color, label=name)
    axes.set(xlabel="rows of a domain", ylabel="loss on rows held out")
    axes.legend(frameon=False)


PICTURES: dict[str, Callable[[Any], None]] = {
    "domains": domains,
    "sets": sets,
    "robustness": robustness,
    "penalties": penalties,
    "prior": priors,
    "solver": solvers,
    "sampler": samplers,
    "personal": personal,
}


def main() -> None:
    """All pictures."""
    from matplotlib import pyplot as plt

    warnings.simplefilter("ignore")
    plt.rcParams.update({"font.size": 9, "text.color": INK, "axes.labelcolor": INK})
    FOLDER.mkdir(exist_ok=True)
    figure, axes = plt.subplots(figsize=(7.2, 6), layout="constrained")
    flow(axes)
    figure.savefig(FOLDER / "choose.png", dpi=110)
    for name, draw in PICTURES.items():
        figure, axes = plt.subplots(figsize=(4.4, 2.6), layout="constrained")
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(FOLDER / f"choose_{name}.png", dpi=110)
        plt.close(figure)


if __name__ == "__main__":
    main()
