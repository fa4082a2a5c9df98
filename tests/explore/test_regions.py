"""Large graphs in parts that have names."""

from torpor.explore.regions import MOST, functions_of, regions
from torpor.explore.trace import Graph, Node, Place, Trace

PROGRAM = """class Layer:
    def forward(self, x):
        y = x + 1
        return y * 2

for n in range(100):
    x = layer.forward(x)
"""


def layers(count, lines=True):
    """A chain of so many calls of a layer, four nodes each, and back."""
    trace = Trace(nodes={0: Node("BUFFER", "float32", (), "")}, files={"net.py": PROGRAM})
    places = {}
    for number in range(1, 8 * count + 1):
        trace.nodes[number] = Node("ADD", "float32", (number - 1, 0), "")
        mark = "gradient of " if number > 4 * count else ""
        place = Place("net.py", 3 if number % 4 < 2 else 4, f"{mark}x")
        if number % 4 == 0:
            place = Place("net.py", 7, f"{mark}layer.forward(x)")
        if lines:
            places[number] = place
    return trace, Graph(8 * count, places)


def of(trace, graph):
    return regions(trace, graph, trace.below([graph.root]))


def nodes_in(parts):
    for part in parts:
        yield from part.get("nodes", ())
        yield from nodes_in(part.get("regions", ()))


def widest(parts):
    inner = [widest(part["regions"]) for part in parts if "regions" in part]
    own = [len(part["nodes"]) for part in parts if "nodes" in part]
    return max(len(parts), *inner, *own)


def test_every_node_is_in_one_region_and_no_more_are_seen_at_once_than_can_be():
    for trace, graph in (layers(20), layers(700), layers(700, lines=False)):
        found = of(trace, graph)
        assert sorted(nodes_in(found)) == sorted(trace.nodes)
        assert widest(found) <= MOST
        assert sum(part["count"] for part in found) == len(trace.nodes)


def test_each_call_is_a_region_with_the_functions_name_and_its_lines_inside():
    found = of(*layers(7))
    calls = [part for part in found if part["title"] == "Layer.forward"]
    assert len(calls) == 7
    assert [line["title"] for line in calls[3]["regions"]] == ["3: y = x + 1", "4: return y * 2"]
    assert sum(part["title"] == "gradient of Layer.forward" for part in found) == 7
    assert any(part["title"] == "7: x = layer.forward(x)" for part in found)


def test_small_graphs_are_shown_whole():
    assert of(*layers(2)) == []


def test_functions_are_found_by_line_and_broken_files_have_none():
    assert functions_of(PROGRAM) == {2: "Layer.forward", 3: "Layer.forward", 4: "Layer.forward"}
    assert functions_of("def f(:") == {}
