"""Methods of complex tensors beside NumPy's arithmetic, and gradients by finite differences."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import DTypeError
from torpor.nn import functional

RANDOM = np.random.default_rng(5)


def drawn(*shape):
    return RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)


A, B, C = drawn(3, 4), drawn(3, 4), drawn(3, 4)
ROWS, MASK = np.array([2, 0]), np.arange(12).reshape(3, 4) % 3 == 0
IMAGE, WEIGHT, BIAS = drawn(2, 4, 7), drawn(6, 2, 3), drawn(6)


def T(array):
    return Tensor(np.ascontiguousarray(array))


def changed(array, key, value, add=False):
    made = array.copy()
    made[key] = made[key] + value if add else value
    return made


def masked(array, mask, values):
    made = array.copy()
    made[mask] = values.reshape(-1)[: mask.sum()]
    return made


def convolved(image, weight, bias):
    """By the definition, with stride 2, padding 1 and two groups."""
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1)))
    made = np.zeros((2, 6, 4), complex) + bias[:, None]
    for out in range(6):
        for place in range(4):
            group = padded[:, out // 3 * 2 : out // 3 * 2 + 2, 2 * place : 2 * place + 3]
            made[:, out, place] += (group * weight[out]).sum((1, 2))
    return made


def transposed(image, weight):
    """By the definition: each element adds the window that it weighs."""
    made = np.zeros((2, 2, 9), complex)
    for place in range(7):
        made[:, :, place : place + 3] += np.einsum("bi,iok->bok", image[:, :, place], weight)
    return made


def windows(image):
    columns = [image[:, :, i : i + 2, j : j + 2].reshape(1, 8) for i in range(2) for j in range(2)]
    return np.stack(columns, -1)


def correlated(x):
    made = np.cov(x)
    deviation = np.sqrt(np.diag(made).real)
    return made / deviation[:, None] / deviation


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


# torpor's function, NumPy's, and the array; gradients are tried for all.
CASES = {
    "addcmul": (lambda x: x.addcmul(T(B), T(C), value=2j), lambda x: x + 2j * B * C, A),
    "addcdiv": (lambda x: x.addcdiv(T(B), T(C)), lambda x: x + B / C, A),
    "cov": (lambda x: x.cov(), np.cov, A),
    "cov, weights": (lambda x: x.cov(aweights=Tensor([1.0, 2.0, 0.5, 1.0], dtype="float64")),
                     lambda x: np.cov(x, aweights=[1, 2, 0.5, 1]), A),
    "corrcoef": (lambda x: x.corrcoef(), correlated, A),
    "cumprod": (lambda x: x.cumprod(1), lambda x: x.cumprod(1), A),
    "prod": (lambda x: x.prod(1), lambda x: x.prod(1), A),
    "meshgrid": (lambda x: Tensor.meshgrid(x, T(B[0]))[0],
                 lambda x: np.meshgrid(x, B[0], indexing="ij")[0], A[:, 0]),
    "diagonal_scatter": (lambda x: x.diagonal_scatter(T(B[0, :3])),
                         lambda x: changed(x, (range(3), range(3)), B[0, :3]), A),
    "select_scatter": (lambda x: x.select_scatter(T(B[0]), 0, 1),
                       lambda x: changed(x, 1, B[0]), A),
    "add": (lambda x: x.add(2, alpha=3), lambda x: x + 6, A),
    "sub": (lambda x: x.sub(1.5, alpha=1j), lambda x: x - 1.5j, A),
    "ldexp": (lambda x: x.ldexp(Tensor([1, 2, 3, 4])), lambda x: x * 2.0 ** np.arange(1, 5), A),
    "logaddexp": (lambda x: x.logaddexp(T(B)), lambda x: np.log(np.exp(x) + np.exp(B)), A / 2),
    "masked_fill": (lambda x: x.masked_fill(T(MASK), 2 - 1j),
                    lambda x: np.where(MASK, 2 - 1j, x), A),
    "masked_fill by a real": (lambda x: x.masked_fill(T(MASK), 2),
                              lambda x: np.where(MASK, 2, x), A),
    "masked_scatter": (lambda x: x.masked_scatter(T(MASK), T(B)), lambda x: masked(x, MASK, B), A),
    "index_fill": (lambda x: x.index_fill(0, T(ROWS), 3.0), lambda x: changed(x, ROWS, 3), A),
    "index_add": (lambda x: x.index_add(0, T(ROWS), T(B[:2]), alpha=2j),
                  lambda x: changed(x, ROWS, 2j * B[:2], True), A),
    "index_copy": (lambda x: x.index_copy(0, T(ROWS), T(B[:2])),
                   lambda x: changed(x, ROWS, B[:2]), A),
    "put": (lambda x: x.put(Tensor([1, 5]), T(B[0, :2])),
            lambda x: changed(x.reshape(-1), [1, 5], B[0, :2]).reshape(3, 4), A),
    "scatter": (lambda x: x.scatter(1, Tensor([[0], [1], [3]]), 1j),
                lambda x: changed(x, (range(3), [0, 1, 3]), 1j), A),
    "scatter_add": (lambda x: x.scatter_add(1, Tensor([[0], [1], [3]]), T(B[:, :1])),
                    lambda x: changed(x, (range(3), [0, 1, 3]), B[:, 0], True), A),
    "pad": (lambda x: functional.pad(x, (1, 2), value=1j),
            lambda x: np.pad(x, ((0, 0), (1, 2)), constant_values=1j), A),
    "pad by reflection": (lambda x: functional.pad(x, (1, 2), "reflect"),
                          lambda x: np.pad(x, ((0, 0), (1, 2)), "reflect"), A),
    "softmax": (lambda x: x.softmax(-1), softmax, A),
    "softmax of large": (lambda x: x.softmax(-1), lambda x: softmax(x - 1000), A + 1000),
    "log_softmax": (lambda x: x.log_softmax(-1).exp(), softmax, A),
    "logsumexp": (lambda x: x.logsumexp(1), lambda x: np.log(np.exp(x).sum(1)), A),
    "logcumsumexp": (lambda x: x.logcumsumexp(1).exp(), lambda x: np.exp(x).cumsum(1), A),
    "normalize": (lambda x: functional.normalize(x),
                  lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), A),
    "renorm": (lambda x: x.renorm(2, 0, 0.5), lambda x: x * 0.5 / (
        np.linalg.norm(x, axis=1, keepdims=True) + 1e-7), A),
    "silu": (lambda x: x.silu(), lambda x: x / (1 + np.exp(-x)), A),
    "softsign": (lambda x: x.softsign(), lambda x: x / (1 + abs(x)), A),
    "tanhshrink": (lambda x: x.tanhshrink(), lambda x: x - np.tanh(x), A),
    "sinc": (lambda x: x.sinc(), np.sinc, A),
    "lerp": (lambda x: x.lerp(T(B), 0.25 + 1j), lambda x: x + (0.25 + 1j) * (B - x), A),
    "float_power": (lambda x: x.float_power(1.5), lambda x: x**1.5, A),
    "trapezoid": (lambda x: x.trapezoid(dx=2j), lambda x: np.trapezoid(x, dx=2j), A),
    "l1_loss": (lambda x: x.l1_loss(T(B)), lambda x: abs(x - B).mean(), A),
    "conv1d": (lambda x: x.conv1d(T(WEIGHT), T(BIAS), 2, 1, groups=2),
               lambda x: convolved(x, WEIGHT, BIAS), IMAGE),
    "conv1d's weight": (lambda w: T(IMAGE).conv1d(w, T(BIAS), stride=2, padding=1, groups=2),
                        lambda w: convolved(IMAGE, w, BIAS), WEIGHT),
    "conv1d's bias": (lambda b: T(IMAGE).conv1d(T(WEIGHT), b, stride=2, padding=1, groups=2),
                      lambda b: convolved(IMAGE, WEIGHT, b), BIAS),
    "conv_transpose1d": (lambda x: x.conv_transpose1d(T(WEIGHT[:4])),
                         lambda x: transposed(x, WEIGHT[:4]), IMAGE),
    "unfold": (lambda x: functional.unfold(x, 2), windows, A[:3, :3].reshape(1, 1, 3, 3).repeat(
        2, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    ours, theirs, array = CASES[name]
    x = T(array).requires_grad_()
    made, expected = ours(x), np.asarray(theirs(array))
    assert made.shape == expected.shape
    np.testing.assert_allclose(made.numpy(), expected, 1e-9, 1e-11)
    random = np.random.default_rng(1)
    weights = random.uniform(0.5, 1.5, expected.shape) * (1 + 2j if made.is_complex() else 1)
    product = made * T(weights.conj())
    (slope,) = (product.real if product.is_complex() else product).sum().gradient(x)
    way, step = random.normal(size=array.shape) * (1 - 0.5j), 1e-5
    apart = np.asarray(theirs(array + step * way)) - np.asarray(theirs(array - step * way))
    expected = (apart * weights.conj()).sum().real / (2 * step)
    assert (slope.numpy().conj() * way).sum().real == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_places_and_conditions():
    x = Tensor([[0j, 1j], [2, 0]])
    assert x.nonzero().tolist() == x.argwhere().tolist() == [[0, 1], [1, 0]]
    assert x.nonzero_static(1).tolist() == [[0, 1]]
    assert x.logical_and(Tensor([1.0, 0.0])).tolist() == [[False, False], [True, False]]
    assert x.logical_xor(1j).tolist() == [[True, False], [False, True]]
    assert Tensor.cartesian_prod(Tensor([1j]), Tensor([2j, 3])).tolist() == [[1j, 2j], [1j, 3]]
    variance, mean = x.var_mean(0)
    assert variance.tolist() == x.var(0).tolist() and mean.tolist() == x.mean(0).tolist()


def test_real_formats_keep_the_real_part_and_say_so():
    z = Tensor([1.5 + 2j, -3j])
    for made, kind in ((lambda: z.float(), "float32"), (lambda: z.long(), "int64"),
                       (lambda: z.to(torpor.dtypes.float64), "float64")):  # fmt: skip
        with pytest.warns(np.exceptions.ComplexWarning, match="no imaginary part"):
            real = made()
        assert real.dtype.name == kind and real.tolist() == [int(1.5) if kind == "int64" else 1.5,
                                                             0]  # fmt: skip
    assert z.bool().tolist() == [True, True]


def test_what_complex_numbers_have_not():
    with pytest.raises(DTypeError, match="only complex numbers"):
        Tensor([1.0]).imag  # noqa: B018
    assert not hasattr(Tensor([1.0]), "imag")
    with pytest.raises(DTypeError, match="does not multiply"):
        Tensor([1j]).scatter(0, Tensor([0]), 2j, reduce="multiply")
    with pytest.raises(DTypeError, match="max does not take"):
        Tensor([1j]).max()


@pytest.mark.parametrize("apart", [False, True])
def test_strides_of_complex_memory(apart):
    """Whether it holds both parts of a number side by side, or all real parts first."""
    array = np.array([1 + 2j, 3 - 1j, 2j, 5, 7, 8])
    x = Tensor(array) * 1 if apart else Tensor(array)
    assert x.as_strided((2, 2), (1, 2)).tolist() == [[1 + 2j, 2j], [3 - 1j, 5]]
    assert x[1:].as_strided((2,), (2,)).tolist() == [3 - 1j, 5]
    assert x.as_strided_copy((2,), (3,), 1).tolist() == [3 - 1j, 7]
    made = x.as_strided_scatter(Tensor([9j, 9.0]), (2,), (2,), 1)
    assert made.tolist() == [1 + 2j, 9j, 2j, 9, 7, 8]
    rows = x.reshape(2, 3)
    assert (x[2:].storage_offset(), rows.T.stride(), rows.stride(0)) == (2, (1, 3), 3)
    assert rows.is_contiguous() and not rows.T.is_contiguous()
    assert (x[:1].stride(), x[:0].stride(), x[::2].stride()) == ((1,), (1,), (2,))
    x.as_strided((2,), (2,)).fill_(1j)
    assert x.tolist() == [1j, 3 - 1j, 1j, 5, 7, 8]


def test_strides_of_a_complex_leaf_have_gradients():
    x = Tensor([1 + 2j, 3 - 1j, 2j], requires_grad=True)
    x.as_strided((2, 2), (1, 1)).abs().square().sum().backward()
    assert x.grad.tolist() == [2 + 4j, 12 - 4j, 4j]


def test_conjugates_in_place():
    x = Tensor([1 + 2j])
    assert x.conj_physical_() is x and x.tolist() == [1 - 2j]
    assert torpor.conj_physical_(Tensor([2.0])).tolist() == [2]
