"""Writing out what a target lacks in operations that every target has.

`rules_for(target)` gives the rewrite rules; apply them with `graph_rewrite`.
"""

from __future__ import annotations

from functools import cache

from torpor.base.dtypes import SMALL_FLOATS, DType
from torpor.base.target import Target
from torpor.ir import PatternMatcher
from torpor.kernel.decompose.conversions import (
    BITS_RULES,
    BOOL_RULES,
    SATURATION_RULES,
    SHIFT_RULES,
)
from torpor.kernel.decompose.dots import dot_rules
from torpor.kernel.decompose.functions import (
    FUNCTION_RULES,
    NARROW_INTEGER_RULES,
    REMAINDER_RULES,
    WIDE_INTEGER_RULES,
    WIDE_REMAINDER_RULES,
)
from torpor.kernel.decompose.integers import in_words
from torpor.kernel.decompose.small_floats import arithmetic_rules
from torpor.kernel.decompose.small_floats import storage_rules as _storage_rules

_SATURATING = ("cpu", "python")  # targets whose conversion of floats to integers saturates


def _missing_small(target: Target) -> tuple[DType, ...]:
    return tuple(d for d in SMALL_FLOATS if d.name in target.missing)


@cache
def storage_rules(target: Target) -> PatternMatcher:
    """Memory of small floats that `target` lacks becomes that of integers (part of `rules_for`)."""
    return _storage_rules(_missing_small(target))


@cache
def rules_for(target: Target) -> PatternMatcher:
    """Everything that has to be rewritten for `target`; made once a target."""
    missing = target.missing
    small = _missing_small(target)
    native = tuple(d for d in small if d.name in target.converts)
    rules = PatternMatcher([])
    if small:
        rules = _storage_rules(small) + arithmetic_rules(small, native)
    rules = rules + dot_rules(target) + FUNCTION_RULES + SHIFT_RULES + BOOL_RULES
    rules += NARROW_INTEGER_RULES if "uint64" in missing else WIDE_INTEGER_RULES
    if "float64" not in missing:
        rules += WIDE_REMAINDER_RULES
    rules += REMAINDER_RULES
    if target.threads and target.vector_alu:
        rules += BITS_RULES
    if target.name not in _SATURATING:
        rules += SATURATION_RULES
    return rules


__all__ = ["in_words", "rules_for", "storage_rules"]
