"""Python numbers among the arguments of a trace: what is done with them is done again each call.

While a function is traced it is given a `Number` for each int and float among its arguments. One
stands for a number without being one, so no C code can look at the value behind its back: whoever
wants it must ask. Arithmetic is written down on a `Tape`. A tensor that meets a `Number` takes it
as a variable of its kernels. Everything else (a branch, a shape, a range, text, hashing) is told
the value, and the tape notes that a replay must find the same one, or the same answer to the same
comparison.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final, NamedTuple, final

import numpy as np

from torpor.base.dtypes import SMALL_FLOATS, DType, dtypes, from_name
from torpor.base.locks import recursive_lock
from torpor.capture.tree import same
from torpor.graph import build
from torpor.ir.infer import Shape, Size, fold_size
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.ir.variable import Variable, bind, holds
from torpor.tensor.handle import Handle
from torpor.tensor.host import known_size
from torpor.tensor.random import fresh_name
from torpor.tensor.watch import Traced

LONGEST_TAPE: Final = 1000  # lines; a longer computation with numbers is guarded by its values
_PLAIN: Final = frozenset({int, float, bool})
_SIZES: Final[dict[Ops, Callable[[Any, Any], Any]]] = {  # what sizes are computed by
    Ops.ADD: operator.add, Ops.SUB: operator.sub, Ops.MUL: operator.mul,
    Ops.IDIV: operator.floordiv, Ops.MOD: operator.mod,
}  # fmt: skip
_FAULTS: Final = (ArithmeticError, ValueError, TypeError)
Replay = Callable[[Sequence[Any]], tuple[tuple[int, ...], tuple[Any, ...]] | None]


class Word(NamedTuple):
    """An integer that the kernels are given: what encodes a number of the tape in a format."""

    place: int
    dtype: DType


@final
class Tape:
    """What one run did with its numbers, as the lines of a function that does it again."""

    def __init__(
        self, values: Sequence[Any], paths: Sequence[str], sizes: Sequence[UOp] = ()
    ) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"same": same}
        self.used: dict[str, None] = {}  # what is guarded, in words
        self.taken: dict[str, None] = {}  # what kernels take, in words
        self.fixed: set[int] = set()  # numbers whose values are guarded
        self.words: dict[Word, str] = {}  # and the name of the variable
        self.name = fresh_name()
        self.closed = False
        self.count = 0
        self.numbers = [
            self.note(value, f"n[{place}]", (path,))
            for place, (value, path) in enumerate(zip(values, paths, strict=True))
        ]
        self.sizes = dict(zip(sizes, self.numbers[len(values) - len(sizes) :], strict=True))
        self.varies = True  # whether nothing depends on the value of a size
        for node, number in self.sizes.items():
            name, least, most = node.src[0].arg
            number._node = node
            self.words[Word(number._place, dtypes.index)] = name
            self.lines.append(f"if not {least} <= t{number._place} <= {most}: return None")

    def note(self, value: Any, text: str, origins: tuple[str, ...]) -> Any:
        """The `Number` for a value that `text` computes."""
        self.count += 1
        self.lines.append(f"t{self.count} = {text}")
        return Number(self, self.count, value, origins)

    def constant(self, value: Any) -> str:
        """A name for something that is the same at every replay."""
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def guard(self, condition: str, number: Number, how: str) -> None:
        """A replay must find the condition true."""
        if self.closed or number._place in self.fixed:
            return
        self.lines.append(f"if not ({condition}): return None")
        for origin in number._origins:
            self.used[f"the number {origin} ({how})"] = None

    def guard_value(self, number: Number, how: str) -> Any:
        """The value, which must be the same at a replay."""
        self.varies &= number._node is None
        if not self.closed and number._place not in self.fixed:
            kept = self.constant(number._value)
            self.guard(f"same(t{number._place}, {kept})", number, how)
            self.fixed.add(number._place)
        return number._value

    def size(self, size: Size) -> Any:
        """A size as a number: one of the tape where it is symbolic."""
        if isinstance(size, int) or not self.records:
            return size
        if size not in self.sizes:
            if size.op is Ops.CONST:
                return int(size.arg)
            if size.op not in _SIZES:
                self.varies = False
                return known_size(size)
            left, right = map(self.size, size.src)
            self.sizes[size] = _SIZES[size.op](left, right)
        return self.sizes[size]

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Conditions on sizes are true where they are so now, which is noted: as nodes they would
        all be.
        """
        if not self.sizes:
            yield
            return
        kind: Any = UOp
        try:
            with _lock:
                _deciding[get_ident()] = self
                kind.__bool__ = truth
            yield
        finally:
            with _lock:
                _deciding.pop(get_ident(), None)
                if not _deciding:
                    kind.__bool__ = holds

    def holds(self, node: UOp) -> bool:
        """Whether a condition is true now; any other node is."""
        if not is_on_sizes(node) or node.vmin:
            return True
        if not node.vmax:
            return False
        self.varies = False
        now = {one: one.src[1] for one in node.toposort() if one.op is Ops.BIND}
        return bool(node.substitute(now).simplify().arg)

    @property
    def records(self) -> bool:
        """Whether more arithmetic and comparisons may be written down."""
        return not self.closed and len(self.lines) < LONGEST_TAPE

    def word(self, number: Number, dtype: DType) -> tuple[str, int]:
        """The name of the variable that has the number in this format, and its value now."""
        if self.closed:
            raise LookupError("the run is over")
        encoded = ENCODERS[dtype](number._value)
        self.taken |= dict.fromkeys(f"the number {origin}" for origin in number._origins)
        key = Word(number._place, dtype)
        return self.words.setdefault(key, f"number{self.name}_{len(self.words)}"), encoded

    def close(self) -> None:
        """From now on the numbers are numbers and nothing more."""
        self.closed = True

    def compiled(self, results: Sequence[Number]) -> Replay:
        """The function that gives, for other values, the words and the values of `results`.

        It gives None where a guard fails or where computing raises.
        """
        scope = dict(self.scope)
        words = []
        for place, dtype in self.words:
            scope[f"e_{dtype.name}"] = ENCODERS.get(dtype, int)
            words.append(f"e_{dtype.name}(t{place}), ")
        scope["FAULTS"] = _FAULTS
        given = "".join(f"t{number._place}, " for number in results)
        body = "\n  ".join([*self.lines, f"return ({''.join(words)}), ({given})"])
        source = f"def replay(n):\n try:\n  {body}\n except FAULTS:\n  return None\n"
        exec(source, scope)
        replay: Replay = scope.pop("replay")
        return replay


class Number(Traced):
    """An int or a float of a traced call, or what was computed from some."""

    __slots__ = ("_tape", "_place", "_value", "_origins", "_node")
    _tape: Tape
    _place: int
    _value: Any
    _origins: tuple[str, ...]
    _node: UOp | None  # where it is a size

    def __init__(self, tape: Tape, place: int, value: Any, origins: tuple[str, ...]):
        self._tape, self._place, self._value, self._origins = tape, place, value, origins
        self._node = None

    @property  # type: ignore[misc]  # typeshed's has a setter
    def __class__(self) -> Any:  # what `isinstance` asks
        return type(self._value)

    def _constant(self, dtype: DType, shape: Shape) -> UOp:
        try:
            name, encoded = self._tape.word(self, dtype)
        except (LookupError, OverflowError):  # no such encoder, or wrapped around
            return build.constant(self._plain(f"as {dtype.name}"), dtype, shape)
        node = bind(Variable(name, *integers_of(dtype)), encoded)
        return build.broadcast_to(shown_as(node, dtype), shape)

    def _size(self) -> UOp | None:
        node = self._node
        return node if node is not None and node.vmin >= 0 and self._tape.records else None

    def _plain(self, how: str) -> Any:
        """The Python number itself; a replay must be given one that is equal."""
        return self._tape.guard_value(self, how)

    # --- the value itself, which is then guarded --------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        found = getattr(self._value, name)
        self._plain(f"its {name}")
        return found

    def __bool__(self) -> bool:
        truth = bool(self._value)
        if not self._tape.records:
            self._plain("its value")
        self._tape.guard(f"bool(t{self._place}) is {truth}", self, "whether it is 0")
        return truth

    def __int__(self) -> int:
        whole = int(self._value)
        if not self._tape.records:
            self._plain("its value")
        self._tape.guard(f"int(t{self._place}) == {whole}", self, "its value, by int()")
        return whole

    def __index__(self) -> int:
        if type(self._value) is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return int(self._plain("its value, as an index or a size"))

    def __format__(self, specification: str) -> str:
        return format(self._plain("its text"), specification)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self._value), (self._plain("its value, by copying"),)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._plain("its value, in an array"), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [x._plain("its value, in an array") if type(x) is Number else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __divmod__(self, other: Any) -> Any:
        return divmod(self._plain("its value, by divmod()"), plain(other))

    def __rdivmod__(self, other: Any) -> Any:
        return divmod(other, self._plain("its value, by divmod()"))


_deciding: Final[dict[int, Tape]] = {}  # by thread
_lock: Final = recursive_lock()


def truth(node: UOp) -> bool:
    """Whether a node is true, as the tape of the thread has it; where there is none all are."""
    tape = _deciding.get(get_ident())
    return True if tape is None else tape.holds(node)


def is_on_sizes(node: UOp) -> bool:
    """Whether a node is a condition on symbolic sizes."""
    if node.dtype is not dtypes.bool:
        return False
    below = node
    while below.src and below.dtype is dtypes.bool:
        below = below.src[0]
    return below.dtype is dtypes.index and any(n.op is Ops.BIND for n in node.toposort())


def plain(value: Any) -> Any:
    return value._plain("its value") if type(value) is Number else value


# --- arithmetic, which is written down ------------------------------------------------------------
def _computed(
    tape: Tape, text: str, compute: Callable[..., Any], operands: Sequence[Any], checked: bool
) -> Any:
    """`compute` of the operands' values, as a `Number` that `text` gives at a replay."""
    numbers = [operand for operand in operands if type(operand) is Number]
    values = [x._value if type(x) is Number else x for x in operands]
    value = None
    try:
        value = compute(*values)
    finally:
        if type(value) not in (int, float):  # raised, or is no number that is kept here
            for number in numbers:
                number._plain("its value")
    if type(value) not in (int, float):
        return value
    origins = tuple(dict.fromkeys(origin for number in numbers for origin in number._origins))
    made = tape.note(value, text, origins)
    if checked:
        kind = type(value).__name__
        tape.guard(f"type(t{made._place}) is {kind}", made, "which kind its power is of")
    nodes = [x._node if type(x) is Number else x for x in operands]
    if compute in _SIZES.values() and all(isinstance(x, UOp) or type(x) is int for x in nodes):
        node = fold_size(compute(*nodes))
        made._node = node if isinstance(node, UOp) else None
    return made


def _spelled(tape: Tape, operand: Any) -> str:
    return f"t{operand._place}" if type(operand) is Number else tape.constant(operand)


def _is_recorded(number: Number, other: Any) -> bool:
    if type(other) is Number:
        return other._tape is number._tape and number._tape.records
    return type(other) in _PLAIN and number._tape.records


def _binary(symbol: str, compute: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """The methods of `x symbol y` and of its reflection."""

    def apply(left: Any, right: Any, number: Number, other: Any) -> Any:
        if isinstance(other, Handle):
            return NotImplemented
        if not _is_recorded(number, other):
            number._plain(f"its value, by {symbol}")
            return compute(plain(left), plain(right))
        tape = number._tape
        text = f"{_spelled(tape, left)} {symbol} {_spelled(tape, right)}"
        return _computed(tape, text, compute, (left, right), symbol == "**")

    def method(self: Number, other: Any) -> Any:
        return apply(self, other, self, other)

    def reflected(self: Number, other: Any) -> Any:
        return apply(other, self, self, other)

    return method, reflected


def _comparison(symbol: str, compute: Callable[[Any, Any], Any]) -> Any:
    def method(self: Number, other: Any) -> Any:
        if isinstance(other, Handle):
            return NotImplemented
        if other is None or isinstance(other, str):
            return compute(self._value, other)
        if not _is_recorded(self, other):
            return compute(self._plain(f"its value, by {symbol}"), plain(other))
        answer = compute(self._value, other._value if type(other) is Number else other)
        test = f"(t{self._place} {symbol} {_spelled(self._tape, other)}) is {answer}"
        self._tape.guard(test, self, f"the answer of {symbol}")
        return answer

    return method


def _unary(form: str, compute: Callable[[Any], Any]) -> Any:
    def method(self: Number) -> Any:
        if not self._tape.records:
            return compute(self._plain("its value"))
        return _computed(self._tape, form.format(f"t{self._place}"), compute, (self,), False)

    return method


def _power(self: Number, exponent: Any, modulus: Any = None) -> Any:
    if modulus is None:
        return _POWER[0](self, exponent)
    return pow(self._plain("its value, by pow()"), plain(exponent), plain(modulus))


def _round(self: Number, digits: Any = None) -> Any:
    return round(self._plain("its value, by round()"), plain(digits))


def _whole(name: str) -> Any:
    def method(self: Number) -> Any:
        return getattr(self._plain(f"its value, by {name}()"), f"__{name}__")()

    return method


def _asked(read: Callable[[Any], Any], how: str) -> Any:
    return lambda self: read(self._plain(how))


_POWER: Final = _binary("**", operator.pow)
_METHODS: Final[dict[str, Any]] = {"__pow__": _power, "__rpow__": _POWER[1], "__round__": _round}
for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}.items():  # fmt: skip
    _METHODS[f"__{_name}__"], _METHODS[f"__r{_name}__"] = _binary(
        _symbol, getattr(operator, f"__{_name}__")
    )
for _name, _symbol in {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}.items():  # fmt: skip
    _METHODS[f"__{_name}__"] = _comparison(_symbol, getattr(operator, _name))
for _name, _form in {"neg": "-{}", "pos": "+{}", "abs": "abs({})", "invert": "~{}"}.items():
    _METHODS[f"__{_name}__"] = _unary(_form, getattr(operator, f"__{_name}__"))
for _read, _how in (
    (float, "its value, by float()"), (complex, "its value, by complex()"),
    (hash, "its value, by hashing"), (str, "its text"), (repr, "its text"),
):  # fmt: skip
    _METHODS[f"__{_read.__name__}__"] = _asked(_read, _how)
for _name in ("trunc", "floor", "ceil"):
    _METHODS[f"__{_name}__"] = _whole(_name)
for _name, _method in _METHODS.items():
    setattr(Number, _name, _method)


# --- as the integers that variables are: the bits of a float, an integer itself -------------------
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def _float32(value: Any) -> int:
    try:
        packed = _FLOAT.pack(float(value))
    except OverflowError:  # rounds to infinity, or is an int that no float holds
        packed = _FLOAT.pack(dtypes.float32.cast_scalar(value))
    return int.from_bytes(packed, "little")


def _float64(value: Any) -> int:
    return int.from_bytes(_DOUBLE.pack(value), "little", signed=True)


def _small(dtype: DType) -> Callable[[Any], int]:
    def encode(value: Any) -> int:
        return int(dtype.array(dtype.cast_scalar(value)).view(f"u{dtype.itemsize}"))

    return encode


def _integer(dtype: DType) -> Callable[[Any], int]:
    def encode(value: Any) -> int:
        if not dtype.min <= value <= dtype.max:
            raise OverflowError(f"{value} does not fit into {dtype}")
        return int(value)

    return encode


_INTEGERS: Final = (
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
    dtypes.uint32,
)  # fmt: skip
_CARRIERS: Final[dict[DType, DType]] = {
    **{small: from_name(f"uint{small.bits}") for small in SMALL_FLOATS},
    dtypes.float32: dtypes.uint32,
    dtypes.float64: dtypes.int64,
}
# What is not here (uint64, bool) is guarded by its value instead.
ENCODERS: Final[dict[DType, Callable[[Any], int]]] = {
    **{small: _small(small) for small in SMALL_FLOATS},
    dtypes.float32: _float32,
    dtypes.float64: _float64,
    **{dtype: _integer(dtype) for dtype in _INTEGERS},
}


def integers_of(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer that encodes a number of the format."""
    carrier = _CARRIERS.get(dtype, dtype)
    return int(carrier.min), int(carrier.max)


def shown_as(node: UOp, dtype: DType) -> UOp:
    """What the integer `node` encodes, as a node of the format, shape ()."""
    carrier = _CARRIERS.get(dtype, dtype)
    return build.bitcast(build.cast(node, carrier), dtype)
