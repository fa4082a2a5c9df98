"""`Tensor`: a handle with every family of methods; in-place forms; copies and pickles."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from torpor.base.attributes import attributes
from torpor.base.errors import DTypeError, GradientError
from torpor.base.missing import missing, names_of
from torpor.device.buffer import buffer_node
from torpor.tensor import mode
from torpor.tensor.absent import say_what_is_absent, without_absent
from torpor.tensor.alike import Alike
from torpor.tensor.arranging import Arranging
from torpor.tensor.contraction import Contraction
from torpor.tensor.convolution import Convolution
from torpor.tensor.counting import Counting
from torpor.tensor.creation import Creation
from torpor.tensor.custom import Hooked
from torpor.tensor.dense import Dense
from torpor.tensor.differentiate import Differentiate, make_leaf
from torpor.tensor.distributions import Distributions
from torpor.tensor.elementwise import Arithmetic
from torpor.tensor.functions import Functions
from torpor.tensor.handle import Handle, located, make
from torpor.tensor.host import buffer_from
from torpor.tensor.indexing import Indexing
from torpor.tensor.joining import Joining
from torpor.tensor.layout import Layout
from torpor.tensor.loss import Loss
from torpor.tensor.movement import Movement
from torpor.tensor.numeric import Numeric
from torpor.tensor.padding import Padding
from torpor.tensor.path import Step, forward
from torpor.tensor.pending import wait
from torpor.tensor.pooling import Pooling
from torpor.tensor.products import Products
from torpor.tensor.random import Random
from torpor.tensor.realisation import Realisation, memoryview_of, values_in
from torpor.tensor.reduce import Reduce
from torpor.tensor.scan import Scan
from torpor.tensor.scatter import Scatter
from torpor.tensor.shard import Sharding, become
from torpor.tensor.sorting import Sorting
from torpor.tensor.special import Special
from torpor.tensor.spelling import spell
from torpor.tensor.statistics import Statistics
from torpor.tensor.storage import Storage
from torpor.tensor.universal import Universal
from torpor.tensor.watch import active, watcher
from torpor.tensor.write import Write, update


class _TensorType(type):
    """So that `Tensor.training = True` sets the context's flag instead of the attribute."""

    @property
    def training(cls) -> bool:
        return mode.training()

    @training.setter
    def training(cls, value: bool) -> None:
        mode.set_training(value)

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            missing("Tensor", name)

    def __dir__(cls) -> list[str]:
        return without_absent(cls, super().__dir__())


class Tensor(
    Creation, Alike, Arithmetic, Functions, Special, Numeric, Movement, Joining, Arranging, Padding,
    Indexing, Scan, Scatter, Sorting, Counting, Reduce, Statistics, Contraction, Products, Dense,
    Convolution, Pooling, Loss, Random, Distributions, Differentiate, Hooked, Write, Realisation,
    Layout, Universal, Sharding, metaclass=_TensorType,
):  # fmt: skip
    """A lazy tensor: a storage and a view of it. Methods have PyTorch's names and meanings.

    Building operations computes nothing; `.realize()`, `.numpy()`, `.item()` and the like do.
    """

    __slots__ = ()

    train = mode.train

    @property
    def data(self) -> Any:
        """A view through which no gradient flows, to be written to also where this is a leaf that
        requires a gradient; called, the elements as a memoryview. After `x.data = y` x is a view of
        y, of another shape or format too, and the same leaf; what it gave before stays as it is.
        """
        made: Any = self.detach()
        made.__class__ = Data
        return made

    @data.setter
    def data(self, value: Any) -> None:
        given, own = value._parts[0], self._parts[0]
        before = None if given._path is None else given._path.previous
        if given is own or (given._storage is own._storage and before is own._path):
            return  # `x.data += 1` has written there
        if self.requires_grad and not self.is_leaf:
            self.detach().assign(value)
            return
        if active and (watching := watcher()) is not None:
            watching.turned(self)
        become(self, value if value.is_leaf and not value.requires_grad else value.detach())
        for part in self._parts:
            wait(part._storage)

    def __dir__(self) -> list[str]:
        # Python looks for what was meant by a misspelt name among 750 names at most
        names = [name for name in super().__dir__() if not name.startswith("_")]
        return without_absent(type(self), names)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        storage = memo.get(id(self._storage))
        if storage is None:
            storage = memo[id(self._storage)] = _copy_of(self._storage)
        made = view_of(storage, tuple(steps_of(self._path)))
        memo[id(self)] = made
        made.grad = None if self.grad is None else self.grad.__deepcopy__(memo)
        attributes(made).update(copy.deepcopy(attributes(self), memo))
        return made

    def __copy__(self) -> Tensor:
        made = make(self._current(), self.device, storage=self._storage, path=self._path)
        made.grad = self.grad
        attributes(made).update(attributes(self))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self._storage, tuple(steps_of(self._path)), self.grad
        return _restored, parts, attributes(self) or None


class Data(Tensor):
    """What `x.data` is: `x.data.fill_(1)` as in PyTorch, `x.data()` for the memory itself."""

    __slots__ = ()

    def __call__(self) -> memoryview:
        return memoryview_of(self)


Handle._type = Tensor
for _family in Tensor.__mro__[1:-1]:
    spell(_family)
names_of("Tensor", lambda: dir(Tensor))


# --- copies ---------------------------------------------------------------------------------------
def steps_of(path: Step | None) -> list[tuple[str, Any]]:
    """The path as (kind, arg) pairs from the base on."""
    found = []
    while path is not None:
        found.append((path.kind, path.arg))
        path = path.previous
    return found[::-1]


def _copy_of(storage: Storage) -> Storage:
    if storage.requires:
        raise DTypeError("only leaves can be deep-copied while they require a gradient; detach()")
    if storage.external is not None:
        values = values_in(storage)
        base = buffer_node(buffer_from(values, storage.device, storage.base.dtype), values.shape)
        return Storage(base, storage.device)
    return Storage(storage.base, storage.device)


def view_of(storage: Storage, steps: tuple[tuple[str, Any], ...]) -> Tensor:
    """A handle on `storage` with these steps; a leaf among them gets an identity of its own."""
    node, path = storage.base, None
    made = make(node, storage.device, storage=storage)
    for kind, arg in steps:
        if kind == "leaf":
            made._path, made._node = path, node
            make_leaf(made)
            path, node = made._path, made._node
        else:
            path = Step(path, kind, arg, node)
            node = forward(path, storage.base)
    made._path, made._node = path, node
    return made


def _restored(
    storage: Storage, steps: tuple[tuple[str, Any], ...], gradient: Tensor | None
) -> Tensor:
    made = view_of(storage, steps)
    made.grad = gradient
    return made


# --- in place -------------------------------------------------------------------------------------
_IN_PLACE: Final = tuple(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin
    arcsinh
    arctan arctan2 arctanh asin asinh atan atan2 atanh baddbmm bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min
    clip conj_physical copysign cos cosh cumprod cumsum deg2rad digamma div elu eq erf erfc erfinv
    exp exp2 expm1 float_power floor floor_divide fmod frac gcd ge greater greater_equal gt hardtanh
    heaviside hypot i0 igamma igammac index_add index_copy index_fill index_reduce index_select
    lcm ldexp le leaky_relu lerp less less_equal lgamma log log10 log1p log2 logical_and logical_not
    logical_or logical_xor logit lt masked_fill masked_scatter put polygamma maximum minimum mish
    mul mvlgamma nan_to_num ne neg
    nextafter not_equal pow rad2deg reciprocal relu remainder renorm round rsqrt
    scatter scatter_add scatter_reduce selu sgn sigmoid sign silu sin sinc sinh softmax softplus
    sqrt square sub tan tanh tril triu trunc xlogy divide true_divide multiply subtract negative fix
    """.split()  # noqa: SIM905 (a table that is read)
)
# Views that a tensor may turn into; the others of its storage do not see it.
_BECOMING: Final = "squeeze unsqueeze t transpose swapaxes swapdims as_strided detach"
VIEWS_IN_PLACE: Final = tuple(f"{name}_" for name in _BECOMING.split())
_OPERATORS: Final = (
    "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul".split()  # noqa: SIM905
)


def _in_place(name: str) -> Callable[..., Tensor]:
    function = getattr(Tensor, name)

    @functools.wraps(function)
    def method(self: Tensor, *arguments: Any, **options: Any) -> Tensor:
        return update(self, function(self, *arguments, **options))

    method.__name__ = f"{name}_"
    method.__doc__ = f"As `{name}`, in place; itself."
    return method


def _viewed(name: str) -> Callable[..., Tensor]:
    function = getattr(Tensor, name.removesuffix("_"))

    @functools.wraps(function)
    def method(self: Any, *arguments: Any, **options: Any) -> Tensor:
        if self.is_leaf and self.requires_grad and name != "detach_":
            what = f"{name} would make another view of a leaf that requires a gradient"
            raise located(GradientError(what), (self,))
        if active and (watching := watcher()) is not None:
            watching.turned(self)
        self._become(getattr(self, function.__name__)(*arguments, **options))
        return self

    method.__name__ = name
    method.__doc__ = f"Become the view that `{function.__name__}` gives; itself."
    return method


for _name in _IN_PLACE:
    setattr(Tensor, f"{_name}_", _in_place(_name))
for _name in VIEWS_IN_PLACE:
    setattr(Tensor, _name, _viewed(_name))
for _name in _OPERATORS:
    setattr(Tensor, f"__i{_name}__", _in_place(f"__{_name}__"))
say_what_is_absent(Tensor)
