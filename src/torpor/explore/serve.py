"""The page's server: a small ASGI application, which uvicorn serves on the loopback interface only.

Uvicorn runs in a thread, where it leaves signals alone, and is imported when a page is served. What
is answered, and whom, is `answers.py`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
import socket
import sys
import threading
from typing import Any, Final

from torpor.explore.answers import HEADERS, LARGEST_BODY, Request, Site, refusal
from torpor.explore.compute import Computer
from torpor.explore.reading import read
from torpor.explore.trace import Trace
from torpor.pipeline.journal import journal, recording

HOST: Final = "127.0.0.1"
THREAD: Final = "torpor explorer"


async def application(site: Site, scope: Any, receive: Any, send: Any) -> None:
    """A site as ASGI has it. What is asked waits in a thread of its own for what is computed."""
    body, more = b"", True
    while more and len(body) <= LARGEST_BODY:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    request = Request(scope["method"], scope["raw_path"].decode("latin-1"), headers, body)
    answer = refusal(413, "too long")
    if len(body) <= LARGEST_BODY:
        answer = await asyncio.to_thread(site.answer, request)
    head = {**HEADERS, "Content-Type": answer.kind, "Content-Length": str(len(answer.body))}
    head_bytes = [(name.encode(), value.encode()) for name, value in head.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": head_bytes})
    await send({"type": "http.response.body", "body": answer.body})


def _elsewhere(record: logging.LogRecord) -> bool:
    """Not what the explorer's server logs: nobody asked for it, save for faults."""
    return record.threadName != THREAD or record.levelno >= logging.ERROR


def _uvicorn(app: Any) -> Any:
    """Uvicorn's server of an application, without anything that only some have installed."""
    try:
        from uvicorn import Config, Server
    except ImportError as error:
        raise ImportError(f"the explorer's page needs `pip install uvicorn`: {error}") from error
    for name in ("asyncio", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).addFilter(_elsewhere)
    plain: Any = {"interface": "asgi3", "http": "h11", "loop": "asyncio", "ws": "none"}
    return Server(Config(app, **plain, lifespan="off", log_config=None, server_header=False))


class Server:
    """The pages of a trace at `address`, until it is closed."""

    def __init__(self, trace: Trace, port: int = 0):
        self._computer = Computer()
        self.site = site = Site(trace, secrets.token_urlsafe(24), computer=self._computer)
        listening = socket.create_server((HOST, port))
        port = listening.getsockname()[1]
        site.hosts = frozenset({f"{HOST}:{port}", f"localhost:{port}"})
        self.address = f"http://{HOST}:{port}/{site.token}/"
        self._server = _uvicorn(functools.partial(application, site))
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name=THREAD, daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Until Ctrl-C, or until it is closed."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Answer no more."""
        self._server.should_exit = self._server.force_exit = True
        self._computer.close()
        self._thread.join()

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
