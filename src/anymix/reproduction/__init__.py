"""The paper's tables and figures, the printed numbers beside ours."""

from anymix.reproduction.experiments import ADULT, EXPERIMENTS, FASHION, Experiment, Settings
from anymix.reproduction.language import reproduce_language
from anymix.reproduction.language_experiment import SCALES, Scale
from anymix.reproduction.least_risk import draw_least_risky
from anymix.reproduction.news import NewsSettings, NewsTable, reproduce_news
from anymix.reproduction.perplexities import LanguageTable
from anymix.reproduction.proposition import Proposition1, proposition1
from anymix.reproduction.results import Table
from anymix.reproduction.running import reproduce, train

__all__ = [
    "ADULT",
    "EXPERIMENTS",
    "FASHION",
    "SCALES",
    "Experiment",
    "LanguageTable",
    "NewsSettings",
    "NewsTable",
    "Proposition1",
    "Scale",
    "Settings",
    "Table",
    "draw_least_risky",
    "proposition1",
    "reproduce",
    "reproduce_language",
    "reproduce_news",
    "train",
]
