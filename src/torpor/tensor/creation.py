"""Making tensors: from data, constants, ranges, files and host memory."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from torpor.base.dtypes import DType, Scalar, as_dtype, dtypes, kept_dtype
from torpor.base.errors import DTypeError, ShapeError
from torpor.device import Buffer, Device
from torpor.device.buffer import buffer_node
from torpor.graph import build
from torpor.ir.infer import JOINT, Shape, fold_size, largest, product, size_node
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.dlpack import taken
from torpor.tensor.handle import (
    Handle,
    as_number,
    as_scalar,
    check_fits,
    common_device,
    located,
    make,
    number_node,
)
from torpor.tensor.host import Array, buffer_from
from torpor.tensor.iota import iota
from torpor.tensor.mode import default_float
from torpor.tensor.nested import holds_complex, stacked
from torpor.tensor.spelling import a_shape, an_end, counts_of, one_by_one, unexpected
from torpor.tensor.storage import Storage


def dtype_of_numbers(value: Any) -> DType:
    """The format of a Python number: bool, int64, or the default float."""
    if isinstance(value, bool):
        return dtypes.bool
    return dtypes.int64 if isinstance(value, int) else default_float()


def chosen(dtype: Any, otherwise: DType) -> DType:
    """The format asked for, else `otherwise`."""
    return otherwise if dtype is None else as_dtype(dtype)


def _array_of(data: Any) -> tuple[Array, DType]:
    """Data of any kind as an array, and the format that it has by itself."""
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        return array, dtypes.from_numpy(array.dtype)
    if not isinstance(data, Sequence) and (
        hasattr(data, "__array__") or hasattr(data, "__array_interface__")  # as of pictures
    ):
        return _array_of(np.asarray(data))
    try:
        array = np.array(data)
    except ValueError as error:
        raise ShapeError(f"the nested lists are not of one shape: {error}") from None
    if array.dtype.kind == "O" and all(isinstance(v, int) for v in array.flat):
        check_fits(max(array.flat, key=abs), dtypes.int64)
    if array.dtype.kind not in "biuf" and array.size:
        method = (
            "; a function kept as a class's attribute gets the object first: make it a staticmethod"
        )
        hint = method if hasattr(data, "forward") else ""
        raise DTypeError(f"no tensor can be made of {type(data).__name__} {data!r:.60}{hint}")
    kind = array.dtype.kind
    if kind == "b":
        return array, dtypes.bool
    if kind in "iu" and array.size:
        return array, dtypes.int64
    return array, default_float()


def check_all_fit(array: Array, dtype: DType) -> None:
    """Python integers that the format cannot hold are an error, in lists as alone."""
    if array.dtype.kind in "iu" and array.size:
        check_fits(int(array.min()), dtype)
        check_fits(int(array.max()), dtype)


def _spanned(array: Array) -> Tensor:
    """A view, as the array is one, of the memory that it lies in."""
    steps = [stride // array.itemsize for stride in array.strides]
    if min(steps) < 0 or any(stride % array.itemsize for stride in array.strides):
        raise ShapeError(f"from_numpy shares memory, not in steps of {array.strides}: copy it")
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    start, rest = divmod(array.ctypes.data - whole.ctypes.data, array.itemsize)
    alike = (whole.dtype, whole.flags.writeable) == (array.dtype, array.flags.writeable)
    if rest or not alike or not whole.flags.forc:  # from its first element to its last
        reach = 1 + sum((n - 1) * step for n, step in zip(array.shape, steps, strict=True))
        plain = array.view(f"V{array.itemsize}")  # it knows no float8_e5m2
        whole = np.lib.stride_tricks.as_strided(plain, (reach,), (array.itemsize,))
        start = 0
    flat = whole.view(array.dtype).ravel("K")
    return Creation.from_numpy(flat).as_strided(array.shape, steps, start)


class Creation(Handle):
    """How tensors come to be. All take `dtype` (a format or its name), `device` (the default one
    unless given) and `requires_grad`; sizes are given apart or as one sequence, negative ones are a
    `ShapeError`.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, dtype: Any = None, *_: Any, **__: Any) -> Any:
        """Complex numbers are a kind of tensor of their own."""
        pairs = holds_complex(data) if dtype is None else kept_dtype(dtype).is_complex
        return object.__new__(Handle._pairs if pairs else cls)

    def __init__(
        self, data: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ):  # fmt: skip
        """A tensor of `data`, copied at the call: a number, nested lists, an array, a tensor or
        tensors. Python integers become int64, floats the default float, bools bool; arrays and
        tensors keep their format. `ShapeError` for lists of unequal lengths, `DTypeError` for what
        is no number or does not fit into `dtype`.

        >>> Tensor([[1, 2], [3, 4]]).shape, Tensor([1, 2.5]).dtype
        ((2, 2), dtypes.float32)
        """
        self._take(data, None if dtype is None else kept_dtype(dtype), device)
        if requires_grad:
            self.requires_grad_()

    def _take(self, data: Any, dtype: DType | None, device: str | None) -> None:
        """Become a tensor of `data`."""
        self._become(_made_from(data, dtype, device))
        self.grad = None

    # --- memory -----------------------------------------------------------------------------------
    @staticmethod
    def empty(*size: Any, dtype: Any = None, device: str | None = None, **options: Any) -> Tensor:
        """Memory of this shape, with anything in it."""
        shape = a_shape(size)
        kind = chosen(dtype, default_float())
        if kind.is_complex:
            parts = Creation.empty(*shape, 2, dtype=kind.part, device=device)
            return _finish(parts.select(-1, 0).complex(parts.select(-1, 1)), options)
        buffer = Buffer(Device.canonicalize(device), _capacity(shape), kind)
        return _finish(make(buffer_node(buffer, shape), buffer.device), options)

    @staticmethod
    def from_numpy(array: Array) -> Tensor:
        """A tensor that shares the memory of `array`: each sees the other's writes. A `ShapeError`
        where a step along an axis goes backwards, or is no whole number of elements.

        A write to the tensor reaches the array at once. What was built from the tensor but not
        realised sees later changes of the array.
        """
        if not isinstance(array, np.ndarray):
            raise DTypeError(f"from_numpy takes a NumPy array, not {type(array).__name__}")
        if not array.flags.c_contiguous:
            return _spanned(array)
        dtype = as_dtype(array.dtype)
        if dtype.is_complex:
            parts = array.view(dtype.part.numpy).reshape(*array.shape, 2)
            return Creation.from_numpy(parts).view_as_complex()
        buffer = Buffer("CPU", array.size, dtype).allocate(array)
        node = buffer_node(buffer, array.shape)
        return make(node, "CPU", storage=Storage(node, "CPU", external=buffer))

    @staticmethod
    def from_dlpack(other: Any) -> Tensor:
        """A tensor that shares the memory, on the host, of another library's, as `from_numpy`."""
        return Creation.from_numpy(taken(other))

    @staticmethod
    def from_file(path: str | os.PathLike[str], dtype: Any = dtypes.uint8) -> Tensor:
        """The file's bytes as elements of `dtype`, read when they are needed: (size,), on device
        DISK. `ShapeError` if the file is no whole number of elements.
        """
        from torpor.device import disk_buffer

        kind = as_dtype(dtype)
        size, rest = divmod(os.stat(path).st_size, kind.itemsize)
        if rest:
            what = f"{os.fspath(path)} has {rest} bytes more than {size} elements of {kind}"
            raise ShapeError(what)
        buffer = disk_buffer(path, kind, 0, size)
        return make(buffer_node(buffer, (size,)), buffer.device)

    # --- constants --------------------------------------------------------------------------------
    def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
        """Vectors of lengths n, m, … each laid along an axis of its own and repeated along the
        others: as many tensors of shape (n, m, …); with indexing "xy" the first two axes change
        places: (m, n, …).

        >>> rows, columns = Tensor.meshgrid(Tensor([1, 2]), Tensor([3, 4, 5]))
        >>> rows.tolist()
        [[1, 1, 1], [2, 2, 2]]
        """
        if indexing not in ("ij", "xy"):
            raise ShapeError(f'meshgrid indexes "ij" or "xy", not {indexing!r}')
        given: list[Any] = [as_tensor(t) for t in one_by_one(tensors)]
        if any(part.ndim > 1 for part in given):
            raise located(ShapeError("meshgrid is for vectors and 0-d tensors"), given)
        parts: list[Any] = [part.reshape(-1) for part in given]
        if parts:
            common_device([part._parts[0] for part in parts])
        order = list(range(len(parts)))
        if indexing == "xy" and len(parts) > 1:
            order[:2] = 1, 0
        shape = [parts[n].shape[0] for n in order]
        lengths = ([-1 if n == number else 1 for n in order] for number in range(len(parts)))
        return tuple(p.reshape(*alone).expand(*shape) for p, alone in zip(parts, lengths))

    @staticmethod
    def full(
        size: Any, fill_value: Scalar, dtype: Any = None, device: str | None = None, **options: Any
    ) -> Tensor:
        """`fill_value`, a number or a 0-d tensor, everywhere, in its own format unless `dtype` is
        given.
        """
        shape = a_shape(size if isinstance(size, Sequence) else (size,))
        _capacity(shape)
        if isinstance(fill_value, UOp):
            fill_value = as_number(fill_value, Device.canonicalize(device))
        if isinstance(fill_value, Handle):
            check_one(fill_value)
            given: Any = fill_value
            return given.expand(shape).clone().to(given.dtype if dtype is None else dtype)
        if holds_complex(fill_value) or (dtype is not None and as_dtype(dtype).is_complex):
            made: Any = Handle._type(fill_value, chosen(dtype, dtypes.complex64), device)
            return _finish(made.expand(shape).clone(), options)
        number = as_scalar(fill_value)
        kind = chosen(dtype, dtype_of_numbers(number))
        check_fits(number, kind)
        node = number_node(number, kind, shape)
        return _finish(make(node, Device.canonicalize(device)), options)

    @staticmethod
    def zeros(*size: Any, dtype: Any = None, **options: Any) -> Tensor:
        """Zeros, of the default float format unless `dtype` is given."""
        return Creation.full(a_shape(size), 0, chosen(dtype, default_float()), **options)

    @staticmethod
    def ones(*size: Any, dtype: Any = None, **options: Any) -> Tensor:
        """Ones, of the default float format unless `dtype` is given."""
        return Creation.full(a_shape(size), 1, chosen(dtype, default_float()), **options)

    @staticmethod
    def eye(
        n: int, m: int | None = None, dtype: Any = None, device: str | None = None, **options: Any
    ) -> Tensor:
        """(n, m) with ones on the diagonal and zeros elsewhere; m is n unless given."""
        height, width = counts_of((n, n if m is None else m), "the sizes of eye")
        rows = Creation.arange(height, device=device).reshape(height, 1)
        columns = Creation.arange(width, device=device)
        return _finish(rows.eq(columns).cast(chosen(dtype, default_float())), options)

    # --- ranges -----------------------------------------------------------------------------------
    @staticmethod
    def arange(
        start: Any,
        end: Any = None,
        step: Any = 1,
        dtype: Any = None,
        device: str | None = None,
        **options: Any,
    ) -> Tensor:
        """start, start + step, … before `end`: ceil((end - start) / step) numbers. int64 if all
        three are integers, else the default float; steps are taken in float64 and rounded once,
        those of an integer `dtype` are of start and step without their fractions.
        Where one is a bound variable, all are integers. `ShapeError` for a step of 0 or a range
        without end, `DTypeError` for integers beyond int64.

        >>> Tensor.arange(1, 10, 3).tolist()
        [1, 4, 7]
        """
        start, end, step = map(an_end, (start, end, step))
        if end is None:
            start, end = 0, start
        where = Device.canonicalize(device)
        if any(isinstance(v, UOp) for v in (start, end, step)):
            made = _symbolic_range(start, end, step, where)
            return _finish(made.cast(chosen(dtype, dtypes.int64)), options)
        if step == 0:
            raise ShapeError("arange needs a step that is not 0")
        whole = all(isinstance(v, int) for v in (start, end, step))
        if not whole and not all(math.isfinite(v) for v in (start, end, step)):
            raise ShapeError(f"arange from {start} to {end} by {step} has no end")
        kind = _of_numbers(chosen(dtype, dtypes.int64 if whole else default_float()), "arange")
        count = max(0, -((start - end) // step) if whole else math.ceil((end - start) / step))
        if whole or kind.is_int:
            start, step = int(start), int(step)
            for number in (start, start + step * (count - 1))[:count]:
                check_fits(int(number), dtypes.int64)
            return _finish(_progression(count, start, step, where).cast(kind), options)
        # as in PyTorch, steps are taken in float64 and rounded once
        made = make(iota(count, where), where).cast(dtypes.float64) * float(step) + float(start)
        return _finish(made.cast(kind), options)

    @staticmethod
    def range(start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Tensor:
        """start, start + step, … up to `end`, which may be among them, as floats by default.

        >>> Tensor.range(1, 4).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        start, end = (0, start) if end is None else (start, end)
        if not step or (end - start) / step < 0:
            raise ShapeError(f"range from {start} to {end} by {step} has no end")
        kind = chosen(options.pop("dtype", None), default_float())
        stop = start + (math.floor((end - start) / step) + 0.5) * step
        return Creation.arange(start, stop, step, kind, **options)

    @staticmethod
    def linspace(
        start: float, end: float, steps: int, dtype: Any = None, device: str | None = None,
        **options: Any,
    ) -> Tensor:  # fmt: skip
        """`steps` equally spaced numbers from `start` to `end`, both included and exact: (steps,).

        >>> Tensor.linspace(0, 1, 5).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        if holds_complex([start, end]) or (dtype is not None and as_dtype(dtype).is_complex):
            return _finish(_complex_line(start, end, steps, dtype, device), options)
        where = Device.canonicalize(device)
        (length,) = counts_of((steps,), "the steps of linspace")
        kind = _of_numbers(chosen(dtype, default_float()), "linspace")
        ends = (*_ends(start, end, kind), length)
        first, last, count = (_wide_number(v, where) for v in ends)
        gaps = (count - 1).maximum(1) if isinstance(count, Handle) else max(count - 1, 1)
        step = (last - first) / gaps
        index = make(iota(length, where), where).cast(dtypes.float64)
        rising, falling = index * step + first, (index - (count - 1)) * step + last
        made = (index * 2 < count).where(rising, falling)  # exact at both ends
        return _finish(made.cast(kind), options)

    @staticmethod
    def logspace(
        start: float, end: float, steps: int, base: float = 10.0, dtype: Any = None,
        device: str | None = None, **options: Any,
    ) -> Tensor:  # fmt: skip
        """`steps` numbers from base**start to base**end with equally spaced exponents.

        >>> Tensor.logspace(0, 3, 4).tolist()
        [1.0, 10.0, 100.0, 1000.0]
        """
        start, end = _ends(start, end, kind := chosen(dtype, default_float()))
        made: Any = base ** Creation.linspace(start, end, steps, dtypes.float64, device)
        return _finish(made.cast(kind), options)

    @staticmethod
    def scalar_tensor(s: Scalar, dtype: Any = None, **options: Any) -> Tensor:
        """A number as a 0-d tensor, of the default float format unless `dtype` is given."""
        return Creation.full((), s, chosen(dtype, default_float()), **options)


def _complex_line(start: Any, end: Any, steps: int, dtype: Any, device: str | None) -> Tensor:
    """As `linspace`, of complex numbers: their parts are equally spaced each."""
    kind = chosen(dtype, dtypes.complex128 if default_float().bits == 64 else dtypes.complex64)
    if not kind.is_complex:
        raise DTypeError(f"linspace between complex numbers gives complex ones, not {kind}")
    ends: Any = as_tensor([start, end], kind, device)
    real, imaginary = (
        Creation.linspace(part[0], part[1], steps, kind.part, device) for part in ends._parts
    )
    return real.complex(imaginary)


def _ends(start: Any, end: Any, kind: DType) -> list[Any]:
    """The ends of what lies between them, without fractions if that has none."""
    if not kind.is_int:
        return [start, end]
    return [x.trunc() if isinstance(x, Handle) else math.trunc(x) for x in (start, end)]


def _wide_number(value: Any, device: str) -> Any:
    """The number in float64: a 0-d tensor where it is symbolic."""
    number = as_number(value, device)
    return number.cast(dtypes.float64) if isinstance(number, Handle) else float(number)


def _symbolic_range(start: Any, end: Any, step: Any, device: str) -> Tensor:
    """As `arange`: ceil((end - start) / step) numbers, where some of the three are symbolic."""
    if not all(isinstance(v, int | UOp) for v in (start, end, step)):
        raise DTypeError("arange with a bound variable needs integers for start, end and step")
    pace = size_node(step)
    rises, falls = pace.vmin > 0, pace.vmax < 0
    if not (rises or falls):
        raise ShapeError(f"arange needs a step that is not 0, and of one sign: {pace.render()}")
    way = size_node(end) - size_node(start)
    count = (way + pace - 1) // pace if rises else (way + pace + 1) * -1 // (pace * -1)
    count = count.simplify()
    count = count if count.vmin >= 0 else count.alu(Ops.MAX, UOp.const(dtypes.index, 0))
    made: Any = make(iota(fold_size(count), device), device)
    return made * as_number(step, device) + as_number(start, device)


def check_one(value: Handle) -> None:
    """A tensor in a number's place is a 0-d one."""
    if value.ndim:
        raise located(ShapeError("expected a number or a 0-d tensor"), (value,))


def _of_numbers(dtype: DType, what: str) -> DType:
    """The format itself, unless it holds no series of numbers."""
    if dtype is dtypes.bool:
        raise DTypeError(f"{what} gives numbers, not bools; compare them with what is wanted")
    return dtype


def _progression(count: int, start: int, step: int, device: str) -> Tensor:
    node = iota(count, device)
    for op, number in ((Ops.MUL, step), (Ops.ADD, start)):
        if number != (1 if op is Ops.MUL else 0):
            constant = build.constant(number, dtypes.int64, (count,))
            node = build.elementwise(op, node, constant)
    return make(node, device)


def _capacity(shape: Shape) -> int:
    """Elements that memory for `shape` needs room for; a negative size is a `ShapeError`."""
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise ShapeError(f"a shape cannot have a negative size: {shape}")
    return largest(product(shape))


def _finish(made: Tensor, options: dict[str, Any]) -> Tensor:
    """Honour `requires_grad`; any other option that is left over is an error."""
    requires = options.pop("requires_grad", False)
    if options:
        taken = ("size", "dtype", "device", "requires_grad")
        raise unexpected("what makes a tensor", next(iter(options)), taken)
    return made.requires_grad_() if requires else made


def _made_from(data: Any, dtype: DType | None, device: str | None) -> Tensor:
    if isinstance(data, list | tuple):
        whole = stacked(data)
        data = data if whole is None else whole
    if isinstance(data, Handle):
        made = data.detach().clone() if device is None else data.detach().to(device).clone()
        return made if dtype is None else made.cast(dtype)
    where = Device.canonicalize(device)
    if JOINT in where:
        whole = _made_from(data, dtype, where.split(JOINT)[0])
        return whole.shard(where.split(JOINT))
    if isinstance(data, UOp):
        return make(data.cast(chosen(dtype, dtypes.int64)), where)
    if isinstance(data, bool | int | float) and not isinstance(data, np.generic):
        kind = dtype_of_numbers(data) if dtype is None else dtype
        check_fits(data, kind)
        if kind.kind != "packed":
            return make(number_node(data, kind, ()), where)
    array, own = _array_of(data)
    kind = own if dtype is None else dtype
    if isinstance(data, list | tuple):
        check_all_fit(array, kind)
    if kind.kind == "packed":
        return _made_from(array if dtype else array.astype(np.int8), None, device).cast(kind)
    return make(buffer_node(buffer_from(array, where, kind), array.shape), where)


def as_tensor(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """`data` itself if it is a tensor that fits, else a tensor of it."""
    if not isinstance(data, Handle):
        return Handle._type(data, dtype=dtype, device=device)
    kept: Any = data
    if device is not None and Device.canonicalize(device) != data.device:
        kept = kept.to(device)
    return kept if dtype is None else kept.cast(as_dtype(dtype))


def beside(data: Any, handle: Any) -> Tensor:
    """`data` as a tensor on the device of `handle`. Arrays, lists and numbers are moved there;
    tensors are not, 0-d ones on the CPU aside: a `DeviceError` names both devices.
    """
    if isinstance(data, Handle):
        if data._parts[0]._storage.device is handle._parts[0]._storage.device:
            return data  # type: ignore[return-value]
        common_device((handle._parts[0], data._parts[0]))
    return as_tensor(data, device=handle.device)
