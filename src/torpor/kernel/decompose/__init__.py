"""Writing out what a target lacks in operations that every target has."""

from __future__ import annotations

from functools import cache

from torpor.base.dtypes import SMALL_FLOATS
from torpor.base.target import Target
from torpor.ir import PatternMatcher, UOp, graph_rewrite
from torpor.kernel.decompose.conversions import (
    BITS_RULES,
    BOOL_RULES,
    BYTE_RULES,
    SATURATION_RULES,
    SHIFT_RULES,
)
from torpor.kernel.decompose.division import DIVISION_RULES, VECTOR_DIVISION_RULES
from torpor.kernel.decompose.dots import dot_rules
from torpor.kernel.decompose.functions import BRANCH_RULES, FUNCTION_RULES, REMAINDER_RULES
from torpor.kernel.decompose.small_floats import in_single

_BRANCHING = ("cpu",)  # targets that ask once whether a condition holds in some lane of a vector


def without_missing(root: UOp, target: Target) -> UOp:
    """The graph by what a target has: first by its formats, then by its operations."""
    small = [d for d in SMALL_FLOATS if d.name in target.missing]
    if small:
        root = in_single(root, small, [d for d in small if d.name in target.converts])
    return graph_rewrite(root, rules_for(target), name="decompose")


@cache
def rules_for(target: Target) -> PatternMatcher:
    """Everything that has to be rewritten for `target`; made once a target."""
    rules = PatternMatcher([])
    if not target.groups:
        rules += BYTE_RULES + VECTOR_DIVISION_RULES
    rules = rules + BRANCH_RULES if target.name in _BRANCHING else rules
    rules = rules if "float64" in target.missing else rules + REMAINDER_RULES
    rules = rules + dot_rules(target) + FUNCTION_RULES + SHIFT_RULES + BOOL_RULES
    if target.threads:
        rules += BITS_RULES
    if target.name != "python":  # whose arithmetic is the IR's
        rules += DIVISION_RULES + SATURATION_RULES
    return rules


__all__ = ["rules_for", "without_missing"]
