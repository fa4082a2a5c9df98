"""Lists, tuples and dicts of tensors, in one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """`function` of every tensor in lists, tuples and dicts."""
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        parts = [map_tree(function, value) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree)


def flat_tree(tree: Any) -> list[Any]:
    """Every tensor in lists, tuples and dicts, in order."""
    found: list[Any] = []
    map_tree(found.append, tree)
    return found
