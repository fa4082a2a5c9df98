"""What VIZ=1 writes down, read back."""

import gc
import json
import os
import re
import subprocess
import sys
import weakref

import numpy as np
import pytest

from torpor import Context, Tensor, Variable
from torpor.explore import read
from torpor.ir.ops import Ops
from torpor.ir.text import parse
from torpor.ir.uop import UOp
from torpor.pipeline import journal as module
from torpor.pipeline import schedule


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of this test's own, and a process that has written nothing yet."""
    monkeypatch.setattr(module, "_current", [])
    return tmp_path


class Trace:
    """The lines of the one file in the folder, by kind."""

    def __init__(self, folder):
        self.records = self.lines_of(folder)
        assert all(len(record) == 1 for record in self.records)
        self.lines = {}
        for line in self.of("node"):
            self.lines[int(re.match(r"%(\d+) = ", line)[1])] = line

    @staticmethod
    def lines_of(folder):
        (path,) = (folder / "traces").iterdir()
        return [json.loads(line) for line in path.read_text().splitlines()]

    def of(self, kind):
        return [record[kind] for record in self.records if kind in record]

    def node(self, number):
        """The node with this number, built anew from its lines."""
        wanted, stack = set(), [number]
        while stack:
            one = stack.pop()
            if one not in wanted:
                wanted.add(one)
                operands = re.search(r" \((%\d+(?:, %\d+)*)\)", self.lines[one])
                stack += map(int, re.findall(r"\d+", operands[1])) if operands else []
        return parse("\n".join(self.lines[one] for one in sorted(wanted)))


def test_work_is_counted_at_the_sizes_of_a_launch(folder):
    size = Variable("size", 1, 1000)
    with Context(VIZ="file", CACHE_DIR=str(folder)):
        for number in (10, 300):
            (Tensor.ones(1000).realize()[: size.bind(number)] + 1).realize()
    (path,) = (folder / "traces").iterdir()
    work = [(run["operations"], run["bytes"]) for one in read(path).kernels for run in one.runs]
    assert [one for one in work if one[0]] == [(10, 80), (300, 2400)]


def compute(rows):
    x = Tensor.empty(rows, 4)
    y = (x + 2 + 1).sum(1)
    (item,) = y.schedule()
    y.realize()
    return item


def test_schedule_program_and_launch_are_written_down(folder):
    with Context(VIZ=1, CACHE=0, CACHE_DIR=str(folder)):
        item = compute(6)
    trace = Trace(folder)
    ((kernel,),) = trace.of("schedule")
    assert trace.node(kernel["ast"]) is item.ast
    assert kernel["reason"] == "output"
    assert kernel["parameters"] == ["CPU float32 6", "CPU float32 24"]
    assert kernel["lines"][0].endswith("(x + 2 + 1).sum(1)")
    (program,) = trace.of("program")
    assert program["ast"] == kernel["ast"]
    assert program["name"] in program["source"]
    (made,) = trace.of("made")
    assert made["of"] == program["ast"] and made["microseconds"] > 0
    linear = [trace.node(number).op for number in made["linear"]]
    assert linear.count(Ops.STORE) >= 1
    assert linear.count(Ops.RANGE) == linear.count(Ops.END)
    (run,) = trace.of("run")
    assert (run["name"], run["device"]) == (program["name"], "CPU")
    assert run["microseconds"] > 0
    assert run["bytes"] == 4 * (24 + 6)


def test_every_rewrite_is_written_down_after_its_nodes(folder):
    with Context(VIZ=1, CACHE=0, CACHE_DIR=str(folder)):
        compute(11)
    trace = Trace(folder)
    rewrites = trace.of("rewrite")
    assert {"simplify", "graph"} <= {rewrite["stage"] for rewrite in rewrites}
    known = -1
    for record in trace.records:
        known += "node" in record
        for place in ("before", "after"):
            assert record.get("rewrite", {}).get(place, 0) <= known
    one = next(r for r in rewrites if r["rule"] == "divide_by_one")
    before, after = trace.node(one["before"]), trace.node(one["after"])
    assert (before.op, before.src) == (Ops.IDIV, (after, UOp.index_const(1)))


def test_equal_nodes_have_one_number(folder):
    with Context(VIZ=1, CACHE=0, CACHE_DIR=str(folder)):
        compute(13)
        gc.collect()
        compute(13)
    nodes = [re.sub(r"^%\d+ = ", "", line) for line in Trace(folder).of("node")]
    assert len(set(nodes)) == len(nodes)


def test_the_graph_that_is_asked_for_is_written_down_with_its_lines(folder):
    with Context(VIZ=1, CACHE=0, CACHE_DIR=str(folder)):
        compute(14)
    trace = Trace(folder)
    (graph, _) = trace.of("graph")
    assert "Ops.SINK" in trace.lines[graph["root"]]
    (made,) = (v for k, v in graph["lines"].items() if k.endswith(": (x + 2 + 1).sum(1)"))
    assert all(number < graph["root"] for number in made)


def test_passes_and_rules_are_those_of_their_kernel(folder):
    with Context(VIZ=1, CACHE=0, CACHE_DIR=str(folder)):
        (Tensor.empty(4, 4) + 4).realize()  # whose index is a quotient and a remainder
    trace = Trace(folder)
    (program,) = trace.of("program")
    passes = trace.of("pass")
    assert {left["of"] for left in passes} == {program["ast"]}
    assert [left["name"] for left in passes][: len(program["opts"])] == program["opts"]
    assert trace.node(passes[-1]["root"]).op is Ops.SINK
    assert program["ast"] in {rewrite["of"] for rewrite in trace.of("rewrite")}
    assert [run["ast"] for run in trace.of("run")] == [program["ast"]]


def test_kernels_are_made_anew_while_it_is_written_down(folder):
    code = "from torpor import Tensor; (Tensor.empty(16) + 1).realize()"
    run(code, CACHE_DIR=str(folder))
    run(code, VIZ="file", CACHE_DIR=str(folder))
    (made,) = Trace(folder).of("made")
    assert made["linear"]


MANY = """import time
import numpy as np
from torpor import Tensor
from torpor.device import bulk
from torpor.pipeline import beside
bulk.wake(beside._COMMAND)
while not bulk._helpers[beside._COMMAND].ready:
    time.sleep(0.01)
x = Tensor(np.arange(600, dtype=np.float32).reshape(20, 30))
sums = [(x[:, :n].contiguous() * n).sum(1) for n in range(3, 15)]
Tensor.realize(*sums)
assert all(np.allclose(one.numpy(), n * x.numpy()[:, :n].sum(1)) for n, one in enumerate(sums, 3))
"""


def test_a_process_that_helps_to_compile_writes_down_what_it_does(folder):
    run(MANY, VIZ="file", CACHE_DIR=str(folder))
    lines = Trace.lines_of(folder)
    assert len({line["process"] for line in lines if "process" in line}) == 2
    trace = read(next((folder / "traces").iterdir()))
    compiled = [event for event in trace.events if event["phase"] == "compile"]
    assert len({event["process"] for event in compiled}) == 2
    assert sorted(event["kernel"] for event in compiled) == list(range(len(trace.kernels)))
    for kernel in trace.kernels:
        assert kernel.linear and kernel.passes
        assert trace.nodes[kernel.linear[-1]].op in ("STORE", "END")


def test_nothing_is_written_without_it(folder):
    with Context(CACHE=0, CACHE_DIR=str(folder)):
        compute(6)
    assert not (folder / "traces").exists()


def test_memory_is_not_kept_alive(folder):
    with Context(VIZ=1, CACHE=0, CACHE_DIR=str(folder)):
        x = (Tensor(np.arange(5.0)) + 1).realize()
        held = weakref.ref(next(n for n in x._current().toposort() if n.op is Ops.BUFFER))
        schedule([(x._current() + x._current(), "CPU")])
        del x
        gc.collect()
    assert held() is None


def test_a_program_says_where_its_trace_is(tmp_path):
    code = "from torpor import Tensor; print((Tensor.ones(3) + 1).tolist())"
    names = {"TORPOR_VIZ": "file", "TORPOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **names}, capture_output=True, text=True
    )
    assert done.stdout == "[2.0, 2.0, 2.0]\n"
    (path,) = (tmp_path / "traces").iterdir()
    assert done.stderr == f"VIZ: recording to {path}\n"
    assert Trace(tmp_path).of("run")


def run(code, **names):
    """What a program prints, and what it says on standard error."""
    environment = {**os.environ, **{f"TORPOR_{name}": value for name, value in names.items()}}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()


def test_where_no_folder_can_be_made_a_program_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    code = "from torpor import Tensor; print([(Tensor.ones(n) + 1).tolist() for n in (1, 2)])"
    shown, complaints = run(code, VIZ="file", CACHE_DIR=str(tmp_path / "file"))
    assert shown == "[[2.0], [2.0, 2.0]]\n"
    (complaint,) = complaints
    assert complaint.startswith("VIZ: nothing is recorded from here on: ")
    assert str(tmp_path / "file") in complaint


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of the sizes of files there")
def test_where_the_disk_is_full_a_program_goes_on(tmp_path):
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000));"
        "from torpor import Tensor; print([(Tensor.ones(n) + 1).tolist() for n in (1, 2, 3)])"
    )
    shown, complaints = run(code, VIZ="file", CACHE_DIR=str(tmp_path))
    assert shown == "[[2.0], [2.0, 2.0], [2.0, 2.0, 2.0]]\n"
    assert [line.partition(" to ")[0][:33] for line in complaints] == [
        "VIZ: recording",
        "VIZ: nothing is recorded from her",
    ]
