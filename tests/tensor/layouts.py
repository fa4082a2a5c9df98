"""What tests of methods share: one array in many layouts, and comparison with NumPy."""

import numpy as np

from torpor import Tensor

# Relative error that a result may have, by format: a few units in the last place.
TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 3e-6, "float64": 1e-12}


def layouts(array):
    """(name, tensor, array) of views of one base: the tensor and NumPy see the same elements."""
    base = Tensor(array)
    yield "contiguous", base, array
    yield "transposed", base.T, array.T
    yield "sliced", base[1:, ::2], array[1:, ::2]
    yield "reversed", base[::-1, ::-2], array[::-1, ::-2]
    yield (
        "expanded",
        base[:1].expand(3, array.shape[1]),
        np.broadcast_to(array[:1], (3, array.shape[1])),
    )
    yield "empty", base[1:1], array[1:1]
    yield "0-d", base[0, 1], array[0, 1]


def check(tensor, expected, tolerance=None):
    """Shapes and formats are equal; values too, up to the format's tolerance for floats."""
    expected = np.asarray(expected)
    found = tensor.numpy()
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
    else:
        limit = tolerance or TOLERANCES[str(found.dtype)]
        wide = found.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=limit, atol=limit)


def numbers(shape, dtype="float32", low=-3.0, high=3.0, seed=0):
    """Random numbers of a format, none of them 0 for integers."""
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return generator.random(shape) < 0.5
    if np.dtype(dtype).kind in "iu":
        least = 1 if np.dtype(dtype).kind == "u" else -9
        values = generator.integers(least, 10, shape).astype(dtype)
        return np.where(values == 0, np.dtype(dtype).type(7), values)
    return generator.uniform(low, high, shape).astype(dtype)
