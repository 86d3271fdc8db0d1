"""The paper's tables and figures, the printed numbers beside ours."""

from anymix.reproduction.experiments import ADULT, EXPERIMENTS, FASHION, Experiment, Settings
from anymix.reproduction.least_risk import draw_least_risky
from anymix.reproduction.proposition import Proposition1, proposition1
from anymix.reproduction.results import Table
from anymix.reproduction.running import reproduce, train

__all__ = [
    "ADULT",
    "EXPERIMENTS",
    "FASHION",
    "Experiment",
    "Proposition1",
    "Settings",
    "Table",
    "draw_least_risky",
    "proposition1",
    "reproduce",
    "train",
]
