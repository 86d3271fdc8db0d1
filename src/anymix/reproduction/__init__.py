"""The paper's tables and figures, the printed numbers beside ours."""

from anymix.reproduction.tables import (
    ADULT,
    EXPERIMENTS,
    FASHION,
    Experiment,
    Output,
    Proposition1,
    Settings,
    Table,
    draw_least_risky,
    proposition1,
    reproduce,
    train,
)

__all__ = [
    "ADULT",
    "EXPERIMENTS",
    "FASHION",
    "Experiment",
    "Output",
    "Proposition1",
    "Settings",
    "Table",
    "draw_least_risky",
    "proposition1",
    "reproduce",
    "train",
]
