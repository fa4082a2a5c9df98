"""What a plan is predicted to do is what its opts do."""

from math import prod

import pytest

from torpor import Tensor
from torpor.device.machine import facts, machine
from torpor.ir.records import OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.roles import find_roles
from torpor.kernel.choose.tiling import Outlook, Plan, Tile, setting_of

AVX2 = facts(machine("avx2"))
SUMMED, ROWS = 40, 6 * 600


@pytest.mark.parametrize("together", [600, 24])
def test_rows_are_packed_in_each_round_of_the_loops_around_them(together):
    """Also where these loops are over other axes of rows."""
    images = Tensor.empty(6, SUMMED, 20, 30).permute(0, 2, 3, 1)
    (item,) = (images @ Tensor.empty(SUMMED, 48)).schedule()
    kernel = Kernel(item.ast, AVX2)
    roles = next(one for one in find_roles(kernel) if len(one.rows) > 1)
    plan = Plan(roles, Tile(16, 6), 16, packs=OptOps.STAGE, together=together)
    copied = prod(loop.rounds for loop in Outlook(plan, setting_of(kernel)).nests[1].loops)
    assert copied == SUMMED * ROWS * 3  # for each block of 16 results
