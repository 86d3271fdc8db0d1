"""The worst domain in scikit-learn: a pipeline, a choice by rows held out, and a grid search.

A table of 2,000 patients of a large hospital and 80 of each of two small ones, which differ: the
outcome depends most on age in one, on blood pressure in the next, on sugar in the last, and twelve
markers mean nothing. Ordinary training fits the large hospital.
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import anymix as ax
from anymix.estimators import OverfitWarning

sklearn.set_config(enable_metadata_routing=True)  # so that `domains` finds its way


def make_patients(rng: np.random.Generator, sizes: list[int]) -> tuple[Any, Any, Any]:
    hospital = np.repeat(["central", "north", "south"], sizes)
    n = len(hospital)
    X = pd.DataFrame(
        {
            "age": rng.normal(60, 15, n),
            "pressure": rng.normal(130, 20, n),
            "sugar": rng.normal(100, 10, n),
            "ward": rng.choice(["A", "B", "C"], n),
        }
        | {f"marker {j}": rng.normal(size=n) for j in range(12)}
    )
    age, pressure, sugar = (X["age"] - 60) / 15, (X["pressure"] - 130) / 20, (X["sugar"] - 100) / 10
    risk = {
        "central": 3 * age + (X["ward"] == "A"),
        "north": age + 3 * pressure,
        "south": age + 3 * sugar,
    }
    score = np.select([hospital == name for name in risk], list(risk.values()))
    return X, score + rng.logistic(size=n) > 0, hospital


def pipeline(classifier: Any) -> Any:
    columns = ColumnTransformer([("ward", OneHotEncoder(), ["ward"])], remainder=StandardScaler())
    return make_pipeline(columns, classifier)


rng = np.random.default_rng(0)
X, y, hospital = make_patients(rng, [2000, 80, 80])
X_new, y_new, hospital_new = make_patients(rng, [5000, 5000, 5000])

# One line: AgnosticClassifierCV tries an ordinary model and robust ones. It takes a robust one only
# if that is really better for the worst hospital on rows held out.
chosen = pipeline(ax.AgnosticClassifierCV()).fit(X, y, domains=hospital)

# The same with scikit-learn's own search: any grid, judged by the worst hospital. Every fold needs
# rows of every hospital, hence the stratification. What each fit would warn of, that it rests on
# few rows, is what the search looks at.
search = GridSearchCV(
    pipeline(ax.AgnosticClassifier(gamma=chosen[-1].gamma_)),
    {"agnosticclassifier__max_skewness": [1.5, 2, 3]},
    scoring=ax.agnostic_scorer("neg_log_loss"),
    cv=list(StratifiedKFold(5).split(X, hospital)),
)
with warnings.catch_warnings(action="ignore", category=OverfitWarning):
    search.fit(X, y, domains=hospital)

ordinary = pipeline(LogisticRegression()).fit(X, y)

names = np.unique(hospital)
print(f"log loss on new patients{names[0]:>9}{names[1]:>9}{names[2]:>9}    worst")
models = {"ordinary": ordinary, "robust, chosen": chosen, "skewness chosen": search}
for title, model in models.items():
    P = model.predict_proba(X_new)
    losses = [log_loss(y_new[hospital_new == k], P[hospital_new == k]) for k in names]
    print(f"{title:24}" + "".join(f"{loss:9.3f}" for loss in (*losses, max(losses))))

best = chosen[-1]
print(f"\nrobustness t = {best.robustness_:g}, γ = {best.gamma_:.2g}")
print(f"worst mixture {best.mixture_.round(2)}")
print(f"proof for the rows fitted: {best.certificate_}")
print(f"skewness {search.best_params_['agnosticclassifier__max_skewness']}")
