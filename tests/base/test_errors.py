"""What the errors are to those who know PyTorch, NumPy and Python."""

import pytest

from torpor import Tensor
from torpor.base import errors


def test_every_error_is_a_runtime_error_as_pytorchs_are():
    found = [one for one in vars(errors).values() if isinstance(one, type)]
    raised = [one for one in found if issubclass(one, Exception) and not issubclass(one, Warning)]
    assert errors.ShapeError in raised
    assert all(issubclass(one, RuntimeError) for one in raised)


@pytest.mark.parametrize("kind", [IndexError, ValueError, RuntimeError])
def test_an_axis_that_is_not_there(kind):
    with pytest.raises(kind, match="sum: axis 2 does not exist in a tensor of 1 axes"):
        Tensor([1.0]).sum(2)
