"""The page's server: the standard library's, on the loopback interface only.

A few requests of one person at a time need no framework: with it `VIZ=1` works wherever torpor is
installed. What it answers, and whom, is `answers.py`.
"""

from __future__ import annotations

import secrets
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from torpor.explore.answers import HEADERS, LARGEST_BODY, Answer, Request, Site, refusal
from torpor.explore.compute import Computer
from torpor.explore.reading import read
from torpor.explore.trace import Trace
from torpor.pipeline.journal import journal, recording

HOST: Final = "127.0.0.1"
PATIENCE: Final = 30  # seconds until a silent connection is closed


class _Handler(BaseHTTPRequestHandler):
    server_version = "torpor"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    site: Site  # of the subclass that `Server` makes

    def do_GET(self) -> None:
        self.give(self.site.answer(self.asked()))

    do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do_GET

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > LARGEST_BODY:
            self.close_connection = True
            self.give(refusal(413, "too long, or of unknown length"))
            return
        self.give(self.site.answer(self.asked(self.rfile.read(int(length)))))

    def asked(self, body: bytes = b"") -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, self.path, headers, body)

    def give(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(ConnectionError):  # who asked has gone
                self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody asked for a log."""


class Server:
    """The pages of a trace at `address`, until it is closed."""

    def __init__(self, trace: Trace, port: int = 0):
        self._computer = Computer()
        self.site = site = Site(trace, secrets.token_urlsafe(24), computer=self._computer)
        handler = type("Handler", (_Handler,), {"site": site})
        self._server = ThreadingHTTPServer((HOST, port), handler)
        self._server.daemon_threads = True
        port = self._server.server_address[1]
        site.hosts = frozenset({f"{HOST}:{port}", f"localhost:{port}"})
        self.address = f"http://{HOST}:{port}/{site.token}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="torpor explorer", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Until Ctrl-C, or until it is closed."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._computer.close()

    def __repr__(self) -> str:
        return f"torpor explorer: {self.address}"


def explore(path: Any = None) -> Server:
    """Serve the page of a trace, and go on: `print(server)` says where, `server.close()` ends it.

    path: a file that VIZ wrote; by default what this process has recorded so far, or where nothing
          is recorded, the pages that need no trace.
    """
    if path is None and recording():
        written = journal()
        written.flush()
        path = written.path
    server = Server(Trace() if path is None else read(path))
    print(server, file=sys.stderr)
    return server
