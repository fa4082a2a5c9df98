"""Numbers of 4 bits: two in a byte, kept and cast, not computed with."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import torpor
from torpor import Tensor, dtypes, lower

NUMBERS = np.array([[1, -2, 7], [-8, 3, 0], [5, 6, -1]])


def packed(device="CPU"):
    return Tensor(NUMBERS, device=device).cast(dtypes.int4)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_two_numbers_are_in_a_byte(device):
    x = packed(device)
    assert x.dtype is dtypes.int4
    assert x.nbytes == 5
    flat = NUMBERS.ravel() & 15
    low, high = flat[::2], np.append(flat[1::2], 0)
    assert x.view(9)[:8].view(dtypes.uint8).tolist() == list(low[:4] | high[:4] << 4)
    assert x._storage.base.dtype is dtypes.uint8
    assert x.tolist() == NUMBERS.tolist()
    assert x.view(dtypes.uint4).tolist() == (NUMBERS & 15).tolist()
    assert (x.cast("float32") / 2).tolist() == (NUMBERS / 2).tolist()


@pytest.mark.parametrize("target", ["c", "cuda", "opencl", "metal", "wgsl"])
def test_no_target_knows_of_them(target):
    (program,) = lower(packed().cast("float32") * 2, target=target)
    assert "4_t" not in program.source.replace("64_t", "")


def test_casts_hold_floats_at_the_ends_and_drop_high_bits_of_integers():
    floats, whole = Tensor([100.0, -100, 3.7, -3.7, float("nan")]), Tensor([100, -100, 17, 9])
    assert floats.cast("int4").tolist() == [7, -8, 3, -3, 0]
    assert floats.cast("uint4").tolist() == [15, 0, 3, 0, 0]
    assert whole.cast("int4").tolist() == [4, -4, 1, -7]
    assert whole.cast("uint4").tolist() == [4, 12, 1, 9]
    assert Tensor([True, False]).cast("uint4").cast("bool").tolist() == [True, False]
    assert (torpor.iinfo("int4").min, torpor.iinfo(dtypes.uint4).max) == (-8, 15)


def test_numpy_has_them_through_ml_dtypes():
    array = NUMBERS.astype(ml_dtypes.int4)
    x = Tensor(array)
    assert x.dtype is dtypes.int4
    assert x.numpy().dtype == array.dtype
    assert (x.numpy() == array).all()
    assert repr(Tensor([1, 15], dtype="uint4")) == "tensor([1, 15], dtype=uint4)"
    with pytest.raises(TypeError, match=r"9 does not fit into dtypes\.int4"):
        Tensor([9], dtype="int4")


def test_views_are_views_and_copies_are_none():
    x = packed()
    assert x.T[0].tolist() == [1, -8, 5]
    assert x[1:, ::2].tolist() == [[-8, 0], [5, -1]]
    others = [x.clone(), x.contiguous(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]
    others.append(x.to("PYTHON"))
    x[0] = Tensor([4, 4, 4])
    x.T[2, 2] = -4
    assert x.tolist() == [[4, 4, 4], [-8, 3, 0], [5, 6, -4]]
    assert [one.tolist() for one in others] == [NUMBERS.tolist()] * 5
    x.copy_(Tensor(NUMBERS)).T[1].fill_(2)
    assert x.tolist() == [[1, 2, 7], [-8, 2, 0], [5, 2, -1]]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x, lambda x: x * 2, lambda x: x / 2, lambda x: -x, lambda x: x == x,
        lambda x: x + Tensor([1.0]), lambda x: x.exp(), lambda x: x.sum(), lambda x: x.max(),
        lambda x: x @ x, lambda x: x.sort(), lambda x: x[Tensor([0])],
        lambda x: Tensor.zeros(3, dtype=x.dtype), lambda x: torpor.promote_types(x.dtype, "int8"),
    ],
)  # fmt: skip
def test_nothing_is_computed_with_them(function):
    with pytest.raises(TypeError, match=r"cast.* int8|int8.* cast"):
        function(packed())


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_they_are_joined_and_turned_around(dtype):
    x, array = packed().cast(dtype), NUMBERS & 15 if dtype == "uint4" else NUMBERS
    known = [
        (Tensor.cat([x, x[:1]]), np.concatenate([array, array[:1]])),
        (Tensor.stack([x, x], dim=1), np.stack([array, array], 1)),
        (x.flip(0, 1), array[::-1, ::-1]), (x.roll(1, 0), np.roll(array, 1, 0)),
    ]  # fmt: skip
    for made, expected in known:
        assert made.dtype.name == dtype and made.tolist() == expected.tolist()


def test_a_product_unpacks_as_it_goes_also_in_a_jit():
    @torpor.jit
    def step(w, v):
        return w.cast("float32") @ v, (v * 2).cast("int4")

    w = packed().realize()
    assert len((w.cast("float32") @ Tensor.ones(3)).schedule()) == 1
    for number in range(3):
        out, kept = step(w, Tensor.full((3,), float(number)))
        assert out.tolist() == (NUMBERS.sum(1) * number).tolist()
        assert kept.tolist() == [min(2 * number, 7)] * 3
