"""Products of signed bytes where the target multiplies four unsigned ones by four signed ones.

before  out[i, j] = f(sum(k, a[i, k] * b[k, j]))
after   v[j] = -128 * sum(k, b[k, j]);  out[i, j] = f(sum(k, (a[i, k] + 128) * b[k, j]) + v[j])

a + 128 is an unsigned byte: a with its highest bit turned.
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.target import WORD, Target
from torpor.ir.ops import Ops
from torpor.ir.records import OptOps
from torpor.ir.uop import UOp
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.opts.dot import Products, find_products
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import closed_by, find_loops, iterations, nesting
from torpor.kernel.split.several import Parted, parted, stored_apart

MIDDLE: Final = 128  # of an unsigned byte


def in_offsets(ast: UOp, target: Target) -> Parted | None:
    """The kernel that sums one operand, and the kernel whose other one is unsigned; None where the
    target does not multiply four terms at a time for that, or multiplies matrices of signed ones.
    """
    if ("int8", "uint8") not in target.dots or ("int8", "int8") in target.dots:
        return None
    kernel = Kernel(ast, target)
    found = find_products(kernel.ast)
    if len(ast.src) != 1 or found is None or not is_signed(found):
        return None
    made = with_offset(kernel, found)
    if made is None or any(opt.op is OptOps.MMA for opt in choose(kernel)):
        return None
    opts = choose(Kernel(made.rest.ast, target))
    return made if any(opt.op is OptOps.DOT and opt.arg == WORD for opt in opts) else None


def is_signed(found: Products) -> bool:
    """Whether both factors of the products are signed bytes."""
    return all(factor.dtype is dtypes.int8 for factor in found.factors)


def with_offset(kernel: Kernel, found: Products) -> Parted | None:
    """The two kernels; None where the operand that is smaller is not summed along all axes."""
    free, closed = find_loops(kernel.ast).free, frozenset(closed_by(found.total))
    added, left = sorted(found.factors, key=lambda f: iterations(tuple(free[f] - closed)))
    if not closed <= free[added]:
        return None
    axes = sorted(free[added] - closed, key=nesting)
    sums, read = stored_apart(offset(added, found), axes)
    unsigned = left.bitcast(dtypes.uint8) ^ MIDDLE
    product = unsigned.cast(dtypes.int32) * added.cast(dtypes.int32)
    total = UOp(Ops.REDUCE, dtypes.int32, (product, *closed_by(found.total)), Ops.ADD)
    rest = kernel.ast.substitute({found.total: total + read})
    return parted(sums, rest, "parts of a sum")


def offset(added: UOp, found: Products) -> UOp:
    """-128 times the sum of an operand."""
    ranges = closed_by(found.total)
    total = UOp(Ops.REDUCE, dtypes.int32, (added.cast(dtypes.int32), *ranges), Ops.ADD)
    return total * UOp.const(dtypes.int32, -MIDDLE)
