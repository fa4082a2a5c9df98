"""What is known by a name is computed of other memory."""

import numpy as np

from torpor import Tensor
from torpor.pipeline import learn, realize, recall
from torpor.pipeline.report import measuring


def test_known_values_are_computed_of_other_memory_unless_watched() -> None:
    x, y = (Tensor(np.full(5, n, np.float32)).realize() for n in (1, 2))
    first, second = x._storage.base.arg, y._storage.base.arg
    roots = [((x * 3)._current(), "CPU")]
    assert recall("three times", [first]) is None
    learn("three times", [first], roots)
    assert recall("three times", [second]) is None  # no recipe yet
    realize(roots)
    (found,) = recall("three times", [second]) or (None,)
    assert found is not None
    assert np.frombuffer(found.as_buffer(), np.float32).tolist() == [6.0] * 5
    with measuring():
        assert recall("three times", [second]) is None
