"""Where the user's program made a kernel: the line that does its work comes first."""

from torpor import Tensor
from torpor.base.site import decode
from torpor.nn.optim import SGD


def lines(item):
    return [decode(site).text for site in item.origins]


def test_the_largest_reduction_is_a_kernels_line():
    x, w = Tensor.empty(64, 32), Tensor.empty(32, 8)
    scale = x.sum()
    product = x @ w
    shifted = product + 1
    (item,) = (shifted.relu() * 2).schedule()
    assert lines(item)[:2] == ["x @ w", "shifted.relu() * 2"]
    *_, last = (product / scale).schedule()
    assert lines(last)[0] == "x @ w"
    assert "x.sum()" not in lines(last), "that is a kernel of its own"


def test_a_long_reduction_that_is_split_keeps_its_line():
    x = Tensor.empty(1 << 20)
    total = x.square().sum()
    items = (total + 1).schedule()
    assert len(items) == 2
    assert [lines(item)[0] for item in items] == ["x.square().sum()"] * 2


def test_a_gradients_kernel_names_the_forward_line():
    x, w = Tensor.empty(64, 32), Tensor.empty(32, 8).requires_grad_()
    images, kernel = Tensor.empty(4, 3, 9, 9), Tensor.empty(5, 3, 3, 3).requires_grad_()
    hidden = (x @ w).relu()
    found = images.conv2d(kernel)
    optimiser = SGD([w, kernel], lr=0.1)
    (hidden.square().sum() + found.square().sum()).backward()
    first, second = optimiser.schedule_step()
    by_line = {lines(item)[0] for item in first.schedule(second)}
    assert {"gradient of x @ w", "gradient of images.conv2d(kernel)"} <= by_line
    assert not any("schedule_step" in line or "backward" in line for line in by_line)
