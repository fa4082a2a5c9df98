"""Layers refuse what they cannot be made of or applied to."""

import pytest

from torpor import Tensor, nn
from torpor.base.errors import ShapeError, ValueRangeError


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.Linear(-1, 2),
        lambda: nn.Dropout(1.5),
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        lambda: nn.BatchNorm2d(3)(Tensor.ones(2, 4, 1, 1)),
        lambda: nn.BatchNorm2d(3)(Tensor.ones(2, 3, 1)),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises((ShapeError, ValueRangeError)):
        call()


def test_convolutions_take_padding_by_name():
    layer = nn.Conv2d(3, 4, 3, padding="same")
    assert layer(Tensor.ones(1, 3, 5, 6)).shape == (1, 4, 5, 6)
