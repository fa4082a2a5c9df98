"""The node: interning (threads, weak freeing, constants by bits), bounds, substitution."""

import copy
import gc
import math
import pickle
import struct
import threading

import pytest
from hypothesis import given, settings

from tests.rules.expressions import LEAVES, domain, indices, points, value
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp, Variable
from torpor.ir import uop as module
from torpor.ir.ops import ALU, ROWS


def test_equal_nodes_are_one_object():
    assert UOp.const(dtypes.int, 3) is UOp.const(dtypes.int, 3)
    a, b = Variable("a", 0, 3), Variable("b", 0, 3)
    assert a + b * 2 is a + b * 2
    assert a + b is not b + a


def test_constants_are_told_apart_by_their_bits():
    zero, minus = UOp.const(dtypes.float32, 0.0), UOp.const(dtypes.float32, -0.0)
    assert zero is not minus
    assert math.copysign(1, minus.arg) == -1
    assert UOp.const(dtypes.float32, math.nan) is UOp.const(dtypes.float32, float("nan"))
    other = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    assert UOp.const(dtypes.float64, math.nan) is not UOp.const(dtypes.float64, other)


def test_formats_tell_constants_apart():
    same = [UOp.const(d, 1) for d in (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.bool)]
    assert len(set(same)) == 4
    assert [type(c.arg) for c in same] == [int, int, float, bool]


def test_a_constant_is_wrapped_or_rounded_to_its_format():
    assert UOp.const(dtypes.int8, 200).arg == -56
    assert UOp.const(dtypes.uint8, -1).arg == 255
    assert UOp.const(dtypes.float32, 0.1).arg == struct.unpack("f", struct.pack("f", 0.1))[0]


def test_threads_get_one_object():
    count, rounds = 8, 300
    barrier = threading.Barrier(count)
    made = [[] for _ in range(count)]

    def build(mine):
        for number in range(rounds):
            barrier.wait()
            mine.append(UOp.const(dtypes.int64, 10_000_019 + number) + number)

    threads = [threading.Thread(target=build, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for row in zip(*made):
        assert len(set(map(id, row))) == 1


def test_nodes_are_freed_when_nobody_holds_them():
    gc.collect()
    before = len(module._table)
    held = [UOp.const(dtypes.int64, 77_000_000 + n) for n in range(1000)]
    assert len(module._table) >= before + 1000
    del held
    gc.collect()
    assert len(module._table) <= before + 10


def test_copies_and_pickles_are_the_same_object():
    node = Variable("a", 0, 3) * 2 + UOp.range(4, 1)
    assert copy.copy(node) is node
    assert copy.deepcopy(node) is node
    assert pickle.loads(pickle.dumps(node)) is node


def test_key_is_of_structure():
    a = Variable("a", 0, 3)
    assert (a + 1).key == (a + 1).key
    assert len({n.key for n in (a, a + 1, a * 1, a + 2, Variable("b", 0, 3) + 1)}) == 5


def test_toposort_has_operands_first_and_stops_at_the_gate():
    a = Variable("a", 0, 3)
    root = (a + 1) * (a + 1) + a
    order = list(root.toposort())
    assert len(order) == len(set(order)) == 5
    assert all(order.index(s) < order.index(n) for n in order for s in n.src)
    assert list(root.toposort(lambda n: n is root)) == [*root.src, root]


def test_below_follows_first_operands_as_long_as_they_are_of_the_kind():
    x, other = Variable("x", 0, 9), Variable("other", 1, 9)
    top = (x + other) * 3 + other
    assert top.below((Ops.ADD, Ops.MUL)) is x
    assert top.below((Ops.ADD,)) is (x + other) * 3
    assert top.below((Ops.MUL,)) is top and x.below(()) is x


def test_substitute_does_not_enter_what_it_puts_in():
    a, b = Variable("a", 0, 3), Variable("b", 0, 3)
    assert (a + b).substitute({a: b, b: a}) is b + a
    assert (a * 2).substitute({a: a + 1}) is (a + 1) * 2


@settings(max_examples=150, deadline=None)
@given(indices(6))
def test_bounds_hold_by_brute_force(root):
    low, high = root.vmin, root.vmax
    for point in list(points(root))[:2000]:
        try:
            assert low <= value(root, point) <= high
        except ZeroDivisionError:
            continue


@pytest.mark.parametrize("op", sorted(o for o in ALU if ROWS[o].bounds and ROWS[o].arity == 2))
@pytest.mark.parametrize("limits", [(-3, 4), (0, 5), (-4, -1), (2, 6), (-1, 0)])
def test_bounds_of_one_op_hold_and_are_reached_on_corners(op, limits):
    a, b = Variable("a", -4, 3), Variable("b", *limits)
    node = a.alu(op, b)
    found = {
        ROWS[op].fold(x, y)
        for x in range(-4, 4)
        for y in range(limits[0], limits[1] + 1)
        if (y or op not in (Ops.IDIV, Ops.MOD)) and (y >= 0 or op is not Ops.SHR)
    }
    assert node.vmin <= min(found, default=0)
    assert max(found, default=0) <= node.vmax
    if op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN, Ops.CMPLT):
        assert (node.vmin, node.vmax) == (min(found), max(found))


def test_bounds_of_wrapping_integers_are_full_where_they_may_wrap():
    a = UOp(Ops.CAST, dtypes.int8, (Variable("a", 0, 100),))
    assert (a.vmin, a.vmax) == (0, 100)
    assert ((a + 27).vmin, (a + 27).vmax) == (27, 127)
    assert ((a + 28).vmin, (a + 28).vmax) == (-128, 127)


def test_a_remainder_by_zero_has_no_bounds():
    node = Variable("a", 0, 9) % Variable("b", 0, 0)
    assert (node.vmin, node.vmax) == (-math.inf, math.inf)


def test_a_deep_chain_hits_no_recursion_limit():
    node = Variable("a", 0, 1)
    one = UOp.index_const(1)
    for _ in range(100_000):
        node = UOp(Ops.ADD, dtypes.index, (node, one))
    assert node.vmax == 100_001
    assert len(node.toposort()) == 100_002
    assert len(node.key) == 32
    assert node.substitute({one: UOp.index_const(2)}).vmax == 200_001


def test_substitution_looks_up_what_it_visits_and_copies_no_mapping():
    class Looked(dict[UOp, UOp]):
        def __iter__(self):
            raise AssertionError("it is as long as all that was computed before")

        keys = items = values = __iter__

    a, b, c = (Variable(name, 0, 9) for name in "abc")
    assert (a + b).substitute(Looked({a: c, c: b})) is c + b
    assert a.substitute(Looked({a: c})) is c
    assert (a + b).substitute(Looked({a + b: c, a: b})) is c


def test_leaves_have_their_domain():
    assert [len(domain(leaf)) for leaf in LEAVES] == [11, 4, 6, 4, 5]
