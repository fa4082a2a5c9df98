"""The ways to multiply what a kernel sums products of: its numbers as they are, several of them in
a word (DOT), words as matrices (MMA).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf
from typing import Final, NamedTuple

from torpor.base.target import Fragment
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.choose.plans import best_plans
from torpor.kernel.choose.tiling import Plan
from torpor.kernel.choose.vectors import attempt, attempt_all
from torpor.kernel.opts.dot import find_products, parts_of
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import size_of

TERMS: Final = (4, 2)  # of a DOT


class Way(NamedTuple):
    """The kernel as its products are made; the instruction for matrices of words, and the axis of
    these, the innermost one of its sum.
    """

    kernel: Kernel
    words: UOp | None = None
    fragment: Fragment | None = None

    @property
    def is_pairs(self) -> bool:
        """Whether its words are of two numbers each."""
        dots = [opt.arg for opt in self.kernel.opts if opt.op is OptOps.DOT]
        return self.fragment is None and dots == [min(TERMS)]

    def plans(self) -> list[tuple[float, Plan]]:
        """Plans with their seconds, the quickest first."""
        return best_plans(self.kernel, self.words)


def ways(kernel: Kernel) -> Iterator[Way]:
    """Every way to multiply that the target has, the numbers as they are first."""
    yield Way(kernel)
    yield from map(Way, in_words(kernel))
    yield from in_matrices(kernel)


def least_seconds(kernel: Kernel) -> float:
    """Seconds of the best way that a plan gives."""
    return min((plans[0][0] for way in ways(kernel) if (plans := way.plans())), default=inf)


def in_words(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel with DOTs of words along an axis of its sum, of most terms first."""
    found = find_products(kernel.ast) if kernel.target.dots else None
    for terms, position in product(TERMS, range(len(kernel.reduce_axes) if found else 0)):
        assert found is not None
        formats = parts_of(kernel.target, found, terms)
        names = None if formats is None else tuple(sorted(form.name for form in formats))
        trial = kernel.copy()
        if names in kernel.target.dots and attempt(trial, Opt(OptOps.DOT, position, terms)):
            yield trial


def in_matrices(kernel: Kernel) -> Iterator[Way]:
    """The kernel with as many words along an axis of its sum as matrices take."""
    one = fragment_for(kernel)
    if one is None:
        return
    terms = one.depth // one.words
    for position, axis in enumerate(kernel.reduce_axes):
        if 2 * (size_of(axis) or 0) > terms * one.words:  # less than half would be padding
            trial = kernel.copy()
            if attempt_all(trial, trial, words_along, position, terms, one):
                yield Way(trial, trial.reduce_axes[-1], one)


def fragment_for(kernel: Kernel) -> Fragment | None:
    """The instruction that multiplies matrices of what a kernel sums products of."""
    found = find_products(kernel.ast) if kernel.target.fragments else None
    if found is None:
        return None
    return kernel.target.either_fragment(found.names)


def words_along(kernel: Kernel, position: int, terms: int, one: Fragment) -> bool:
    """Words along a reduce axis, which becomes the innermost one; says whether there are."""
    place = kernel.axes.index(kernel.reduce_axes[position])
    if (size_of(kernel.axes[place]) or 1) % (terms * one.words):
        kernel.apply_opt(Opt(OptOps.PADTO, place, terms * one.words))
    last = len(kernel.reduce_axes) - 1
    for after in range(position, last):
        kernel.apply_opt(Opt(OptOps.SWAP, place + after - position, place + after - position + 1))
    kernel.apply_opt(Opt(OptOps.DOT, last, terms))
    return True
