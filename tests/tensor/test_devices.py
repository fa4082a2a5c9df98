"""Operations of tensors on two devices: an error that names both, and nothing is moved silently."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import DeviceError

FAR = "CPU:1"
X = np.arange(6.0).reshape(2, 3)
PLACES, GRID = [0, 1], [[0, 1, 0], [1, 1, 0]]
MASK = X % 2 == 0


def near() -> Tensor:
    return Tensor(X)


def far(data: Any = X) -> Tensor:
    return Tensor(data, device=FAR)


def put(key: Any, value: Any) -> None:
    near()[key] = value


def graded() -> Any:
    x = Tensor(X, requires_grad=True)
    return (x * 2).backward(far())


CASES: dict[str, Callable[[], Any]] = {
    "add": lambda: near() + far(),
    "where": lambda: far(MASK).where(near(), near()),
    "matmul": lambda: near() @ far().T,
    "linear": lambda: near().linear(far()),
    "einsum": lambda: torpor.einsum("ij,ij->i", near(), far()),
    "cat": lambda: Tensor.cat(near(), far()),
    "stack": lambda: Tensor.stack([near(), far()]),
    "meshgrid": lambda: torpor.meshgrid(near()[0], far()[0]),
    "gather": lambda: near().gather(0, far(GRID)),
    "take": lambda: near().take(far(GRID)),
    "index_select": lambda: near().index_select(0, far(PLACES)),
    "x[index]": lambda: near()[far(PLACES)],
    "x[mask]": lambda: near()[far(MASK)],
    "x[i] = tensor": lambda: put(0, far()[0]),
    "x[index] = number": lambda: put(far(PLACES), 0.0),
    "x[mask] = number": lambda: put(far(MASK), 0.0),
    "x[index] = tensor": lambda: put(PLACES, far()),
    "scatter": lambda: near().scatter(0, far(GRID), near()),
    "scatter values": lambda: near().scatter(0, Tensor(GRID), far()),
    "scatter_add": lambda: near().scatter_add(0, far(GRID), near()),
    "scatter_reduce": lambda: near().scatter_reduce(0, far(GRID), near(), "sum"),
    "index_add": lambda: near().index_add(0, Tensor(PLACES), far()),
    "index_copy": lambda: near().index_copy(0, far(PLACES), near()),
    "index_put": lambda: near().index_put((far(PLACES),), near()),
    "masked_fill": lambda: near().masked_fill(far(MASK), 0),
    "masked_select": lambda: near().masked_select(far(MASK)),
    "searchsorted": lambda: torpor.searchsorted(near()[0], far()),
    "bucketize": lambda: near().bucketize(far()[0]),
    "bincount": lambda: Tensor(PLACES).bincount(weights=far([1.0, 2.0])),
    "assign": lambda: near().assign(far()),
    "conv2d": lambda: Tensor.ones(1, 1, 3, 3).conv2d(Tensor.ones(1, 1, 2, 2, device=FAR)),
    "cross_entropy": lambda: near().cross_entropy(far(PLACES)),
    "attention": lambda: near().scaled_dot_product_attention(far(), far()),
    "backward": graded,
}


@pytest.mark.parametrize("name", CASES)
def test_two_devices_are_an_error_that_names_both(name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        CASES[name]()
    assert "CPU:1" in str(caught.value)
    assert "test_devices.py" in str(caught.value)


def test_arrays_lists_and_numbers_go_where_the_tensor_is() -> None:
    x = far()
    for result in (x[PLACES], x[np.array(PLACES)], x[MASK], x + X, x.take(np.array(GRID)), x + 1):
        assert result.device == FAR
    x[PLACES] = X
    x[MASK] = 0.0
    np.testing.assert_array_equal(x.numpy(), np.where(MASK, 0, X))
    assert (x * Tensor(2.0)).device == FAR  # a 0-d tensor on the CPU moves along


def test_copy_is_asked_to_move() -> None:
    x = near() * 0
    np.testing.assert_array_equal(x.copy_(far()).numpy(), X)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)])
def test_a_number_is_on_any_device(shape):
    for moved in (torpor.full(shape, 2.5).to("PYTHON"), torpor.full(shape, 2.5).to("PYTHON") * 2):
        assert moved.device == "PYTHON"
    assert np.array_equal(moved.numpy(), np.full(shape, 5, np.float32))
    assert np.array_equal(torpor.full(shape, 7).to("PYTHON").to("CPU").numpy(), np.full(shape, 7))


def test_device_is_a_type_to_ask_and_to_annotate_with():
    def made(device: torpor.device | None = None) -> Tensor:
        return Tensor.ones(2, device=device)

    assert isinstance(made().device, torpor.device) and not isinstance("CPU", torpor.device)
    assert isinstance(made(torpor.device("cpu")).device, made.__annotations__["device"])
    assert None | torpor.device == made.__annotations__["device"]
