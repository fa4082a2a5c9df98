"""What a step may do, and what it leaves behind: nothing."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, jit


# --- random numbers -------------------------------------------------------------------------------
@pytest.mark.parametrize("jitted", [False, True])
def test_random_numbers_are_others_at_each_step_and_call(jitted):
    def run(x):
        return torpor.scan(lambda c, _: (c, c + Tensor.rand(4)), x, length=5)[1]

    call = jit(run) if jitted else run
    torpor.manual_seed(3)
    drawn = np.array([call(Tensor.zeros(4)).numpy() for _ in range(3)])
    assert len(np.unique(drawn)) == drawn.size
    torpor.manual_seed(3)
    again = np.array([call(Tensor.zeros(4)).numpy() for _ in range(3)])
    np.testing.assert_array_equal(drawn, again)


def test_steps_draw_what_calls_would():
    torpor.manual_seed(5)
    _, inside = torpor.scan(lambda c, _: (c, Tensor.rand(3)), 0, length=4)
    torpor.manual_seed(5)
    assert inside.tolist() == [Tensor.rand(3).tolist() for _ in range(4)]


# --- errors ---------------------------------------------------------------------------------------
def test_a_carry_that_changes_its_kind_is_named():
    with pytest.raises(TypeError, match=r"carry\['a'\] is float32 \(2,\) before .* float64"):
        torpor.scan(lambda c, _: ({"a": c["a"].double()}, None), {"a": Tensor.ones(2)}, length=2)
    with pytest.raises(ValueError, match=r"carry\[1\] is int64 \(\) before .* int64 \(1,\) after"):
        torpor.scan(lambda c, _: ((c[0], c[1].reshape(1)), None), (1, 2), length=2)
    with pytest.raises(ValueError, match="before a step and"):
        torpor.scan(lambda c, _: ((c, c), None), 1, length=2)


def test_rows_of_different_lengths_are_an_error():
    with pytest.raises(ValueError, match=r"xs\[1\] has 3 steps, not 2"):
        torpor.scan(lambda c, x: (c, x), 0, (Tensor([1, 2]), Tensor([1, 2, 3])))
    with pytest.raises(ValueError, match="length"):
        torpor.scan(lambda c, x: (c, x), 0)


def test_a_step_cannot_read_what_depends_on_it():
    with pytest.raises(ValueError, match="cannot be read while"):
        torpor.scan(lambda c, x: (c + 1 if c > 0 else c, None), 0, length=2)


def test_a_step_leaves_nothing_behind():
    total = Tensor([0.0])
    with pytest.raises(RuntimeError, match="cannot write to a tensor from outside"):
        torpor.scan(lambda c, x: (c, total.add_(x)), 0, Tensor([1.0, 2.0]))
    assert total.tolist() == [0.0]
    kept = []
    torpor.scan(lambda c, x: (c, kept.append(c)), 0, length=2)
    with pytest.raises(ValueError, match="step"):
        kept[0].numpy()


def test_writes_to_a_steps_own_tensors():
    def step(c, x):
        c += x
        c[0] = 0
        return c, c

    end, ys = torpor.scan(step, Tensor([1, 1]), Tensor([1, 2, 3]))
    assert ys.tolist() == [[0, 2], [0, 4], [0, 7]]
    assert end.tolist() == [0, 7]


@pytest.mark.parametrize("jitted", [False, True])
def test_checks_in_a_step_raise_when_it_runs(jitted):
    table = Tensor([10, 20, 30])

    def run(indices, divisors):
        return torpor.scan(lambda c, x: (c + table[x[0]] // x[1], c), 0, (indices, divisors))[0]

    call = jit(run) if jitted else run
    good = Tensor([0, 1, 2, 0]), Tensor([1, 2, 3, 4])
    for _ in range(2):
        assert call(*good).item() == 10 + 10 + 10 + 2
    with pytest.raises(IndexError, match="out of bounds"):
        call(Tensor([0, 1, 3, 0]), good[1]).item()
    with pytest.raises(ZeroDivisionError):
        call(good[0], Tensor([1, 2, 0, 4])).item()
    assert call(*good).item() == 32
