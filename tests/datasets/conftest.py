"""Caches and addresses: the genuine data through the package registry, and ways to have none.

Nothing of the loaders is replaced: the public address is a small server on this machine (or a port
that refuses), and pip and apt-get meet an index or a repository made here.
"""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from data_server import Server

from anymix.datasets.adult import ADULT
from anymix.datasets.compas import COMPAS
from anymix.datasets.fashion import FASHION
from anymix.datasets.fetching import read_files
from anymix.datasets.german import GERMAN


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def refusing() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"


@pytest.fixture(autouse=True)
def _no_proxy_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", f"127.0.0.1,{os.environ.get('no_proxy', '')}")


@pytest.fixture(autouse=True)
def _no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that lets apt-get run says so itself."""
    monkeypatch.delenv("ANYMIX_ALLOW_APT", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def registry_cache(tmp_path_factory: pytest.TempPathFactory, refusing: str) -> Path:
    """A cache filled for real from the package registry: the public address does not answer."""
    folder = tmp_path_factory.mktemp("registry")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYMIX_DATA", str(folder))
        patch.setenv("ANYMIX_ALLOW_APT", "1")
        for origin in (ADULT, COMPAS, GERMAN):
            read_files(replace(origin, address=refusing), progress=False)
        fashion = FASHION
        if shutil.which("apt-get"):
            fashion = replace(fashion, address=refusing)
        read_files(fashion, progress=False)
    return folder


@pytest.fixture
def cache(registry_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYMIX_DATA", str(registry_cache))
    return registry_cache


@pytest.fixture(scope="session")
def adult(registry_cache: Path) -> dict[str, bytes]:
    return {file: (registry_cache / "adult" / file).read_bytes() for file in ADULT.sums}


@pytest.fixture
def no_registry(refusing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package index that pip knows does not answer."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{refusing}simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


@pytest.fixture
def offline(no_registry: None, refusing: str, folder: Path, tmp_path: Path) -> dict[str, str]:
    """Environment of a process that finds no network, no package index and no apt-get."""
    env = {k: v for k, v in os.environ.items() if k.lower() != "no_proxy"}
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), refusing)
    return env | proxies | {"PATH": str(tmp_path), "ANYMIX_DATA": str(folder)}


@pytest.fixture
def cache_files(registry_cache: Path) -> dict[str, bytes]:
    return {f: (registry_cache / "fashion" / f).read_bytes() for f in FASHION.sums}
