"""Linear programs for targets that compute with 32-bit integers only.

Integers of 64 bits become pairs of uint32, in memory too; where their bounds are those of an int32
they are computed as one. Integers of 8 and 16 bits are computed in 32 bits and brought back into
their range wherever they may leave it, while memory holds them as uint8 and uint16 (the only nodes
left of these formats are memory, LOADs, and the CASTs beside them).

A rewritten program has its effects (memory, registers, loops) where they were. Every new value
stands just behind the last of its operands, so that it is there for whoever may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError
from torpor.ir import Ops, UOp
from torpor.ir.ops import ALU, COMPARE
from torpor.kernel.decompose import pairs
from torpor.kernel.decompose.pairs import Pair, word
from torpor.kernel.decompose.words import vector_of
from torpor.rules.exact import constant_of

Value = UOp | Pair
_DECLARED: Final = frozenset({Ops.PARAM, Ops.VARIABLE, Ops.DEFINE_LOCAL})
_PURE: Final = ALU | {Ops.CONST, Ops.VECTORIZE, Ops.GEP, Ops.LANES, Ops.INDEX}
_MAY_LEAVE: Final = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.SHL, Ops.IDIV, Ops.CAST})


def is_wide(dtype: DType) -> bool:
    """Whether it is an integer of two words (or a vector of them)."""
    return dtype.is_int and dtype.bits == 64


def is_narrow(dtype: DType) -> bool:
    """Whether it is an integer of part of a word (or a vector of them)."""
    return dtype.is_int and dtype.bits < 32


def _computed(dtype: DType) -> DType:
    """The format that a narrow integer is computed in."""
    if not is_narrow(dtype):
        return dtype
    return (dtypes.int32 if dtype.kind == "int" else dtypes.uint32).vec(dtype.count)


def _stored(dtype: DType) -> DType:
    """The format that an integer has in memory."""
    if is_wide(dtype):
        return dtypes.uint32.vec(dtype.count)
    if is_narrow(dtype):
        return (dtypes.uint8 if dtype.bits == 8 else dtypes.uint16).vec(dtype.count)
    return dtype


def _is_short(node: UOp) -> bool:
    """Whether the bounds of a node are those of an int32."""
    return bool(dtypes.int32.min <= node.vmin and node.vmax <= dtypes.int32.max)


def _in_range(node: UOp, dtype: DType) -> UOp:
    """A 32-bit number brought into the range of the narrow format by wrapping."""
    computed = _computed(dtype)
    node = node if node.dtype is computed else node.cast(computed)
    if dtype.kind == "uint":
        return node & dtype.scalar().max
    return node << (32 - dtype.bits) >> (32 - dtype.bits)


class _Program:
    """A program under construction."""

    def __init__(self, linear: Sequence[UOp]):
        self.linear = linear
        self.made: dict[UOp, Value] = {}
        self.buckets: list[list[UOp]] = [[] for _ in range(len(linear) + 1)]
        self.place: dict[UOp, int] = {}
        self.folded: dict[UOp, UOp] = {}
        first = (n for n, node in enumerate(linear) if node.op not in _DECLARED)
        self.start = next(first, 0)  # constants stand behind the last declaration
        self.registers = max((int(n.arg) for n in linear if n.op is Ops.ACC), default=-1) + 1

    def run(self) -> tuple[UOp, ...]:
        for number, node in enumerate(self.linear, 1):
            for source in node.toposort(self.is_new):
                if not self.is_new(source):
                    continue
                value = _WRITTEN.get(source.op, _Program.value)(self, source)
                whole = value if isinstance(value, tuple) else (value,)
                parts = [self.fold(part) for part in whole]
                for part in parts:
                    self.put(part, number)
                self.made[source] = (parts[0], parts[1]) if len(parts) == 2 else parts[0]
        return tuple(node for bucket in self.buckets for node in bucket)

    def fold(self, root: UOp) -> UOp:
        """`root` with arithmetic on constants done (some targets refuse it where it wraps)."""
        for node in root.toposort(self.is_unfolded):
            if self.is_unfolded(node):
                found = node.replace(src=tuple(self.folded[s] for s in node.src))
                if node.op in ALU and all(s.op is Ops.CONST for s in found.src):
                    found = found.simplify()
                elif node.op is Ops.WHERE and (known := constant_of(found.src[0])) is not None:
                    found = found.src[1 if known else 2]
                self.folded[node] = self.folded[found] = found
        return self.folded[root]

    def is_unfolded(self, node: UOp) -> bool:
        """Whether constants in a node of the new program have not been looked for."""
        return node not in self.folded

    def is_new(self, node: UOp) -> bool:
        """Whether a node of the old program has not been rewritten yet."""
        return node not in self.made

    def is_unlisted(self, node: UOp) -> bool:
        """Whether a node of the new program has no place yet."""
        return node not in self.place

    def put(self, root: UOp, number: int) -> None:
        """List what is new in `root`: effects here, values behind their operands."""
        for node in root.toposort(self.is_unlisted):
            if not self.is_unlisted(node):
                continue
            place = number
            if node.op in _PURE:
                place = max((self.place[s] for s in node.src), default=self.start)
            self.place[node] = place
            self.buckets[place].append(node)

    def one(self, node: UOp) -> UOp:
        """What a node of one word has become."""
        value = self.made[node]
        if isinstance(value, tuple):
            raise DTypeError(f"{node.op} of {node.dtype} needs more than 32 bits")
        return value

    def two(self, node: UOp) -> Pair:
        """What a node has become, as a pair."""
        value = self.made[node]
        if isinstance(value, tuple):
            return value
        if value.op is Ops.CONST:
            return pairs.constant(word(value).const_like(0), int(value.arg))
        return pairs.extended(value)

    def low(self, node: UOp) -> UOp:
        """The number, of which 32 bits are known to suffice."""
        value = self.made[node]
        return value[0].bitcast(_int32(value[0])) if isinstance(value, tuple) else value

    # --- values -----------------------------------------------------------------------------------
    def value(self, node: UOp) -> Value:
        """Everything that treats its operands alike."""
        formats = [n for n in (node, *node.src) if is_wide(n.dtype)]
        short = all(_is_short(n) for n in formats)
        if node.op in ALU and formats and not short:
            return self.wide(node)
        if not short:
            raise DTypeError(f"{node.op} of {node.dtype} needs more than 32 bits")
        source = tuple(self.low(s) if is_wide(s.dtype) else self.one(s) for s in node.src)
        dtype = _int32(node) if is_wide(node.dtype) else _computed(node.dtype)
        if source == node.src and dtype is node.dtype:
            return node
        if node.op is Ops.BITCAST:
            return self.bitcast(node, source[0])
        result = source[0].cast(dtype)
        if node.op is not Ops.CAST:
            result = node.replace(dtype=dtype, src=source)
        if is_narrow(node.dtype) and node.op in _MAY_LEAVE:
            return _in_range(result, node.dtype)
        return result

    def bitcast(self, node: UOp, x: UOp) -> UOp:
        """The same bits in another format of the size."""
        if node.dtype.bits == 64:
            return x
        if not is_narrow(node.dtype):
            return x.bitcast(node.dtype)
        return _in_range(x.bitcast(_computed(node.dtype)), node.dtype)

    def wide(self, node: UOp) -> Value:
        """Arithmetic with pairs among its operands or as its result."""
        op, signed = node.op, node.src[-1].dtype.kind == "int"
        if op is Ops.WHERE:
            return pairs.choose(self.one(node.src[0]), *(self.two(s) for s in node.src[1:]))
        if op is Ops.CAST:
            return self.cast(node)
        if op is Ops.BITCAST:
            return self.two(node.src[0])
        if op in (Ops.SHL, Ops.SHR):
            count = word(self.low(node.src[1]))
            if op is Ops.SHL:
                return pairs.shift_left(self.two(node.src[0]), count)
            return pairs.shift_right(self.two(node.src[0]), count, node.dtype.kind == "int")
        a, b = (self.two(s) for s in node.src)
        if op in COMPARE:
            return _compare(op, a, b, signed)
        if op in _ARITHMETIC:
            return _ARITHMETIC[op](a, b)
        return self.divide(node, a, b) if op in (Ops.IDIV, Ops.MOD) else _other(op, a, b, signed)

    def divide(self, node: UOp, a: Pair, b: Pair) -> Pair:
        """Shifts and masks where the divisor is a power of two."""
        divisor, signed = node.src[1], node.dtype.kind == "int"
        value = int(divisor.arg) if divisor.op is Ops.CONST else 0
        if value <= 0 or value & (value - 1):
            return pairs.divide(a, b, signed)[node.op is Ops.MOD]
        if node.op is Ops.MOD:
            return pairs.bitwise(Ops.AND, a, pairs.constant(a[0], value - 1))
        return pairs.shift_right(a, a[0].const_like(value.bit_length() - 1), signed)

    def cast(self, node: UOp) -> Value:
        x, dtype = node.src[0], node.dtype
        if not is_wide(x.dtype):
            value = self.one(x)
            return pairs.from_single(value) if x.dtype.is_float else pairs.extended(value)
        low, high = self.two(x)
        if is_wide(dtype):
            return low, high
        if dtype.is_float:
            return pairs.to_single((low, high), x.dtype.kind == "int")
        if dtype.kind == "bool":
            return (low | high).ne(0)
        found = low if _computed(dtype) is low.dtype else low.cast(_computed(dtype))
        return _in_range(found, dtype) if is_narrow(dtype) else found

    def constant(self, node: UOp) -> Value:
        if is_wide(node.dtype) and not _is_short(node):
            return pairs.constant(UOp.const(vector_of(dtypes.uint32, node), 0), int(node.arg))
        if is_wide(node.dtype):
            return UOp.const(_int32(node), node.arg)
        return UOp.const(_computed(node.dtype), node.arg)

    def lanes(self, node: UOp) -> Value:
        return node.replace(dtype=_int32(node) if is_wide(node.dtype) else _computed(node.dtype))

    def rearranged(self, node: UOp) -> Value:
        """VECTORIZE and GEP: word by word."""
        if not is_wide(node.dtype) or all(_is_short(s) for s in node.src):
            return self.value(node)
        both = [self.two(s) for s in node.src]
        dtype = vector_of(dtypes.uint32, node)
        low, high = (node.replace(dtype=dtype, src=tuple(p[n] for p in both)) for n in (0, 1))
        return low, high

    def variable(self, node: UOp) -> Value:
        """Of 64 bits: two variables of a word each, the high one's name ending in `_high`; or one,
        if it has but 32 of them.
        """
        if not is_wide(node.dtype) or _is_short(node):
            return self.value(node)
        name, most = node.arg[0], int(dtypes.uint32.max)
        low = UOp(Ops.VARIABLE, dtypes.uint32, (), (name, 0, most))
        if node.vmin >= 0 and node.vmax <= most:
            return low, low.const_like(0)
        return low, UOp(Ops.VARIABLE, dtypes.uint32, (), (f"{name}_high", 0, most))

    # --- effects ----------------------------------------------------------------------------------
    def memory(self, node: UOp) -> UOp:
        """Memory of 64-bit integers has twice as many elements."""
        argument = node.arg
        if is_wide(node.dtype):
            argument = replace(argument, size=argument.size * 2)
        return node.replace(dtype=_stored(node.dtype), arg=argument)

    def index(self, node: UOp) -> UOp:
        """The place in memory: of the low word, where it is a pair."""
        memory, position = self.one(node.src[0]), self.low(node.src[1])
        condition = tuple(self.one(s) for s in node.src[2:])
        if is_wide(node.dtype):
            position = position * 2
        return node.replace(dtype=_stored(node.dtype), src=(memory, position, *condition))

    def words(self, place: UOp, count: int) -> UOp:
        """The INDEX of `count` pairs as one row of words."""
        if len(place.src) < 3 or place.src[2].dtype.count == 1:
            return place
        twice = tuple(n // 2 for n in range(count * 2))
        return place.replace(src=(*place.src[:2], place.src[2].gep(*twice)))

    def load(self, node: UOp) -> Value:
        if node.src[0].op is Ops.ACC:
            return self.read_register(node)
        source = (self.one(node.src[0]), *(self.one(s) for s in node.src[1:]))
        if is_narrow(node.dtype):
            loaded = node.replace(dtype=_stored(node.dtype), src=source)
            return _extend(loaded.cast(vector_of(dtypes.uint32, node)), node.dtype)
        if not is_wide(node.dtype):
            return node.replace(src=source)
        count = node.dtype.count
        place = self.words(source[0], count)
        whole = node.replace(dtype=dtypes.uint32.vec(count * 2), src=(place, *source[1:]))
        return whole.gep(*range(0, 2 * count, 2)), whole.gep(*range(1, 2 * count, 2))

    def store(self, node: UOp) -> Value:
        place, value = node.src[:2]
        rest = tuple(self.one(s) for s in node.src[2:])
        if place.op is Ops.ACC:
            return self.write_register(node, rest)
        written: Value = self.made[value]
        target = self.one(place)
        if is_wide(value.dtype):
            low, high = self.two(value)
            count = value.dtype.count
            target = self.words(target, count)
            lanes = [one.gep(n) if count > 1 else one for n in range(count) for one in (low, high)]
            written = UOp(Ops.VECTORIZE, dtypes.uint32.vec(2 * count), tuple(lanes))
        elif is_narrow(value.dtype):
            written = self.one(value).cast(_stored(value.dtype))
        assert isinstance(written, UOp)
        return node.replace(src=(target, written, *rest))

    # --- registers --------------------------------------------------------------------------------
    def register(self, node: UOp) -> Value:
        initial, *rest = node.src
        others = tuple(self.one(s) for s in rest)
        if not is_wide(node.dtype):
            value = self.one(initial)
            return node.replace(dtype=value.dtype, src=(value, *others))
        low, high = self.two(initial)
        second = node.replace(dtype=high.dtype, src=(high, *others), arg=self.registers)
        self.registers += 1
        return node.replace(dtype=low.dtype, src=(low, *others)), second

    def read_register(self, node: UOp) -> Value:
        held = self.made[node.src[0]]
        rest = self.order(node.src[1:])
        if isinstance(held, tuple):
            first, second = (node.replace(dtype=h.dtype, src=(h, *rest)) for h in held)
            return first, second
        return node.replace(dtype=held.dtype, src=(held, *rest))

    def order(self, nodes: Sequence[UOp]) -> tuple[UOp, ...]:
        """Operands that only say when a register is read: every part of them."""
        found: list[UOp] = []
        for node in nodes:
            value = self.made[node]
            found.extend(value if isinstance(value, tuple) else (value,))
        return tuple(found)

    def write_register(self, node: UOp, rest: tuple[UOp, ...]) -> Value:
        held = self.made[node.src[0]]
        if not isinstance(held, tuple):
            return node.replace(src=(held, self.one(node.src[1]), *rest))
        both = zip(held, self.two(node.src[1]), strict=True)
        low, high = (node.replace(src=(h, v, *rest)) for h, v in both)
        return low, high

    def check(self, node: UOp) -> Value:
        """The condition is looked at once, beside the low word."""
        condition = self.one(node.src[1])
        value = self.made[node.src[0]]
        first = value[0] if isinstance(value, tuple) else value
        checked = node.replace(dtype=first.dtype, src=(first, condition))
        return (checked, value[1]) if isinstance(value, tuple) else checked


def _extend(loaded: UOp, dtype: DType) -> UOp:
    """What was loaded without a sign, as the number that it is."""
    return _in_range(loaded, dtype) if dtype.kind == "int" else loaded


def _int32(node: UOp) -> DType:
    return vector_of(dtypes.int32, node)


def _compare(op: Ops, a: Pair, b: Pair, signed: bool) -> UOp:
    if op is Ops.CMPLT:
        return pairs.less(a, b, signed)
    same = pairs.equal(a, b)
    return same if op is Ops.CMPEQ else same.ne(True)


def _other(op: Ops, a: Pair, b: Pair, signed: bool) -> Pair:
    """Bits, and the greater or lesser of two."""
    if op in (Ops.AND, Ops.OR, Ops.XOR):
        return pairs.bitwise(op, a, b)
    if op not in (Ops.MAX, Ops.MIN):
        raise DTypeError(f"{op} of 64-bit integers is not written out")
    below = pairs.less(a, b, signed)
    return pairs.choose(below, b, a) if op is Ops.MAX else pairs.choose(below, a, b)


_ARITHMETIC: Final[dict[Ops, Callable[[Pair, Pair], Pair]]] = {
    Ops.ADD: pairs.add,
    Ops.SUB: pairs.subtract,
    Ops.MUL: pairs.multiply,
}
_WRITTEN: Final[dict[Ops, Callable[[_Program, UOp], Value]]] = {
    Ops.CONST: _Program.constant,
    Ops.LANES: _Program.lanes,
    Ops.VECTORIZE: _Program.rearranged,
    Ops.GEP: _Program.rearranged,
    Ops.VARIABLE: _Program.variable,
    Ops.PARAM: _Program.memory,
    Ops.DEFINE_LOCAL: _Program.memory,
    Ops.INDEX: _Program.index,
    Ops.LOAD: _Program.load,
    Ops.STORE: _Program.store,
    Ops.ACC: _Program.register,
    Ops.CHECK: _Program.check,
}


def in_words(linear: Sequence[UOp]) -> tuple[UOp, ...]:
    """The program without integers of other than 32 bits; a `DTypeError` names what cannot be."""
    return _Program(linear).run()
