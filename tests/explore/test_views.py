"""What `/views` shows."""

import numpy as np
import pytest

from torpor.explore.views import compute_views
from torpor.ir import UOp
from torpor.view import ShapeTracker

MOVED = "ShapeTracker.from_shape((3, 2)).permute((1, 0)).reshape((3, 2))"


def views(text):
    found = compute_views({"text": text})
    assert "error" not in found, found
    return found


def test_the_documents_example():
    found = views(MOVED)
    assert found["cells"] == [0, 2, 4, 1, 3, 5]
    assert found["index"] == "(((((ridx0*2)+ridx1)%3)*2)+(((ridx0*2)+ridx1)//3))"
    assert found["valid"] == "True"
    assert [step["text"] for step in found["steps"]] == [
        "ShapeTracker.from_shape((3, 2))", ".permute((1, 0))", ".reshape((3, 2))",
    ]  # fmt: skip
    assert [view["shape"] for view in found["views"]] == [(2, 3), (3, 2)]


def test_a_tracker_is_read_back_from_its_repr():
    tracker = ShapeTracker.from_shape((3, 2)).permute((1, 0)).reshape((3, 2)).pad(((1, 1), (0, 2)))
    found = views(repr(tracker))
    assert found["repr"] == repr(tracker)
    wanted = np.pad(np.array([[0, 2], [4, 1], [3, 5]]), ((1, 1), (0, 2)), constant_values=-1)
    shown = np.where(found["valids"], found["cells"], -1)
    assert shown.tolist() == wanted.ravel().tolist()


def test_sizes_that_are_known_at_launch_only_are_shown_at_their_largest():
    n = UOp.variable("n", 1, 4)
    tracker = ShapeTracker.from_shape((n * 2, 3)).permute((1, 0)).pad(((0, 0), (1, n)))
    found = views(repr(tracker))
    assert found["repr"] == repr(tracker)
    assert found["at"] == {"n": 4}
    assert ["n", 1, 4] in found["variables"]
    wanted = np.pad(np.arange(24).reshape(8, 3).T, ((0, 0), (1, 4)), constant_values=-1)
    assert found["shape"] == list(wanted.shape)
    shown = np.where(found["valids"], found["cells"], -1)
    assert shown.tolist() == wanted.ravel().tolist()


def test_trackers_of_many_axes_are_shown():
    found = views(repr(ShapeTracker.from_shape((2,) * 12).permute(tuple(range(11, -1, -1)))))
    assert found["cells"] == np.arange(4096).reshape((2,) * 12).T.ravel().tolist()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("from_shape((4,)).flip(0)", [3, 2, 1, 0]),
        ("from_shape((2, 3)).shrink(((0, 2), (1, 3)))", [1, 2, 4, 5]),
        ("from_shape((2, 1)).expand(2, 3)", [0, 0, 0, 1, 1, 1]),
        ("View(shape=(2, 2), strides=(0, 1), offset=3)", [3, 4, 3, 4]),
        ("View.create((2, 2))", [0, 1, 2, 3]),
        ("from_shape((4,)).pad((1, 0))", [None, 0, 1, 2, 3]),
        ("from_shape(())", [0]),
        ("from_shape((0, 3))", []),
    ],
)
def test_movements(text, wanted):
    found = views(text)
    pairs = zip(found["cells"], found["valids"], strict=True)
    assert [cell if valid else None for cell, valid in pairs] == wanted


def test_of_many_elements_the_first_are_shown():
    found = views("from_shape((100000, 100000))")
    assert found["cells"] == list(range(len(found["cells"])))
    assert len(found["cells"]) + found["left_out"] == 10**10
    assert views("from_shape((1000000000000,))")["cells"][:3] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0),
        ("7", 0),
        ("from_shape((3, 2)).permute((0, 2))", 19),
        ("from_shape((3, 2)).reshape((4,))", 19),
        ("from_shape((3, 2)).reshape((-3, -2))", 19),
        ("from_shape((3, 2)).spin((4,))", 19),
        ("from_shape((3, 2)).pad(((1,),))", 19),
        ("from_shape((3, 2)).pad(((-1, 0), (0, 0)))", 19),
        ("from_shape((3, 2)).shrink(((0, 9), (0, 1)))", 19),
        ("from_shape((3, 2)).shape", 24),
        (f"from_shape(({'1, ' * 17}))", 0),
        ("from_shape((%0 = Ops.VARIABLE index = ('n', 4, 1),))", 12),
        ("from_shape((%1 = Ops.ADD index (%0, %0),))", 12),
        ("from_shape((%0 = Ops.CONST index = 0%1 = Ops.MOD index (%0, %0),))", 12),
        ("from_shape((%0 = Ops.LOAD index,))", 12),
        ("from_shape((1099511627776, 1099511627776))", 0),
        ("from_shape((2,))" + ".flip(0)" * 30, 201),
        ("View(strides=(2, 1))", 0),
        ("View(shape=(2, 1), mask=((0, 3), (0, 1)))", 0),
        ("View(shape=(2, 1), strides=(2,))", 0),
        ("View(shape=(2, True))", 0),
        ("View(shape=(2,), sizes=(2,))", 0),
        ("ShapeTracker(views=())", 0),
        ("ShapeTracker(views=(3,))", 0),
        ("open((1,))", 0),
    ],
)
def test_faults_say_where(text, offset):
    found = compute_views({"text": text})
    assert found["error"]
    assert found["offset"] == offset


def test_a_request_without_a_text_is_refused():
    assert compute_views({})["error"]
    assert compute_views({"text": [1]})["error"]
