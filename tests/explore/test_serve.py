"""The page's server, asked through its socket."""

import http.client
import json
import signal
import socket
import struct
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from torpor import Context, Tensor
from torpor.explore import Server, Trace, explore
from torpor.pipeline import journal

OWN = """import logging, signal, urllib.request
logging.basicConfig(level=logging.DEBUG)
import torpor
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
server = torpor.explore()
print(urllib.request.urlopen(server.address).status)
after = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
print(None if before == after else after)
"""


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
    assert ask(server, "compute/views", "POST", **{"Content-Length": "-1"})[0].status == 400


def test_who_goes_without_waiting_for_an_answer_is_no_fault(server, capsys):
    parts = urlsplit(server.address)
    with socket.create_connection((parts.hostname, parts.port)) as gone:
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.sendall(b"GET / HTTP/1.1\r\n")
    assert ask(server)[0].status == 200
    assert capsys.readouterr().err == ""


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


def test_a_program_keeps_its_signals_its_log_and_its_end(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(OWN)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "200\nNone\n")
    assert done.stderr.startswith("torpor explorer: http://127.0.0.1:")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process there")
def test_ctrl_c_ends_the_command():
    command = [sys.executable, "-m", "torpor", "explore"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert b"Ctrl-C ends it" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert (process.wait(30), process.stderr.read()) == (0, b"")


def test_without_uvicorn_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match="pip install uvicorn"):
        Server(Trace())


def test_a_body_of_unknown_length_is_read_and_bounded(server):
    headers = {"Content-Type": "application/json"}
    body = [b'{"text": "from_shape((2,))', b'.flip(0)"}']
    answer, found = ask(server, "compute/views", "POST", iter(body), **headers)
    assert (answer.status, json.loads(found)["cells"]) == (200, [1, 0])
    assert ask(server, "compute/views", "POST", iter([b"x" * 100_000]), **headers)[0].status == 413


def test_a_port_is_taken_once_and_free_afterwards(server):
    other = Server(Trace())
    port = urlsplit(other.address).port
    with pytest.raises(OSError, match="in use"):
        Server(Trace(), port)
    other.close()
    again = Server(Trace(), port)
    again.close()
    with pytest.raises(ConnectionRefusedError):
        ask(again)
