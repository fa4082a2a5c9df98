"""What the page's server answers, without any socket: who may ask, and for what.

Everything lies below a random token. A request has to name this server as its host, and where it
says from which page it comes, that is this server's. Answers may not be framed, kept or guessed at,
and a policy lets the page load nothing from elsewhere.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from torpor.explore import content
from torpor.explore.compute import COMPUTES, Computed, compute
from torpor.explore.remake import material
from torpor.explore.trace import Trace

OF_KERNELS: Final = ("check", "program")  # what is computed of a kernel of the trace
LARGEST_BODY: Final = 1 << 16  # bytes of a request
PAGE: Final = Path(__file__).with_name("page")
PAGES: Final = {"": "index.html", "views": "views.html", "expr": "expr.html"}
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}


class Request(NamedTuple):
    """What is asked: names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


class Answer(NamedTuple):
    """What is answered."""

    status: int
    kind: str
    body: bytes


def refusal(status: int, text: str) -> Answer:
    return Answer(status, TYPES[".txt"], f"{text}\n".encode())


def as_json(value: Any) -> Answer:
    return Answer(200, TYPES[".json"], json.dumps(value).encode())


@dataclass
class Site:
    """The pages of one trace (or of none: views and expressions only), at one address."""

    trace: Trace
    token: str
    hosts: frozenset[str] = field(default_factory=frozenset)
    computer: Callable[[str, Computed], Computed] = compute

    def answer(self, request: Request) -> Answer:
        """The answer to any request."""
        if request.headers.get("host", "") not in self.hosts:
            return refusal(403, "this server is asked by its own address only")
        origin = request.headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.hosts}:
            return refusal(403, "another page may not ask this server")
        path = request.path
        _, token, *rest = path.split("/") if path.startswith("/") else ("", "")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return refusal(404, "not found: the address has a token that is printed with it")
        if not rest:
            return refusal(404, "not found: the address ends with /")
        if request.method == "POST":
            return self.compute("/".join(rest), request)
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "only GET and POST")
        return self.document("/".join(rest))

    def compute(self, name: str, request: Request) -> Answer:
        """What the library computes for a page."""
        folder, _, wanted = name.partition("/")
        if folder != "compute" or wanted not in COMPUTES:
            return refusal(404, "not found")
        if request.headers.get("content-type") != TYPES[".json"]:
            return refusal(415, "expected JSON")
        try:
            value = json.loads(request.body)
        except (ValueError, RecursionError):
            return refusal(400, "this is no JSON")
        if not isinstance(value, dict):
            return refusal(400, "expected an object")
        if wanted in OF_KERNELS:
            number = value.get("kernel")
            known = range(len(self.trace.kernels))
            if number is not None and (type(number) is not int or number not in known):
                return refusal(404, "there is no such kernel")
            one = None if number is None else self.trace.kernels[number]
            value = {**value, **material(self.trace, one, wanted)}
        return as_json(self.computer(wanted, value))

    def document(self, name: str) -> Answer:
        """A page, a part of one, or data of the trace."""
        if name in PAGES:
            name = PAGES[name]
        if name == "data/index.json":
            return Answer(200, TYPES[".json"], self._index)
        if name == "data/scheduling.json":
            return as_json(content.scheduling(self.trace))
        if name.startswith("data/kernel-") and name.endswith(".json"):
            number = name[len("data/kernel-") : -len(".json")]
            if number.isdecimal() and len(number) < 9 and int(number) < len(self.trace.kernels):
                return as_json(content.kernel(self.trace, self.trace.kernels[int(number)]))
            return refusal(404, "there is no such kernel")
        path = page_files().get(name)
        if path is None:
            return refusal(404, "not found")
        return Answer(200, TYPES[path.suffix], path.read_bytes())

    @cached_property
    def _index(self) -> bytes:
        return json.dumps(content.index(self.trace)).encode()


def page_files() -> dict[str, Path]:
    """The files of the page, by name: nothing else is ever read for a request."""
    return {path.name: path for path in PAGE.iterdir() if path.suffix in TYPES}
