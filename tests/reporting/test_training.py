"""The curves of a training."""

import math
from pathlib import Path

import numpy as np
import pytest
from audited import data_of, two_models, words_of

import anymix as ax
from anymix.auditing import audit
from anymix.reporting import report


def test_history_of_the_exact_solver(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    y, d = (X[:, 0] > 0).astype(int), np.where(X[:, 1] > 0, "a", "b")
    fitted = ax.solve(ax.LinearDomains(X, y, d))
    found = audit(y, (X @ fitted.w[:-1] + fitted.w[-1] > 0).astype(int), d)
    page = report(
        {"robust": found},
        tmp_path / "report.html",
        certificate=fitted.certificate,
        history=fitted.history,
        mixture=fitted.mixture,
    )
    data = data_of(page)
    assert data["mixture"] == fitted.mixture.tolist()
    values, shares = data["training"]["values"], data["training"]["shares"]
    assert shares["step"] == values["step"] == [r["iteration"] for r in fitted.history]
    assert values["upper"] == [r["upper"] for r in fitted.history]
    lower = [r["lower"] if math.isfinite(r["lower"]) else None for r in fitted.history]
    assert values["lower"] == lower
    assert f"{fitted.certificate.lower:.6g}" in words_of(page)


def test_many_steps_and_domains_are_thinned_and_summed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.linspace(1, 5, 12), size=5000)
    history = [{"step": t, "mixture": lam} for t, lam in enumerate(shares)]
    data = data_of(report(two_models(12), tmp_path / "report.html", history=history))
    found = data["training"]["shares"]
    assert found["step"][0] == 0
    assert found["step"][-1] == 4999
    assert 300 < len(found["step"]) <= 400
    curves = {s["name"]: np.array(s["values"]) for s in found["series"]}
    assert len(curves) == 7
    assert np.allclose(sum(curves.values()), 1)
    top = two_models(12)["plain"].domain_names[int(np.argmax(shares[found["step"]].max(axis=0)))]
    k = list(two_models(12)["plain"].domain_names).index(top)
    assert np.array_equal(curves[top], shares[found["step"], k])


def test_a_record_without_values() -> None:
    with pytest.raises(ValueError, match=r"history\[1\] has the keys \['step'\]"):
        report(two_models(2), "never.html", history=[{"step": 1, "upper": 1.0}, {"step": 2}])
