"""Templates for any sizes: of functions that only hand sizes on, or multiply and add them up.

before  templates of softmax for 17, 18 and 19 rows, and each further one takes as long to build
after   a number that is the same in templates for three sets of sizes stays, and one that is in
        each the same product or sum of these is that; where there are others, there is none
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from math import prod
from typing import Any, Final

from torpor.graph.template import Template
from torpor.ir.infer import shape_of, shaped
from torpor.ir.uop import UOp

# Sizes for which a function is run: small and large, odd and multiples of 48, so that one that does
# something else for some of them is found out.
_ODD: Final = (5, 7, 11, 13, 17, 19, 23, 29)
MARKS: Final = (_ODD, tuple(n + 100 for n in _ODD), tuple(48 * (n + 48) for n in _ODD))
MOST_OPERANDS: Final = 3


class Unfit(Exception):
    """The templates are not those of one function that hands sizes on."""


class AnySize:
    """A template for any sizes, from one for each of some lists of them."""

    def __init__(self, templates: Sequence[Template], sizes: Sequence[Sequence[int]]):
        self._like = templates[0]
        self._fixed, *others = [_structure(one) for one in templates]
        if any(other != self._fixed for other in others):
            raise Unfit
        self._known = dict(_combinations(sizes))
        self._constants: list[Any] = []
        columns = zip(*map(_values, templates), strict=True)
        text = "".join(f"{self._text(column)}, " for column in columns)
        self._of: Any = eval(f"lambda s, c: ({text})")  # noqa: S307 (made of numbers)

    def _text(self, column: Sequence[Any]) -> str:
        """What these values are of sizes `s` and constants `c`, as Python."""
        first, kinds = column[0], set(map(type, column))
        if len({*map(repr, column)} if kinds == {float} else {*column}) == 1:
            self._constants.append(first)
            return f"c[{len(self._constants) - 1}]"
        if kinds == {tuple} and len(set(map(len, column))) == 1:
            return f"({''.join(f'{self._text(part)}, ' for part in zip(*column, strict=True))})"
        if kinds != {int} or column not in self._known:
            raise Unfit
        return self._known[column]

    def template(self, sizes: Sequence[int]) -> Template:
        """The template for these sizes."""
        values = iter(self._of(sizes, self._constants))
        like, fixed = self._like, list[UOp]()
        for op, dtype, sources in self._fixed[0]:
            node = UOp(op, dtype, tuple([fixed[source] for source in sources]), next(values))
            fixed.append(shaped(node, next(values)))
        made = object.__new__(Template)
        made.__dict__.update(vars(like), fixed=fixed, is_called=False)
        made.steps = [
            (op, dtype, next(values), first, pick, next(values), owner)
            for op, dtype, _, first, pick, _, owner in like.steps
        ]
        made.kinds = [None if kind is None else (kind[0], next(values)) for kind in like.kinds]
        return made


def _structure(one: Template) -> tuple[Any, ...]:
    """What is the same for all sizes: what is fixed, the steps, and the results."""
    places = {node: number for number, node in enumerate(one.fixed)}
    if not one.is_whole():
        raise Unfit
    fixed = [(node.op, node.dtype, [places[below] for below in node.src]) for node in one.fixed]
    steps = [(step[0], step[1], step[3], repr(step[4]), step[6]) for step in one.steps]
    return fixed, steps, one.results, one.used, [kind and kind[0] for kind in one.kinds]


def _values(one: Template) -> Iterator[Any]:
    """What may be others for other sizes, in order."""
    for node in one.fixed:
        yield from (node.arg, shape_of(node))
    for _, _, arg, _, _, shape, _ in one.steps:
        yield from (arg, shape)
    yield from [kind[1] for kind in one.kinds if kind is not None]


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
