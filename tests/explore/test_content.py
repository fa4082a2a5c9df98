"""What the page is given."""

import itertools

from torpor.explore import content
from torpor.explore.expressions import compute_expression


def test_lines_lead_to_kernels(trace):
    (file,) = content.index(trace)["files"]
    assert file["file"].endswith("fusion.py")
    found = {line["line"]: line["kernels"] for line in file["lines"]}
    assert found == {2: [], 3: [0], 4: [0], 5: [1]}


def test_passes_and_rules_stand_in_the_order_in_which_they_were_applied(trace):
    one = trace.kernels[0]
    steps = content.kernel(trace, one)["steps"]["steps"]
    passes = [step for step in steps if step["pass"]]
    assert [step["rule"] for step in passes] == [left.name for left in one.passes]
    assert passes[0]["before"] == one.ast
    for before, after in itertools.pairwise(passes):
        assert before["after"] == after["before"]
    assert len(steps) == len(passes) + len(one.steps)


def test_axes_are_those_after_the_opts(trace):
    axes = content.axes(trace, trace.kernels[0])
    assert {axis["kind"] for axis in axes} >= {"UPCAST"}
    assert all(axis["name"].startswith("ridx") for axis in axes)


def test_every_node_that_is_spoken_of_is_given(trace):
    for one in trace.kernels:
        found = content.kernel(trace, one)
        for step in found["steps"]["steps"]:
            assert {step["before"], step["after"]} <= set(found["nodes"])
        for node in found["nodes"].values():
            assert set(node[2]) <= set(found["nodes"])
    (graph,) = content.index(trace)["graphs"]
    assert "CONTIGUOUS" in {node[0] for node in graph["nodes"].values()}
    assert set(graph["lines"]) <= set(graph["nodes"])


def test_what_a_kernel_reads_and_writes_are_expressions_that_the_page_reads(trace):
    found = content.accesses(trace, trace.kernels[0])
    assert sorted(access["what"] for access in found) == ["load", "store"]
    for access in found:
        shown = compute_expression(access)
        assert shown["cells"] == list(range(16))
        assert shown["valids"] == [True] * 16
