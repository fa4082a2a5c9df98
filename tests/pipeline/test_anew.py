"""The warning at a line that compiles at each call."""

import warnings

import numpy as np
import pytest

from torpor import Context, RecompileWarning, Tensor, jit
from torpor.pipeline import anew, pieces


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    for name in ("_kernels", "_rows"):
        monkeypatch.setattr(anew, name, {})
    monkeypatch.setattr(anew, "_warned", set())
    for name in ("_fresh", "_kinds"):
        monkeypatch.setattr(pieces, name, {})
    with Context(CACHE=0), warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


def ones(size):
    return Tensor(np.ones(size, np.float32))


def sizes_of(step):
    """More sizes that grow at paces of their own than kernels take as numbers."""
    return [601 + pow(base, step, 31) for base in range(3, 12)]


def total_of(step):
    first, *others = [ones(size).realize().sum() for size in sizes_of(step)]
    for other in others:
        first = first + other
    return first


def test_numbers_that_change_at_each_call_are_told_of_once():
    with warnings.catch_warnings(record=True) as told:
        for step in range(1, 8):
            assert total_of(step).item() == sum(sizes_of(step))
    (warning,) = told
    assert warning.filename == __file__
    assert "(total_of(step).item())" in str(warning.message)
    assert "size " in str(warning.message)
    assert warning.category is RecompileWarning


def test_few_shapes_are_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            for number in (1.5, 2.5, 3.5, 4.5):
                (ones(607) * number).sum().item()


def test_a_row_that_is_broken_begins_anew():
    def run(number):
        return (ones(613) * number).sum().item()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(0.5)
        for number in range(1, 12):
            run(number + 0.5)
            run(0.5)


def test_a_helper_that_many_use_is_no_line_that_compiles_at_each_call():
    def value(tensor):
        return tensor.numpy()

    x = ones(617).realize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (x + 1, x * 2, x - 3, x.exp(), x.sin(), x.sum(), x.max(), x / 3, x.sqrt()):
            value(made)


def test_a_jitted_function_that_is_traced_at_each_call_is_told_of():
    global times
    times = 0

    @jit
    def grow(x):
        return x * times

    with warnings.catch_warnings(record=True) as told:
        for times in range(12):
            assert grow(ones(3)).tolist() == [times] * 3
    assert len([one for one in told if "grow is traced at each call" in str(one.message)]) == 1


def test_numbers_that_have_become_inputs_are_nothing_to_tell_of():
    x = ones(619).realize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(12):
            (x * (step + 0.75)).sum().item()


def test_a_warning_that_is_an_error_leaves_everything_as_it_was():
    def run():
        for step in range(8, 0, -1):
            made.append(total_of(step) * 2)
            made[-1].realize()

    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RecompileWarning):
            run()
        assert made[-1].item() == 2 * sum(sizes_of(9 - len(made)))
