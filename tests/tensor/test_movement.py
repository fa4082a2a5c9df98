import numpy as np
import pytest

from tests.tensor.layouts import check, layouts, numbers
from torpor import Tensor
from torpor.base.errors import ShapeError

CASES = {
    "reshape": (lambda x: x.reshape(2, -1, 3), lambda a: a.reshape(2, -1, 3)),
    "flatten": (lambda x: x.flatten(1), lambda a: a.reshape(4, -1)),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)), lambda a: a.reshape(4, 2, 3)),
    "permute": (lambda x: x.permute(1, 0), lambda a: a.transpose(1, 0)),
    "transpose": (lambda x: x.transpose(0, -1), lambda a: a.T),
    "mT": (lambda x: x.mT, lambda a: a.T),
    "movedim": (lambda x: x.movedim(0, -1), lambda a: np.moveaxis(a, 0, -1)),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "squeeze": (lambda x: x.unsqueeze(0).squeeze(0), lambda a: a),
    "expand": (
        lambda x: x.unsqueeze(1).expand(-1, 5, -1),
        lambda a: np.broadcast_to(a[:, None], (4, 5, 6)),
    ),
    "shrink": (lambda x: x.shrink(((1, 3), None)), lambda a: a[1:3]),
    "narrow": (lambda x: x.narrow(1, 2, 3), lambda a: a[:, 2:5]),
    "select": (lambda x: x.select(1, -2), lambda a: a[:, -2]),
    "diagonal": (lambda x: x.diagonal(1), lambda a: a.diagonal(1)),
    "diagonal below": (lambda x: x.diagonal(-2), lambda a: a.diagonal(-2)),
    "unfold": (
        lambda x: x.unfold(1, 3, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 1)[:, ::2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_movements(name):
    ours, theirs = CASES[name]
    array = numbers((4, 6))
    check(ours(Tensor(array)), theirs(array))
    turned = np.ascontiguousarray(array.T)  # the same elements, in memory the other way round
    check(ours(Tensor(turned).T), theirs(array))


def test_splits():
    array = numbers((7, 3))
    x = Tensor(array)
    for ours, theirs in (
        (x.split(3), np.split(array, [3, 6])),
        (x.split([1, 2, 4]), np.split(array, [1, 3])),
        (x.chunk(3), np.split(array, [3, 6])),
        (x.unbind(1), [array[:, i] for i in range(3)]),
    ):
        assert len(ours) == len(theirs)
        for part, expected in zip(ours, theirs):
            check(part, expected)


def test_shapes_of_others_and_names_of_old():
    x, other = Tensor(numbers((2, 6))), Tensor.zeros(3, 4)
    assert x.reshape_as(other).shape == x.view_as(other).shape == (3, 4)
    assert x.unsqueeze(0).expand_as(Tensor.zeros(5, 2, 6)).shape == (5, 2, 6)
    check(x.swapdims(0, 1), x.numpy().T)
    assert x.nelement() == x.numel() == 12
    assert x.view("int32").dtype.name == "int32"


def test_flatten_and_reshape_in_every_layout():
    for _, x, a in layouts(numbers((4, 6))):
        check(x.reshape(-1) if a.size else x.flatten(), a.reshape(-1))
        check(x.unsqueeze(-1), a[..., None])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x.reshape(5, 5), "reshape"),
        (lambda x: x.reshape(-1, 5), "does not divide"),
        (lambda x: x.reshape(-1, -1), "only one size"),
        (lambda x: x.permute(0, 0), "twice"),
        (lambda x: x.permute(0), "once"),
        (lambda x: x.transpose(0, 2), "axis 2 does not exist"),
        (lambda x: x.expand(5, 6), "expand"),
        (lambda x: x.unfold(0, 9), "do not fit"),
        (lambda x: x.split([1, 1]), "do not add up"),
        (lambda x: x.unsqueeze(4), "axis 4"),
        (lambda x: x.unsqueeze(0).t(), "at most 2"),
    ],
)
def test_wrong_calls_raise_at_once(call, text):
    with pytest.raises(ValueError, match=text):
        call(Tensor.ones(4, 6))


@pytest.mark.parametrize("size", [0, 1])
def test_windows_of_few_elements(size):
    shape = (1, 3, size) if size else (1, 3, 0)
    assert Tensor.ones(2, 3).unfold(0, size, 8).shape == shape
    assert Tensor(5.0).unfold(0, size, 1).tolist() == [5.0] * size


def test_sizes_and_bounds_may_be_sequences_tensors_and_integers_of_numpy():
    x = Tensor([1.0, 2.0, 3.0])
    assert Tensor.ones(6).view([2, 3]).shape == Tensor.ones(6).view([2, -1]).shape == (2, 3)
    assert Tensor.ones(1).view([]).shape == ()
    assert x.narrow(0, Tensor(1), Tensor(2)).tolist() == [2.0, 3.0]
    assert x.narrow(0, Tensor(-1), 1).tolist() == x.narrow(0, np.int64(2), 1).tolist() == [3.0]
    assert [part.tolist() for part in x.split(Tensor(2))] == [[1.0, 2.0], [3.0]]
    assert [part.tolist() for part in x.split([Tensor(1), 2])] == [[1.0], [2.0, 3.0]]
    assert [part.shape for part in Tensor([]).chunk(3)] == [(0,)] * 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x.expand(-1, 2, 3), "cannot be negative"),
        (lambda x: Tensor(1.0).expand(-1), "cannot be negative"),
        (lambda x: Tensor(1.0).narrow(0, 0, 1), "no axis"),
        (lambda x: Tensor(1.0).split(1), "no axis"),
        (lambda x: Tensor(1.0).chunk(1), "no axis"),
        (lambda x: Tensor(1.0).unbind(), "no axis"),
        (lambda x: Tensor(1.0).flatten(1), "does not exist"),
        (lambda x: Tensor(1.0).unfold(0, 2, 1), "do not fit"),
        (lambda x: x.unfold(0, -1, 1), "do not fit"),
        (lambda x: x.unfold(0, 2.0, 1), "is an integer"),
        (lambda x: x.split(1.5), "is an integer"),
        (lambda x: x.split([3, -1]), "cannot be negative"),
        (lambda x: x.chunk(1.5), "is an integer"),
        (lambda x: x.select(0, True), "is an integer"),
        (lambda x: x.unflatten(1, (-1, -1)), "worked out"),
        (lambda x: Tensor.zeros(0, 2).unflatten(0, (-1, 0)), "worked out"),
    ],
)
def test_what_no_view_is(call, text):
    with pytest.raises(ShapeError, match=text):
        call(Tensor.ones(2, 3))


def test_a_tensor_without_axes_is_its_transpose():
    x = Tensor(3.0)
    x.mT.add_(1)
    assert x.item() == 4.0
    with pytest.raises(ShapeError, match="2 axes"):
        Tensor([1.0]).mT  # noqa: B018
