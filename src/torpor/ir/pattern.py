"""Patterns over nodes, and sets of rules: each a pattern and a named function of a few lines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import Any, Final

from torpor.base.dtypes import DType
from torpor.ir.ops import COMMUTATIVE, Ops
from torpor.ir.uop import UOp

Match = dict[str, UOp]
_ANY: Final = object()


def _operator(op: Ops) -> Callable[[UPat, UPat | int | float], UPat]:
    """The method `x op y`."""

    def method(self: UPat, other: UPat | int | float) -> UPat:
        return self.alu(op, self._other(other))

    return method


class UPat:
    """What a node must look like.

    op:    an op, several of them, or None for any.
    dtype: a format or several; a vector matches its scalar format. None for any.
    src:   a tuple (operands in this order), a list (in any order), one pattern (all operands match
           it), or None (whatever operands).
    arg:   the node's arg, compared with ==.
    name:  what the rule's function calls the node; a name used twice must match the same node.
    more:  whether further operands may follow those in `src`.
    """

    __slots__ = ("ops", "dtypes", "src", "arg", "name", "more", "orders")

    def __init__(
        self,
        op: Ops | Iterable[Ops] | None = None,
        dtype: DType | Iterable[DType] | None = None,
        src: tuple[UPat, ...] | list[UPat] | UPat | None = None,
        arg: object = _ANY,
        name: str | None = None,
        more: bool = False,
    ):
        self.ops = frozenset((op,)) if isinstance(op, Ops) else op and frozenset(op)
        self.dtypes = (
            frozenset((dtype,)) if isinstance(dtype, DType) else dtype and frozenset(dtype)
        )
        self.src, self.arg, self.name, self.more = src, arg, name, more
        self.orders: Sequence[tuple[UPat, ...]] = ()
        if isinstance(src, tuple):
            self.orders = (src,)
        elif isinstance(src, list):
            self.orders = tuple(permutations(src)) if len(set(map(id, src))) > 1 else (tuple(src),)

    @staticmethod
    def var(name: str | None = None, dtype: DType | Iterable[DType] | None = None) -> UPat:
        """Any node, called `name`."""
        return UPat(None, dtype, name=name)

    @staticmethod
    def cvar(name: str | None = None, dtype: DType | Iterable[DType] | None = None) -> UPat:
        """Any constant, called `name`."""
        return UPat(Ops.CONST, dtype, name=name)

    @staticmethod
    def const(value: object, dtype: DType | Iterable[DType] | None = None) -> UPat:
        """The constant `value`."""
        return UPat(Ops.CONST, dtype, arg=value)

    def named(self, name: str) -> UPat:
        """The same pattern, its node called `name`."""
        return UPat(self.ops, self.dtypes, self.src, self.arg, name, self.more)

    def alu(self, op: Ops, *others: UPat) -> UPat:
        """The pattern of `op` on these operands, in any order where the op allows it."""
        source = (self, *others)
        return UPat(op, None, list(source) if op in COMMUTATIVE else source)

    def _other(self, value: UPat | int | float) -> UPat:
        return value if isinstance(value, UPat) else UPat.const(value)

    __add__, __sub__, __mul__ = _operator(Ops.ADD), _operator(Ops.SUB), _operator(Ops.MUL)
    __truediv__, __floordiv__ = _operator(Ops.FDIV), _operator(Ops.IDIV)
    __mod__, __lt__ = _operator(Ops.MOD), _operator(Ops.CMPLT)
    __and__, __or__, __xor__ = _operator(Ops.AND), _operator(Ops.OR), _operator(Ops.XOR)

    def where(self, yes: UPat, no: UPat | int | float) -> UPat:
        return self.alu(Ops.WHERE, yes, self._other(no))

    def cast(self, dtype: DType | Iterable[DType] | None = None) -> UPat:
        return UPat(Ops.CAST, dtype, (self,))

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing but op and format."""
        return self.src is None and self.arg is _ANY

    def allows_format(self, dtype: DType) -> bool:
        """Whether a node of this format may match."""
        wanted = self.dtypes
        return wanted is None or dtype in wanted or dtype.scalar() in wanted

    def match(self, node: UOp, found: Match) -> list[Match]:
        """Every way in which `node` matches, given what the names in `found` stand for."""
        if self.ops is not None and node.op not in self.ops:
            return []
        if not self.allows_format(node.dtype):
            return []
        if self.arg is not _ANY and not (node.arg == self.arg and node.arg is not None):
            if not (self.arg is None and node.arg is None):
                return []
        if self.name is not None:
            bound = found.get(self.name)
            if bound is None:
                found = {**found, self.name: node}
            elif bound is not node:
                return []
        return [found] if self.src is None else self._match_sources(node.src, found)

    def _match_sources(self, source: tuple[UOp, ...], found: Match) -> list[Match]:
        if isinstance(self.src, UPat):
            orders: Sequence[tuple[UPat, ...]] = ((self.src,) * len(source),)
        else:
            orders = self.orders
        count = len(orders[0])
        if len(source) != count and not (self.more and len(source) > count):
            return []
        matches: list[Match] = []
        for order in orders:
            partial = [found]
            for pattern, operand in zip(order, source, strict=False):
                partial = [m for p in partial for m in pattern.match(operand, p)]
                if not partial:
                    break
            matches.extend(partial)
        return matches


Rule = tuple[UPat, Callable[..., UOp | None]]


class PatternMatcher:
    """An ordered set of rules; the first that matches and gives a node wins.

    A rule's function takes the pattern's named nodes by keyword, and `ctx` if it asks for it; it
    returns the new node, or None to decline.
    """

    def __init__(self, rules: Iterable[Rule]):
        self.rules: Final = list(rules)
        # The names are None where there is nothing to match but op and format.
        self._by_op: dict[
            Ops, list[tuple[UPat, Callable[..., Any], tuple[str, ...] | None, bool]]
        ] = {}
        for pattern, function in self.rules:
            names = tuple(inspect.signature(function).parameters)
            wanted = tuple(n for n in names if n != "ctx")
            plain = pattern.is_plain and names == (pattern.name,)
            for op in pattern.ops or Ops:
                row = pattern, function, None if plain else wanted, "ctx" in names
                self._by_op.setdefault(op, []).append(row)

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        return PatternMatcher([*self.rules, *other.rules])

    def rewrite(self, node: UOp, ctx: object = None) -> tuple[UOp, str] | None:
        """The node that the first fitting rule gives, and that rule's name; None if none fits."""
        for pattern, function, names, wants_context in self._by_op.get(node.op, ()):
            if names is None:
                made = function(node) if pattern.allows_format(node.dtype) else None
                if made is not None and made is not node:
                    return made, function.__name__
                continue
            for match in pattern.match(node, {}):
                arguments: dict[str, Any] = {name: match[name] for name in names}
                if wants_context:
                    arguments["ctx"] = ctx
                made = function(**arguments)
                if made is not None and made is not node:
                    return made, function.__name__
        return None
