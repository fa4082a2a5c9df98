import ml_dtypes
import numpy as np
import pytest

import torpor
from torpor import Tensor, dtypes
from torpor.base.dtypes import SCALARS
from torpor.base.errors import DTypeError

FLOATS = [d for d in SCALARS if d.is_float]
INTEGERS = [d for d in SCALARS if d.is_int]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_limits_of_floats(dtype):
    found, known = torpor.finfo(dtype), ml_dtypes.finfo(dtype.numpy)
    assert (found.bits, found.dtype) == (dtype.bits, dtype)
    assert (found.max, found.min) == (float(known.max), float(known.min))
    assert found.eps == float(known.eps)
    assert found.tiny == found.smallest_normal == float(known.smallest_normal)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_limits_of_integers(dtype):
    found, known = torpor.iinfo(dtype), np.iinfo(dtype.numpy)
    assert (found.bits, found.min, found.max) == (known.bits, known.min, known.max)


def test_limits_of_what_is_given():
    assert torpor.finfo(Tensor([1j])).max == torpor.finfo().max == torpor.finfo("float32").max
    assert torpor.iinfo(Tensor([1])).max == 2**63 - 1
    assert torpor.finfo(torpor.float32).resolution == 1e-6
    with pytest.raises(DTypeError, match="use iinfo"):
        torpor.finfo(dtypes.int8)
    with pytest.raises(DTypeError, match="iinfo is for integers"):
        torpor.iinfo(dtypes.bool)


def test_promotion():
    assert torpor.promote_types("int8", "uint8") is dtypes.int16
    assert torpor.promote_types(dtypes.float16, dtypes.int64) is dtypes.float16
    assert torpor.result_type(Tensor([1]), 1.0) is dtypes.float32
    assert torpor.result_type(Tensor([1], dtype="int8"), 3, True) is dtypes.int8
    assert torpor.result_type(dtypes.float16, 1j) is dtypes.complex64
    assert torpor.result_type(1, 2.0) is torpor.get_default_dtype() is dtypes.float32
    with pytest.raises(DTypeError, match="needs"):
        torpor.result_type()


def test_what_can_be_put_where():
    """As PyTorch: within a kind, and to later ones."""
    kinds = {"bool": 0, "int8": 1, "int64": 1, "uint8": 1, "float16": 2, "float64": 2}
    kinds["complex64"] = 3
    for one, before in kinds.items():
        for other, after in kinds.items():
            assert torpor.can_cast(one, other) == (before <= after), (one, other)


def test_parts_and_constants():
    z = Tensor([1 + 2j])
    torpor.imag(z).fill_(5)
    assert z.tolist() == [1 + 5j] and torpor.real(z).tolist() == [1]
    assert torpor.is_tensor(z) and not torpor.is_tensor(np.zeros(1))
    assert isinstance(z.shape, torpor.Size) and isinstance(z.dtype, torpor.dtype)
    assert Tensor([1.0])[torpor.newaxis].shape == (1, 1)
    assert np.isnan(torpor.nan) and torpor.inf > torpor.pi > torpor.e
    assert torpor.cosine_similarity(torpor.ones(1, 2), torpor.ones(1, 2)).item() == pytest.approx(1)
