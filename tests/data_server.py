"""A small server in the place of a data set's public address, for the tests of data sets."""

import hashlib
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from anymix.datasets.adult import ADULT
from anymix.datasets.fetching import Origin

# In a process of its own: read the data set `argv[1]` with `argv[2]` as its public address.
READ = """
import sys
from dataclasses import replace
from anymix.datasets.catalogue import ORIGINS
from anymix.datasets.fetching import read_files
origin = replace(ORIGINS[sys.argv[1]], address=sys.argv[2], packing="")
read_files(origin, progress=sys.argv[3:] == ["progress"])
"""


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


def at(server: Server, files: Mapping[str, bytes]) -> Origin:
    """Adult with this server as its public address."""
    server.files = dict(files)
    return replace(ADULT, address=server.address)


def files_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
