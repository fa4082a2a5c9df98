"""Complex tensors against NumPy: formats, arithmetic, functions, views, writes, gradients."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor
from torpor import Tensor, dtypes
from torpor.base.errors import DTypeError, GradientError, ShapeError


def numbers(*shape, dtype=np.complex128, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.normal(size=shape) + 1j * generator.normal(size=shape)).astype(dtype)


def test_formats_of_data():
    assert Tensor(1j).dtype is dtypes.complex64
    assert Tensor([1, [2j][0]]).dtype is dtypes.complex64
    assert Tensor(np.array([1j])).dtype is dtypes.complex128
    assert Tensor([1.5], dtype="complex128").tolist() == [1.5 + 0j]
    assert Tensor([1, 2]).cast(dtypes.complex64).dtype is dtypes.complex64
    assert isinstance(Tensor(1j), Tensor)
    assert Tensor(1j).is_complex() and not Tensor(1.0).is_complex()
    assert dtypes.complex64.itemsize == 8 and dtypes.from_numpy(np.complex64) is dtypes.complex64


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Tensor([1.0]), "complex64"), (Tensor([1]), "complex64"), (2.5, "complex64"),
        (1j, "complex64"), (Tensor([1.0], dtype="float64"), "complex128"),
        (Tensor([1j], dtype="complex128"), "complex128"),
    ],
)  # fmt: skip
def test_promotion(other, expected):
    one = Tensor([1 + 2j])
    for made in (one + other, other + one, one * other, other * one, one / other, one**other):
        assert made.dtype.name == expected


def test_real_tensors_meet_complex_numbers():
    x = Tensor([1.0, 2.0], dtype="float64")
    np.testing.assert_array_equal((x + 1j).numpy(), [1 + 1j, 2 + 1j])
    assert (x * 1j).dtype is dtypes.complex128
    np.testing.assert_allclose((x**2j).numpy(), np.array([1, 2]) ** 2j)
    np.testing.assert_allclose((2j**x).numpy(), 2j ** np.array([1, 2]))
    assert (Tensor([1, 2]) - 1j).dtype is dtypes.complex64
    np.testing.assert_array_equal((np.array([1j, 2]) * x).numpy(), [1j, 4])
    np.testing.assert_allclose(x.div(Tensor([2j, 4])).numpy(), [-0.5j, 0.5])
    np.testing.assert_allclose(x.matmul(Tensor([2j, 4])).item(), 8 + 2j)


@given(st.integers(0, 3).flatmap(lambda n: st.tuples(*[st.integers(0, 4)] * n)), st.integers(0, 99))
@settings(max_examples=4, deadline=None)
def test_arithmetic_is_numpys(shape, seed):
    a, b = numbers(*shape, seed=seed), numbers(*shape, seed=seed + 1)
    x, y = Tensor(a), Tensor(b)
    pairs = ((x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (1 - x, 1 - a),
             (-x, -a), (x.conj(), a.conj()), (x.abs(), abs(a)), (x.angle(), np.angle(a)),
             (x.sum(), a.sum()), (x.prod(), a.prod()), (x**3, a**3), (x**-1, 1 / a),
             (x**y, a**b), (2**x, 2**a), (x.real, a.real), (x.imag, a.imag))  # fmt: skip
    for made, expected in pairs:
        assert made.shape == expected.shape
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-9, atol=1e-12)


FUNCTIONS = [
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "arcsin",
    "arccos",
    "arctan",
    "arcsinh",
    "arccosh",
    "arctanh",
    "reciprocal",
    "square",
    "exp2",
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_numpys(name):
    a = np.concatenate([numbers(40), numbers(40) * 1e-6, numbers(40) * 5, [2 + 0j, -2 + 0j, 2j]])
    expected = getattr(np, name)(a)
    if name == "log1p":  # NumPy loses digits near 0
        expected = np.where(abs(a) < 1e-4, a - a**2 / 2 + a**3 / 3, expected)
    np.testing.assert_allclose(getattr(Tensor(a), name)().numpy(), expected, rtol=1e-12)
    narrow = getattr(Tensor(a.astype(np.complex64)), name)()
    assert narrow.dtype is dtypes.complex64
    error = abs(narrow.numpy() - expected) / abs(expected)
    assert error.max() < 2e-5


def test_division_neither_over_nor_underflows():
    a, b = np.array([1e300 + 1e300j, 1e-300 + 1j]), np.array([1e300 - 1e300j, 1e-300 + 1e-300j])
    np.testing.assert_allclose((Tensor(a) / Tensor(b)).numpy(), a / b, rtol=1e-14)
    assert Tensor(np.array([3e200 + 4e200j])).abs().item() == pytest.approx(5e200)


def test_products_of_matrices_are_numpys():
    a, b = numbers(2, 3, 4), numbers(4, 5, seed=1)
    x, y = Tensor(a), Tensor(b)
    np.testing.assert_allclose((x @ y).numpy(), a @ b)
    np.testing.assert_allclose((x @ y.real).numpy(), a @ b.real)
    np.testing.assert_allclose((x.real @ y).numpy(), a.real @ b)
    np.testing.assert_allclose(x[0].mv(y[:, 0]).numpy(), a[0] @ b[:, 0])
    np.testing.assert_allclose(x[0, 0].vdot(y[:, 0]).item(), np.vdot(a[0, 0], b[:, 0]))
    np.testing.assert_allclose(x[0, 0].dot(y[:, 0]).item(), np.dot(a[0, 0], b[:, 0]))
    np.testing.assert_allclose(x[0, 0].outer(y[0]).numpy(), np.outer(a[0, 0], b[0]))
    np.testing.assert_allclose(torpor.einsum("bij,jk->ki", x, y).numpy(),
                               np.einsum("bij,jk->ki", a, b))  # fmt: skip
    np.testing.assert_allclose(x.mH.numpy(), a.conj().swapaxes(1, 2))
    np.testing.assert_allclose(y.H.numpy(), b.conj().T)


def test_functions_of_matrices():
    a = numbers(2, 3, 3)
    np.testing.assert_allclose(Tensor(a).inverse().numpy(), np.linalg.inv(a))
    values, vectors = np.linalg.eig(a)
    expected = vectors * np.exp(values)[:, None] @ np.linalg.inv(vectors)
    np.testing.assert_allclose(Tensor(a).matrix_exp().numpy(), expected)
    np.testing.assert_allclose(torpor.linalg.inv(Tensor(a)).numpy(), np.linalg.inv(a))


def test_sums_and_moments_are_numpys():
    a = numbers(3, 4)
    x = Tensor(a)
    for made, expected in ((x.sum(0), a.sum(0)), (x.mean(1), a.mean(1)), (x.var(), a.var(ddof=1)),
                           (x.std(0), a.std(0, ddof=1)), (x.norm(), np.linalg.norm(a)),
                           (x.cumsum(1), a.cumsum(1)), (x.prod(0), a.prod(0))):  # fmt: skip
        np.testing.assert_allclose(made.numpy(), expected)
    assert x.any().item() and x.all().item() and not x.isnan().any().item()


def test_movements_and_indices_are_views():
    a = numbers(3, 4)
    x = Tensor(a)
    for made, expected in ((x.T, a.T), (x[1:, ::2], a[1:, ::2]), (x.reshape(2, 6), a.reshape(2, 6)),
                           (x.flip(0), a[::-1]), (x[Tensor([2, 0])], a[[2, 0]]), (x[0], a[0]),
                           (Tensor.stack([x, x]), np.stack([a, a])),
                           (x.repeat(2, 1), np.tile(a, (2, 1))),
                           (Tensor.cat([x, x.real], dim=1), np.concatenate([a, a.real], 1)),
                           (x[x.abs() > 1], a[abs(a) > 1]),
                           (x.pad((1, 0)), np.pad(a, ((0, 0), (1, 0)))),
                           (x.where(x.real > 0, 0), np.where(a.real > 0, a, 0))):  # fmt: skip
        np.testing.assert_array_equal(made.numpy(), expected)
    row = x[1]
    row += 1j
    x.T[0, 0] = 5
    x.imag[2] = 7
    a[1] += 1j
    a[0, 0], a.imag[2] = 5, 7
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(row.numpy(), a[1])
    with pytest.raises(DTypeError):
        Tensor([1.0]).add_(Tensor([1j]))
    with pytest.raises(DTypeError):
        Tensor([1.0])[0] = Tensor(1j)


def test_memory_of_numpys_is_shared():
    a = numbers(3)
    x = Tensor.from_numpy(a)
    x[1] = 2 + 3j
    assert a[1] == 2 + 3j
    pairs = Tensor([[1.0, 2.0], [3.0, 4.0]])
    z = pairs.view_as_complex()
    z[0] = 9j
    assert pairs.tolist() == [[0, 9], [3, 4]]
    assert z.view_as_real().tolist() == [[0, 9], [3, 4]]


def test_ways_out():
    x = Tensor([1 + 2j, -0.5j]).realize()
    assert repr(x) == "tensor([1.+2.j , 0.-0.5j])" or repr(x) == repr(np.array(x)).replace(
        "array", "tensor").replace(", dtype=complex64", "")  # fmt: skip
    assert "complex128" in repr(Tensor(np.array([1j])).realize())
    assert x[0].item() == 1 + 2j and complex(x[0]) == 1 + 2j and f"{x[0]:.1f}" == "1.0+2.0j"
    assert np.asarray(x).dtype == np.complex64
    for same in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert same.tolist() == x.tolist() and same.dtype is x.dtype


def test_constructors():
    for made, expected in ((Tensor.zeros(2, dtype="complex64"), np.zeros(2, np.complex64)),
                           (Tensor.full((2,), 1j), np.full(2, 1j, np.complex64)),
                           (Tensor.eye(2, dtype="complex128"), np.eye(2, dtype=complex)),
                           (Tensor([1j]).ones_like(), np.ones(1, np.complex64))):  # fmt: skip
        np.testing.assert_array_equal(made.numpy(), expected)
        assert made.numpy().dtype == expected.dtype
    np.testing.assert_allclose(torpor.polar(Tensor(2.0), Tensor(0.5)).item(), 2 * np.exp(0.5j),
                               rtol=1e-6)  # fmt: skip
    assert torpor.complex(Tensor(1.0), Tensor(2.0)).item() == 1 + 2j
    with pytest.raises(DTypeError):
        torpor.complex(Tensor(1), Tensor(2))


def test_gradients_are_those_of_both_parts():
    z = Tensor([3 + 4j, 1j], dtype="complex128", requires_grad=True)
    (z * z.conj()).real.sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), [6 + 8j, 2j])
    a = numbers(4)
    x = Tensor(a)

    def loss(x):
        return ((x.exp() / (x + 2)).sqrt() * Tensor(a[::-1].copy())).abs().sum()

    gradient = torpor.grad(loss)(x).numpy()
    step = 1e-6
    for place in range(4):
        for direction in (1, 1j):
            moved = np.zeros(4, complex)
            moved[place] = step * direction
            slope = (loss(Tensor(a + moved)).item() - loss(Tensor(a - moved)).item()) / (2 * step)
            part = gradient[place].real if direction == 1 else gradient[place].imag
            assert slope == pytest.approx(part, rel=1e-6)
    assert torpor.grad(lambda x: x.abs().sum())(Tensor([0j])).tolist() == [0]
    with pytest.raises(GradientError):
        z.sum().backward()


@pytest.mark.parametrize(
    "name", ["max", "sort", "argmax", "floor", "clamp", "cummax", "median", "relu", "round"]
)
def test_what_has_no_meaning_is_refused_by_its_name(name):
    with pytest.raises(DTypeError, match=f"{name} does not take complex numbers"):
        getattr(Tensor([1j]), name)()


def test_arguments_of_both_parts():
    a, b = numbers(4), np.array([5.0])
    x = Tensor(a)
    np.testing.assert_allclose(x.diff(prepend=Tensor(b)).numpy(), np.diff(a, prepend=b))
    assert x.sum(dtype="complex64").dtype is dtypes.complex64
    for wrong in (lambda: x.sum(dtype="float64"), lambda: x.mean(dtype=dtypes.float32)):
        with pytest.raises(DTypeError, match="holds no imaginary part"):
            wrong()
    y = Tensor([1.0]) + 1
    y.realize(x * 2)
    assert y.tolist() == [2.0]
    assert x.cfloat().dtype is dtypes.complex64 and Tensor([1]).cdouble().tolist() == [1]


def test_order_and_narrowing_are_refused():
    x = Tensor([1j])
    for wrong in (lambda: x < x, lambda: Tensor([1.0]) < x,
                  lambda: Tensor([1.0]).maximum(x), lambda: x // 2, lambda: x % 2,
                  lambda: float(x), lambda: Tensor([1.0]).atan2(x),
                  lambda: Tensor([1.0]).mse_loss(x), lambda: x.mse_loss(x)):  # fmt: skip
        with pytest.raises((DTypeError, TypeError)):
            wrong()


def test_results_are_not_the_memory_of_what_they_are_made_of():
    x, y, z = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), Tensor([1 + 2j, 3 - 4j])
    made = [x.cast("complex64"), torpor.complex(x, y), torpor.complex(x, x), z.conj(),
            z.conj_physical(), z.reshape(2, 1).prod(1), z.reshape(1, 2).mH]  # fmt: skip
    known = [one.tolist() for one in made]
    for one in (x, y, z):
        one.fill_(7)
    assert [one.tolist() for one in made] == known
    for one in made:
        one.mul_(2 + 1j)
    assert (x.tolist(), y.tolist(), z.tolist()) == ([7, 7], [7, 7], [7, 7])
    np.testing.assert_allclose(made[2].numpy(), (np.array([1, 2]) * (1 + 1j)) * (2 + 1j))


def test_parts_are_written_as_they_were_before():
    whole = slice(None)
    for write in (
        lambda z, value: z.assign(value),
        lambda z, value: z.copy_(value),
        lambda z, value: z.__setitem__(whole, value),
    ):
        pairs = Tensor([[1.0, 2.0], [3.0, 4.0]])
        z, turned = pairs.view_as_complex(), pairs.flip(1).view_as_complex()
        write(z, turned)
        assert z.tolist() == [2 + 1j, 4 + 3j]


def test_layers_take_complex_numbers():
    x, weight = numbers(3, 4, seed=1), numbers(2, 4, seed=2)
    for _ in range(8):
        np.testing.assert_allclose(Tensor(x).linear(Tensor(weight)).numpy(), x @ weight.T)
        np.testing.assert_allclose(Tensor(x.real).linear(Tensor(weight)).numpy(), x.real @ weight.T)


SLOPES = {
    "exp": np.exp, "exp2": lambda z: np.log(2) * 2**z, "sqrt": lambda z: 0.5 / np.sqrt(z),
    "rsqrt": lambda z: -0.5 * z**-1.5, "log": lambda z: 1 / z,
    "asinh": lambda z: 1 / np.sqrt(1 + z * z), "asin": lambda z: 1 / np.sqrt(1 - z * z),
    "acos": lambda z: -1 / np.sqrt(1 - z * z),
    "acosh": lambda z: 1 / np.sqrt(z - 1) / np.sqrt(z + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_on_the_axes(name):
    z = np.array([1.5 + 0j, 4, 0.25j, 2j] if name == "acosh" else [0.25 + 0j, 0.5, 0.25j, 0.5j])
    x = Tensor(z, requires_grad=True)
    getattr(x, name)().real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), SLOPES[name](z).conj(), rtol=1e-9, atol=1e-12)
    x.grad = None
    getattr(x, name)().imag.sum().backward()
    expected = (-1j * SLOPES[name](z)).conj()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-9, atol=1e-12)
    x.grad = None
    (x**0.5).real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), SLOPES["sqrt"](z).conj(), rtol=1e-9, atol=1e-12)


def test_slopes_of_signs_and_of_the_power_0():
    z = Tensor([0j, 3 + 4j]).requires_grad_()
    (slope,) = z.sgn().real.sum().gradient(z)  # PyTorch's: 0 at 0
    np.testing.assert_allclose(slope.numpy(), [0, (16 - 12j) / 125], 1e-6)
    one = z**0
    assert one.tolist() == [1, 1] and one.requires_grad
    one.real.sum().backward()
    assert z.grad.tolist() == [0, 0]


def test_whole_powers_are_products():
    z = Tensor([0j, 1 + 2j]).requires_grad_()
    for whole in (1.0, 1 + 0j, np.float32(1)):
        assert (z**whole).tolist() == [0, 1 + 2j]
        assert (z**whole).real.sum().gradient(z)[0].tolist() == [1, 1]
    assert (z**2.0).tolist() == [0, -3 + 4j]


EXTREMES = [0.0, -0.0, 1.0, -2.5, 1e30, -1e30, math.inf, -math.inf]
INVERSE = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "sqrt", "reciprocal", "tanh")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*INVERSE, "sinh", "cosh", "sin", "cos"])
def test_infinite_and_very_large_numbers(name):
    """As C99's annex G, and NumPy, say; of what is NaN there either part may be."""
    parts = np.array(EXTREMES, np.float32)
    z = np.empty((len(parts), len(parts)), np.complex64)
    z.real, z.imag = parts[:, None], parts
    expected = getattr(np, name)(z)
    found = getattr(Tensor(z), name)().numpy()
    defined = ~(np.isnan(expected.real) | np.isnan(expected.imag))
    if name in ("sinh", "cosh", "sin", "cos", "tanh"):  # the angle 1e30 is another in float32
        defined &= (abs(z.real) < 1e30) | np.isinf(z.real)
        defined &= (abs(z.imag) < 1e30) | np.isinf(z.imag)
    for one, other in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_allclose(one[defined], other[defined], 1e-6, 1e-37)


def test_a_quotient_by_an_infinite_number_is_zero():
    z = Tensor([1 + 1j, complex(0, 3)]) / Tensor([complex(math.inf, 2), complex(1, -math.inf)])
    assert z.tolist() == [0, 0]


def test_whole_numbers_become_complex_without_rounding():
    whole = 2**53 - 1
    assert Tensor([whole]).cast(dtypes.complex128).tolist() == [whole]


def test_unique():
    z = Tensor([[1 + 2j, 1 + 1j], [0j, 1 + 2j]])
    values, inverse, counts = z.unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [0j, 1 + 1j, 1 + 2j] == z.unique().tolist()
    assert inverse.tolist() == [[2, 1], [0, 2]] and counts.tolist() == [1, 1, 2]


def test_unique_slices_and_runs():
    array = np.complex64([[1 + 2j, 0, 1 + 1j, 0], [1j, 2, 1j, 2]])
    z = Tensor(array)
    for axis in (0, 1):
        values, inverse, counts = z.unique(return_inverse=True, return_counts=True, dim=axis)
        known = np.unique(array, return_inverse=True, return_counts=True, axis=axis)
        assert (values.numpy() == known[0]).all() and (counts.numpy() == known[2]).all()
        assert (inverse.numpy() == known[1].reshape(-1)).all()
    runs, where = Tensor([1j, 1j, 2, 1j]).unique_consecutive(return_inverse=True)
    assert runs.tolist() == [1j, 2, 1j] and where.tolist() == [0, 0, 1, 2]
    assert z.unique(return_inverse=True)[1].shape == (2, 4)


@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_logarithms_of_numbers_whose_size_is_beyond_the_format(name):
    x = np.array([3e38 + 3e38j, -1e31 + 2e38j, 1e-38j, 5 - 2j], np.complex64)
    wanted = getattr(np, name)(x.astype(np.complex128))
    np.testing.assert_allclose(getattr(Tensor(x), name)().numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp"])
def test_scans_of_one_element_are_no_views(name):
    x = Tensor([1 + 2j])
    made = getattr(x, name)(0)
    made += 1
    assert x.tolist() == [1 + 2j]


def test_bits_of_complex_numbers_in_other_formats():
    z = np.array([[1 + 2j, -3j], [0.5, 4 - 1j]], np.complex64)
    for kind in ("float32", "int32", "int64", "uint8"):
        np.testing.assert_array_equal(Tensor(z).view(getattr(torpor, kind)).numpy(), z.view(kind))
    assert Tensor(z).view(torpor.complex64).tolist() == z.tolist()
    floats = np.arange(8.0).reshape(2, 4)
    found = Tensor(floats).view(torpor.complex128)
    np.testing.assert_array_equal(found.numpy(), floats.view("complex128"))
    with pytest.raises(ShapeError):
        Tensor([1.0, 2.0, 3.0]).view(torpor.complex64)


@pytest.mark.parametrize("given", [[1.0, 2.0, 3.0], [1, 2, 3], [True, True, False]])
def test_sums_and_products_of_real_numbers_in_a_complex_format(given):
    x, array = Tensor(given), np.array(given)
    for name in ("sum", "prod", "cumsum", "cumprod", "nansum"):
        for dtype in ("complex64", "complex128"):
            expected = getattr(np, name)(array, axis=0, dtype=dtype)
            made = getattr(x, name)(dim=0, dtype=dtype)
            assert made.dtype.name == dtype and made.tolist() == expected.tolist()
    assert x.sum(dtype="complex64").item() == array.sum()


def test_complex_functions_are_exact_beside_their_poles_and_where_they_vanish():
    z = np.array([-0.99999 + 1e-6j, 1 + 1e-20j, -1 + 1e-8j, -1.0000001, 3 - 2j], np.complex64)
    wide = z.astype(complex)
    np.testing.assert_allclose(Tensor(z).atanh().numpy(), np.arctanh(wide), rtol=1e-6)
    np.testing.assert_allclose(Tensor(z * 1j).atan().numpy(), np.arctan(wide * 1j), rtol=1e-6)
    z = np.array([-17.7 - 46.9j, -80 + 3j, 1j, 2 - 1j, 70 + 2j], np.complex64)
    expected = 1 / (1 + np.exp(-z.astype(complex)))
    np.testing.assert_allclose(Tensor(z).sigmoid().numpy(), expected, rtol=2e-6)
    nothing = Tensor(np.array([complex(-math.inf, math.inf), complex(-math.inf, math.nan)]))
    assert nothing.exp().tolist() == [0, 0]


@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_logarithms_of_very_large_numbers_have_all_their_digits(name):
    z = np.array([1.7e308 - 1.0j, 2e307j, -1e200 + 1e200j])
    made, expected = getattr(Tensor(z), name)().numpy(), getattr(np, name)(z)
    np.testing.assert_allclose(made.real, expected.real, rtol=1e-14)
    np.testing.assert_allclose(made.imag, expected.imag, rtol=1e-14)


@pytest.mark.parametrize("number", [0.5 + 0j, 0j, -0.3 + 0j, 2 + 0j, 0.5j])
def test_slopes_of_atanh_and_atan_on_the_axes(number):
    for name, slope in (("atanh", 1 / (1 - number**2)), ("atan", 1 / (1 + number**2))):
        z = Tensor(np.array(number)).requires_grad_()
        getattr(z, name)().real.backward()
        assert z.grad.item() == pytest.approx(slope.conjugate(), rel=1e-6)
