"""The page's server, asked through its socket."""

import http.client
from urllib.parse import urlsplit

import pytest

from torpor import Context, Tensor
from torpor.explore import Server, Trace, explore
from torpor.pipeline import journal


@pytest.fixture
def server():
    one = Server(Trace())
    yield one
    one.close()


def ask(server, path="", method="GET", body=None, **headers):
    parts = urlsplit(server.address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.request(method, parts.path + path, body, headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_it_listens_on_this_machine_only_at_an_address_that_cannot_be_guessed(server):
    other = Server(Trace())
    other.close()
    parts = urlsplit(server.address)
    assert parts.hostname == "127.0.0.1"
    assert len(parts.path) > 24
    assert parts.path != urlsplit(other.address).path


def test_every_answer_has_its_policy(server):
    for path in ("", "main.js", "nothing"):
        answer, _ = ask(server, path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "http:" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Access-Control-Allow-Origin"] is None


def test_a_foreign_host_is_refused(server):
    assert ask(server)[0].status == 200
    assert ask(server, Host="evil.example")[0].status == 403
    assert ask(server, Origin="http://evil.example")[0].status == 403


def test_a_head_has_no_body(server):
    answer, body = ask(server, method="HEAD")
    assert (answer.status, body) == (200, b"")


def test_bodies_are_bounded(server):
    assert ask(server, "compute/views", "POST", b"x" * 100_000)[0].status == 413
    assert ask(server, "compute/views", "POST", **{"Content-Length": "-1"})[0].status == 413


def test_explore_shows_what_was_recorded_so_far(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(journal, "_current", [])
    with Context(VIZ=1, CACHE_DIR=str(tmp_path)):
        (Tensor.empty(7) + 1).realize()
        server = explore()
    try:
        assert server.address in capsys.readouterr().err
        assert b'"kernels": [{' in ask(server, "data/index.json")[1]
    finally:
        server.close()


def test_explore_without_a_recording_has_the_pages_that_need_none(capsys):
    server = explore()
    try:
        assert ask(server, "views")[0].status == 200
    finally:
        server.close()
    assert server.address in capsys.readouterr().err
