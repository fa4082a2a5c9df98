"""Templates for any sizes: of functions that only hand sizes on, or multiply and add them up.

before  templates of softmax for 17, 18 and 19 rows, and each further one takes as long to build
after   a number that is the same in templates for three sets of sizes stays, and one that is in
        each the same product or sum of these is that; where there are others, there is none
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations_with_replacement
from math import prod
from typing import Any, Final

from torpor.graph.template import Template
from torpor.ir.infer import shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

# Sizes for which a function is run: small and large, odd and multiples of 48, so that one that does
# something else for some of them is found out.
_ODD: Final = (5, 7, 11, 13, 17, 19, 23, 29)
MARKS: Final = (_ODD, tuple(n + 100 for n in _ODD), tuple(48 * (n + 48) for n in _ODD))
MOST_OPERANDS: Final = 3
SMALL: Final = 4  # nodes that are made at once: fewer than of one size, which are there mostly
NUMBERED: Final = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.SHRINK, Ops.PAD})  # whose args have sizes
_OTHERS: Final = frozenset({Ops.CONST, Ops.SHEAR, Ops.LOOP})  # whose args are the same in a call


class Unfit(Exception):
    """The templates are not those of one function that hands sizes on."""


class AnySize:
    """A template for any sizes, from one for each of some lists of them. `common`: what is so of
    that for each; `is_called`, `born`: see `Template`.
    """

    def __init__(self, templates: Sequence[Template], sizes: Sequence[Sequence[int]]):
        self._like = templates[0]
        self._fixed, *others = [_structure(one) for one in templates]
        if any(other != self._fixed for other in others):
            raise Unfit
        self._known = dict(_combinations(sizes))
        self._constants: list[Any] = []
        rows = [[*zip(*one, strict=True)] for one in zip(*map(_rows, templates), strict=True)]
        texts = [f"{self._text(args)}, {self._text(shapes)}, " for _, args, shapes in rows]
        self._of = self._function(f"({''.join(texts)})")
        flat = [zip(*map(_flat, args), strict=True) for ops, args, _ in rows if ops[0] in NUMBERED]
        numbers = "".join(f"{self._text(one)}, " for one in chain.from_iterable(flat))
        kinds = self._text([tuple(one.kinds) for one in templates])
        self._outline = self._function(f"({kinds}, ({numbers}))")
        known = all(len({*map(repr, args)}) == 1 for ops, args, _ in rows if ops[0] in _OTHERS)
        self.is_called, self.born = known and len(rows) >= SMALL, self._like.born
        own = ("fixed", "steps", "kinds", "is_called")
        self.common = {name: one for name, one in vars(self._like).items() if name not in own}

    def _function(self, text: str) -> Any:
        """What gives the values that this text says, of sizes."""
        return eval(f"lambda s: {text}", {"c": self._constants})  # noqa: S307 (made of numbers)

    def _text(self, column: Sequence[Any]) -> str:
        """What these values are of sizes `s` and constants `c`, as Python."""
        first, kinds = column[0], set(map(type, column))
        if len({*map(repr, column)} if kinds == {float} else {*column}) == 1:
            self._constants.append(first)
            return f"c[{len(self._constants) - 1}]"
        if kinds == {tuple} and len(set(map(len, column))) == 1:
            return f"({''.join(f'{self._text(part)}, ' for part in zip(*column, strict=True))})"
        if kinds != {int} or (known := self._known.get(tuple(column))) is None:
            raise Unfit
        return known

    def template(self, sizes: Sequence[int]) -> Template:
        """The template for these sizes."""
        kinds, numbers = self._outline(sizes)
        return _Sized(self, kinds, numbers, sizes)

    def nodes(self, sizes: Sequence[int]) -> tuple[list[UOp], list[tuple[Any, ...]]]:
        """What is fixed for these sizes, and the steps (see `Template`)."""
        values, fixed = iter(self._of(sizes)), list[UOp]()
        for op, dtype, sources in self._fixed[0]:
            node = UOp(op, dtype, tuple([fixed[source] for source in sources]), next(values))
            fixed.append(shaped(node, next(values)))
        return fixed, [
            (op, dtype, next(values), first, pick, next(values), owner)
            for op, dtype, _, first, pick, _, owner in self._like.steps
        ]


class _Sized(Template):
    """The template for some sizes, whose steps are found out when somebody looks."""

    def __init__(self, of: AnySize, kinds: Any, numbers: Sequence[int], sizes: Sequence[int]):
        self.__dict__.update(of.common, kinds=kinds, numbers=numbers)
        self._of, self._sizes = of, sizes

    @property
    def likeness(self) -> AnySize:
        return self._of

    def __getattr__(self, name: str) -> Any:
        if name not in ("fixed", "steps"):
            raise AttributeError(name)
        self.fixed, self.steps = self._of.nodes(self._sizes)
        return self.__dict__[name]


def _structure(one: Template) -> tuple[Any, ...]:
    """What is the same for all sizes: what is fixed, the steps, and the results."""
    places = {node: number for number, node in enumerate(one.fixed)}
    if not one.is_whole():
        raise Unfit
    fixed = [(node.op, node.dtype, [places[below] for below in node.src]) for node in one.fixed]
    steps = [(step[0], step[1], step[3], repr(step[4]), step[6]) for step in one.steps]
    return fixed, steps, one.results, one.used, [kind and kind[0] for kind in one.kinds]


def _rows(one: Template) -> list[tuple[Ops, Any, Any]]:
    """The op of each node, in order, and what may be others for other sizes: arg and shape."""
    fixed = [(node.op, node.arg, shape_of(node)) for node in one.fixed]
    return [*fixed, *[(op, arg, shape) for op, _, arg, _, _, shape, _ in one.steps]]


def _flat(arg: Sequence[Any]) -> Sequence[Any]:
    """The numbers of a movement."""
    return [*chain.from_iterable(arg)] if arg and type(arg[0]) is tuple else arg


def _combinations(sizes: Sequence[Sequence[int]]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Products and sums of sizes: what they are in each list, and as Python."""
    numbers = range(len(sizes[0]))
    for count in range(1, MOST_OPERANDS + 1):
        for some in combinations_with_replacement(numbers, count):
            parts, names = [[one[n] for n in some] for one in sizes], [f"s[{n}]" for n in some]
            yield tuple(map(sum, parts)), "+".join(names)
            yield tuple(map(prod, parts)), "*".join(names)
    for n in numbers:
        yield tuple([one[n] + 1 for one in sizes]), f"s[{n}]+1"  # one more row
