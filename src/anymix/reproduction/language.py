"""Running the experiment of the paper's Table 3, from the text to the table of perplexities."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import Any

from anymix.datasets import Language, load_language
from anymix.errors import InputError
from anymix.reproduction.language_experiment import SCALES, Scale
from anymix.reproduction.perplexities import LanguageTable

__all__ = ["reproduce_language"]


def reproduce_language(
    scale: Scale | str = "small",
    runs: int = 1,
    *,
    folder: Path,
    threads: int = 2,
    bf16: bool = False,
    data: Language | None = None,
    minutes: float = 3.0,
    say: Callable[[str], Any] | None = None,
) -> LanguageTable:
    """Train the four language models of Table 3 and measure their perplexities on test text.

    Every run leaves a checkpoint behind every few minutes, and its result when it is done. Started
    again in the same folder, killed or not, the same numbers come out as without a break.

    Parameters
    ----------
    scale : Scale or {"small", "medium", "paper"}
        How large and how long.
    runs : int
        How often each row is trained, with the seeds 0, 1, …
    folder : Path
        Where checkpoints and results of the runs are kept.
    threads : int
        Threads of torch; another number rounds differently.
    bf16 : bool
        Whether the products of the training steps are made in bfloat16: twice as fast on a
        processor that has instructions for it, far slower on others. The text is judged in full
        precision either way.
    data : Language, optional
        The text; by default that of `load_language()`.
    minutes : float
        Minutes between checkpoints.
    say : function, optional
        Called with a line about the progress and the time left, every now and then.

    Returns
    -------
    LanguageTable

    Examples
    --------
    >>> reproduce_language("tiny", folder=Path("runs"))
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: scale is 'tiny'; use one of 'small', 'medium', 'paper'
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise InputError("scale", f"is {scale!r}", f"use one of {', '.join(map(repr, SCALES))}")
        scale = SCALES[scale]
    for name, value in (("runs", runs), ("threads", threads)):
        if not isinstance(value, Integral) or value < 1:
            raise InputError(name, f"is {value!r}", "give a whole number ≥ 1")
    _require_torch()
    say = say or _silent
    if data is None:
        data = load_language()
        say(f"The text: {data.source}. Terms: {data.licence}.")
    from anymix.reproduction.language_runs import Plan, compare_speed, run_all

    plan = Plan(scale, data, folder, threads, bf16, 60 * minutes, say)
    found = run_all(plan, runs)
    speeds = compare_speed(plan)
    return LanguageTable(scale, data.source, data.licence, threads, found, speeds, bf16)


def _silent(line: str) -> None:
    """Say nothing."""


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise InputError("language", "needs PyTorch", "pip install 'anymix[torch]'") from None
