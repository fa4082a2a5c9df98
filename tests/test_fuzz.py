"""Random programs of many kinds against NumPy, by threads and jitted, at the end of memory.

What a program gives by one thread it gives by two, and jitted, to the last bit. Its operands and
results lie right before pages that nobody may touch.
"""

import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torpor
from tests.guarded import guarded_array, guarded_block
from torpor import Context, Tensor
from torpor.capture import successor
from torpor.device import cpu
from torpor.device.memory import HostAllocator

FUZZ = settings(
    deadline=None,
    derandomize=True,
    max_examples=5,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
ROOT = Path(__file__).resolve().parent.parent
SEEDS = st.integers(0, 999)
TOLERANCES = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}  # relative, of the whole result
SPARE = 50  # times as much for a single element


class Case(NamedTuple):
    """A function of tensors, its operands, and its results by NumPy."""

    function: Any
    arrays: list
    expected: list

    def __repr__(self):
        return f"Case of {[(array.dtype.name, array.shape) for array in self.arrays]}"


@pytest.fixture(autouse=True)
def guarded_and_shared(monkeypatch):
    """All memory ends at a page that is not there, threads share the smallest kernel, and the
    smallest value is written over in place.
    """
    monkeypatch.setattr(HostAllocator, "allocate", guarded_block)
    for name in ("THREADS_FROM_OPS", "THREADS_FROM_BYTES", "SURELY_FROM_OPS", "SURELY_FROM_BYTES"):
        monkeypatch.setattr(cpu, name, 0)
    for name in ("LEAST", "LEAST_EACH"):
        monkeypatch.setattr(successor, name, 0)


def results(function, arrays, threads):
    """What a function of tensors gives, all of it computed at once."""
    with Context(THREADS=threads):
        tensors = function(*[torpor.from_numpy(guarded_array(array)) for array in arrays])
        tensors[0].realize(*tensors[1:])
        return [tensor.numpy() for tensor in tensors]


def check(case):
    """The case is right, and the same by any way that it is computed."""
    found = results(case.function, case.arrays, 1)
    for one, expected in zip(found, case.expected, strict=True):
        agrees(one, np.asarray(expected))
    jitted = torpor.jit(case.function)
    for function, threads in ((case.function, 2), (jitted, 1), (jitted, 2), (jitted, 2)):
        for one, again in zip(found, results(function, case.arrays, threads), strict=True):
            np.testing.assert_array_equal(one, again)


def agrees(found, expected):
    """Integers are equal. Floats are close as a whole and one by one, NaN where NaN should be."""
    assert found.shape == expected.shape
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    wide = expected.astype(np.float64)
    finite = np.isfinite(wide)
    np.testing.assert_array_equal(found[~finite], wide[~finite])
    apart = np.abs(found[finite] - wide[finite])
    size = np.linalg.norm(wide[finite]) + 1  # gradients that are 0 come out as a few roundings
    limit = TOLERANCES[found.dtype.name]
    assert np.linalg.norm(apart) <= limit * size
    usual = size / max(1, finite.sum()) ** 0.5
    assert np.all(apart <= SPARE * limit * (np.abs(wide[finite]) + usual))


def numbers(generator, shape, dtype=np.float32):
    """Normal numbers, or integers of which many are the least and the greatest there are."""
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    ends = np.iinfo(dtype)
    values = generator.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    kind = generator.integers(0, 4, shape)
    return np.where(kind == 0, ends.min, np.where(kind == 1, ends.max, values)).astype(dtype)


@pytest.mark.skipif(os.name != "posix", reason="memory is protected by mprotect")
def test_a_look_past_the_end_crashes():
    look = "from tests.guarded import Guarded; import ctypes; g = Guarded(12); at = g.address"
    for place, code in (("at + 11", 0), ("at + 12", -signal.SIGSEGV)):
        line = f"{look}; ctypes.string_at({place}, 1)"
        done = subprocess.run([sys.executable, "-c", line], cwd=ROOT, check=False)
        assert done.returncode == code


# --- products -------------------------------------------------------------------------------------
LAYOUTS = {
    "plain": (lambda m, n: (m, n), lambda x: x),
    "transposed": (lambda m, n: (n, m), lambda x: x.swapaxes(-1, -2)),
    "sliced": (lambda m, n: (m + 2, 2 * n), lambda x: x[..., 1:-1, ::2]),
    "flipped": (lambda m, n: (m, n), lambda x: x[..., ::-1]),
}
EPILOGUES = {
    "none": lambda y, x: y,
    "rectified": lambda y, x: y * (y > 0),
    "beside its operand": lambda y, x: y + x.sum(-1)[..., None],
    "backwards": lambda y, x: y + y[..., ::-1],
}
SIZES = st.one_of(st.sampled_from([1, 2, 8, 16, 64, 127]), st.integers(1, 150))


@st.composite
def products(draw, dtypes=(np.float32, np.float32, np.float64, np.float16)):
    rows, columns, depth = draw(SIZES), draw(SIZES), draw(st.one_of(st.just(0), SIZES))
    dtype, batch = draw(st.sampled_from(dtypes)), draw(st.sampled_from([(), (3,), (2, 2)]))
    generator = np.random.default_rng(draw(SEEDS))
    (shape_a, view_a), (shape_b, view_b) = (
        LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))] for _ in range(2)
    )
    a = numbers(generator, (*batch, *shape_a(rows, depth)), dtype)
    b = numbers(generator, (*batch[:1], *(1,) * len(batch[1:]), *shape_b(depth, columns)), dtype)
    if np.dtype(dtype).kind != "f":
        wide = draw(st.sampled_from([np.int32, np.int64]))
        exact = view_a(a).astype(wide) @ view_b(b).astype(wide)
        name = np.dtype(wide).name
        return Case(lambda x, y: [view_a(x).cast(name) @ view_b(y).cast(name)], [a, b], [exact])
    after = EPILOGUES[draw(st.sampled_from(sorted(EPILOGUES)))]
    left, right = view_a(a).astype(np.float64), view_b(b).astype(np.float64)
    return Case(
        lambda x, y: [after(view_a(x) @ view_b(y), view_a(x))], [a, b], [after(left @ right, left)]
    )


@settings(FUZZ, max_examples=10)
@given(products())
def test_products(case):
    check(case)


@FUZZ
@given(products((np.int8, np.uint8)))
def test_products_of_bytes(case):
    check(case)


# --- convolutions ---------------------------------------------------------------------------------
def taps(kernel, stride, dilation, sizes):
    """Each place of a window, and the part of an image that it meets."""
    for place in product(*map(range, kernel)):
        yield (
            place,
            tuple(
                slice(p * d, p * d + s * (n - 1) + 1, s)
                for p, s, d, n in zip(place, stride, dilation, sizes, strict=True)
            ),
        )


def convolved(image, weight, up, stride, padding, dilation, groups):
    """A convolution of (batch, groups, channels, ...), and the gradients of its sum times `up`."""
    around = [(0, 0)] * 3 + [(p, p) for p in padding]
    wide, kernel = np.pad(image, around), weight.shape[3:]
    out, by_image, by_weight = np.zeros(up.shape), np.zeros(wide.shape), np.zeros(weight.shape)
    for place, part in taps(kernel, stride, dilation, up.shape[3:]):
        seen, one = wide[(..., *part)], weight[(slice(None),) * 3 + place]
        out += np.einsum("bgc...,goc->bgo...", seen, one)
        by_image[(..., *part)] += np.einsum("bgo...,goc->bgc...", up, one)
        by_weight[(slice(None),) * 3 + place] = np.einsum(
            "bgon,bgcn->goc", up.reshape(*up.shape[:3], -1), seen.reshape(*seen.shape[:3], -1)
        )
    inner = tuple(slice(p, p + n) for p, n in zip(padding, image.shape[3:], strict=True))
    return out, by_image[(..., *inner)], by_weight


@st.composite
def convolutions(draw):
    dims, groups, batch = draw(st.integers(1, 2)), draw(st.sampled_from([1, 1, 2, 9])), 2
    per_in, per_out = draw(st.integers(1, 3 if groups > 2 else 18)), draw(st.integers(1, 20))
    per_out = 1 + per_out % 2 if groups > 2 else per_out

    def each(values):
        return tuple(draw(st.sampled_from(values)) for _ in range(dims))

    kernel, stride, dilation = each([1, 2, 3, 3, 5]), each([1, 1, 2, 3]), each([1, 1, 2])
    padding, sizes = each([0, 1, 2]), each([9, 14, 15, 16, 33])
    places = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(sizes, padding, dilation, kernel, stride, strict=True)
    )
    generator = np.random.default_rng(draw(SEEDS))
    image = numbers(generator, (batch, groups, per_in, *sizes))
    weight = numbers(generator, (groups, per_out, per_in, *kernel))
    up = numbers(generator, (batch, groups, per_out, *places))
    expected = convolved(
        *(x.astype(np.float64) for x in (image, weight, up)), stride, padding, dilation, groups
    )
    merged = image.reshape(batch, -1, *sizes), weight.reshape(-1, per_in, *kernel)
    shapes = (batch, -1, *places), merged[0].shape, merged[1].shape

    def function(image, weight, up):
        image, weight = (x.detach().requires_grad_() for x in (image, weight))
        made = getattr(image, f"conv{dims}d")(weight, None, stride, padding, dilation, groups)
        return [made, *(made * up).sum().gradient(image, weight)]

    arrays = [*merged, up.reshape(shapes[0])]
    return Case(function, arrays, [x.reshape(s) for x, s in zip(expected, shapes, strict=True)])


@FUZZ
@given(convolutions())
def test_convolutions_and_their_gradients(case):
    check(case)


# --- attention ------------------------------------------------------------------------------------
MASKS = {
    "none": lambda i, j, n: None,
    "causal": lambda i, j, n: j <= i,
    "window": lambda i, j, n: (j <= i) & (j > i - n),
    "prefix": lambda i, j, n: (j <= i) | (j < n),
    "padding": lambda i, j, n: j < n + 0 * i,
    "distance": lambda i, j, n: np.float32(-1 / n) * np.abs(i - j).astype(np.float32),
    "none for some": lambda i, j, n: (j <= i) & (i != n),
}


def attended(queries, keys, values, mask, up):
    """Attention and the gradients of its sum times `up`, by the definition."""
    scale = queries.shape[-1] ** -0.5
    scores = queries @ keys.swapaxes(-1, -2) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    totals = powers.sum(-1, keepdims=True)
    shares = powers / np.where(totals == 0, 1, totals)  # a row that sees nothing is 0
    by_shares = up @ values.swapaxes(-1, -2)
    by_scores = shares * (by_shares - (by_shares * shares).sum(-1, keepdims=True)) * scale
    turned = by_scores.swapaxes(-1, -2) @ queries
    return shares @ values, by_scores @ keys, turned, shares.swapaxes(-1, -2) @ up


@st.composite
def attentions(draw):
    heads, length = draw(st.integers(1, 3)), draw(st.sampled_from([1, 7, 16, 65, 130]))
    seen, size = draw(st.sampled_from([length, 40])), draw(st.sampled_from([8, 9, 33, 64]))
    generator = np.random.default_rng(draw(SEEDS))
    shapes = [(heads, n, size) for n in (length, seen, seen, length)]
    arrays = [numbers(generator, shape) for shape in shapes]
    i, j = np.mgrid[:length, :seen]
    mask = MASKS[draw(st.sampled_from(sorted(MASKS)))](i, j, draw(st.integers(1, seen)))
    queries, keys, values, up = (x.astype(np.float64) for x in arrays)
    expected = attended(queries, keys, values, mask, up)

    def function(queries, keys, values, up, *masks):
        given = [x.detach().requires_grad_() for x in (queries, keys, values)]
        made = given[0].scaled_dot_product_attention(*given[1:], *masks)
        return [made, *(made * up).sum().gradient(*given)]

    return Case(function, arrays if mask is None else [*arrays, mask], [*expected])


@settings(FUZZ, max_examples=4)
@given(attentions())
def test_attention_and_its_gradients(case):
    check(case)


# --- rows: sums, norms, orders --------------------------------------------------------------------
def shares(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def standardized(x, axis):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


ROWS = {
    "softmax": (lambda x, n: x.softmax(n), shares),
    "greatest": (lambda x, n: x.amax(n), lambda x, n: x.max(n)),
    "where": (lambda x, n: x.argmax(n), lambda x, n: x.argmax(n)),
    "least": (lambda x, n: x.min(n).indices, lambda x, n: x.argmin(n)),
    "sorted": (lambda x, n: x.sort(n).values, lambda x, n: np.sort(x, n)),
    "order": (lambda x, n: x.argsort(n), lambda x, n: np.argsort(x, n, kind="stable")),
    "running": (lambda x, n: x.cummax(n).values, lambda x, n: np.maximum.accumulate(x, n)),
}
FINITE = {
    "sum": (lambda x, n: x.abs().sum(n), lambda x, n: np.abs(x).sum(n)),
    "norm": (
        lambda x, n: (
            (x - x.mean(n, keepdim=True)) * (x.var(n, correction=0, keepdim=True) + 1e-5).rsqrt()
        ),
        standardized,
    ),
    "sums so far": (lambda x, n: x.abs().cumsum(n), lambda x, n: np.abs(x).cumsum(n)),
    "columns": (lambda x, n: x.abs().sum(0) + x.amax(0), lambda x, n: np.abs(x).sum(0) + x.max(0)),
}
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-41, -1e-41, 3e38], np.float32)


@st.composite
def rows(draw):
    shape = tuple(
        draw(st.lists(st.sampled_from([1, 2, 3, 17, 33, 64, 130]), min_size=1, max_size=3))
    )
    generator = np.random.default_rng(draw(SEEDS))
    array, axis = numbers(generator, shape), draw(st.integers(0, len(shape) - 1))
    special = draw(st.booleans())
    if special:
        odd = generator.choice(SPECIAL, shape)
        array = np.where(generator.random(shape) < draw(st.sampled_from([0.01, 0.5])), odd, array)
    table = ROWS if special else {**ROWS, **FINITE}
    names = draw(st.lists(st.sampled_from(sorted(table)), min_size=1, max_size=3, unique=True))
    move = LAYOUTS[draw(st.sampled_from(["plain", "flipped"]))][1]

    def function(x):
        return [table[name][0](move(x), axis) for name in names]

    with np.errstate(all="ignore"):
        exact = move(array).astype(np.float64)
        return Case(function, [array], [table[name][1](exact, axis) for name in names])


@settings(FUZZ, max_examples=12)
@given(rows())
def test_rows(case):
    check(case)


# --- places: gather, scatter ----------------------------------------------------------------------
@st.composite
def places(draw):
    shape = tuple(draw(st.lists(st.sampled_from([1, 3, 16, 33, 70]), min_size=1, max_size=3)))
    axis, count = draw(st.integers(0, len(shape) - 1)), draw(st.sampled_from([0, 1, 5, 64]))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int32, np.uint8]))
    generator = np.random.default_rng(draw(SEEDS))
    wide = (*shape[:axis], count, *shape[axis + 1 :])
    base, values = (generator.integers(0, 9, s).astype(dtype) for s in (shape, wide))
    index = generator.integers(0, shape[axis], wide)
    everywhere = list(np.indices(wide, sparse=True))
    everywhere[axis] = index
    added = base.copy()
    np.add.at(added, tuple(everywhere), values)
    least = base.copy()
    np.minimum.at(least, tuple(everywhere), values)

    def function(base, index, values):
        return [
            base.gather(axis, index),
            base.scatter_add(axis, index, values),
            base.scatter_reduce(axis, index, values, "amin"),
        ]

    expected = [np.take_along_axis(base, index, axis), added, least]
    return Case(function, [base, index, values], expected)


@FUZZ
@given(places())
def test_places(case):
    check(case)


# --- copies: transposes, borders, parts -----------------------------------------------------------
@st.composite
def copies(draw):
    shape = tuple(
        draw(st.lists(st.sampled_from([1, 2, 7, 16, 33, 64, 65]), min_size=2, max_size=3))
    )
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int8, np.int16, np.float16]))
    generator = np.random.default_rng(draw(SEEDS))
    a, b = (numbers(generator, shape, dtype) for _ in range(2))
    order = draw(st.permutations(range(len(shape))))
    step, border = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    axis = draw(st.integers(0, len(shape) - 1))
    part = (..., slice(None, None, step))
    around = [(border, 1)] * len(shape)

    def function(a, b):
        both = Tensor.cat(a.permute(*order), b.permute(*order), dim=axis)
        return [both, a[part].permute(*order).pad(around).contiguous(), a.flip(axis).contiguous()]

    both = np.concatenate([a.transpose(order), b.transpose(order)], axis)
    padded = np.pad(a[part].transpose(order), around)
    return Case(function, [a, b], [both, padded, np.flip(a, axis)])


@settings(FUZZ, max_examples=8)
@given(copies())
def test_copies(case):
    check(case)


# --- values that jitted calls change --------------------------------------------------------------
UPDATES = {
    "step": lambda old, other, x: old - x * 0.5,
    "mix": lambda old, other, x: old * 0.5 + other * 0.25 + x,
    "bounded": lambda old, other, x: x * (old > other) + old * 0.5,
    "backwards": lambda old, other, x: old[::-1] * 0.5 + x,
    "from the other": lambda old, other, x: other * 1,
    "centred": lambda old, other, x: old - x.sum(0) * 0.0625,
}
HELD = {
    "copy": (lambda tensor: tensor.clone(), lambda array: array.copy()),
    "value to come": (lambda tensor: tensor * 3 + 1, lambda array: array * 3 + 1),
    "value as it was": (lambda tensor: tensor * 1, lambda array: array.copy()),
    "array": (lambda tensor: tensor.numpy(), lambda array: array.copy()),
}


@settings(FUZZ, max_examples=6)
@given(st.data())
def test_what_jitted_calls_change(data):
    """Values are written over the last ones only where nobody holds these."""
    names = data.draw(st.lists(st.sampled_from(sorted(UPDATES)), min_size=2, max_size=2))
    gives_back, generator = data.draw(st.booleans()), np.random.default_rng(data.draw(SEEDS))
    arrays = [numbers(generator, (16, 16)) for _ in names]
    values, held = [Tensor(array).realize() for array in arrays], []

    @torpor.jit
    def step(x):
        first = values[0] * 1
        for n, name in enumerate(names):
            values[n].assign(UPDATES[name](values[n], values[1 - n], x))
        return first if gives_back else values[0].sum()

    for _ in range(12):
        x = numbers(generator, (16, 16))
        if (kind := data.draw(st.sampled_from(["", *sorted(HELD)]))) != "":
            of_tensor, of_array = HELD[kind]
            held += [(of_tensor(v), of_array(a)) for v, a in zip(values, arrays, strict=True)]
        before, found = arrays[0].copy(), step(Tensor(x))
        for n, name in enumerate(names):
            arrays[n] = UPDATES[name](arrays[n], arrays[1 - n], x).astype(np.float32)
        if gives_back:
            held.append((found, before))
    for thing, expected in [*zip(values, arrays, strict=True), *held]:
        found = thing.numpy() if isinstance(thing, Tensor) else thing
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
