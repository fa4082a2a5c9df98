"""One rule for names: `torpor.f(x)` and `x.f()` mean the same."""

import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import torpor
from torpor import Tensor

# Methods that are about the handle itself: where it is computed, read, written and differentiated;
# and names that mean something else at the top, where they are formats and rooms.
METHODS = {
    "assign", "backward", "bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "cpu",
    "cuda", "dim", "dim_order", "double", "element_size", "float", "get_device", "gradient", "half",
    "int", "is_pinned", "item", "long", "manual_seed", "ndimension",
    "new", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "numpy", "realize",
    "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "schedule",
    "schedule_with_vars", "short", "storage_offset", "stride", "to", "to_device", "tolist",
    "train", "type", "type_as", "view", "where",
}  # fmt: skip
X, Y = np.float32([[0.5, 0.25], [0.75, 1.0]]), np.float32([[0.25, 0.5], [1.0, 0.5]])
N, B = np.int64([[0, 1], [1, 0]]), np.bool_([[True, False], [True, True]])
C = np.float32([[1.0, 2.0, 3.0]])
V, W = np.float32([0.5, 1.0]), np.int64([0, 1])
IMAGE, LINE, CUBE = (np.ones((1, 2, *(4,) * n), np.float32) for n in (2, 1, 3))
KERNEL = {n: np.ones((2, 2, *(2,) * n), np.float32) for n in (1, 2, 3)}
BOTH = (
    "add", "binary_cross_entropy", "binary_cross_entropy_with_logits", "div", "dot", "eq",
    "expand_as", "floor_divide", "fmod", "ge", "greater", "greater_equal", "gt", "huber_loss",
    "kl_div", "l1_loss", "le", "less", "less_equal", "logical_and", "logical_or", "logical_xor",
    "lt", "matmul", "maximum", "minimum", "mm", "mse_loss", "mul", "ne", "not_equal", "pow",
    "remainder", "reshape_as", "rsub", "smooth_l1_loss", "sub", "tensordot", "view_as",
    "allclose", "arctan2", "atan2", "clamp_max", "clamp_min", "copysign", "dist", "divide", "equal",
    "float_power", "fmax", "fmin", "heaviside", "hypot", "inner", "is_same_size", "isclose", "isin",
    "kron", "ldexp", "logaddexp", "logaddexp2", "multiply", "nextafter", "subtract", "true_divide",
    "vecdot", "xlogy",
)  # fmt: skip
WHOLE = (
    "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "gcd",
    "lcm",
)  # fmt: skip
ARGUMENTS = {
    **dict.fromkeys(BOTH, (X, Y)),
    **dict.fromkeys(WHOLE, (N, N)),
    "bitwise_not": (N,),
    "one_hot": (W,),
    "bincount": (W,),
    "binomial": (N, 0.5),
    "multinomial": (X, 2),
    "addmm": (X, X, Y),
    **dict.fromkeys(("as_strided", "as_strided_copy"), (X, (2,), (1,))),
    "as_strided_scatter": (X, X.reshape(-1)[:2], (2,), (1,)),
    **dict.fromkeys(("addbmm", "baddbmm"), (X, X[None], Y[None])),
    **dict.fromkeys(("addcdiv", "addcmul"), (X, X, Y)),
    "addmv": (V, X, V),
    "addr": (X, V, V),
    **dict.fromkeys(("acosh", "arccosh"), (X + 1,)),
    "combinations": (V,),
    "cross": (C, C),
    "diagonal_scatter": (X, V),
    "diag_embed": (X,),
    "dsplit": (X[None], 2),
    **dict.fromkeys(("hsplit", "tensor_split", "vsplit"), (X, 2)),
    "expand_copy": (X, (3, 2, 2)),
    **dict.fromkeys(("histogram", "histogramdd"), (X, 3)),
    "is_nonzero": (X[0, :1],),
    **dict.fromkeys(("complex", "igamma", "igammac", "polar"), (X, Y)),
    "view_as_complex": (X,),
    "view_as_real": (X + 1j * Y,),
    "matrix_power": (X, 3),
    "narrow_copy": (X, 0, 0, 1),
    **dict.fromkeys(("nanquantile", "quantile"), (X, 0.5)),
    "permute_copy": (X, (1, 0)),
    **dict.fromkeys(("mvlgamma", "polygamma"), (X, 1)),
    "renorm": (X, 2, 0, 0.5),
    **dict.fromkeys(("select_copy", "transpose_copy"), (X, 0, 1)),
    "select_scatter": (X, V, 0, 1),
    "slice_scatter": (X, V[None], 0, 0, 1),
    **dict.fromkeys(("split_copy", "unsafe_chunk", "unsafe_split"), (X, 1)),
    **dict.fromkeys(("split_with_sizes", "split_with_sizes_copy"), (X, (1, 1))),
    "sum_to_size": (X, (1, 2)),
    "unfold_copy": (X, 0, 2),
    "unravel_index": (W, (2, 2)),
    "unsqueeze_copy": (X, 0),
    "vander": (V,),
    "vdot": (V, V),
    "view_copy": (X, (4,)),
    **{
        f"{kind}_pool{n}d": (x, 2)
        for kind in ("adaptive_avg", "adaptive_max", "avg", "max")
        for n, x in ((1, LINE), (2, IMAGE), (3, CUBE))
    },
    **{f"max_unpool{n}d": (x, np.int64(x * 0), 1) for n, x in ((1, LINE), (2, IMAGE), (3, CUBE))},
    "prelu": (X, V),
    "constant_pad_nd": (X, (1, 1)),
    "fill": (X, 2.0),
    "nonzero_static": (X, 3),
    "put": (X, W, V),
    **dict.fromkeys(("cholesky", "cholesky_inverse"), (X + 9 * np.eye(2, dtype=np.float32),)),
    **dict.fromkeys(("cholesky_solve", "triangular_solve"), (X, Y)),
    "threshold": (X, 0.5, 2.0),
    "batch_norm": (IMAGE, V, V),
    "group_norm": (IMAGE, 2),
    "instance_norm": (IMAGE,),
    "layer_norm": (X, 2),
    "rms_norm": (X, 2),
    "bitcast": (X, torpor.int32),
    "cast": (X, torpor.int32),
    "bmm": (X[None], Y[None]),
    "mv": (X, V),
    **dict.fromkeys(("ger", "outer"), (V, V)),
    "linear": (X, Y),
    "broadcast_to": (X, (3, 2, 2)),
    "expand": (X, (3, 2, 2)),
    "bucketize": (X, V),
    "chunk": (X, 2),
    "clamp": (X, 0.5),
    "clip": (X, 0.5),
    **{f"conv{n}d": (x, KERNEL[n]) for n, x in ((1, LINE), (2, IMAGE), (3, CUBE))},
    **{f"conv_transpose{n}d": (x, KERNEL[n]) for n, x in ((1, LINE), (2, IMAGE), (3, CUBE))},
    "cross_entropy": (X, W),
    "nll_loss": (X, W),
    "sparse_categorical_crossentropy": (X, W),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum", "logcumsumexp", "flip"), (X, 0)),
    **dict.fromkeys(("log_softmax", "softmax", "softmin", "unsqueeze", "repeat"), (X, 0)),
    "full_like": (X, 7),
    "gather": (X, 0, N),
    "take": (X, N),
    "take_along_dim": (X, N, 0),
    "scatter": (X, 0, N, Y),
    "scatter_add": (X, 0, N, Y),
    "stft": (np.arange(8.0), 4, 2, None, None, True, "reflect", False, None, True),
    "istft": (np.ones((3, 4), np.complex128), 4, 2),
    "scatter_reduce": (X, 0, N, Y, "amax"),
    "index_add": (X, 0, W, Y),
    "index_copy": (X, 0, W, Y),
    "index_fill": (X, 0, W, 2.0),
    "index_put": (X, (W,), V),
    "index_reduce": (X, 0, W, Y, "amax"),
    "index_select": (X, 0, W),
    "kthvalue": (X, 1),
    "lerp": (X, Y, 0.5),
    "masked_fill": (X, B, 2.0),
    "masked_scatter": (X, B, Y),
    "masked_select": (X, B),
    "moveaxis": (X, 0, 1),
    "movedim": (X, 0, 1),
    "narrow": (X, 0, 0, 1),
    "pad": (X, (1, 1)),
    "permute": (X, (1, 0)),
    "randint_like": (X, 5),
    "repeat": (X, (2, 2)),
    "repeat_interleave": (X, 2),
    "reshape": (X, (4,)),
    "roll": (X, 1),
    "scaled_dot_product_attention": (X, X, Y),
    "select": (X, 0, 1),
    "shard": (X, "CPU"),
    "shrink": (X, ((0, 1), None)),
    "split": (X, 1),
    "swapaxes": (X, 0, 1),
    "swapdims": (X, 0, 1),
    "transpose": (X, 0, 1),
    "tile": (X, (2,)),
    "topk": (X, 1),
    "unflatten": (X, 0, (2, 1)),
    "unfold": (X, 0, 2),
}
RANDOM = {
    "bernoulli", "binomial", "dropout", "multinomial", "poisson", "rand_like", "randint_like",
    "randn_like",
}  # fmt: skip


def tensors(arguments):
    return [Tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]


def agree(one, other):
    """Equal graphs are one node. What was computed at the call is compared by its elements: where a
    long chain was cut may differ, and with it which products and sums are fused.
    """
    if isinstance(one, tuple | list):
        assert len(one) == len(other)
        for part, again in zip(one, other):
            agree(part, again)
    elif isinstance(one, Tensor):
        assert one.shape == other.shape
        if one.is_complex() or one._current() is not other._current():
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2.0**-22)
    else:
        assert one == other


def test_every_method_is_a_function_or_about_the_handle():
    methods = {
        name
        for name, value in inspect.getmembers_static(Tensor)
        if inspect.isfunction(value) and name.isidentifier() and not name.startswith("_")
    }
    functions = {name for name in methods if not name.endswith("_")}
    assert functions - METHODS <= {*torpor.FUNCTIONS, *torpor.MAKERS}
    assert set(torpor.FUNCTIONS) <= functions
    makers = {n for n, v in inspect.getmembers_static(Tensor) if isinstance(v, staticmethod)}
    assert {n for n in makers if not n.startswith("_")} - METHODS <= set(torpor.MAKERS)


@pytest.mark.parametrize("name", sorted(set(torpor.FUNCTIONS) - RANDOM - {"empty_like"}))
def test_functions_mean_what_methods_mean(name):
    first, *rest = tensors(ARGUMENTS.get(name, (X,)))
    agree(getattr(torpor, name)(first, *rest), getattr(first, name)(*rest))


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_random_functions_draw_as_their_methods(name):
    first, *rest = tensors(ARGUMENTS.get(name, (X,)))
    torpor.manual_seed(3)
    one = getattr(torpor, name)(first, *rest).numpy()
    torpor.manual_seed(3)
    assert (one == getattr(first, name)(*rest).numpy()).all()


def test_anything_that_a_tensor_can_be_made_of_is_an_operand():
    assert torpor.add([1, 2], 3).tolist() == [4, 5]
    assert torpor.softmax(input=[[0.0, 0.0]], axis=1).tolist() == [[0.5, 0.5]]
    out = Tensor.zeros(2).contiguous()
    assert torpor.square(x=[2.0, 3.0], out=out) is out
    assert out.tolist() == [4.0, 9.0]


def test_formats_have_their_names_at_the_top():
    for name in torpor.DTYPES:
        assert getattr(torpor, name) is getattr(torpor.dtypes, name)


def test_rooms_with_a_function_s_name_are_called_once_something_of_them_was_imported() -> None:
    script = "import torpor.explore.trace, torpor.profile.table, torpor\n" \
        "with torpor.profile() as found: print((torpor.tensor([1, 2]) + 1).tolist())\n" \
        "print(callable(torpor.explore))"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["[2, 3]", "True"]


def test_functions_are_found_again_by_pickles():
    rooms = torpor, torpor.nn.functional, torpor.linalg, torpor.fft, torpor.special
    for room in rooms:
        names = [name for name in dir(room) if not name.startswith("_")]
        functions = {name: getattr(room, name) for name in names}
        for name, function in functions.items():
            if inspect.isfunction(function):
                assert pickle.loads(pickle.dumps(function)) is function, (room, name)
    for function in (Tensor.exp, Tensor.avg_pool2d, torpor.tensor):
        assert pickle.loads(pickle.dumps(function)) is copy.deepcopy(function) is function
