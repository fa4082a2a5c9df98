"""One view: canonical form, expressions, masks."""

import numpy as np
import pytest

from tests.view.oracle import offsets
from torpor.ir import Variable
from torpor.view import View, merge_dims


def test_equal_walks_are_equal_views():
    assert View.create((1, 4), (7, 1)) == View.create((1, 4))
    assert View.create((2, 2), mask=((0, 2), (0, 2))) == View.create((2, 2))
    assert View.create((2, 2)).contiguous
    assert not View.create((2, 2), offset=1).contiguous


def test_expressions_are_canonical():
    position, valid = View.create((2, 2)).to_indexed_uops()
    assert (position.render(), valid.render()) == ("((ridx0*2)+ridx1)", "True")
    assert View.create((4, 2), (0, 1)).to_indexed_uops()[0].render() == "ridx1"


def test_masks_decide_beyond_the_shape():
    view = View.create((3, 3), mask=((1, 2), (0, 2)))
    x, y = Variable("x", 0, 100), Variable("y", 0, 100)
    position, valid = view.to_indexed_uops([x, y])
    for a, b in np.ndindex(5, 5):
        env = {"x": a, "y": b, "__builtins__": {}}
        assert bool(eval(valid.render(), env)) == (a == 1 and b < 2)
        if a == 1 and b < 2:
            assert eval(position.render(), env) == 3 + b


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((2, 2, 2), (4, 2, 1), ((8, 1, 8),)),
        ((2, 2, 2), (0, 0, 1), ((4, 0, 0), (2, 1, 2))),
        ((2, 3), (3, 1), ((6, 1, 6),)),
        ((2, 3), (4, 1), ((2, 4, 2), (3, 1, 3))),
        ((2, 1, 3), (3, 9, 1), ((6, 1, 6),)),
        ((2, 3), (-3, -1), ((6, -1, 6),)),
    ],
)
def test_merged_dimensions(shape, strides, expected):
    assert merge_dims(shape, strides) == expected


def test_a_mask_keeps_dimensions_apart():
    assert len(merge_dims((2, 4), (4, 1), ((0, 2), (1, 4)))) == 2
    assert len(merge_dims((2, 4), (4, 1), ((0, 1), (0, 4)))) == 1


def test_minify_walks_the_same():
    view = View.create((2, 3, 4), (12, 4, 1))
    assert view.minify().shape == (24,)
    broadcast = View.create((2, 3, 4), (0, 4, 1))
    assert broadcast.minify().shape == (2, 12)
    np.testing.assert_array_equal(offsets(broadcast.minify()).reshape(2, 3, 4), offsets(broadcast))


def test_reshape_says_when_one_view_cannot():
    assert View.create((3, 2)).permute((1, 0)).reshape((3, 2)) is None
    assert View.create((3, 2)).reshape((6,)) == View.create((6,))


def test_a_mask_follows_a_shear_where_it_stays_a_box():
    window = View.create((4, 1)).expand((4, 3)).pad(((1, 1), (0, 0)))
    assert window.shear(0, 1, 4, 1, 1, 0) is None  # the valid part is a slanted strip
    apart = window.shear(0, 1, 3, 2, 0, 0)
    assert apart is not None
    expected = offsets(window)[0:6:2]
    np.testing.assert_array_equal(offsets(apart), expected)
    free = View.create((6, 1)).expand((6, 3)).shear(0, 1, 4, 1, 1, 0)
    assert free == View.create((4, 3), (1, 1))
