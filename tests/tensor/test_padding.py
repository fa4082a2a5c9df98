import numpy as np
import pytest

from tests.tensor.layouts import check, numbers
from torpor import Tensor, Variable
from torpor.base.errors import ValueRangeError

CASES = {
    "pad": (lambda x: x.pad((1, 2, 3, 0)), lambda a: np.pad(a, ((3, 0), (1, 2)))),
    "pad pairs": (
        lambda x: x.pad((None, (1, 2)), value=7.0),
        lambda a: np.pad(a, ((0, 0), (1, 2)), constant_values=7),
    ),
    "pad negative": (
        lambda x: x.pad((-1, 2), value=-1.0),
        lambda a: np.pad(a[:, 1:], ((0, 0), (0, 2)), constant_values=-1),
    ),
    "pad reflect": (
        lambda x: x.pad((2, 1), mode="reflect"),
        lambda a: np.pad(a, ((0, 0), (2, 1)), mode="reflect"),
    ),
    "pad replicate": (
        lambda x: x.pad((2, 1), mode="replicate"),
        lambda a: np.pad(a, ((0, 0), (2, 1)), mode="edge"),
    ),
    "pad circular": (
        lambda x: x.pad((2, 1), mode="circular"),
        lambda a: np.pad(a, ((0, 0), (2, 1)), mode="wrap"),
    ),
    "tril": (lambda x: x.tril(), np.tril),
    "triu": (lambda x: x.triu(-1), lambda a: np.triu(a, -1)),
}


@pytest.mark.parametrize("name", CASES)
def test_paddings_and_triangles(name):
    ours, theirs = CASES[name]
    array = numbers((4, 6))
    check(ours(Tensor(array)), theirs(array))
    turned = np.ascontiguousarray(array.T)  # the same elements, in memory the other way round
    check(ours(Tensor(turned).T), theirs(array))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_negative_padding_cuts(mode):
    """Mirrored and repeated elements are those of the whole axis, the opposite end is that of what
    is left: as PyTorch has it.
    """
    array = np.arange(6.0)
    for before in (-3, -1, 0, 4):
        for after in (-2, 0, 3):
            place = np.arange(-before, 6 + after)
            if mode == "reflect":
                place = np.abs(place)
                place = np.where(place > 5, 10 - place, place)
            elif mode == "replicate":
                place = place.clip(0, 5)
            else:
                left = np.arange(max(0, -before), 6 - max(0, -after))
                if max(before, after) > len(left):
                    with pytest.raises(ValueError, match="too much"):
                        Tensor(array).pad((before, after), mode)
                    continue
                place = np.pad(left, (max(0, before), max(0, after)), mode="wrap")
            check(Tensor(array).pad((before, after), mode), array[place])


def test_negative_padding_of_several_axes():
    array = numbers((5, 6, 4))
    found = Tensor(array).pad((-1, 2, 1, -2), mode="replicate")
    check(found, np.pad(array, ((0, 0), (1, 0), (0, 2)), mode="edge")[:, :-2, 1:])
    with pytest.raises(ValueError, match="shrink"):
        Tensor(array).pad((-3, -2), mode="replicate")


def test_padding_beside_an_empty_axis():
    assert Tensor.ones(0, 3).pad((1, 1), mode="reflect").shape == (0, 5)
    with pytest.raises(ValueError, match="too much"):
        Tensor.ones(2, 0).pad((1, 1), mode="reflect")


def test_bound_variables():
    rows = Variable("rows", 1, 4).bind(3)
    array = numbers((9, 9))
    check(Tensor(array).tril(rows), np.tril(array, 3))
    check(Tensor(array).triu(rows), np.triu(array, 3))
    check(Tensor(array[0]).pad((rows, -2), mode="replicate").sum(),
          np.pad(array[0], (3, 0), mode="edge")[:-2].sum())  # fmt: skip


def test_padding_that_does_not_fit_raises_at_once():
    x = Tensor.ones(4, 6)
    with pytest.raises(ValueError, match="does not fit 2 axes"):
        x.pad((1, 2, 3))
    with pytest.raises(ValueError, match="too much for an axis of 6"):
        x.pad((6, 0), mode="reflect")
    with pytest.raises(ValueError, match="at least 2 axes"):
        x[0].tril()


def test_amounts_may_be_0d_tensors_and_are_whole():
    check(Tensor([1, 2]).pad((Tensor(1), Tensor(0))), np.array([0, 1, 2]))
    for wrong in ((1.5, 1), [(1.5, 1)], 1.5):
        with pytest.raises(ValueError, match="is an integer"):
            Tensor([1, 2]).pad(wrong)


def test_values_put_around_have_the_format():
    check(Tensor([1, 2]).pad((1, 1), value=2.5), np.array([2, 1, 2, 2]))
    check(Tensor([1, 2]).pad((1, 0), value=-2.5), np.array([-2, 1, 2]))
    check(Tensor([True, False]).pad((1, 0), value=2.5), np.array([True, True, False]))
    with pytest.raises(ValueRangeError, match="int64 has no nan"):
        Tensor([1, 2]).pad((1, 0), value=float("nan"))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_copies_take_no_value(mode):
    with pytest.raises(ValueRangeError, match="takes no value"):
        Tensor([1.0, 2.0]).pad((1, 1), mode=mode, value=3)
    assert Tensor([1.0, 2.0]).pad((1, 1), mode=mode, value=0).shape == (4,)
