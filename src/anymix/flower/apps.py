"""A Flower app in a folder: its run config, its two apps, and the result that it saves."""

from __future__ import annotations

import importlib
import json
import logging
import math
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context

from anymix.errors import InputError
from anymix.files import write_whole

Config = dict[str, Any]

__all__ = ["App", "Config", "read_overrides", "save_result", "show_log"]

log = logging.getLogger("anymix.flower")


def save_result(context: Context, result: Mapping[str, Any]) -> None:
    """Write what a run found as JSON to the file that its run config names in `out`, if any.

    Parameters
    ----------
    context : flwr.app.Context
        The context that the server app was called with.
    result : dict
        Numbers, words, lists and dicts. Infinite numbers and NaN, for which JSON has no word,
        become null.
    """
    out = context.run_config.get("out")
    if out:
        text = json.dumps(_finite(result), indent=2, allow_nan=False)
        write_whole(str(out), lambda new: new.write_text(text))
    numbers = {key: value for key, value in result.items() if not key.startswith("w")}
    log.info("result: %s", numbers)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show_log() -> None:
    """Let what this library logs appear in Flower's own log, round by round."""
    log.parent = logging.getLogger("flwr")
    log.setLevel(logging.INFO)


def read_overrides(texts: Sequence[str]) -> Config:
    """Run configs as `flwr run` takes them, pairs with TOML values.

    Parameters
    ----------
    texts : sequence of str
        Any number of pairs in each.

    Returns
    -------
    dict

    Examples
    --------
    >>> read_overrides(['num-server-rounds=3 sampler="weighted"', "step-w=0.5"])
    {'num-server-rounds': 3, 'sampler': 'weighted', 'step-w': 0.5}
    """
    pair = r"""[\w-]+\s*=\s*("(\\.|[^"])*"|'[^']*'|\S+)"""
    lines = "\n".join(re.sub(pair, r"\g<0>\n", text) for text in texts)
    try:
        return tomllib.loads(lines)
    except tomllib.TOMLDecodeError as error:
        fix = "give pairs such as 'num-server-rounds=3 sampler=\"weighted\"'"
        raise InputError("run-config", f"is {' '.join(texts)!r} ({error})", fix) from None


@dataclass(frozen=True)
class App:
    """A Flower app as its pyproject.toml describes it, and the run config of this run.

    Attributes
    ----------
    folder : Path
        Where its pyproject.toml is.
    server, client : str
        Its two apps, as package.module:object.
    config : dict
        The whole run config.
    overrides : dict
        The entries that are not the app's own.
    """

    folder: Path
    server: str
    client: str
    config: Config
    overrides: Config

    @staticmethod
    def read(folder: Path, overrides: Config) -> App:
        """The app in a folder, with some entries of its run config replaced."""
        file = folder / "pyproject.toml"
        if not file.is_file():
            found = f"is {str(folder)!r}, which has no pyproject.toml"
            raise InputError("app", found, "give its folder")
        try:
            about = tomllib.loads(file.read_text())["tool"]["flwr"]["app"]
            parts, config = about["components"], about["config"]
            server, client = parts["serverapp"], parts["clientapp"]
        except (KeyError, tomllib.TOMLDecodeError) as error:
            found = f"is not of a Flower app with a run config ({error})"
            raise InputError(str(file), found, "give the folder of one") from None
        for key in ("num-clients", "out"):
            if key not in config:
                found = f"has no {key!r} in [tool.flwr.app.config]"
                raise InputError(str(file), found, "add it")
        for key, value in overrides.items():
            _check_override(config, key, value)
        return App(folder.resolve(), server, client, {**config, **overrides}, overrides)

    @property
    def n_clients(self) -> int:
        """How many clients the run config asks for."""
        return int(self.config["num-clients"])

    def node_config(self, i: int) -> Config:
        """What Flower's simulation tells client i, so that all engines tell it."""
        return {"partition-id": i, "num-partitions": self.n_clients}

    def load(self, reference: str) -> Any:
        """The object that "package.module:object" names, from this folder and no other."""
        module, _, name = reference.partition(":")
        package = module.partition(".")[0]
        if (self.folder / package).exists():
            for other in [m for m in sys.modules if m.partition(".")[0] == package]:
                file = Path(getattr(sys.modules[other], "__file__", None) or "")
                if self.folder not in file.parents:
                    del sys.modules[other]
        sys.path.insert(0, str(self.folder))
        try:
            return getattr(importlib.import_module(module), name)
        finally:
            sys.path.remove(str(self.folder))


def _check_override(config: Config, key: str, value: Any) -> None:
    """An override must be of an entry that is there, and of its type."""
    if key not in config:
        raise InputError("run-config", f"has {key!r}", f"this app knows {sorted(config)}")
    own = config[key]
    if not isinstance(value, type(own)) and not (isinstance(value, int) and isinstance(own, float)):
        fix = f"this app expects a {type(own).__name__}"
        raise InputError("run-config", f"has {key}={value!r}", fix)
