"""Weaving: stores of neighbours, each a lane of some vector, become stores of vectors."""

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, OptOps, ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.passes.interleaved_stores import in_vectors, interleave_stores
from torpor.kernel.shuffles import gathered

AVX2 = get_target("cpu")


def vectors(count, width=8, dtype=dtypes.float32):
    """Loads of vectors from the start of parameters 1, 2, ..."""
    wide = dtype.vec(width)
    memories = [UOp(Ops.PARAM, dtype, (), ParamArg(n + 1, width)) for n in range(count)]
    zero = UOp.index_const(0)
    places = [UOp(Ops.INDEX, dtype, (memory, zero)) for memory in memories]
    return [UOp(Ops.LOAD, wide, (place,)) for place in places]


def lanes_of(node):
    """What each lane of a vector is: (parameter, lane), followed through shuffles."""
    if node.op is Ops.LOAD:
        return [(node.src[0].src[0].arg.slot, n) for n in range(node.dtype.count)]
    if node.op is Ops.GEP:
        below = [lane for source in node.src for lane in lanes_of(source)]
        return [below[n] for n in node.arg]
    assert node.op is Ops.VECTORIZE
    return [lane for source in node.src for lane in lanes_of(source)]


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_any_lanes_are_gathered_in_order(count, width):
    sources = vectors(count, width)
    woven = [sources[n % count].gep(n // count % width) for n in range(count * width)]
    across = [source.gep(width // 2) for source in sources]
    for lanes in (woven, across):
        for size in (2, 4, 8, 16):
            for start in range(0, len(lanes) - size + 1, 7):
                wanted = lanes[start : start + size]
                made = gathered([(one.src[0], one.arg[0]) for one in wanted])
                assert made.dtype.count == size
                assert lanes_of(made) == [lane for one in wanted for lane in lanes_of(one)]


def test_rows_of_an_odd_length_end_in_shorter_vectors():
    memory = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 64))
    sources = vectors(3)
    stores = {}
    for place in [*range(13), 20, 21]:
        target = UOp(Ops.INDEX, dtypes.float32, (memory, UOp.index_const(place)))
        value = sources[place % 3].gep(place // 3)
        stores[place] = UOp(Ops.STORE, dtypes.void, (target, value))
    made = in_vectors(stores, AVX2)
    places = [(int(s.src[0].src[1].arg), s.src[1].dtype.count) for s in made]
    assert sum(count for _, count in places) == len(stores)
    assert {first + n for first, count in places for n in range(count)} == set(stores)
    for store in made:
        first = int(store.src[0].src[1].arg)
        found = lanes_of(store.src[1])
        assert found == [(place % 3 + 1, place // 3) for place in range(first, first + len(found))]


def test_stores_stay_where_their_memory_is_read():
    memory = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 64))
    place = UOp(Ops.INDEX, dtypes.float32, (memory, UOp.index_const(0)))
    whole = UOp(Ops.LOAD, dtypes.float32.vec(8), (place,))
    next_one = UOp(Ops.INDEX, dtypes.float32, (memory, UOp.index_const(1)))
    stores = [
        UOp(Ops.STORE, dtypes.void, (target, whole.gep(n)))
        for n, target in enumerate((place, next_one))
    ]
    root = UOp.sink(*stores)
    assert interleave_stores(root, AVX2) is root


def test_interleaved_results_are_stored_as_vectors():
    x, y = Tensor.empty(64, 40), Tensor.empty(64, 40)
    both = Tensor.stack([x.exp2(), y * x], -1)
    opts = [Opt(OptOps.UPCAST, 1, 0), Opt(OptOps.UPCAST, 0, 8)]
    (program,) = torpor.lower(both, target="cpu", opts=opts)
    stores = [n for n in program.linear if n.op is Ops.STORE]
    assert len(stores) * AVX2.lanes(4) == 16
    a = np.random.default_rng(1).standard_normal((64, 40)).astype(np.float32)
    b = np.random.default_rng(2).standard_normal((64, 40)).astype(np.float32)
    made = Tensor.stack([Tensor(a) * 2, Tensor(b) * Tensor(a)], -1).numpy()
    assert (made == np.stack([a * 2, b * a], -1)).all()


@pytest.mark.parametrize("target", ["avx2,l2=1M", "avx512,l2=1M"])
def test_tiles_that_are_packed_across_their_rows_are_turned_in_registers(target):
    x, weights = Tensor.empty(384, 320), Tensor.empty(960, 320)
    with Context(TARGET=target):
        (program,) = torpor.lower(x @ weights.T)
    packed = [
        n.src[1].dtype.count
        for n in program.linear
        if n.op is Ops.STORE and n.src[0].src[:1] and n.src[0].src[0].op is Ops.DEFINE_LOCAL
    ]
    assert packed and min(packed) > 1


def test_what_is_filled_from_memory_that_is_filled_is_woven_too():
    """A loop that fills memory reads what another one has filled, by lanes that lie in a row."""
    outer, inner = (UOp(Ops.DEFINE_LOCAL, dtypes.float32, (), ParamArg(n, 64)) for n in (0, 1))
    lanes = [one.gep(n) for n in range(4) for one in vectors(4, 4)]
    places = [UOp(Ops.INDEX, dtypes.float32, (inner, UOp.index_const(n))) for n in range(16)]
    pairs = zip(places, lanes, strict=True)
    filled = UOp(Ops.BARRIER, dtypes.void, tuple(UOp(Ops.STORE, dtypes.void, p) for p in pairs))
    value = UOp(Ops.LOAD, dtypes.float32, (places[3], filled))
    target = UOp(Ops.INDEX, dtypes.float32, (outer, UOp.index_const(0)))
    again = UOp(Ops.BARRIER, dtypes.void, (UOp(Ops.STORE, dtypes.void, (target, value)),))
    result = UOp(Ops.INDEX, dtypes.float32, (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 1)),
                                             UOp.index_const(0)))  # fmt: skip
    loaded = UOp(Ops.LOAD, dtypes.float32, (target, again))
    made = interleave_stores(UOp.sink(UOp(Ops.STORE, dtypes.void, (result, loaded))), AVX2)
    stores = [n for n in made.toposort() if n.op is Ops.STORE and n.src[0].src[0] is inner]
    assert [n.src[1].dtype.count for n in stores] == [8, 8]
