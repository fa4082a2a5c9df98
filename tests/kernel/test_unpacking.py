"""What takes several operations to compute from what is loaded is found where products read it."""

from torpor import Tensor
from torpor.base.target import get_target
from torpor.ir.ops import Ops
from torpor.kernel.kernel import Kernel
from torpor.kernel.unpacking import dear_operands


def found(result):
    (item,) = result.schedule()
    return dear_operands(Kernel(item.ast, get_target("cpu")))


def test_codes_with_scales_are_dear_and_loads_are_not():
    x, codes = Tensor.empty(4, 64), Tensor.empty(64, 32, dtype="uint8")
    scale = Tensor.empty(32)
    (dear,) = found(x @ (((codes & 15).float() - 8) * scale))
    assert {n.dtype.name for n in dear.toposort() if n.op is Ops.LOAD} == {"uint8", "float32"}
    assert found(x @ codes.float()) == []
    assert found(x @ Tensor.empty(64, 32)) == []


def test_arithmetic_of_positions_is_not_counted():
    rows = Tensor.empty(6, 9, 8).flip(0).permute(1, 2, 0).reshape(72, 6)  # divides and subtracts
    assert found(rows.T @ Tensor.empty(72, 5)) == []
