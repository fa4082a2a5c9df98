"""Traces read back."""

import json

import pytest

from tests.recorded import EARLY, FUSION, record
from torpor.base.errors import ParseError
from torpor.explore import read
from torpor.explore.trace import Node, Trace, place_of

KINDS = """import torpor
f = torpor.jit(lambda x, n: x + len(str(n)))
for size, n in ((2, 1), (3, 1), (3, 1.5), (3, "a")):
    f(torpor.empty(size), n)
for size in (4, 4):
    f(torpor.empty(9)[:size], "a")
"""

# A sum that has another shape where it is read, and a value that two tensors have.
PLANTED = """from torpor import Tensor
x = Tensor([0.5] * 4096).realize()
total = x.sum()
(x * total).realize()
first = (x + 1).realize()
second = (x + 1).realize()
"""


def written(tmp_path, *lines):
    path = tmp_path / "trace.jsonl"
    path.write_text(
        "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    )
    return path


def test_the_fusion_example_has_two_kernels_with_their_reasons_and_lines(trace):
    first, second = trace.kernels
    assert (first.reasons, second.reasons) == (["contiguous"], ["output"])
    assert {(place.line, place.text) for place in first.places} >= {
        (3, "a + 4"),
        (4, "b.contiguous()"),
    }
    assert [(place.line, place.text) for place in second.places] == [(5, "c + 3")]
    for kernel in trace.kernels:
        assert kernel.name in kernel.source
        assert len(kernel.runs) == 1
        assert any(trace.nodes[number].op == "STORE" for number in kernel.linear)
        assert [left.name for left in kernel.passes][-1] == "decompose"


def test_the_graph_that_was_asked_for_knows_its_lines(trace):
    (graph,) = trace.graphs
    ops = {trace.nodes[number].op: number for number in trace.below([graph.root])}
    assert graph.lines[ops["CONTIGUOUS"]].text == "b.contiguous()"


def test_rules_are_those_of_their_kernel(trace):
    for kernel in trace.kernels:
        step = next(step for step in kernel.steps if step.rule == "rejoin_quotient")
        assert trace.expression(step.after) == "ridx0"
    assert any(step.rule == "divide_by_one" for step in trace.steps)


def test_names_choose_kernels(trace):
    name = trace.kernels[0].name
    assert trace.named(name) == trace.kernels
    assert trace.named(f"{name}#2") == trace.kernels[1:]
    assert trace.named(f"{name}#3") == trace.named(f"{name}#0") == trace.named("none") == []


def test_expressions_are_cut_where_they_would_be_long():
    trace = Trace(nodes={0: Node("RANGE", "index", (), "(0, AxisType.LOOP)")})
    for number in range(1, 5000):
        trace.nodes[number] = Node("ADD", "index", (number - 1, number - 1), "")
    assert trace.expression(1) == "(ridx0+ridx0)"
    text = trace.expression(4999)
    assert "…" in text
    assert len(text) < 4000
    for number in range(5000, 9999):
        trace.nodes[number] = Node("NEG", "index", (number - 1,), "")
    assert trace.expression(9998).startswith("neg(neg(")


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    path = written(tmp_path, {"node": "%0 = Ops.CONST index = 2"}, '{"node": "%1 = Ops.CO')
    assert list(read(path).nodes) == [0]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense\n",
        "[1, 2]\n",
        '{"other": 1}\n',
        '{"node": "%0 = Ops.CONST index = 3"}\n',
        '{"node": "%1 = Ops.ADD index (%0, %7)"}\n',
        '{"rewrite": {"stage": "a", "rule": "b", "before": 0, "after": 9}}\n',
        '{"rewrite": {"stage": "a", "rule": "b", "before": 0, "after": [0]}}\n',
        '{"run": {"name": "a", "ast": 0, "device": "CPU", "start": "1"}}\n',
        '{"schedule": 3}\n',
        "[" * 5000 + "\n",
    ],
)
def test_what_is_no_trace_is_refused_by_line(tmp_path, line):
    path = written(tmp_path, {"node": "%0 = Ops.CONST index = 2"}, line)
    with pytest.raises(ParseError, match=r"trace\.jsonl:2: no "):
        read(path)


def test_places_are_read_back():
    assert place_of("/a b/c.py:12: x + 1: y") == ("/a b/c.py", 12, "x + 1: y")
    assert place_of(r"C:\a\b.py:3: x") == (r"C:\a\b.py", 3, "x")
    assert place_of("/a.py:7") == ("/a.py", 7, "")
    assert place_of("nowhere") == ("", 0, "nowhere")


def test_kernels_know_who_reads_what_they_write(trace):
    assert [kernel.readers for kernel in trace.kernels] == [[1], []]


def test_the_programs_file_is_there(trace):
    ((name, text),) = trace.files.items()
    assert name.endswith("fusion.py")
    assert text == FUSION


def test_what_recurs_is_written_down_once_and_every_launch_of_it(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(
        "from torpor import Tensor\nx = Tensor.empty(4)\n"
        "for _ in range(4):\n    x = (x * 2 + 1).realize()\n"
    )
    trace = read(record(script, tmp_path))
    (kernel,) = trace.kernels
    assert len(kernel.runs) == 4
    assert len(trace.graphs) == 1


TRAINED = """from torpor import Tensor, nn
from torpor.nn import functional as F
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                    nn.Linear(8 * 36, 10))
step = nn.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
x, y = Tensor.empty(2, 3, 6, 6), Tensor([1, 2])
for _ in range(3):
    step.zero_grad()
    F.cross_entropy(net(x), y).backward()
    step.step()
"""


def test_a_trace_of_training_is_small(tmp_path):
    script = tmp_path / "trained.py"
    script.write_text(TRAINED)
    path = record(script, tmp_path)
    trace = read(path)
    # A step of a ResNet-18 has about 150 kernels, and its trace is to have less than 50 MB.
    assert path.stat().st_size < 50e6 / 150 * len(trace.kernels)
    assert max(len(kernel.runs) for kernel in trace.kernels) >= 2


def test_what_differed_from_an_earlier_kind_of_call_is_told(tmp_path):
    script = tmp_path / "kinds.py"
    script.write_text(KINDS)
    told = [(one["why"], one["change"]) for one in read(record(script, tmp_path)).jits]
    assert told == [
        ("new", ""),
        ("axis 0 of x", "it was 2, and then 3"),
        ("the argument n", "it was int, and then float"),
        ("the argument n", "it was int, and then str"),
        ("axis 0 of x", "it was 3, and then 4"),
    ]


def test_a_kernel_has_the_line_that_made_it_whatever_became_of_its_shape(tmp_path):
    script = tmp_path / "planted.py"
    script.write_text(PLANTED)
    kernels = read(record(script, tmp_path)).kernels
    lines = {(place.line, place.text) for kernel in kernels for place in kernel.places[:1]}
    assert (3, "x.sum()") in lines
    # Where their input was made is the line of none of them.
    assert 2 not in {place.line for kernel in kernels for place in kernel.places}


def test_a_copy_of_what_another_tensor_holds_says_so_and_where_it_was_asked_for(tmp_path):
    script = tmp_path / "planted.py"
    script.write_text(PLANTED)
    copy = read(record(script, tmp_path)).kernels[-1]
    assert copy.reasons == ["held by another tensor"]
    assert [(place.line, place.text) for place in copy.places] == [(6, "(x + 1).realize()")]


def test_a_value_that_is_asked_for_before_its_reader_is_planned(trace, tmp_path):
    script = tmp_path / "early.py"
    script.write_text(EARLY)
    first, second = read(record(script, tmp_path)).kernels
    assert (first.later, second.later) == ([1], [])
    assert first.asked.endswith("early.py:4: y.realize()")
    assert [kernel.later for kernel in trace.kernels] == [[], []]  # planned together
