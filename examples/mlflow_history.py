"""The solver's history in MLflow: upper and lower value of every iteration, in ten lines."""

import numpy as np

import anymix as ax

rng = np.random.default_rng(0)
X, y = rng.normal(size=(900, 20)), rng.integers(0, 2, 900)
solution = ax.solve(ax.LinearDomains(X, y, domains=np.arange(900) % 9))
try:
    import mlflow  # type: ignore[import-not-found]
except ImportError:
    print(f"{len(solution.history)} records to log; pip install mlflow")
else:
    with mlflow.start_run():
        mlflow.log_metrics({"gap": solution.certificate.gap})
        for record in solution.history:
            values = {"upper": record["upper"], "lower": record["lower"]}
            mlflow.log_metrics(values, step=record["iteration"])
    print(f"logged {len(solution.history)} records")
