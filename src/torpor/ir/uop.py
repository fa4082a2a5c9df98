"""`UOp`, the one node type: immutable, interned, weakly held.

Equal nodes are one object, so equality is identity and hashing costs nothing. Interning takes no
lock: the table is a dict, whose `get` and `setdefault` are atomic, from key to weak reference.
Origins (which line of the user's program made a node) are not part of its identity; they are a side
note in the slot `origins`.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Container, Iterator
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import DType, Scalar, dtypes
from torpor.ir.ops import ALU, COMPARE, ROWS, AxisType, Ops, alu_dtype

Source = tuple["UOp", ...]
_Key = tuple[Ops, DType, Source, object]


class _Reference(weakref.ref["UOp"]):
    __slots__ = ("key",)
    key: _Key


_table: Final[dict[_Key, _Reference]] = {}
_new: Final = object.__new__
_simplifier: list[Callable[[UOp], UOp]] = []  # the one that is registered


def _forget(reference: _Reference) -> None:
    gone = _table.pop(reference.key, None)
    if gone is not None and gone is not reference:  # another thread was quicker with a new one
        _table.setdefault(reference.key, gone)


def _identity_of(op: Ops, arg: object) -> object:
    """What stands for `arg` in the key: floats by their bits, so that -0.0 and NaN are kept."""
    if op is Ops.CONST and type(arg) is float:
        return struct.pack("<d", arg)
    return arg


class Known(NamedTuple):
    """What stands for the value of a node that has been computed. `age`: how many nodes that were
    computed along with others lie on one way below it, with itself.
    """

    value: UOp
    age: int


def _operator(op: Ops) -> Callable[[UOp, UOp | Scalar], UOp]:
    """The method `x op y`."""

    def method(self: UOp, other: UOp | Scalar) -> UOp:
        return self.alu(op, self._other(other))

    return method


def _reflected(op: Ops) -> Callable[[UOp, UOp | Scalar], UOp]:
    """The method `y op x`."""

    def method(self: UOp, other: UOp | Scalar) -> UOp:
        return self._other(other).alu(op, self)

    return method


class UOp:
    """A node: `op` on the nodes `src`, giving `dtype`; `arg` is what else the op needs."""

    __slots__ = (
        "op", "dtype", "src", "arg", "origins", "normal", "held", "known", "_bounds", "_key",
        "_shape", "_device", "_affine", "_free", "_order", "__weakref__",
    )  # fmt: skip

    op: Ops
    dtype: DType
    src: Source
    arg: Any
    origins: tuple[Any, ...]
    # Bits of what is known of it and all below it: which rule sets leave it as it is
    # (`rules/__init__.py`: 1 and 2), whether it is one node at each step of a loop (4).
    normal: int
    held: Any  # true of what a tensor stands for or has stood for: the storage, weakly, or True
    known: Known | None  # what stands for its value, if that has been computed
    # Computed when first asked for, then kept: bounds, digest, shape and device as a tensor, how an
    # integer is composed of others, the loops that its operands depend on (`rules/affine.py`), and
    # all that is below a SINK.
    _bounds: tuple[Any, Any]
    _key: bytes
    _shape: tuple[Any, ...]
    _device: str | None
    _affine: Any
    _free: frozenset[UOp]
    _order: dict[UOp, None]

    def __new__(cls, op: Ops, dtype: DType, src: Source = (), arg: Any = None) -> UOp:
        key: _Key = (op, dtype, src, arg if type(arg) is not float else _identity_of(op, arg))
        reference = _table.get(key)
        if reference is not None:
            found = reference()
            if found is not None:
                return found
        node = _new(cls)
        node.op, node.dtype, node.src, node.arg = op, dtype, src, arg
        node.origins = ()
        node.normal = 0
        node.held = False
        node.known = None
        made = _Reference(node, _forget)
        made.key = key
        while True:
            winner = _table.setdefault(key, made)
            if winner is made:
                return node
            other = winner()
            if other is not None:
                return other
            if _table.get(key) is winner:  # dead, its callback still to come
                _table.pop(key, None)

    def __reduce__(self) -> tuple[object, ...]:
        from torpor.ir.text import parse, show

        return parse, (show(self),)

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> UOp:
        return self

    def __repr__(self) -> str:
        from torpor.ir.text import show

        return show(self)

    # --- building ---------------------------------------------------------------------------------
    @staticmethod
    def const(dtype: DType, value: Scalar) -> UOp:
        """The number `value` as `dtype` holds it; on a vector format, that number in every lane."""
        scalar = dtype.scalar()
        return UOp(Ops.CONST, scalar, (), scalar.cast_scalar(value)).broadcast(dtype.count)

    @staticmethod
    def index_const(value: int) -> UOp:
        """An integer of index arithmetic."""
        return UOp(Ops.CONST, dtypes.index, (), int(value))

    @staticmethod
    def range(
        bound: int | UOp, axis: int, kind: AxisType = AxisType.LOOP, dtype: DType = dtypes.index
    ) -> UOp:
        """The counter of a loop from 0 below `bound`."""
        limit = bound if isinstance(bound, UOp) else UOp.const(dtype, bound)
        return UOp(Ops.RANGE, dtype, (limit,), (axis, kind))

    @staticmethod
    def end(*source: UOp) -> UOp:
        """The end of a loop."""
        return UOp(Ops.END, dtypes.void, source)

    @staticmethod
    def sink(*source: UOp) -> UOp:
        """A root that holds `source` together."""
        return UOp(Ops.SINK, dtypes.void, source)

    @staticmethod
    def variable(name: str, low: int, high: int) -> UOp:
        """An integer between `low` and `high`, both included, known at launch."""
        return UOp(Ops.VARIABLE, dtypes.index, (), (name, low, high))

    def replace(self, **changes: Any) -> UOp:
        """This node with some of `op`, `dtype`, `src`, `arg` changed."""
        return UOp(
            changes.get("op", self.op),
            changes.get("dtype", self.dtype),
            changes.get("src", self.src),
            changes.get("arg", self.arg),
        )

    def over(self, source: Source) -> UOp:
        """This node on these operands: itself where they are its own."""
        return self if source == self.src else UOp(self.op, self.dtype, source, self.arg)

    def const_like(self, value: Scalar) -> UOp:
        """The number `value` in this node's format."""
        return UOp.const(self.dtype, value)

    def broadcast(self, count: int) -> UOp:
        """The vector of `count` copies of this scalar."""
        return self if count == 1 else UOp(Ops.VECTORIZE, self.dtype.vec(count), (self,) * count)

    def alu(self, op: Ops, *others: UOp) -> UOp:
        """`op` on this node and `others`, its format from the op table."""
        source = (self, *others)
        return UOp(op, alu_dtype(op, tuple([s.dtype for s in source])), source)

    def _other(self, value: UOp | Scalar) -> UOp:
        return value if isinstance(value, UOp) else UOp.const(self.dtype, value)

    def cast(self, dtype: DType) -> UOp:
        return self if dtype is self.dtype else UOp(Ops.CAST, dtype, (self,))

    def bitcast(self, dtype: DType) -> UOp:
        return self if dtype is self.dtype else UOp(Ops.BITCAST, dtype, (self,))

    def where(self, yes: UOp | Scalar, no: UOp | Scalar) -> UOp:
        """`yes` where this bool holds, else `no`; at least one of them is a node."""
        if not isinstance(yes, UOp):
            assert isinstance(no, UOp), "one branch must be a node"
            return UOp(Ops.WHERE, no.dtype, (self, no._other(yes), no))
        return UOp(Ops.WHERE, yes.dtype, (self, yes, yes._other(no)))

    __add__, __radd__ = _operator(Ops.ADD), _reflected(Ops.ADD)
    __sub__, __rsub__ = _operator(Ops.SUB), _reflected(Ops.SUB)
    __mul__, __rmul__ = _operator(Ops.MUL), _reflected(Ops.MUL)
    __truediv__, __rtruediv__ = _operator(Ops.FDIV), _reflected(Ops.FDIV)
    __floordiv__, __rfloordiv__ = _operator(Ops.IDIV), _reflected(Ops.IDIV)
    __mod__, __rmod__ = _operator(Ops.MOD), _reflected(Ops.MOD)
    __and__ = _operator(Ops.AND)
    __or__ = _operator(Ops.OR)
    __xor__ = _operator(Ops.XOR)
    __lshift__ = _operator(Ops.SHL)
    __rshift__ = _operator(Ops.SHR)
    __lt__, __gt__ = _operator(Ops.CMPLT), _reflected(Ops.CMPLT)
    eq, ne = _operator(Ops.CMPEQ), _operator(Ops.CMPNE)  # `==` compares the nodes themselves
    maximum, minimum = _operator(Ops.MAX), _operator(Ops.MIN)

    def __neg__(self) -> UOp:
        return self * -1

    def __invert__(self) -> UOp:
        return self ^ (True if self.dtype.kind == "bool" else -1)

    def __le__(self, other: UOp | Scalar) -> UOp:
        """Not `other < self`; on floats also true where either is NaN."""
        return ~(self > other)

    def __ge__(self, other: UOp | Scalar) -> UOp:
        """Not `self < other`; on floats also true where either is NaN."""
        return ~(self < other)

    def gep(self, *lanes: int) -> UOp:
        """The given lanes of this vector."""
        return UOp(Ops.GEP, self.dtype.scalar().vec(len(lanes)), (self,), lanes)

    def shuffle(self, other: UOp, lanes: tuple[int, ...]) -> UOp:
        """Lanes of this vector and of another one like it, counted on from the first to that."""
        return UOp(Ops.GEP, self.dtype.scalar().vec(len(lanes)), (self, other), lanes)

    def lane(self, number: int) -> tuple[UOp, int]:
        """Of which operand of a GEP, and of which of its lanes, one of its lanes is taken."""
        place, lane = divmod(self.arg[number], self.src[0].dtype.count)
        return self.src[place], lane

    # --- reading ----------------------------------------------------------------------------------
    def toposort(self, gate: Callable[[UOp], bool] | None = None) -> dict[UOp, None]:
        """Every node below this one and itself, operands first; not below nodes failing `gate`."""
        # Of a kernel it is asked again and again. Of nodes of other graphs Python is asked whether
        # somebody holds them: so no order may.
        first = self.src[0].op if self.op is Ops.SINK and self.src else None
        if gate is not None or first is not Ops.STORE:
            return self._ordered(gate)
        try:
            return {**self._order, self: None}
        except AttributeError:
            order = self._ordered()
            self._order = {node: None for node in order if node is not self}
            return order

    def _ordered(self, gate: Callable[[UOp], bool] | None = None) -> dict[UOp, None]:
        done: dict[UOp, None] = {}
        path = [self]
        rest = [iter(self.src if gate is None or gate(self) else ())]
        while rest:
            for source in rest[-1]:
                if source not in done:
                    below = source.src if gate is None or gate(source) else ()
                    if below:
                        path.append(source)
                        rest.append(iter(below))
                        break
                    done[source] = None
            else:
                rest.pop()
                done[path.pop()] = None
        return done

    def below(self, ops: Container[Ops]) -> UOp:
        """The node itself or, while it is one of these, its first operand: under movements, say."""
        node = self
        while node.op in ops:
            node = node.src[0]
        return node

    def substitute(self, mapping: dict[UOp, UOp]) -> UOp:
        """This graph with every key of `mapping` replaced by its value (values are not entered)."""
        done: dict[UOp, UOp] = {}
        for node in self.toposort(lambda n: n not in mapping):
            if (made := mapping.get(node)) is None:
                made = node.over(tuple([done[s] for s in node.src]))
            done[node] = made
        return done[self]

    @property
    def vmin(self) -> Any:
        """The least value it can have."""
        return _bounds_of(self)[0]

    @property
    def vmax(self) -> Any:
        """The greatest value it can have."""
        return _bounds_of(self)[1]

    @property
    def key(self) -> bytes:
        """A digest of the whole graph below: equal for equal graphs, in every process."""
        import hashlib  # slow to import

        for node in self.toposort(lambda n: not hasattr(n, "_key")):
            if not hasattr(node, "_key"):
                head = repr((node.op, node.dtype, node.arg)).encode()
                body = b"".join(s._key for s in node.src)
                node._key = hashlib.sha256(head + body).digest()
        return self._key

    def render(self) -> str:
        """The expression as Python text."""
        from torpor.ir.render import render_expression

        return render_expression(self)

    def simplify(self) -> UOp:
        """An equal, usually shorter expression, by the rules that `rules/` registers."""
        return _simplifier[0](self) if _simplifier else self

    def ranges(self) -> Iterator[UOp]:
        """Every RANGE below, in topological order (also those that a REDUCE closes)."""
        return (node for node in self.toposort() if node.op is Ops.RANGE)


def register_simplifier(function: Callable[[UOp], UOp]) -> None:
    """Make `UOp.simplify` apply `function` (called by `rules/` when it is imported, and by `graph/`
    with what imports that when it is first wanted).
    """
    _simplifier[:] = [function]


def _full_bounds(dtype: DType) -> tuple[Any, Any]:
    return dtype.min, dtype.max


def _own_bounds(node: UOp) -> tuple[Any, Any]:
    """Bounds of one node whose operands' are known."""
    op, dtype = node.op, node.dtype
    if op is Ops.CONST:
        return (node.arg, node.arg) if node.arg == node.arg else _full_bounds(dtype)
    if op is Ops.VARIABLE:
        return node.arg[1], node.arg[2]
    if op is Ops.LANES:
        return 0, dtype.count - 1
    if op in (Ops.RANGE, Ops.SPECIAL):
        return 0, max(node.src[0]._bounds[1] - 1, 0)
    if op is Ops.BIND:
        return node.src[0]._bounds
    if op in (Ops.VECTORIZE, Ops.GEP) and dtype.is_integral:
        limits = [s._bounds for s in node.src]
        return min(low for low, _ in limits), max(high for _, high in limits)
    if not (dtype.is_integral and node.src) or (op not in ALU):
        return _full_bounds(dtype)
    limits = [s._bounds for s in node.src]
    if op is Ops.CAST:
        return _cast_bounds(node, limits[0])
    rule = ROWS[op].bounds
    if rule is None or (op in COMPARE and not node.src[0].dtype.is_integral):
        return _full_bounds(dtype)
    low, high = rule(*limits)
    if low < dtype.min or high > dtype.max:  # wraps
        return _full_bounds(dtype)
    return low, high


def _cast_bounds(node: UOp, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    dtype = node.dtype
    if dtype.kind == "bool" or not node.src[0].dtype.is_integral:
        return _full_bounds(dtype)
    return bounds if dtype.min <= bounds[0] and bounds[1] <= dtype.max else _full_bounds(dtype)


def _bounds_of(node: UOp) -> tuple[Any, Any]:
    try:
        return node._bounds
    except AttributeError:
        pass
    if not all(map(_has_bounds, node.src)):
        for below in node.toposort(lambda n: not _has_bounds(n)):
            if not _has_bounds(below):
                below._bounds = _own_bounds(below)
    else:
        node._bounds = _own_bounds(node)
    return node._bounds


def _has_bounds(node: UOp) -> bool:
    return hasattr(node, "_bounds")
