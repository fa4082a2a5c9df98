"""Small floats through DLPack, which NumPy does not take, beside PyTorch's."""

import numpy as np
import pytest

import torpor
from torpor import Tensor

torch = pytest.importorskip("torch")
NUMBERS = np.float32([[0.5, -1.5, 2.0], [3.0, -0.25, 0.0]])


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_memory_is_shared_both_ways(name):
    theirs = torch.tensor(NUMBERS).to(getattr(torch, name))
    mine = torpor.from_dlpack(theirs)
    assert mine.dtype == getattr(torpor, name)
    assert mine.float().tolist() == NUMBERS.tolist()
    assert torpor.from_dlpack(theirs.t()).float().tolist() == NUMBERS.T.tolist()
    theirs[0, 0] = 4.0
    assert mine.float()[0, 0].item() == 4
    given = Tensor(NUMBERS).cast(name).realize()
    back = torch.from_dlpack(given)
    assert back.dtype == theirs.dtype and back.float().tolist() == NUMBERS.tolist()
    back[0, 0] = 8.0
    assert given.float()[0, 0].item() == 8


def test_what_has_no_such_numbers_says_so():
    with pytest.raises(Exception, match="dtype"):
        torpor.from_dlpack(torch.zeros(2).to(torch.float8_e4m3fnuz))
