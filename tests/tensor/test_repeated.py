"""Functions whose graph is made from a template: the same values, gradients, lines of errors."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, no_grad
from torpor.tensor.repeated import repeated

RANDOM = np.random.default_rng(5)
PASSES = 8


@pytest.fixture
def counted():
    calls = []

    @repeated
    def both(x, y, factor=1.0, keep=True):
        calls.append(1)
        made = (x * factor + y).tanh()
        return (made, made.sum(-1)) if keep else made

    return both, calls


def test_it_runs_a_few_times_and_gives_the_same(counted):
    both, calls = counted
    runs = []
    for _ in range(3 * PASSES):
        x, y = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
        made, total = both(Tensor(x), Tensor(y[:1]), factor=2.0)
        wanted = np.tanh(2 * x.astype(float) + y[:1])
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(total.numpy(), wanted.sum(-1), rtol=1e-5, atol=1e-6)
        runs.append(len(calls))
    assert runs[0] and runs[PASSES] == runs[-1]


def test_numbers_formats_and_shapes_are_told_apart(counted):
    both, _ = counted
    for _ in range(PASSES):
        for factor in (0.0, -0.0, 1, True, 3.0):
            for dtype, shape in (("float32", (2,)), ("float64", (2,)), ("float32", (3,))):
                x = Tensor(np.ones(shape), dtype=dtype)
                made = both(x, x * -0.0, factor, keep=False)
                assert (made.dtype.name, made.shape) == (dtype, shape)
                wanted = np.tanh(np.ones(shape) * factor + -0.0)
                np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-6)
                assert np.signbit(made.numpy()).all() == np.signbit(wanted).all()


def test_gradients_flow_where_they_are_asked_for():
    x = Tensor([0.5, -1.0], requires_grad=True)
    for number in range(3 * PASSES):
        x.grad = None
        if number % 3 == 2:
            with no_grad():
                assert not x.sigmoid().requires_grad
            continue
        held = x.detach().sigmoid()
        assert not held.requires_grad
        (x.sigmoid() * held).sum().backward()
        s = 1 / (1 + np.exp(-np.array([0.5, -1.0])))
        np.testing.assert_allclose(x.grad.numpy(), s * s * (1 - s), rtol=1e-6)
        (second,) = x.sigmoid().sum().gradient(x)[0].sum().gradient(x)
        np.testing.assert_allclose(second.numpy(), s * (1 - s) * (1 - 2 * s), rtol=1e-5)


def test_equal_calls_give_tensors_of_their_own():
    x = Tensor([1.0, 2.0], requires_grad=True)
    for _ in range(PASSES):
        one, other = x.softmax(-1), x.softmax(-1)
        first, second = (one + 2 * other).sum().gradient(one, other)
        assert (first.tolist(), second.tolist()) == ([1, 1], [2, 2])
        with no_grad():
            one.mul_(0)
        assert one.tolist() == [0, 0] and abs(sum(other.tolist()) - 1) < 1e-6


def test_what_is_written_in_place_is_seen():
    x = Tensor([1.0, 2.0, 3.0])
    for number in range(PASSES):
        x[0] = float(number)
        values = np.exp([number, 2.0, 3.0])
        np.testing.assert_allclose(x.softmax(-1).numpy(), values / values.sum(), rtol=1e-6)


def test_errors_name_the_line_that_was_run():
    logits = Tensor(np.zeros((2, 3), np.float32))
    for classes in [[0, 1]] * PASSES:
        logits.cross_entropy(Tensor(classes)).item()
    wrong = logits.cross_entropy(Tensor([0, 7]))  # this line
    with pytest.raises(IndexError, match="7") as caught:
        wrong.item()
    assert "cross_entropy(Tensor([0, 7]))" in str(caught.value)
    with pytest.raises(ValueError, match="target"):
        logits.cross_entropy(Tensor([0, 1, 2]))


def test_under_a_jit_and_in_a_scan():
    x = Tensor([0.5, 1.0])
    for _ in range(PASSES):
        x.sigmoid().realize()
    jitted = torpor.jit(lambda x: x.sigmoid())
    wanted = 1 / (1 + np.exp(-np.array([0.5, 1.0])))
    for _ in range(3):
        np.testing.assert_allclose(jitted(x).numpy(), wanted, rtol=1e-6)
    ends, _ = torpor.scan(lambda c, row: ((c + row).sigmoid(), row), x * 0, x.reshape(2, 1))
    first = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(ends.numpy(), [1 / (1 + np.exp(-first - 1))] * 2, rtol=1e-6)


def test_the_second_pass_of_a_loop_compiles_nothing(compiled):
    """Unrolled steps of a cell, unjitted: the first step's graph is that of the others."""
    torpor.manual_seed(0)
    words, cell, head = (
        torpor.nn.Embedding(11, 6),
        torpor.nn.GRUCell(6, 8),
        torpor.nn.Linear(8, 11),
    )
    parameters = [one for layer in (words, cell, head) for one in layer.parameters()]
    optimiser = torpor.nn.optim.RMSprop(parameters, lr=1e-2)
    seen, losses = [], []
    for number in range(5):
        text = (np.arange(15).reshape(3, 5) + number) % 11
        carried, outputs = torpor.zeros(3, 8), []
        for step in range(4):
            carried = cell(words(Tensor(text)[:, step]), carried)
            outputs.append(head(carried))
        logits = torpor.stack(outputs, 1).reshape(-1, 11)
        loss = torpor.nn.functional.cross_entropy(logits, Tensor(text[:, 1:].reshape(-1)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        seen.append(len(compiled))
    assert losses[-1] < losses[0]
    assert seen[1] == seen[-1], seen


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x.scaled_dot_product_attention(y, y),
        lambda x, y: (x @ y.mT).softmax(-1) @ y,
        lambda x, y: torpor.nn.functional.layer_norm(x @ y.mT, (6,)) @ y,
        lambda x, y: torpor.nn.functional.linear(x, y).gelu().var(-1),
        lambda x, y: torpor.cdist(x, y).logsumexp(-1),
    ],
)
def test_gradients_are_the_same_whether_or_not_tensors_ask_for_them(function):
    for _ in range(3):
        values = [torpor.rand(6, 6).realize() for _ in range(2)]
        asking = [value.clone().requires_grad_() for value in values]
        found = function(*values).sum().gradient(*values)
        for one, other in zip(found, function(*asking).sum().gradient(*asking), strict=True):
            np.testing.assert_allclose(one.numpy(), other.detach().numpy(), atol=1e-5)
            assert np.abs(one.numpy()).max() > 1e-3


ALIKE = {
    "quantile": (lambda x, q: x.quantile(q, 1), lambda a, q: np.quantile(a, q, 1), (0.1, 0.75)),
    "diff": (lambda x, n: x.diff(n), lambda a, n: np.diff(a, n), (1, 2)),
    "median": (lambda x, d: x.median(d).values, lambda a, d: np.median(a, d), (0, 1)),
    "cross": (lambda x, d: x.cross(x + 1, d), lambda a, d: np.cross(a, a + 1, axis=d), (0, 1)),
    "fft": (
        lambda x, how: torpor.fft.fft(x, norm=how).abs(),
        lambda a, how: np.abs(np.fft.fft(a, norm=how)),
        ("backward", "ortho", "forward"),
    ),
    "searchsorted": (
        lambda x, right: Tensor.searchsorted(Tensor([-0.5, 0.0, 0.5]), (x * 2).round() / 2, right),
        lambda a, right: np.searchsorted(
            [-0.5, 0.0, 0.5], np.round(a * 2) / 2, "right" if right else "left"
        ),
        (True, False),
    ),
    "pool": (
        lambda x, size: x.unsqueeze(0).adaptive_avg_pool2d(size),
        lambda a, size: a[None].mean((1, 2) if size == [1, 1] else 1, keepdims=True),
        ([1, 1], (1, None), [1, None]),
    ),
    "gcd": (
        lambda x, n: (x * 9).round().int().gcd(Tensor(n)),
        lambda a, n: np.gcd(np.round(a * 9).astype(int), n),
        (6, 4),
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_options_are_told_apart_at_each_pass(name):
    ours, theirs, options = ALIKE[name]
    for _ in range(3 * PASSES):
        array = RANDOM.standard_normal((3, 3)).astype(np.float32)
        for option in options:
            made = ours(Tensor(array), option).numpy()
            np.testing.assert_allclose(made, theirs(array, option), rtol=1e-5, atol=1e-6)


def test_transforms_of_ever_other_lengths_have_their_own_tables():
    for length in (*range(2, 40), *range(2, 12)):
        array = RANDOM.standard_normal((2, length)).astype(np.float32)
        found = torpor.fft.fft(Tensor(array))
        np.testing.assert_allclose(found.numpy(), np.fft.fft(array), atol=1e-4)
        back = torpor.fft.irfft(torpor.fft.rfft(Tensor(array)), length)
        np.testing.assert_allclose(back.numpy(), array, atol=1e-5)


@pytest.mark.parametrize("name", ["sqrt", "log", "asin", "tanh", "sigmoid", "reciprocal"])
def test_complex_numbers_pass_after_pass(name):
    formulas = {
        "asin": np.arcsin,
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "reciprocal": lambda z: 1 / z,
    }
    for _ in range(PASSES):
        array = (RANDOM.standard_normal(6) + 1j * RANDOM.standard_normal(6)).astype(np.complex64)
        made = getattr(Tensor(array), name)().numpy()
        wanted = formulas.get(name) or getattr(np, name)
        np.testing.assert_allclose(made, wanted(array.astype(complex)), rtol=1e-5, atol=1e-6)
        power = (Tensor(array) ** Tensor(array)).numpy()
        np.testing.assert_allclose(power, array.astype(complex) ** array, rtol=1e-4)


def test_what_is_said_with_ever_other_numbers_is_not_written_down(counted):
    both, calls = counted
    x = Tensor([1.0, 2.0])
    for number in range(5 * PASSES):
        both(x, x, factor=number / 7, keep=False).realize()
    assert len(calls) == 5 * PASSES
    before = len(calls)
    for _ in range(PASSES):
        both(x, x, factor=0.5, keep=False).realize()
    assert len(calls) - before <= 3


def test_a_function_of_functions_of_sizes_that_grow_runs_a_few_times():
    calls = []

    @repeated
    def shares(x):
        calls.append(1)
        return x.softmax(-1) * 2 - x.log_softmax(-1)

    for length in range(2, 30):
        Tensor(RANDOM.standard_normal((length, 3))).softmax(-1).numpy()
    for length in range(2, 40):
        x = RANDOM.standard_normal((length, 3))
        e = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        np.testing.assert_allclose(
            shares(Tensor(x, dtype=torpor.float64)).numpy(), 2 * e - np.log(e), rtol=1e-12
        )
    assert len(calls) < 25
