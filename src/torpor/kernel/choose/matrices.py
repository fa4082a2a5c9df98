"""Opts for sums of products that instructions for whole matrices take, as plans say."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from torpor.base.target import Fragment
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.choose.plans import best_plans
from torpor.kernel.choose.products import TRIED, apply_plan
from torpor.kernel.choose.vectors import attempt_all
from torpor.kernel.opts.dot import find_products
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import size_of


def tile_matrices(kernel: Kernel) -> bool:
    """Choose opts for a kernel that sums products of matrices, if that is predicted to be quicker
    than other ways; says whether it is.
    """
    found = [
        (taken, trial, plan, one)
        for trial, words, one in in_words(kernel)
        for taken, plan in best_plans(trial, words)[:TRIED]
    ]
    if not found:
        return False
    most = next((taken for taken, _ in best_plans(kernel)), inf)
    return any(
        taken < most and attempt_all(kernel, trial, apply_plan, plan, one)
        for taken, trial, plan, one in sorted(found, key=lambda found: found[0])
    )


def least_seconds(kernel: Kernel) -> float:
    """Seconds of the best way that a plan gives, with matrices or without."""
    found = [best_plans(trial, words) for trial, words, _ in in_words(kernel)]
    return min((plans[0][0] for plans in (*found, best_plans(kernel)) if plans), default=inf)


def in_words(kernel: Kernel) -> Iterator[tuple[Kernel, UOp, Fragment]]:
    """The kernel with words of the terms along an axis of its sum, as many as matrices take; that
    axis, the innermost one; and the instruction.
    """
    one = fragment_for(kernel)
    if one is None:
        return
    terms = one.depth // one.words
    for position, axis in enumerate(kernel.reduce_axes):
        if 2 * (size_of(axis) or 0) > terms * one.words:  # less than half would be padding
            trial = kernel.copy()
            if attempt_all(trial, trial, words_along, position, terms, one):
                yield trial, trial.reduce_axes[-1], one


def fragment_for(kernel: Kernel) -> Fragment | None:
    """The instruction that multiplies matrices of what a kernel sums products of."""
    found = find_products(kernel.ast) if kernel.target.fragments else None
    if found is None:
        return None
    return kernel.target.fragment(found.names) or kernel.target.fragment(found.names[::-1])


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
