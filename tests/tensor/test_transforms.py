"""Products with Jacobians, Jacobians and functions of many rows, against closed forms, float64
differences and loops over rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import DTypeError, GradientError, ShapeError, ValueRangeError

RNG = np.random.default_rng(15)
X, V = RNG.standard_normal(4), RNG.standard_normal(4)
W, ROWS = RNG.standard_normal((3, 4)), RNG.standard_normal((5, 4))


def wave(x: Any) -> Any:
    return x.sin() * x.exp()


def slope(x: Any) -> Any:
    return (np.sin(x) + np.cos(x)) * np.exp(x)


def energy(x: Any) -> Any:
    return (x.softmax(0) * x**3).sum()


def layer(p: Any) -> Any:
    return {"a": (p["w"] @ p["x"]).tanh(), "b": [p["x"].cumsum(0).exp()]}


def differences(f: Any, x: Any, step: float = 1e-5) -> Any:
    """The Jacobian by central differences, the input's axis last."""
    moves = np.eye(len(x)) * step
    columns = [(f(Tensor(x + m)).numpy() - f(Tensor(x - m)).numpy()) / (2 * step) for m in moves]
    return np.stack(columns, -1)


def close(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


def test_vjp_gives_a_tuple_with_a_cotangent_for_each_primal() -> None:
    y, pull = torpor.vjp(lambda a, b: a @ b, Tensor(W), Tensor(X))
    of_w, of_x = pull(Tensor(V[:3]))
    close(y, W @ X)
    close(of_w, np.outer(V[:3], X))
    close(of_x, W.T @ V[:3])


def test_jvp_is_the_slope_along_the_tangents() -> None:
    y, change = torpor.jvp(wave, (Tensor(X),), (Tensor(V),))
    close(y, np.sin(X) * np.exp(X))
    close(change, slope(X) * V)


def test_trees_go_in_and_come_out() -> None:
    primals = {"w": Tensor(W), "x": Tensor(X)}
    y, change = torpor.jvp(layer, (primals,), ({"w": Tensor(W * 0), "x": Tensor(V)},))
    a, b = np.tanh(W @ X), np.exp(np.cumsum(X))
    close(change["a"], (1 - a * a) * (W @ V))
    close(change["b"][0], b * np.cumsum(V))
    _, pull = torpor.vjp(layer, primals)
    (back,) = pull({"a": Tensor(V[:3]), "b": [Tensor(b * 0)]})
    close(back["w"], np.outer((1 - a * a) * V[:3], X))
    close(back["x"], W.T @ ((1 - a * a) * V[:3]))


def test_what_is_beside_the_outputs_comes_third() -> None:
    def f(x: Any) -> Any:
        return wave(x), x * 2

    close(torpor.vjp(f, Tensor(X), has_aux=True)[2], X * 2)
    close(torpor.jvp(f, (Tensor(X),), (Tensor(V),), has_aux=True)[2], X * 2)
    jacobian, beside = torpor.jacrev(f, has_aux=True)(Tensor(X))
    close(jacobian, np.diag(slope(X)))
    close(beside, X * 2)


def test_complex_numbers_follow_the_conjugate_convention() -> None:
    z, d = X + 1j * V, V - 2j * X
    _, pull = torpor.vjp(lambda z: z * z, Tensor(z))
    close(pull(Tensor(d))[0], np.conj(2 * z) * d)
    close(torpor.jvp(lambda z: z * z, (Tensor(z),), (Tensor(d),))[1], 2 * z * d)


@pytest.mark.parametrize("jacobian", [torpor.jacrev, torpor.jacfwd])
def test_jacobians(jacobian: Any) -> None:
    close(jacobian(wave)(Tensor(X)), np.diag(slope(X)))
    close(jacobian(energy)(Tensor(X)), differences(energy, X), 1e-7)
    of_w, of_x = jacobian(lambda w, x: w @ x, argnums=(0, 1))(Tensor(W), Tensor(X))
    close(of_w, np.einsum("ik,j->ikj", np.eye(3), X))
    close(of_x, W)
    tree = jacobian(layer)({"w": Tensor(W), "x": Tensor(X)})
    close(tree["b"][0]["w"], np.zeros((4, 3, 4)))
    close(tree["b"][0]["x"], np.tril(np.ones((4, 4))) * np.exp(np.cumsum(X))[:, None])


def test_an_output_that_depends_on_nothing_has_a_jacobian_of_zeros() -> None:
    for jacobian in (torpor.jacrev, torpor.jacfwd):
        close(jacobian(lambda x: (x * 2, Tensor(V[:2])))(Tensor(X))[1], np.zeros((2, 4)))


def test_hessian() -> None:
    close(torpor.hessian(lambda x: (x**3).sum())(Tensor(X)), np.diag(6 * X))
    close(torpor.hessian(energy)(Tensor(X)), differences(torpor.grad(energy), X), 1e-7)
    blocks = torpor.hessian(lambda a, b: (a * b * b).sum(), argnums=(0, 1))(Tensor(X), Tensor(V))
    close(blocks[0][0], np.zeros((4, 4)))
    close(blocks[0][1], np.diag(2 * V))
    close(blocks[1][1], np.diag(2 * X))


@pytest.mark.parametrize("number", [1.0, 2.0])
def test_derivatives_where_all_elements_are_one_constant(number: float) -> None:
    x = Tensor.full((3,), number, dtype="float64")
    for second in (torpor.jacfwd, torpor.jacrev):
        close(second(torpor.jacrev(lambda x: (x**3).sum()))(x), np.eye(3) * 6 * number)
    x.requires_grad_()
    _, ys = torpor.scan(lambda c, row: (c, x**2 * row), None, Tensor.ones(2, 3))
    close(ys.sum().gradient(x)[0], np.full(3, 4 * number))


def test_they_go_into_each_other() -> None:
    second = differences(torpor.grad(energy), X)
    close(torpor.jvp(torpor.grad(energy), (Tensor(X),), (Tensor(V),))[1], second @ V, 1e-7)
    along = torpor.grad(lambda x: torpor.jvp(energy, (x,), (Tensor(V),))[1])
    close(along(Tensor(X)), second @ V, 1e-7)


def test_inside_a_jit() -> None:
    pulled = torpor.jit(lambda x, g: torpor.vjp(wave, x)[1](g)[0])
    curved = torpor.jit(torpor.hessian(lambda x: (x**3).sum()))
    for x in (X, V, X + V):
        close(pulled(Tensor(x), Tensor(V)), slope(x) * V)
        close(curved(Tensor(x)), np.diag(6 * x))


def test_vmap_is_a_loop_over_rows() -> None:
    both = torpor.vmap(lambda row, x: (row * x).sum(), in_dims=(0, None))
    close(both(Tensor(ROWS), Tensor(X)), ROWS @ X)
    turned = torpor.vmap(lambda a: a.cumsum(0), in_dims=1, out_dims=1)
    close(turned(Tensor(ROWS)), np.cumsum(ROWS, 0))
    close(torpor.vmap(lambda a: a.sort(0)[0])(Tensor(ROWS)), np.sort(ROWS, 1))
    tree = torpor.vmap(lambda p: p["w"] + p["x"], in_dims=({"w": 0, "x": None},))
    close(tree({"w": Tensor(W), "x": Tensor(X)}), W + X)


def test_vmap_within_vmap_and_with_gradients() -> None:
    pairs = torpor.vmap(lambda a: torpor.vmap(lambda b: (a * b).sum())(Tensor(W)))
    close(pairs(Tensor(ROWS)), ROWS @ W.T)
    wanted = np.stack([torpor.grad(energy)(Tensor(row)).numpy() for row in ROWS])
    close(torpor.vmap(torpor.grad(energy))(Tensor(ROWS)), wanted)
    close(torpor.grad(lambda a: torpor.vmap(energy)(a).sum())(Tensor(ROWS)), wanted)


def test_what_vmap_does_not_map_stays_what_it_is() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])

    def applied(row, function, how, power=1):
        return getattr(function(row) ** power, how)()

    made = torpor.vmap(applied, in_dims=(0, None, None))(x, torpor.square, "sum", power=2)
    assert made.tolist() == [17.0, 337.0]
    with pytest.raises(ValueError, match="vmap: a value that depends on the example"):
        torpor.vmap(lambda row: row if row.sum() > 0 else -row)(x)


def test_vmap_of_no_examples() -> None:
    assert torpor.vmap(wave)(Tensor(ROWS[:0])).shape == (0, 4)


def test_errors_say_what_does_not_fit() -> None:
    x = Tensor(X)
    with pytest.raises(ShapeError, match=r"tangents\[0\] has the shape \(3,\), not \(4,\)"):
        torpor.jvp(wave, (x,), (Tensor(V[:3]),))
    with pytest.raises(ShapeError, match="another structure"):
        torpor.vjp(wave, x)[1]((x, x))
    with pytest.raises(GradientError, match="only floats"):
        torpor.vjp(wave, Tensor([1, 2]))
    with pytest.raises(DTypeError, match="complex"):
        torpor.jacrev(lambda z: z * z)(Tensor(X + 1j * V))
    with pytest.raises(ShapeError, match="at least one argument"):
        torpor.vmap(wave, in_dims=None)(x)
    with pytest.raises(ShapeError, match="2 axes for 1 values"):
        torpor.vmap(wave, in_dims=(0, 0))(x)
    with pytest.raises(ShapeError, match="out_dims"):
        torpor.vmap(wave, out_dims=None)(x)


def test_vmap_of_factorisations():
    """Of tensors that stand for any example."""
    random = np.random.default_rng(4)
    matrices, vectors = random.standard_normal((2, 3, 4, 4)), random.standard_normal((3, 4))
    x, y = Tensor(matrices), Tensor(vectors)
    found = torpor.vmap(torpor.vmap(torpor.linalg.inv))(x)
    np.testing.assert_allclose(found.numpy(), np.linalg.inv(matrices), rtol=1e-9)

    def solved(matrix, vector):
        return torpor.linalg.solve(matrix, vector), matrix.sum()

    found, sums = torpor.vmap(solved, in_dims=(2, None), out_dims=(1, 0))(x[0].movedim(0, 2), y[0])
    wanted = [np.linalg.solve(one, vectors[0]) for one in matrices[0]]
    np.testing.assert_allclose(found.numpy(), np.stack(wanted, 1), rtol=1e-9)
    np.testing.assert_allclose(sums.numpy(), matrices[0].sum((1, 2)), rtol=1e-9)
    leaf = x[1].clone().requires_grad_()
    torpor.vmap(torpor.linalg.det)(leaf).sum().backward()
    wanted = [np.linalg.det(one) * np.linalg.inv(one).T for one in matrices[1]]
    np.testing.assert_allclose(leaf.grad.numpy(), wanted, rtol=1e-9)


def test_vmap_of_triangular_factors():
    matrices = np.random.default_rng(5).standard_normal((3, 4, 4))
    lower = torpor.vmap(lambda x: torpor.linalg.lu(x).L @ torpor.linalg.lu(x).U)(Tensor(matrices))
    order = torpor.vmap(torpor.linalg.lu)(Tensor(matrices)).P
    np.testing.assert_allclose((order @ lower).numpy(), matrices, rtol=1e-9)
    found = torpor.vmap(torpor.linalg.lu_factor)(Tensor(matrices))
    right = Tensor(np.ones((3, 4, 1)))
    wanted = np.linalg.solve(matrices, np.ones((3, 4, 1)))
    np.testing.assert_allclose(torpor.linalg.lu_solve(*found, right).numpy(), wanted, rtol=1e-9)
    assert torpor.vmap(torpor.linalg.lu_factor_ex)(Tensor(matrices)).info.tolist() == [0, 0, 0]


def test_results_that_are_the_same_for_all_examples_need_no_axis():
    def both(x: Any, y: Any) -> Any:
        return x + 1, y * 2

    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0, 5.0])
    mapped, same = torpor.vmap(both, in_dims=(0, None), out_dims=(0, None))(x, y)
    assert mapped.tolist() == [2, 3] and same.tolist() == [6, 8, 10]
    with pytest.raises(ShapeError, match="out_dims needs an axis"):
        torpor.vmap(both, in_dims=(0, None), out_dims=(None, 0))(x, y)
    stack = Tensor.eye(2).expand(3, 2, 2)
    outs = torpor.vmap(lambda a, y: (torpor.linalg.inv(a), -y), (0, None), (0, None))(stack, y)
    assert outs[0].tolist() == [[[1, 0], [0, 1]]] * 3 and outs[1].tolist() == [-3, -4, -5]


def test_draws_in_jacfwd():
    x = Tensor([1.0, 2.0])
    found = torpor.jacfwd(Tensor.square, randomness="error")(x)
    assert found.tolist() == [[2, 0], [0, 4]]
    with pytest.raises(ValueRangeError, match="random numbers are drawn"):
        torpor.jacfwd(lambda x: x * Tensor.rand(2), randomness="error")(x)
    torpor.manual_seed(3)
    drawn = torpor.rand(2)
    torpor.manual_seed(3)
    found = torpor.jacfwd(lambda x: x * torpor.rand(2), randomness="same")(x)
    assert found.tolist() == [[drawn[0].item(), 0], [0, drawn[1].item()]]
    with pytest.raises(ValueRangeError, match="jacfwd's randomness is"):
        torpor.jacfwd(Tensor.square, randomness="none")


def test_nothing_asks_for_gradients_of_what_nobody_asked_for() -> None:
    def f(x: Any) -> Any:
        return x * x, x + 1

    x, asked = Tensor(X), Tensor(V, requires_grad=True)
    y, pull, beside = torpor.vjp(f, x, has_aux=True)
    found = [y, beside, *pull(x), *torpor.jvp(f, (x,), (x,), has_aux=True)]
    found += [torpor.jacrev(wave)(x), torpor.jacfwd(wave)(x), torpor.hessian(energy)(x)]
    found += torpor.grad(lambda x: (x.sum(), x * 2), has_aux=True)(x)
    assert [one.requires_grad for one in found] == [False] * len(found)
    of_product = torpor.jacrev(lambda x: x * asked)(x)
    assert of_product.requires_grad and torpor.jacrev(wave)(asked).requires_grad
    close(of_product.sum().gradient(asked)[0], np.ones(4))


def test_draws_of_examples_are_different_the_same_or_an_error() -> None:
    def draw(x: Any) -> Any:
        return x + Tensor.rand(2) + Tensor.randn(2)

    rows = Tensor.zeros(3, 2)
    same = torpor.vmap(draw, randomness="same")
    first, second = same(rows).numpy(), torpor.jit(same)(rows).numpy()
    assert (first == first[0]).all() and (second == second[0]).all() and (first != second).all()
    apart = torpor.vmap(draw)(rows).numpy()
    assert (apart[0] != apart[1]).all() and (apart[1] != apart[2]).all()
    with pytest.raises(ValueRangeError, match="random numbers are drawn"):
        torpor.vmap(draw, randomness="error")(rows)
    close(torpor.vmap(torpor.sin, randomness="error")(Tensor(ROWS)), np.sin(ROWS))
    with pytest.raises(ValueRangeError, match="randomness is"):
        torpor.vmap(draw, randomness="some")


OUTER = {  # what is added up of the slopes of x³, and its slope
    "grad": (lambda x: torpor.grad(lambda a: (a**3).sum())(x), lambda x: 6 * x),
    "value_and_grad": (
        lambda x: sum(torpor.value_and_grad(lambda a: (a**3).sum())(x)),
        lambda x: 6 * x + 3 * len(x) * x**2,  # the value is broadcast
    ),
    "outputs of vjp": (lambda x: torpor.vjp(lambda a: a**3, x)[0], lambda x: 3 * x**2),
    "pull of vjp": (
        lambda x: torpor.vjp(lambda a: a**3, x)[1](Tensor.ones(4, dtype="float64"))[0],
        lambda x: 6 * x,
    ),
    "jvp": (
        lambda x: torpor.jvp(lambda a: a**3, (x,), (x.detach().ones_like(),))[1],
        lambda x: 6 * x,
    ),
    "jacrev": (lambda x: torpor.jacrev(lambda a: a**3)(x), lambda x: 6 * x),
    "jacfwd": (lambda x: torpor.jacfwd(lambda a: a**3)(x), lambda x: 6 * x),
    "hessian": (lambda x: torpor.hessian(lambda a: (a**3).sum())(x), lambda x: 0 * x + 6),
    "vmap": (lambda x: torpor.vmap(torpor.grad(lambda a: a**3))(x), lambda x: 6 * x),
}


@pytest.mark.parametrize("name", OUTER)
def test_backward_goes_through_a_transform_to_what_it_was_given(name):
    function, slope = OUTER[name]
    x = Tensor(X, requires_grad=True)
    function(x).sum().backward()
    assert np.allclose(x.grad.numpy(), slope(X))
    y = Tensor(X, requires_grad=True)
    assert np.allclose(torpor.autograd.grad(function(y).sum(), y)[0].numpy(), slope(X))


def test_a_step_of_an_inner_loop_has_a_gradient():
    w = Tensor([1.0, 2.0], requires_grad=True)
    inner = torpor.grad(lambda p: (p["w"] ** 3).sum())({"w": w})
    ((w - 0.1 * inner["w"]) ** 2).sum().backward()
    step = np.array([1.0, 2.0]) - 0.3 * np.array([1.0, 4.0])
    assert np.allclose(w.grad.numpy(), 2 * step * (1 - 0.6 * np.array([1.0, 2.0])), atol=1e-6)


def test_what_a_mapped_function_writes_into_its_arguments_is_there():
    b = Tensor.zeros(3)
    made = torpor.vmap(lambda x, c: c.add_(x))(Tensor([0.0, 1.0, 2.0]), b)
    assert made.tolist() == b.tolist() == [0, 1, 2]
    c = Tensor.ones(3, 2)
    torpor.vmap(lambda x, c: c.mul_(3).add_(x).sum(), in_dims=(0, 1))(Tensor([0.0, 1.0]), c)
    assert c.tolist() == [[3, 4]] * 3


@pytest.mark.parametrize("mode", ["outside", "inside"])
def test_no_grad_around_and_inside_of_what_is_differentiated(mode):
    """Around it changes nothing; inside no gradient flows, and tangents do, as in PyTorch."""
    weight, x, one = torpor.ones(2, requires_grad=True) * 3, Tensor([1.0, 2.0]), torpor.ones(2)

    def function(x):
        with torpor.set_grad_enabled(mode == "outside"):
            y = x * x * weight
        return (x * y).sum()

    slopes = np.array([9.0, 36.0] if mode == "outside" else [3.0, 12.0])
    with torpor.set_grad_enabled(mode == "inside"):
        found = (
            torpor.grad(function)(x), torpor.vjp(function, x)[1](Tensor(1.0))[0],
            torpor.jacrev(function)(x), torpor.value_and_grad(function)(x)[1],
        )  # fmt: skip
        tangents = torpor.jvp(function, (x,), (one,))[1], torpor.jacfwd(function)(x).sum()
        if mode == "outside":
            curved = torpor.hessian(function)(x)
            np.testing.assert_allclose(curved, [[18.0, 0.0], [0.0, 36.0]])
            assert not any(made.requires_grad for made in (*found, *tangents, curved))
    for gradient in found:
        np.testing.assert_allclose(gradient.detach(), slopes)
    for tangent in tangents:
        assert tangent.item() == 45.0


def test_functions_may_write_to_what_tangents_belong_to():
    def function(x):
        x *= 2
        x[0] = x[1] ** 2
        return x

    given = Tensor([1.0, 2.0])
    value, change = torpor.jvp(function, (given,), (Tensor([1.0, 1.0]),))
    assert (value.tolist(), change.tolist()) == ([16.0, 4.0], [16.0, 2.0])
    assert given.tolist() == [1.0, 2.0]
