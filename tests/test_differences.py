"""docs/differences.md is true: its programs give what it says, and really differ."""

import importlib
import platform

import numpy as np
import pytest

from conformance import differences
from conformance.difference_programs import TOPICS
from conformance.differences import NOTHING, found, numpy_cell, outcome, programs, rows

PAGE = rows(differences.PAGE.read_text(encoding="utf-8"))
PROGRAMS = {program.text: program for topic in TOPICS for program in programs(topic.programs)}
NUMPY_TOPIC = {program.text for program in programs(TOPICS[-1].programs)}


def columns(text):
    """The three outcomes that the page gives, the last of them after its program."""
    line = PAGE[text.replace("|", r"\|")]
    _, here, there, numpy = line.strip("| ").split(" | ")
    return here, there, numpy


def test_the_page_has_every_program_once():
    assert list(PAGE) == [text.replace("|", r"\|") for text in PROGRAMS]
    assert sum(len(list(programs(topic.programs))) for topic in TOPICS) == len(PROGRAMS) >= 60
    for topic in TOPICS:
        assert f"## {topic.heading}\n\n{topic.why}\n" in differences.PAGE.read_text("utf-8")


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.heading)
def test_torpor_gives_what_the_page_says(topic):
    torpor = importlib.import_module("torpor")
    given = {one.text: found(outcome(one.text, torpor)) for one in programs(topic.programs)}
    assert given == {text: columns(text)[0] for text in given}


@pytest.mark.skipif(
    platform.machine() != "x86_64" or np.__version__.startswith("1."),
    reason="NumPy's casts are the processor's, and its promotion is that of NumPy 2",
)
def test_numpy_gives_what_the_page_says():
    given = {text: numpy_cell(program.numpy) for text, program in PROGRAMS.items()}
    assert given == {text: columns(text)[2] for text in given}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="PyTorch's casts are the processor's")
def test_pytorch_gives_what_the_page_says():
    torch = pytest.importorskip("torch")
    given = {text: found(outcome(text, torch)) for text in PROGRAMS}
    assert given == {text: columns(text)[1] for text in given}


def kind(cell):
    """An outcome, errors being one kind, as are errors that come late."""
    _, _, given = cell.rpartition(" gives ")
    return "error" + given.partition("` ")[2] if "Error" in given else given


def test_every_program_is_a_difference():
    for text in PROGRAMS:
        here, there, numpy = columns(text)
        other = numpy if text in NUMPY_TOPIC else there
        assert kind(here) != kind(other) and other != NOTHING, text
        if text in NUMPY_TOPIC:
            assert kind(here) == kind(there), text


# --- the machinery itself can fail ----------------------------------------------------------------
def test_errors_at_the_call_and_later_are_told_apart():
    torpor = importlib.import_module("torpor")
    assert outcome("torpor.tensor([1]) // 0", torpor) == "DivisionByZeroError when needed"
    assert outcome("torpor.zeros(2) + torpor.zeros(3)", torpor) == "ShapeError"
    assert outcome("x = 1 / 0; x", np) == "ZeroDivisionError"
    assert outcome("x = 1; x + 1", np) == "2"
    assert outcome("np.float32([0.5])", np) == "float32 [0.5]"
