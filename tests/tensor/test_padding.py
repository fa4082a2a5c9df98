import numpy as np
import pytest

from tests.tensor.layouts import check, numbers
from torpor import Tensor

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


def test_padding_that_does_not_fit_raises_at_once():
    x = Tensor.ones(4, 6)
    with pytest.raises(ValueError, match="does not fit 2 axes"):
        x.pad((1, 2, 3))
    with pytest.raises(ValueError, match="too much for an axis of 6"):
        x.pad((6, 0), mode="reflect")
    with pytest.raises(ValueError, match="at least 2 axes"):
        x[0].tril()
