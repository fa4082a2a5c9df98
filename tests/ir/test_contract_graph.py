"""The contracts of graphs: what the builders make passes, and broken graphs are named."""

import pytest

from tests.graph.evaluate import tensor
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.graph import build
from torpor.ir import Ops, UOp
from torpor.ir.contract_graph import GRAPH, PREPARED, RESOLVED
from torpor.ir.infer import shape_of
from torpor.ir.records import Requirement

F, INT = dtypes.float32, dtypes.int64
X = build.reshape(tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], F), (2, 3))
Y = build.permute(X, (1, 0))
INDEX = build.constant(1, INT, (2, 1))
TRUE = build.constant(True, dtypes.bool, (2, 3))


def whole():
    """A graph with an op of each kind."""
    made = build.elementwise(Ops.ADD, build.pad(X, ((0, 0), (1, 0))), build.constant(2, F, (2, 4)))
    made = build.gather(build.flip(made, (1,)), INDEX, 1)
    made = build.scatter(X, INDEX, made, 1, Ops.ADD)
    made = build.check(build.scan(made, Ops.ADD, 1), TRUE, Requirement("value", "never"))
    made = build.reduce(build.contiguous(made), Ops.MAX, 1)
    return build.copy_to(build.cast(build.detach(build.leaf(made)), INT), "CPU:1")


def test_what_builders_make_is_legal():
    GRAPH.check(whole())
    RESOLVED.check(whole())


BROKEN = {
    "one shape": UOp(Ops.ADD, F, (X, Y)),
    "formats that fit": UOp(Ops.ADD, F, (X, build.cast(X, INT))),
    "formats": UOp(Ops.CMPLT, F, (X, X)),
    "fit the operation": UOp(Ops.WHERE, F, (X, X, X)),
    "formats that": UOp(Ops.BITCAST, INT, (X,)),
    "as many elements": UOp(Ops.RESHAPE, F, (X,), (7,)),
    "axes of size 1 only": UOp(Ops.EXPAND, F, (X,), (4, 3)),
    "every axis once": UOp(Ops.PERMUTE, F, (X,), (0, 0)),
    "two numbers from 0 on": UOp(Ops.PAD, F, (X,), ((0, 0), (-1, 0))),
    "a box inside": UOp(Ops.SHRINK, F, (X,), ((0, 2), (1, 4))),
    "axes that there are": UOp(Ops.REDUCE_AXIS, F, (X,), (Ops.ADD, (2,))),
    "ADD, MUL, MAX or MIN": UOp(Ops.REDUCE_AXIS, F, (X,), (Ops.SUB, (1,))),
    "initial values": UOp(Ops.SCAN_AXIS, F, (X, X), (Ops.ADD, 1)),
    "int64 index of its operand's": UOp(Ops.GATHER, F, (X, build.cast(INDEX, F)), 1),
    "shape but for one axis": UOp(Ops.GATHER, F, (X, INDEX), 0),
    "a value for each": UOp(Ops.SCATTER, F, (X, INDEX, X), (Ops.ADD, 1, False)),
    "format of the first": UOp(Ops.FLIP, INT, (X,), (True, False)),
    "is of a SCATTER": UOp(Ops.PRIOR, F, (X,)),
    "names the device": UOp(Ops.COPY, F, (X,), None),
    "within its limits": UOp(Ops.BIND, dtypes.index, (UOp.variable("n", 1, 4), UOp.index_const(5))),
    "has a Requirement": UOp(Ops.CHECK, F, (X, TRUE), 0),
    "no clause": UOp(Ops.LOAD, F, (X,)),
}


@pytest.mark.parametrize("text", BROKEN)
def test_broken_graphs_are_refused(text):
    root = UOp.sink(BROKEN[text])
    with pytest.raises(ContractError, match=text) as caught:
        GRAPH.check(root)
    assert "%0 = Ops." in str(caught.value)


def test_several_devices_are_held_by_the_sink_alone():
    joint = UOp(Ops.MULTI, F, (X, X), (None, ("CPU", "CPU:1")))
    RESOLVED.check(UOp.sink(joint))
    above = build.elementwise(Ops.ADD, joint, joint)
    GRAPH.check(above)
    with pytest.raises(ContractError, match="only held together by the SINK"):
        RESOLVED.check(UOp.sink(above))


@pytest.mark.parametrize("marker", [build.leaf, build.detach])
def test_markers_are_gone_before_scheduling(marker):
    GRAPH.check(marker(X))
    with pytest.raises(ContractError, match=r"prepared graph: .*not there at this"):
        PREPARED.check(marker(X))


def test_symbolic_sizes_are_taken_on_trust():
    size = UOp.variable("n", 1, 3)
    cut = build.shrink(X, ((0, 2), (0, size)))
    assert shape_of(cut)[0] == 2
    GRAPH.check(build.reduce(build.elementwise(Ops.MUL, cut, cut), Ops.ADD, 1))
