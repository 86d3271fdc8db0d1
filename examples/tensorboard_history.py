"""The solver's history in TensorBoard: upper and lower value of every iteration, in ten lines."""

import numpy as np

import anymix as ax

rng = np.random.default_rng(0)
X, y = rng.normal(size=(900, 20)), rng.integers(0, 2, 900)
solution = ax.solve(ax.LinearDomains(X, y, domains=np.arange(900) % 9))
try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    print(f"{len(solution.history)} records to log; pip install torch tensorboard")
else:
    with SummaryWriter("runs") as writer:
        for record in solution.history:
            values = {"upper": record["upper"], "lower": record["lower"]}
            writer.add_scalars("objective", values, record["iteration"])
    print(f"logged {len(solution.history)} records")
