"""What the heuristics choose for several passes over a row."""

import pytest

from torpor import Tensor
from torpor.device import Device
from torpor.ir.records import OptOps
from torpor.kernel import Kernel
from torpor.kernel.heuristics import choose


def two_outputs(x: Tensor) -> tuple[Tensor, ...]:
    grown = (x - x.amax(1, keepdim=True)).exp()
    return grown, grown.sum(1)


@pytest.mark.parametrize(
    "function",
    [lambda x: (x.var(1),), lambda x: (x.logsumexp(1),), two_outputs],
    ids=["variance", "logsumexp", "values and their sum"],
)
def test_each_pass_over_a_row_has_vectors(function) -> None:
    first, *more = function(Tensor.empty(64, 1024))
    (item,) = first.schedule(*more)
    kernel = Kernel(item.ast, Device["CPU"].target)
    vectors = [opt for opt in choose(kernel) if opt.op is OptOps.UNROLL]
    assert len(vectors) == 2
    assert all(opt.arg % Device["CPU"].target.lanes(4) == 0 for opt in vectors)
