"""Python looks for cycles again after a compilation, if it did before, however that ends."""

import gc
from itertools import count

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.collecting import FIRST, uncollected


@pytest.fixture
def collecting():
    """Whether it does is put back."""
    was = gc.isenabled()
    yield gc.enable()
    (gc.enable if was else gc.disable)()


def test_no_cycles_are_looked_for_while_a_kernel_is_compiled(collecting):
    found = []
    gc.callbacks.append(lambda when, what: found.append(when))
    try:
        with uncollected():
            found.clear()
            cycles = [[] for _ in range(10_000)]
            for one in cycles:
                one.append(one)
            assert not found
    finally:
        gc.callbacks.pop()
    assert gc.isenabled()


def test_it_goes_on_after_an_error_and_stays_off_where_it_was(collecting):
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()


def test_programs_find_it_as_they_left_it(collecting):
    x = Tensor(np.arange(37.0))
    assert (x * 3.25 + 1).sum().item() == float((np.arange(37.0) * 3.25 + 1).sum())
    assert gc.isenabled()
    gc.disable()
    assert (x * 4.25 + 1).sum().item() == float((np.arange(37.0) * 4.25 + 1).sum())
    assert not gc.isenabled()


def test_what_a_compilation_leaves_is_looked_through_in_no_later_pass(collecting, monkeypatch):
    monkeypatch.setattr("torpor.base.collecting._times", count())
    with uncollected():
        kept = [[] for _ in range(10_000)]
    assert any(kept[-1] is one for one in gc.get_objects(generation=2))
    monkeypatch.setattr("torpor.base.collecting._times", count(FIRST))
    with uncollected():
        more = [[] for _ in range(100)]
    assert not any(more[-1] is one for one in gc.get_objects(generation=2))


def test_what_a_program_has_frozen_stays_so(collecting):
    gc.collect()
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with uncollected():
            pass
        assert gc.get_freeze_count() == before
    finally:
        gc.unfreeze()
