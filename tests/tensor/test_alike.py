"""Tensors like another one."""

import numpy as np

import torpor
from torpor import Tensor


def test_what_is_new_has_the_format_and_device_of_the_tensor_unless_given():
    for dtype in ("int16", "float64", "complex64"):
        x = Tensor([1, 2], dtype=dtype, device="CPU:1")
        made = [x.new_full((3,), 7), x.new_zeros(3), x.new_ones((3,)), x.new_empty(3, 2),
                x.new_tensor([4, 5]), x.zeros_like(), x.ones_like(), x.full_like(2),
                x.empty_like()]  # fmt: skip
        assert {(one.dtype.name, one.device) for one in made} == {(dtype, "CPU:1")}
        assert x.new_tensor([1.0], dtype="float32", device="CPU").device == "CPU"
        assert x.new_full((2,), 7).tolist() == [7, 7] and x.new_empty(3, 2).shape == (3, 2)


def test_a_new_tensor_is_a_copy():
    array = np.float32([1, 2])
    made = Tensor([0.0]).new_tensor(array)
    array[0] = 9
    assert made.tolist() == [1, 2]


def test_what_is_full_may_be_written_to():
    for value in (1j, Tensor(2.0), 3):
        full = torpor.full((2, 2), value)
        full[0, 1] = 5
        assert full[0, 1].item() == 5 and full[1, 1].item() == (
            value.item() if isinstance(value, Tensor) else value
        )
    z = torpor.zeros(2, dtype="complex64")
    z[1] = 1j
    assert z.tolist() == [0, 1j]
