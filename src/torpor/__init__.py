"""torpor: a lazy tensor library with its own compiler.

`torpor.f(x)` and `x.f()` mean the same for every name in `FUNCTIONS`; the meanings are PyTorch's.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torpor.base.dtypes import DType as DType
    from torpor.base.dtypes import dtypes as dtypes
    from torpor.base.settings import Context as Context
    from torpor.device import Buffer as Buffer
    from torpor.device import Device as Device
    from torpor.ir.variable import Variable as Variable
    from torpor.tensor import Generator as Generator
    from torpor.tensor import Tensor as Tensor
    from torpor.tensor import as_tensor as as_tensor
    from torpor.tensor import einsum as einsum
    from torpor.tensor import enable_grad as enable_grad
    from torpor.tensor import grad as grad
    from torpor.tensor import lower as lower
    from torpor.tensor import manual_seed as manual_seed
    from torpor.tensor import no_grad as no_grad
    from torpor.tensor import set_default_dtype as set_default_dtype
    from torpor.tensor import value_and_grad as value_and_grad
    from torpor.tensor.looping import cond as cond
    from torpor.tensor.looping import scan as scan
    from torpor.tensor.looping import while_loop as while_loop

__version__ = "0.1.0"

# Functions of a tensor that are also its methods.
FUNCTIONS: Final = tuple(
    """
    abs absolute adaptive_avg_pool2d add addmm all amax amin aminmax any argmax argmin argsort
    argwhere avg_pool1d avg_pool2d batch_norm bernoulli binary_cross_entropy
    binary_cross_entropy_with_logits bincount bitcast bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_to bucketize cast ceil celu chunk clamp
    clip clone contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    cos cosh count_nonzero cross_entropy cummax cummin cumprod cumsum detach diagonal diff div dot
    dropout elu empty_like eq erf exp exp2 expand expand_as expm1 flatten flip floor floor_divide
    fmod frac full_like gather ge gelu greater greater_equal group_norm gt hardsigmoid hardswish
    hardtanh histc huber_loss index_add index_copy index_fill index_put index_reduce index_select
    instance_norm is_contiguous is_floating_point isfinite isinf isnan kl_div kthvalue l1_loss
    layer_norm le leaky_relu lerp less less_equal linear log log10 log1p log2 log_softmax
    logcumsumexp logical_and logical_not logical_or logical_xor logsigmoid logsumexp lt masked_fill
    masked_scatter masked_select matmul max max_pool1d max_pool2d maximum mean median min minimum
    mish mm moveaxis movedim mse_loss msort mul mv nan_to_num narrow ne neg nelement nll_loss
    nonzero norm normalize not_equal numel one_hot ones_like outer pad permute positive pow prod
    quick_gelu rand_like randint_like randn_like ravel reciprocal relu relu6 remainder repeat
    repeat_interleave reshape reshape_as rms_norm roll round rsqrt rsub scaled_dot_product_attention
    scatter scatter_add scatter_reduce select selu shard shrink sigmoid sign silu sin sinh
    smooth_l1_loss softmax softmin softplus softsign sort sparse_categorical_crossentropy split sqrt
    square squeeze std std_mean sub sum swapaxes swapdims swish t take take_along_dim tan tanh
    tensordot tile topk transpose tril triu trunc unbind unflatten unfold unique unique_consecutive
    unsqueeze var var_mean view_as zeros_like
    """.split()  # noqa: SIM905 (a table that is read)
)
# Functions that make tensors, or take several: they are static methods of `Tensor` too.
MAKERS: Final = tuple(
    """
    arange cat concat concatenate empty eye from_dlpack from_file from_numpy full glorot_uniform
    kaiming_normal kaiming_uniform linspace meshgrid normal ones rand randint randn randperm
    scaled_uniform searchsorted stack uniform zeros
    """.split()  # noqa: SIM905 (a table that is read)
)

# Where everything else lives. All names are imported when they are first used, so that a room can
# be imported by itself and `import torpor` costs next to nothing. None: the module itself.
PLACES: Final = {
    "DType": ("torpor.base.dtypes", "DType"),
    "dtypes": ("torpor.base.dtypes", "dtypes"),
    "Context": ("torpor.base.settings", "Context"),
    "Buffer": ("torpor.device", "Buffer"),
    "Device": ("torpor.device", "Device"),
    "Variable": ("torpor.ir.variable", "Variable"),
    "Generator": ("torpor.tensor", "Generator"),
    "Tensor": ("torpor.tensor", "Tensor"),
    "tensor": ("torpor.tensor", None),
    "device": ("torpor.device", None),
    "as_tensor": ("torpor.tensor", "as_tensor"),
    "einsum": ("torpor.tensor", "einsum"),
    "enable_grad": ("torpor.tensor", "enable_grad"),
    "grad": ("torpor.tensor", "grad"),
    "lower": ("torpor.tensor", "lower"),
    "manual_seed": ("torpor.tensor", "manual_seed"),
    "no_grad": ("torpor.tensor", "no_grad"),
    "cond": ("torpor.tensor.looping", "cond"),
    "while_loop": ("torpor.tensor.looping", "while_loop"),
    "scan": ("torpor.tensor.looping", "scan"),
    "set_default_dtype": ("torpor.tensor", "set_default_dtype"),
    "value_and_grad": ("torpor.tensor", "value_and_grad"),
    "render": ("torpor.source", "render"),
    "nn": ("torpor.nn", None),
    "jit": ("torpor.capture", "jit"),
    "TinyJit": ("torpor.capture", "jit"),
    "explain": ("torpor.capture", "explain"),
    "profile": ("torpor.profile", "profile"),
    "RecompileWarning": ("torpor.base.errors", "RecompileWarning"),
}
DTYPES: Final = tuple(
    """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
    half float double int long
    """.split()  # noqa: SIM905 (a table that is read)
)
_ROOMS: Final = frozenset({"ir", "view", "kernel", "source", "capture"})


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`where(condition, input, other)`: `input` where the condition holds, else `other`; the
    condition alone: where it holds, as `nonzero(as_tuple=True)`.
    """
    from torpor.tensor import as_tensor, operands

    held = as_tensor(condition)
    if input is None and other is None:
        return held.nonzero(as_tuple=True)
    return operands.choose(held, input, other)


class _Callable(ModuleType):
    """A room whose name is a function's too: `torpor.device("CPU:1")` is the context that chooses
    the default device, `torpor.tensor([1, 2])` makes a tensor as PyTorch's does.
    """

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        room = importlib.import_module("torpor.tensor")
        return (room.device if self.__name__ == "torpor.device" else room.Tensor)(
            *arguments, **options
        )


class _Package(ModuleType):
    """Makes such rooms callable when the import system binds them here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("device", "tensor") and isinstance(value, ModuleType):
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in PLACES:
        module, attribute = PLACES[name]
        value = importlib.import_module(module)
        if attribute is not None:
            value = getattr(value, attribute)
    elif name in FUNCTIONS:
        value = importlib.import_module("torpor.tensor.namespace").function_of(name)
    elif name in MAKERS:
        value = getattr(importlib.import_module("torpor.tensor").Tensor, name)
    elif name in DTYPES:
        value = getattr(importlib.import_module("torpor.base.dtypes").dtypes, name)
    elif name in _ROOMS:
        value = importlib.import_module(f"torpor.{name}")
    else:
        importlib.import_module("torpor.base.missing").names_of("torpor", lambda: __all__)(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [*PLACES, *FUNCTIONS, *MAKERS, *DTYPES, "where"]
