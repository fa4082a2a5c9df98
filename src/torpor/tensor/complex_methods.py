"""Which of a tensor's methods complex tensors have: those of both parts, those that are made of
other methods, and the functions of `complex_functions`. Every other one is refused by its name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np

from torpor.base.dtypes import DType, as_dtype, kept_dtype
from torpor.base.errors import DTypeError
from torpor.ir.infer import product, shape_of
from torpor.tensor.complex import Complex
from torpor.tensor.complex_functions import FUNCTIONS
from torpor.tensor.handle import Handle, located
from torpor.tensor.layout import memory_of, strides_of
from torpor.tensor.pairs import Pair, as_complex, paired, parts_of
from torpor.tensor.spelling import one_axis, spell
from torpor.tensor.tensor import VIEWS_IN_PLACE, Tensor

# What is done to the real and to the imaginary parts alike.
BOTH: Final = tuple(
    """
    __getitem__ __neg__ alias_copy broadcast_to chunk clone contiguous cpu cumsum detach
    detach_copy diag diag_embed diagflat diagonal diagonal_copy dsplit expand expand_copy flatten
    flip fliplr flipud gather hsplit index_select mean moveaxis movedim narrow narrow_copy neg
    negative permute permute_copy ravel repeat repeat_interleave reshape roll rot90 select
    select_copy slice slice_copy split split_copy split_with_sizes split_with_sizes_copy squeeze
    squeeze_copy sum sum_to_size swapaxes swapdims t t_copy take take_along_dim tensor_split tile
    trace transpose transpose_copy tril triu unbind unbind_copy unflatten unfold unfold_copy
    unsafe_chunk unsafe_split unsqueeze unsqueeze_copy view_copy vsplit masked_select combinations
    nan_to_num
    """.split()  # noqa: SIM905 (a table that is read)
)
# Products of two operands, linear in each.
BILINEAR: Final = ["mm", "bmm", "mv", "dot", "outer", "inner", "tensordot", "kron", "cross"]
CONVOLUTIONS: Final = [f"conv{kind}{axes}d" for kind in ("", "_transpose") for axes in (1, 2, 3)]
# What writes into both parts those of a value, which may be real: methods, and the value's name.
VALUES: Final = {
    "diagonal_scatter": "src", "select_scatter": "src", "slice_scatter": "src",
    "index_copy": "source", "index_fill": "value", "index_put": "values", "put": "source",
    "masked_fill": "value", "masked_scatter": "source", "scatter_add": "src", "pad": "value",
    "constant_pad_nd": "value",
}  # fmt: skip
_OF_OBJECTS: Final = ("__annotations__", "__dict__", "__slots__", "__weakref__", "_type")
# What is written with other methods only, and means the same for complex numbers.
MADE_OF_OTHERS: Final = tuple(
    """
    add sub subtract rsub true_divide square reciprocal logical_not
    T mT __bool__ __contains__ __iter__ __len__ _only addbmm addmm addmv addr baddbmm allclose
    view view_as reshape_as expand_as broadcast_tensors bool divide dim element_size
    cdouble cfloat
    equal is_floating_point is_nonzero is_same_size itemsize linear matrix_power
    mul multiply nbytes nelement new_ones new_zeros numel ones_like zeros_like size
    positive pow to to_device type where __array_namespace__ __array_ufunc__ __array_function__
    __format__ __dir__ _here _of_numpy count_nonzero gradient _factor dist norm
    inverse det slogdet logdet cholesky cholesky_solve cholesky_inverse triangular_solve qr svd
    pinverse matrix_exp cat stack vander addcmul addcdiv corrcoef cov var_mean std_mean
    logical_and logical_or logical_xor softmax log_softmax softmin logsumexp logcumsumexp normalize
    rms_norm silu swish softsign tanhshrink sinc lerp renorm fill trapz trapezoid
    cumulative_trapezoid l1_loss nonzero_static argwhere bfloat16 byte char double float half int
    long short layout is_sparse is_sparse_csr is_quantized is_nested is_mkldnn is_cpu is_cuda is_mps
    is_meta ndimension get_device is_inference is_neg is_conj is_pinned dim_order new_empty
    new_tensor new_full
    fill_diagonal_ full_like _like unique unique_consecutive
    empty_like rand_like randn_like type_as ger type as_strided_copy as_strided_scatter
    __pos__ resolve_conj resolve_neg adjoint mH H is_complex is_signed isnan isclose any all
    nonzero vdot vecdot __matmul__ __rmatmul__ __array__ zero_ div diff
    """.split()  # noqa: SIM905 (a table that is read)
)
# What has no operand, or takes several in a list.
STATIC: Final = tuple(
    name for family in Tensor.__mro__ for name, value in vars(family).items()
    if isinstance(value, staticmethod | classmethod)
)  # fmt: skip
ALIASES: Final = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctanh": "atanh",
}  # fmt: skip


def _part(value: Any, number: int) -> Any:
    """What an argument is for one of the parts: a complex format or tensor has two."""
    if isinstance(value, Complex):
        return parts_of(value)[number]
    if not isinstance(value, str | type | DType):
        return value
    kind = as_dtype(value)
    if not kind.is_complex:
        raise DTypeError(f"{kind} holds no imaginary part: take x.real, x.imag or x.abs()")
    return kind.part


def _joined(x: Any, y: Any) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(_joined(*both) for both in zip(x, y, strict=True))
    return paired(x, y)


def _both(name: str) -> Callable[..., Any]:
    function = getattr(Tensor, name)

    @functools.wraps(function)
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        made = []
        for number, part in enumerate(parts_of(self)):
            given = {key: _part(one, number) for key, one in options.items()}
            made.append(function(part, *(_part(one, number) for one in arguments), **given))
        return _joined(*made)

    return method


def _bilinear(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(Tensor, name))
    def method(self: Any, other: Any, *arguments: Any, **options: Any) -> Any:
        return self._bilinear(name, other, *arguments, **options)

    return method


def _function(name: str) -> Callable[..., Any]:
    function = FUNCTIONS[name]

    @functools.wraps(getattr(Tensor, name))
    def method(self: Any) -> Any:
        return paired(*function(*parts_of(self)))

    return method


def _with_value(name: str, value: str) -> Callable[..., Any]:
    function = getattr(Tensor, name)
    parameters = inspect.signature(function).parameters
    place = [*parameters].index(value) - 1

    @functools.wraps(function)
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        if place < len(arguments):
            options[value] = arguments[place]
            options |= dict(zip([*parameters][place + 2 :], arguments[place + 1 :], strict=False))
            arguments = arguments[:place]
        given = options.pop(value, parameters[value].default)
        if given is None:  # padding that puts no value anywhere
            return self.by_parts(lambda part: function(part, *arguments, **options))
        given = Tensor(given, device=self.device) if isinstance(given, np.ndarray | list) else given
        made = [function(part, *arguments, **{value: one}, **options)
                for part, one in zip(parts_of(self), parts_of(given), strict=True)]  # fmt: skip
        return _joined(*made)

    return method


def _convolution(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(Tensor, name))
    def method(self: Any, weight: Any, bias: Any = None, *arguments: Any, **options: Any) -> Any:
        made = self._bilinear(name, weight, None, *arguments, **options)
        return made if bias is None else made + bias.reshape(-1, *(1,) * (weight.ndim - 2))

    return method


def _refuse(name: str) -> Any:
    def refused(self: Any, *arguments: Any, **options: Any) -> NoReturn:
        what = f"{name} does not take complex numbers; take x.real and x.imag, or x.abs()"
        raise located(DTypeError(what), (self,))

    refused.__name__ = name
    refused.__doc__ = "A `DTypeError`: it is not there for complex numbers."
    return refused if callable(getattr(Tensor, name, None)) else property(refused)


def _in_place(name: str, spelling: str) -> Callable[..., Any]:
    @functools.wraps(getattr(Tensor, spelling))
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        return self.assign(as_complex(getattr(self, name)(*arguments, **options)).cast(self.dtype))

    return method


def _bitcast(self: Any, dtype: Any) -> Any:
    """The same bits in another format, of which the last axis grows or shrinks: a tensor of its
    own, but in its own format.
    """
    if kept_dtype(dtype) is self.dtype:
        return self.reshape(self.shape)
    flat = self.view_as_real()
    last = flat.reshape(*self.shape[:-1], 2 * self.shape[-1]) if self.ndim else flat
    return last.bitcast(dtype)


def _apart(self: Any) -> int:
    """How far neighbours are apart in memory: 2 where it holds both parts of one side by side."""
    x, y = parts_of(self)
    return 2 if x._storage is y._storage else 1


def _storage_offset(self: Any) -> Any:
    """As of real tensors."""
    return self._re.storage_offset() // _apart(self)


def _stride(self: Any, dim: int | None = None) -> Any:
    """As of real tensors."""
    found = strides_of(self._re, _apart(self))
    return found if dim is None else found[one_axis(dim, self.ndim)]


def _is_contiguous(self: Any, memory_format: Any = None) -> bool:
    """Whether its elements stand in row-major order, without gaps."""
    return bool(self.stride() == self._re.clone().stride())


def _as_strided(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """As of real tensors."""
    start = self.storage_offset() if storage_offset is None else int(storage_offset)
    x, y = parts_of(self)
    whole = memory_of(x).shape[0] == product(shape_of(x._storage.base))  # else a leaf's part
    each = _apart(self) if whole else 1
    steps = [step * each for step in stride]
    second = start * each + each - 1
    return paired(x.as_strided(size, steps, start * each), y.as_strided(size, steps, second))


def _scatter(self: Any, dim: int, index: Any, src: Any, reduce: str | None = None) -> Any:
    """As of real tensors; products of complex numbers are not there."""
    if reduce == "multiply":
        raise located(DTypeError("scatter does not multiply complex numbers"), (self,))
    return _with_value("scatter", "src")(self, dim, index, src, reduce)


def _index_add(self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    """As of real tensors."""
    return _with_value("index_add", "source")(self, dim, index, source * alpha)


def complete() -> None:
    """Give `Complex` its methods, and refuse the rest."""
    own = set(vars(Complex)) | set(vars(Pair))
    table: dict[str, Any] = {name: _both(name) for name in BOTH}
    table |= {name: _bilinear(name) for name in BILINEAR}
    table |= {name: _function(name) for name in FUNCTIONS}
    table |= {other: table[name] for other, name in ALIASES.items()}
    table |= {name: _with_value(name, value) for name, value in VALUES.items()}
    table |= {name: _convolution(name) for name in CONVOLUTIONS}
    table.update(
        bitcast=_bitcast, scatter=_scatter, index_add=_index_add,
        as_strided=_as_strided, stride=_stride, is_contiguous=_is_contiguous,
        storage_offset=_storage_offset,
    )  # fmt: skip
    for name, method in table.items():
        if name not in own:
            setattr(Complex, name, method)
    known = own | set(table) | {*MADE_OF_OTHERS, *VIEWS_IN_PLACE, *STATIC}
    known |= {name for name in dir(object) if name != "__format__"}
    for name in dir(Tensor):
        base = name.removesuffix("_") if not name.startswith("_") else name
        plain = f"__{name[3:]}" if name.startswith("__i") and name.endswith("__") else ""
        if name in known or name in _OF_OBJECTS:
            continue
        if (base != name and base in known and base not in STATIC) or plain in known:
            setattr(Complex, name, _in_place(plain if plain in known else base, name))
        else:
            setattr(Complex, name, _refuse(name))


Handle._pairs = Complex
complete()
spell(Complex)
