"""Products in narrow formats, beside the same with operands that are cast, and scaled losses."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.nn import functional as F

BFLOAT16 = torpor.bfloat16


def rand(*shape):
    return Tensor(np.random.default_rng(3).standard_normal(shape).astype("f4"))


PRODUCTS = {
    "matmul": (Tensor.matmul, (rand(3, 4), rand(4, 5))),
    "@": (lambda x, y: x @ y, (rand(3, 4), rand(4))),
    "linear": (F.linear, (rand(3, 4), rand(5, 4), rand(5))),
    "addmm": (torpor.addmm, (rand(3, 5), rand(3, 4), rand(4, 5))),
    "baddbmm": (torpor.baddbmm, (rand(2, 3, 5), rand(2, 3, 4), rand(2, 4, 5))),
    "bmm": (torpor.bmm, (rand(2, 3, 4), rand(2, 4, 5))),
    "conv2d": (F.conv2d, (rand(1, 2, 5, 5), rand(3, 2, 3, 3), rand(3))),
    "conv_transpose1d": (F.conv_transpose1d, (rand(1, 2, 5), rand(2, 3, 3))),
    "einsum": (lambda x, y: torpor.einsum("ij,jk->k", x, y), (rand(3, 4), rand(4, 5))),
    "attention": (F.scaled_dot_product_attention, (rand(2, 3, 4), rand(2, 5, 4), rand(2, 5, 4))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_of_narrow_operands(name):
    function, operands = PRODUCTS[name]
    with torpor.autocast("cpu"):
        made = function(*operands)
    expected = function(*[one.cast(BFLOAT16) for one in operands])
    assert made.dtype is expected.dtype is BFLOAT16
    assert made.float().tolist() == expected.float().tolist()
    assert function(*operands).dtype is torpor.float32, "and only inside"


def test_formats_are_pytorchs():
    torch = pytest.importorskip("torch")
    found = []
    for library in (torch, torpor):
        with library.autocast("cpu", dtype=library.bfloat16):
            x = library.nn.Linear(3, 4)(library.ones(2, 3))
            lstm = library.nn.LSTM(3, 4)(library.ones(2, 1, 3))
            made = [
                x, x.softmax(-1), x + library.ones(1), x * 2,
                library.nn.functional.cross_entropy(x, library.tensor([0, 1])),
                library.nn.functional.mse_loss(x, x), lstm[0], *lstm[1],
                library.nn.functional.soft_margin_loss(x, x.detach().sign()),
                library.nn.MultiheadAttention(4, 2)(x, x, x)[0],
                library.ones(2, 2, dtype=library.float64) @ library.ones(2, 2).double(),
            ]  # fmt: skip
            with library.autocast("cpu", enabled=False):
                made.append(library.ones(1, 1) @ library.ones(1, 1))
            assert library.get_autocast_dtype("cpu") == library.bfloat16
        found.append([str(one.dtype).rpartition(".")[2] for one in made])
    assert found[1] == found[0]


def test_gradients_are_of_the_parameters_formats_and_functions_are_decorated():
    layer, x = nn.Linear(4, 3), rand(5, 4)

    @torpor.amp.autocast("cpu")
    def loss():
        assert torpor.is_autocast_enabled()
        return F.cross_entropy(layer(x), Tensor([0, 1, 2, 0, 1]))

    loss().backward()
    assert not torpor.is_autocast_enabled()
    narrow, layer.weight.grad = layer.weight.grad, None
    assert narrow.dtype is torpor.float32
    F.cross_entropy(layer(x), Tensor([0, 1, 2, 0, 1])).backward()
    np.testing.assert_allclose(narrow.numpy(), layer.weight.grad.numpy(), atol=0.02)
    assert narrow.tolist() != layer.weight.grad.tolist()


def test_a_jitted_function_is_traced_for_each():
    @torpor.jit
    def product(x, y):
        return x @ y

    x, y = rand(3, 4), rand(4, 5)
    for _ in range(3):
        assert product(x, y).dtype is torpor.float32
        with torpor.autocast("cpu"):
            assert product(x, y).dtype is BFLOAT16


def test_losses_are_scaled_and_steps_with_infinite_gradients_left_out():
    from torpor.cuda.amp import GradScaler, autocast

    with autocast(enabled=False):
        assert not torpor.is_autocast_enabled()
    x = Tensor([1.0], requires_grad=True)
    optimiser = nn.optim.SGD([x], lr=0.5)
    scaler = GradScaler(init_scale=8.0, growth_interval=2)
    scales = []
    for factor in (1.0, 1.0, float("inf"), 1.0):
        optimiser.zero_grad()
        scaler.scale((x * factor).sum()).backward()
        assert x.grad.item() == 8 * factor or scales
        scaler.unscale_(optimiser)
        assert x.grad.item() == factor
        scaler.step(optimiser)
        scaler.update()
        scales.append(scaler.get_scale())
    assert x.item() == 1 - 3 * 0.5 and scales == [8.0, 16.0, 8.0, 8.0]
    other = GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_scale() == 8.0
    off = torpor.GradScaler("cpu", enabled=False)
    optimiser.zero_grad()
    off.scale(x.sum()).backward()
    off.step(optimiser)
    off.update()
    assert x.item() == -1.0 and off.state_dict() == {} and off.get_scale() == 1.0


def test_what_is_refused():
    with pytest.raises(TypeError, match="float16 or bfloat16, not"):
        torpor.autocast("cpu", dtype=torpor.float64)
    with pytest.raises(ValueError, match="growth_factor"):
        torpor.GradScaler("cpu", growth_factor=0.5)
    x = Tensor([1.0], requires_grad=True)
    x.sum().backward()
    scaler, optimiser = torpor.GradScaler("cpu"), nn.optim.SGD([x])
    scaler.unscale_(optimiser)
    with pytest.raises(ValueError, match="since the last update"):
        scaler.unscale_(optimiser)


def test_factorisations_are_of_float32():
    x = rand(3, 3)
    with torpor.autocast("cpu"):
        made = torpor.linalg.pinv(x)
        assert torpor.linalg.matrix_exp(x.bfloat16()).dtype is torpor.float32
    np.testing.assert_allclose(made.numpy(), np.linalg.pinv(x.numpy()), rtol=1e-3)


@pytest.mark.parametrize("cast_inputs", [None, torpor.float32])
def test_functions_are_in_the_autocast_of_their_forward(cast_inputs):
    seen = []

    class Product(torpor.autograd.Function):
        @staticmethod
        @torpor.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            seen.append((x @ y).dtype)
            return x @ y

        @staticmethod
        @torpor.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            seen.append((g @ y.mT).dtype)
            return g @ y.mT, x.mT @ g

    x, y = rand(3, 4).requires_grad_(), rand(4, 5)
    with torpor.autocast("cpu"):
        made = Product.apply(x, y)
    made.sum().backward()
    assert seen == [BFLOAT16 if cast_inputs is None else torpor.float32] * 2
    assert x.grad.dtype is torpor.float32


def test_a_jitted_scaler_goes_on_with_its_scale():
    scaler = torpor.GradScaler("cpu", init_scale=4.0)
    scaled = torpor.jit(scaler.scale)
    for _ in range(3):
        assert scaled(Tensor(2.0)).item() == 8
    scaler.update(16.0)
    assert scaled(Tensor(2.0)).item() == 32


def test_small_losses_are_scaled_in_float32():
    made = torpor.GradScaler().scale(Tensor(0.5, dtype="float16"))
    assert (made.item(), made.dtype) == (2.0**15, torpor.float32)


def test_autocast_of_another_device_changes_nothing():
    with pytest.warns(UserWarning, match="changes nothing"):
        context = torpor.autocast("cuda")
    with context:
        assert (rand(2, 3) @ rand(3, 2)).dtype is torpor.float32
