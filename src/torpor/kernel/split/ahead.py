"""A check of few values goes ahead of a large kernel that uses each of them many times.

before  out[i, j] = x[CHECK(k[i], inside), j]
after   v[i] = CHECK(k[i], inside);  out[i, j] = x[v[i], j]

Then no check can fail any more when results are stored, so that they may be written over what was
in their place before.
"""

from __future__ import annotations

from typing import Final

from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import stored_bytes
from torpor.kernel.choose.tiling import REUSE
from torpor.kernel.ranges import Ranges, closed_by, find_loops, iterations, nesting, size_of
from torpor.kernel.split.several import Parted, parted, stored_apart

# Bytes stored, as for results that are written over the last ones (`capture/successor.py`): 1024
# rows of 384 numbers take 0.7 of the time.
LARGE: Final = 3 << 19


def checked_ahead(ast: UOp, target: Target) -> Parted | None:
    """A kernel's only check, then the rest of it; None where there is nothing to gain."""
    found = [node for node in ast.toposort() if node.op is Ops.CHECK]
    if not target.threads or len(found) != 1 or any(size_of(r) is None for r in ast.ranges()):
        return None
    (check,) = found
    free = find_loops(ast).free[check]
    if any(n.op in (Ops.REDUCE, Ops.SCAN) or is_written(n, ast) for n in check.toposort()):
        return None
    if uses(ast, check, free) < REUSE or stored_bytes(ast) < LARGE:
        return None
    checks, read = stored_apart(check, sorted(free, key=nesting))
    return parted(checks, ast.substitute({check: read}), "checked first")


def is_written(node: UOp, ast: UOp) -> bool:
    """Whether the node is memory that the kernel stores to."""
    return node.op is Ops.PARAM and any(node is store.src[0].src[0] for store in ast.src)


def uses(ast: UOp, check: UOp, free: Ranges) -> int:
    """How often each value that is checked is used, where it is used least."""
    around = [closed_by(store) for store in ast.src if check in store.toposort()]
    return min(iterations(tuple(ranges)) for ranges in around) // iterations(tuple(free))
