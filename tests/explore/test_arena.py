"""What the jit traced, why, and what lies where, as it is recorded and shown."""

import pytest

from tests.recorded import JITTED, record
from torpor.explore import content, read
from torpor.explore.arena import arena_of


@pytest.fixture(scope="module")
def jitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jitted")
    script = folder / "jitted.py"
    script.write_text(JITTED)
    return read(record(script, folder))


def test_why_a_function_was_traced_again_and_what_is_guarded(jitted):
    first, again = jitted.jits
    assert (first["name"], first["why"], again["why"]) == ("step", "new", "scale")
    assert first["line"]["line"] == 11
    assert ["globals", "scale", "2.0"] in first["guards"]
    assert first["takes"]


def test_values_on_the_way_lie_apart_while_both_are_needed(jitted):
    arena = jitted.jits[0]["arena"]
    assert len(arena["commands"]) == 3
    for one in arena["values"]:
        for other in arena["values"]:
            if one is other or one["arena"] != other["arena"]:
                continue
            together = one["first"] < other["last"] and other["first"] < one["last"]
            ends = one["offset"] + one["bytes"], other["offset"] + other["bytes"]
            overlap = one["offset"] < ends[1] and other["offset"] < ends[0]
            assert not (together and overlap)


def test_marks_stand_between_what_happened(jitted):
    marks = [event["name"] for event in jitted.events if event["phase"] == "mark"]
    assert marks == ["epoch 0", "traced step", "epoch 1", "traced step"]


def test_memory_has_a_beginning_and_an_end(jitted):
    found = content.index(jitted)["memory"]
    assert all(one["bytes"] > 0 for one in found)
    ends = [one for one in found if one["end"] is not None]
    assert ends
    assert all(one["start"] <= one["end"] for one in ends)


def test_passes_have_times(jitted):
    passes = [event for event in jitted.events if event["phase"] == "pass"]
    assert {"write_out", "decompose"} <= {event["name"] for event in passes}
    assert all(event["microseconds"] >= 0 for event in passes)


def test_a_donated_input_and_a_place_in_a_result_are_told():
    graph = {
        "commands": [["a", [0, 3]], ["b", [3, 1]]], "inputs": 1, "constants": 0,
        "results": [["CPU", 64, 0]], "arenas": [["CPU", 128]], "between": [[64, 1, 0]],
    }  # fmt: skip
    found = arena_of(graph)
    assert found["results"] == [{"device": "CPU", "bytes": 64, "donor": 0, "first": 1}]
    expected = {"bytes": 64, "arena": "result 0", "offset": 0, "first": 0, "last": 1}
    assert found["values"] == [expected]
    assert arena_of(None) is None
