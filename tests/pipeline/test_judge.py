"""The other process: its answers, its crashes, its end."""

from __future__ import annotations

import sys

import pytest

from torpor import Tensor
from torpor.pipeline import judge as judging
from torpor.pipeline.judge import Judge, Lost, Refused

SERVER = """
import os, sys, time
from torpor.device.bulk import receive, send
while True:
    settings, (name, *rest) = receive(sys.stdin.buffer)
    if name == "hang":
        time.sleep(60)
    if name == "crash":
        os._exit(3)
    send(sys.stdout.buffer, (name != "refuse", settings.get(name, name)))
"""


@pytest.fixture
def judge():
    made = Judge({"THREADS": 5})
    yield made
    made.close()


def test_hangs_crashes_and_refusals(judge, monkeypatch):
    monkeypatch.setattr(judging, "COMMAND", SERVER)
    assert judge.ask(20, "hello", 1) == "hello"
    assert judge.ask(20, "THREADS") == 5
    with pytest.raises(Refused, match="refuse"):
        judge.ask(20, "refuse")
    with pytest.raises(Lost, match="too long"):
        judge.ask(0.2, "hang")
    assert judge.ask(20, "again") == "again", "in a new process"
    with pytest.raises(Lost, match="ended its process"):
        judge.ask(20, "crash")


def test_no_process(judge, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(Lost, match="can be started"):
        judge.ask(1, "hello")


def test_the_true_one_times_kernels(judge):
    (item,) = (Tensor.empty(64) + 1).schedule()
    assert judge.ask(20, "open", item.ast, "CPU", False) is None
    assert 0 < judge.ask(20, "measure", (), float("inf")) < 1
    with pytest.raises(Refused, match="DeviceError"):
        judge.ask(20, "open", item.ast, "ABACUS", False)


def test_closing_twice_is_fine(judge):
    judge.close()
    judge.close()
