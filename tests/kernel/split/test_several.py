from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.ir.ops import AxisType
from torpor.ir.records import ParamArg
from torpor.kernel.ranges import closed_by
from torpor.kernel.split.several import stored_apart


def test_an_axis_whose_length_is_known_at_launch_is_stored_whole():
    length = UOp.variable("n", 1, 64)
    axis = UOp.range(length, 3, AxisType.GLOBAL)
    place = UOp(
        Ops.INDEX, dtypes.float32, (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(1, 64)), axis)
    )
    value = UOp(Ops.LOAD, dtypes.float32, (place,))
    first, read = stored_apart(value + value, [axis])
    (store,) = first.src
    (own,) = closed_by(store)
    assert own.src[0] is length
    assert own.arg == (0, AxisType.GLOBAL)
    assert store.src[0].src[0].arg.size == 64
    assert read.src[0].src == (store.src[0].src[0], axis)
