"""torpor: a lazy tensor library with its own compiler.

`torpor.f(x)` and `x.f()` mean the same for every name in `FUNCTIONS`; the meanings are PyTorch's.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
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

__version__ = "0.1.0"

# Functions of a tensor that are also its methods.
FUNCTIONS: Final = tuple(
    """
    abs absolute add addmm all amax amin aminmax any argmax argmin argsort argwhere bernoulli
    binary_cross_entropy binary_cross_entropy_with_logits bincount bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_to bucketize ceil celu
    chunk clamp clip clone conv1d conv2d conv3d conv_transpose1d conv_transpose2d cos cosh
    count_nonzero cross_entropy cummax cummin cumprod cumsum diagonal diff div dot dropout elu
    empty_like eq erf exp exp2 expm1 flatten flip floor floor_divide fmod frac full_like gather ge
    gelu gt histc index_add index_copy index_fill index_put index_reduce index_select isfinite isinf
    isnan kthvalue l1_loss layer_norm le leaky_relu lerp linear log log10 log1p log2 log_softmax
    logcumsumexp logical_and logical_not logical_or logical_xor logsumexp lt masked_fill
    masked_scatter masked_select matmul max max_pool2d maximum mean median min minimum mm moveaxis
    movedim mse_loss msort mul mv nan_to_num narrow ne neg nll_loss nonzero norm normalize numel
    one_hot ones_like outer permute positive pow prod rand_like randint_like randn_like ravel
    reciprocal relu remainder repeat_interleave reshape roll round rsqrt rsub
    scaled_dot_product_attention scatter scatter_add scatter_reduce select selu sigmoid sign silu
    sin sinh softmax softplus sort split sqrt square squeeze std std_mean sub sum swapaxes t take
    take_along_dim tan tanh tensordot tile topk transpose tril triu trunc unbind unflatten unique
    unique_consecutive unsqueeze var var_mean zeros_like
    """.split()  # noqa: SIM905 (a table that is read)
)
# Functions that make tensors, or take several: they are static methods of `Tensor` too.
MAKERS: Final = tuple(
    """
    arange cat concat concatenate empty eye from_dlpack from_file from_numpy full glorot_uniform
    kaiming_normal kaiming_uniform linspace meshgrid normal ones rand randint randn randperm
    searchsorted stack uniform zeros
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
    "set_default_dtype": ("torpor.tensor", "set_default_dtype"),
    "value_and_grad": ("torpor.tensor", "value_and_grad"),
    "render": ("torpor.source", "render"),
    "nn": ("torpor.nn", None),
    "jit": ("torpor.capture", "jit"),
    "TinyJit": ("torpor.capture", "jit"),
    "explain": ("torpor.capture", "explain"),
}
DTYPES: Final = tuple(
    """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
    """.split()  # noqa: SIM905 (a table that is read)
)
_ROOMS: Final = frozenset({"array_api", "io", "dist", "ir", "view", "kernel", "source", "capture"})


def _function(name: str) -> Callable[..., Any]:
    """`torpor.name`: the method, on a tensor or on anything that one can be made of."""
    from torpor.tensor import Tensor, as_tensor
    from torpor.tensor.write import update

    method = getattr(Tensor, name)

    @functools.wraps(method)
    def function(*arguments: Any, **options: Any) -> Any:
        if not arguments:
            named = "input" if "input" in options else "x"
            arguments = (options.pop(named),)
        out = options.pop("out", None)
        made = method(as_tensor(arguments[0]), *arguments[1:], **options)
        return made if out is None else update(out, made)

    function.__name__ = function.__qualname__ = name
    return function


def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    """`input` where the condition holds, else `other`."""
    from torpor.tensor import as_tensor

    return as_tensor(condition).where(input, other)


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
        value = _function(name)
    elif name in MAKERS:
        value = getattr(importlib.import_module("torpor.tensor").Tensor, name)
    elif name in DTYPES:
        value = getattr(importlib.import_module("torpor.base.dtypes").dtypes, name)
    elif name in _ROOMS:
        value = importlib.import_module(f"torpor.{name}")
    else:
        raise AttributeError(f"module 'torpor' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [*PLACES, *FUNCTIONS, *MAKERS, *DTYPES, "where"]
