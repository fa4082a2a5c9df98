"""Axes of symbolic length: in whole blocks and what is left, or in blocks that are masked."""

from __future__ import annotations

import numpy as np
import pytest

import torpor
from tests.kernel.kernels import run_kernel
from torpor import Tensor
from torpor.base.errors import OptError
from torpor.base.target import get_target
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import kind_of, size_of

ROWS, MOST = 5, 40
TABLE = np.random.default_rng(3).standard_normal((ROWS, MOST)).astype(np.float32)
LENGTHS = [1, 2, 7, 8, 9, 16, 23, 39, 40]
FUNCTIONS = {
    "sums": lambda x: x.sum(-1),
    "maxima": lambda x: x.amax(-1),
    "places": lambda x: x.argmax(-1),
    "softmax": lambda x: x.softmax(-1),
    "sums of columns": lambda x: x.sum(0),
    "elements": lambda x: x * 2 + 1,
}


def item_of(name: str, device: str, length: int):
    n = torpor.Variable("n", 1, MOST).bind(length)
    x = Tensor(TABLE, device=device).realize()[:, :n]
    (item,) = FUNCTIONS[name](x).schedule()
    return item


def lengths_of(kernel: Kernel) -> list[int]:
    """The axes of symbolic length, of types that may be cut."""
    return [n for n, r in enumerate(kernel.axes) if size_of(r) is None]


def cut(item, device: str, op: OptOps) -> list[Opt]:
    """Opts that cut every axis of symbolic length, and what is left again."""
    kernel = Kernel(item.ast, get_target("cpu" if device == "CPU" else "python"))
    for number in reversed(lengths_of(kernel)):
        if op is OptOps.PARTITION and kind_of(kernel.axes[number]) is AxisType.GLOBAL:
            op = op if device == "CPU" else OptOps.PADTO
        known = {r.arg for r in kernel.axes}
        kernel.apply_opt(Opt(op, number, 8))
        for rest in lengths_of(kernel):
            if kernel.axes[rest].arg not in known:
                kernel.apply_opt(Opt(OptOps.PADTO, rest, 4))
    return kernel.opts


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("op", [OptOps.PARTITION, OptOps.PADTO])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_any_length(name: str, op: OptOps, device: str) -> None:
    for length in LENGTHS:
        item = item_of(name, device, length)
        (found,), *_ = run_kernel(item, device, cut(item, device, op))
        wanted = FUNCTIONS[name](Tensor(TABLE[:, :length].copy())).numpy().reshape(-1)
        found = found[: wanted.size]  # there is room for the most
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=str(length))


def test_what_is_left_is_shorter_than_a_block() -> None:
    kernel = Kernel(item_of("sums", "CPU", 9).ast, get_target("cpu"))
    kernel.apply_opt(Opt(OptOps.PARTITION, lengths_of(kernel)[0], 8))
    sums = [r for r in kernel.axes if kind_of(r) is AxisType.REDUCE]
    assert sorted(int(r.src[0].vmax) for r in sums) == [MOST // 8, 7, 8]


def test_no_room_where_loops_are_inside() -> None:
    """Sums of maxima, each over what the sum runs over."""
    n = torpor.Variable("n", 1, MOST).bind(9)
    x = Tensor(TABLE).realize()
    (item,) = (x.T[:n, :3].amax(1)).sum(0).schedule()
    kernel = Kernel(item.ast, get_target("cpu"))
    with pytest.raises(OptError, match="there are loops inside"):
        kernel.apply_opt(Opt(OptOps.PADTO, lengths_of(kernel)[0], 8))


def test_no_parts_of_work_items() -> None:
    kernel = Kernel(item_of("elements", "PYTHON", 9).ast, get_target("python"))
    with pytest.raises(OptError, match="one part is empty"):
        kernel.apply_opt(Opt(OptOps.PARTITION, lengths_of(kernel)[0], 8))
