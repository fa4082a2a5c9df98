"""Trees of tuples, lists and dicts: taken apart into tensors and a hashable rest, and put together.

Numbers and strings belong to the structure, so a call with another number is another call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import DType
from torpor.tensor.handle import Handle

SCALARS: Final = frozenset({int, bool, str, bytes, complex, type(None), type(Ellipsis), DType})
_TENSOR: Final = "tensor"


def flatten(tree: Any, tensors: list[Any], objects: list[Any]) -> Any:
    """What is left of `tree` without its tensors and objects, as something hashable.

    Tensors and objects (anything that is no container, number or string) are appended, in order.
    """
    kind = type(tree)
    if isinstance(tree, Handle):
        tensors.append(tree)
        return _TENSOR
    if kind in SCALARS:
        return kind, tree
    if kind is float:
        return scalar_key(tree)
    if isinstance(tree, list | tuple):
        return (kind, *[flatten(part, tensors, objects) for part in tree])
    if kind is dict:
        parts = [flatten(part, tensors, objects) for part in tree.values()]
        return kind, tuple(scalar_key(key) for key in tree), *parts
    if isinstance(tree, np.generic):
        return kind, tree.tobytes()
    if kind is slice:
        return kind, *[flatten(x, tensors, objects) for x in (tree.start, tree.stop, tree.step)]
    objects.append(tree)
    return "object", id(tree)


def scalar_key(value: Any) -> tuple[Any, ...]:
    """Equal only for values of one type that no program can tell apart (-0.0 is not 0.0)."""
    if type(value) is not float:
        return type(value), value
    if value != value:
        return float, "nan"
    return float, value, math.copysign(1.0, value)


def same(left: Any, right: Any) -> bool:
    """Whether two plain values are equal, and of one type; False for anything that is not plain."""
    if type(left) is not type(right):
        return False
    if type(left) is float:
        return scalar_key(left) == scalar_key(right)
    return type(left) in SCALARS and bool(left == right)


def is_plain(value: Any) -> bool:
    """Whether a value cannot change and is compared by what it is."""
    return type(value) in SCALARS or type(value) is float or isinstance(value, np.generic)


def rebuild(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    """A tree of the same structure with `leaf` of each leaf."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[rebuild(part, leaf) for part in tree])
    if isinstance(tree, list | tuple):
        return type(tree)([rebuild(part, leaf) for part in tree])
    if type(tree) is dict:
        return {key: rebuild(part, leaf) for key, part in tree.items()}
    return leaf(tree)
