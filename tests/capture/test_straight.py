"""The straight way gives what the general way gives, and leaves alone what is not its case."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import OutOfBoundsError
from torpor.capture.trace import MISS
from torpor.pipeline.report import measuring

RUNS = 12  # more than kernels are tried in before the plan is native code


def computed(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32)).realize()


def straight_of(jitted: Any) -> Any:
    ((straight, _),) = jitted._straights
    return straight


@torpor.jit
def into(outputs: Any, x: Tensor, factor: float) -> Any:
    outputs[0].assign((x * factor).softmax(0))
    return outputs


def test_a_result_and_a_change() -> None:
    output = computed(0, 0, 0)
    for i in range(RUNS):
        x = computed(1, 2, i)
        assert into((output,), x, 0.5)[0] is output
        powers = np.exp(0.5 * np.array([1, 2, i], np.float64))
        np.testing.assert_allclose(output.numpy(), powers / powers.sum(), rtol=1e-6)
    result = straight_of(into)(((output,), x, 2.0), {})
    assert result is not MISS
    assert result[0] is output


def test_held_results_stay() -> None:
    double = torpor.jit(lambda x: x * 2)
    held = [double(computed(i, 1)) for i in range(RUNS)]
    views = [double(computed(i, 3))[1:] for i in range(RUNS)]
    arrays = [double(computed(i, 5)).numpy(copy=False) for i in range(RUNS)]
    assert [x.tolist() for x in held] == [[2 * i, 2] for i in range(RUNS)]
    assert [x.tolist() for x in views] == [[6]] * RUNS
    assert [x.tolist() for x in arrays] == [[2 * i, 10] for i in range(RUNS)]
    assert straight_of(double)((computed(1),), {}) is MISS  # another shape


def test_what_is_not_its_case() -> None:
    double = torpor.jit(lambda x: x * 2)
    x = computed(1, 2)
    for _ in range(RUNS):
        double(x)
    straight = straight_of(double)
    assert straight((x,), {}).tolist() == [2, 4]
    with measuring():
        assert straight((x,), {}) is MISS
    for setting in ({"DEBUG": 2}, {"NOOPT": 1}):
        with torpor.Context(**setting):
            assert straight((x,), {}) is MISS
    with torpor.Context(SEED=1):  # on which it does not depend
        assert straight((x,), {}).tolist() == [2, 4]
    assert straight((x + 1,), {}) is MISS
    assert straight((x[:1],), {}) is MISS
    assert straight((x,), {"more": 1}) is MISS


def test_another_thread_in_the_way() -> None:
    output, x = computed(0, 0), computed(1, 2)
    add = torpor.jit(lambda output, x: output.assign(output + x))
    for _ in range(RUNS):
        add(output, x)
    straight, found = straight_of(add), []
    with add._lock:
        other = threading.Thread(target=lambda: found.append(straight((output, x), {})))
        other.start()
        other.join()
    assert found == [MISS]
    assert output.tolist() == [RUNS, 2 * RUNS]


def test_a_failed_check_changes_nothing() -> None:
    output, x = computed(0), computed(1, 2, 3)
    pick = torpor.jit(lambda output, x, index: output.assign(x[index]))
    good, bad = (Tensor([i]).realize() for i in (2, 3))
    for _ in range(RUNS):
        pick(output, x, good)
    for way in (pick, lambda *tensors: straight_of(pick)(tensors, {})):
        with pytest.raises(OutOfBoundsError):
            way(output, x, bad)
        assert output.tolist() == [3]
    assert pick(output, x, good).tolist() == [3]
