"""Errors about axes name the method, the operand and its line."""

import pytest

from torpor import Tensor
from torpor.base.errors import ShapeError


@pytest.mark.parametrize("name", ["sum", "amax", "softmax", "cumsum", "argmax", "sort"])
def test_wrong_axes_are_named(name):
    with pytest.raises(ShapeError, match=rf"{name}.*axis 2 .*\n  \(2, 3\) float32 on CPU, made at"):
        getattr(Tensor.ones(2, 3), name)(axis=2)
