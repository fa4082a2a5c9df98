"""Trees of tuples, lists, dicts and complex tensors, which are two real ones: taken apart into real
tensors, numbers and a hashable rest.

Bools and strings belong to the structure, so a call with another string is another kind of call.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base.dtypes import DType
from torpor.capture.holding import is_a, is_tensor, parts_of
from torpor.tensor.pairs import Pair, paired

SCALARS: Final = frozenset({int, bool, str, bytes, complex, type(None), type(Ellipsis), DType})
NUMBERS: Final = frozenset({int, float})
SEQUENCES: Final = (list, tuple, Pair)
UNCHANGING: Final = (tuple, Pair)  # that go on to hold what they held
_BY_VALUE: Final = SCALARS - NUMBERS
Path = tuple[Any, ...]  # keys, from the outside in


class Call(NamedTuple):
    """What a function is called with, and what `flatten` finds in it."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    structure: Any
    tensors: list[Any]
    numbers: list[Any]
    objects: list[Any]

    @classmethod
    def of(cls, arguments: tuple[Any, ...], options: dict[str, Any]) -> Call:
        """The call with these; a `RecursionError` if a list among them holds itself."""
        tensors: list[Any] = []
        numbers: list[Any] = []
        objects: list[Any] = []
        structure = flatten((arguments, options), tensors, numbers, objects)
        return cls(arguments, options, structure, tensors, numbers, objects)


def flatten(tree: Any, tensors: list[Any], numbers: list[Any], objects: list[Any]) -> Any:
    """What is left of `tree` without its tensors, numbers and objects, as something hashable.

    All three are appended, in order. Objects are anything that is no container, number or string.
    """
    kind = type(tree)
    if kind in NUMBERS:
        numbers.append(tree)
        return kind
    if is_tensor(tree):
        tensors.append(tree)
        return kind
    if kind in _BY_VALUE:
        return kind, tree
    if is_a(tree, SEQUENCES):
        return (kind, *[flatten(part, tensors, numbers, objects) for part in parts_of(tree)])
    if kind is dict:
        parts = [flatten(part, tensors, numbers, objects) for part in tree.values()]
        return kind, tuple(scalar_key(key) for key in tree), *parts
    if is_a(tree, np.generic):
        return kind, tree.tobytes()
    if kind is slice:
        return kind, *[_bound(x, tensors, objects) for x in (tree.start, tree.stop, tree.step)]
    objects.append(tree)
    return "object", id(tree)


def _bound(value: Any, tensors: list[Any], objects: list[Any]) -> Any:
    """An end of a slice, whose numbers are no inputs."""
    if type(value) in NUMBERS:
        return scalar_key(value)
    return flatten(value, tensors, [], objects)


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
    return type(value) in SCALARS or type(value) is float or is_a(value, np.generic)


def is_container(tree: Any) -> bool:
    """Whether it has parts that are looked at one by one."""
    return is_a(tree, SEQUENCES) or type(tree) is dict


def walk(tree: Any, path: Path = ()) -> Iterator[tuple[Any, Path]]:
    """Everything in a tree, from the outside in, and the keys that lead to it from `path` on; both
    parts of a complex tensor are where it is.
    """
    yield tree, path
    if is_container(tree):
        for key, part in _items(tree):
            yield from walk(part, path if is_a(tree, Pair) else (*path, key))


def mapped(container: Any, made: Callable[[Any], Any]) -> Any:
    """A list, tuple or dict like another one, with what is `made` of each of its parts."""
    if is_a(container, dict):
        return {key: made(part) for key, part in container.items()}
    return of_parts(container, [made(part) for part in parts_of(container)])


def of_parts(like: Any, parts: list[Any]) -> Any:
    """A list or tuple like another one, of these parts."""
    if is_a(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*parts)
    return paired(*parts) if is_a(like, Pair) else type(like)(parts)


def holds_twice(tree: Any) -> bool:
    """Whether a list or dict is in several places of the tree."""
    parts = [part for part, _ in walk(tree) if is_container(part)]
    ids = [id(part) for part in parts if not is_a(part, UNCHANGING)]
    return len({*ids}) < len(ids)


def has_changed(container: Any, kept: Any) -> bool:
    """Whether a list or dict holds other objects than `kept`, a copy of it, does."""
    if is_a(container, dict):
        same_keys = [*container] == [*kept]
        return not same_keys or [*map(id, container.values())] != [*map(id, kept.values())]
    return is_a(container, list) and [*map(id, parts_of(container))] != [*map(id, kept)]


def refill(container: Any, parts: Any) -> None:
    """Have a container hold `parts` and nothing else."""
    if is_a(container, list):
        container[:] = parts
        return
    container.clear()
    if is_a(container, deque):
        container.extend(parts)
    else:
        container.update(parts)


def restore(container: Any, kept: Any) -> None:
    """Have a container hold what it held when `kept` was made of it; others are left alone."""
    if is_a(container, list | dict):
        changed = has_changed(container, kept)
    else:
        changed = is_a(container, deque) or (is_a(container, set) and container != kept)
    if changed:
        refill(container, kept)


# --- the leaves of a caller's tree, exchanged for a while -----------------------------------------
class Exchange:
    """Leaves of a tree put in place of others, and back again.

    Lists and dicts stay the objects that they are, since the function may know them by another way;
    tuples are made anew.
    """

    def __init__(self) -> None:
        self._tuples: dict[int, tuple[Any, Any]] = {}  # by id: made, original
        self._taken: dict[int, tuple[Any, Any]] = {}  # containers: as found, plain

    def put(self, tree: Any, leaf: Callable[[Any], Any]) -> Any:
        """The tree with `leaf` of each leaf: where a list is in it twice, of what `leaf` gave."""
        if is_a(tree, UNCHANGING):
            parts = [self.put(part, leaf) for part in parts_of(tree)]
            if not _differ(parts, tree):
                return tree
            made = of_parts(tree, parts)
            self._tuples[id(made)] = made, tree
            return made
        if is_a(tree, list) or type(tree) is dict:
            for key, part in _items(tree):
                new = self.put(part, leaf)
                if new is not part:
                    tree[key] = new
            return tree
        return leaf(tree)

    def take_back(self, tree: Any, leaf: Callable[[Any], Any]) -> Any:
        """Undo `put`, in whatever has become of the tree: it may hold itself, or be of any depth.
        `leaf` gives what a leaf stood for.
        """
        waiting: list[Any] = []
        plain = self._plain(tree, leaf, waiting)
        while waiting:
            container = waiting.pop()
            for key, part in _items(container):
                new = self._plain(part, leaf, waiting)
                if new is not part:
                    container[key] = new
        return plain

    def _plain(self, tree: Any, leaf: Any, waiting: list[Any]) -> Any:
        """What the tree stood for; lists and dicts, which stay the same, are to be looked into."""
        if not is_container(tree):
            return leaf(tree)
        known = self._taken.get(id(tree))
        if known is not None:
            return known[1]
        plain = tree
        if is_a(tree, UNCHANGING):
            parts = [self._plain(part, leaf, waiting) for part in parts_of(tree)]
            if _differ(parts, tree):
                original = self._tuples.get(id(tree))
                plain = of_parts(tree, parts) if original is None else original[1]
        else:
            waiting.append(tree)
        self._taken[id(tree)] = tree, plain
        return plain


def _items(container: Any) -> list[tuple[Any, Any]]:
    """The keys of a list, tuple or dict and what it holds there, all at this moment."""
    return list(enumerate(parts_of(container)) if is_a(container, SEQUENCES) else container.items())


def _differ(parts: list[Any], tree: Any) -> bool:
    """Whether some part is another object than that of the tuple."""
    return any(new is not old for new, old in zip(parts, parts_of(tree), strict=True))


def names_of(function: Any, call: Call, wanted: Callable[[Any], bool]) -> list[str]:
    """What each leaf among the arguments that is wanted is called in the function."""
    named = zip(arguments_of(function, call), (*call.arguments, *call.options.values()))
    return [
        "".join([name, *[f"[{key!r}]" for key in keys]])
        for name, argument in named
        for leaf, keys in walk(argument)
        if wanted(leaf)
    ]


def arguments_of(function: Any, call: Call) -> list[str]:
    """What each argument is called in the function, then each option."""
    code: CodeType | None = getattr(function, "__code__", None)
    known: tuple[str, ...] = () if code is None else code.co_varnames[: code.co_argcount]
    rest = None
    if code is not None and code.co_flags & inspect.CO_VARARGS:
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    if inspect.ismethod(function):
        known = known[1:]
    more = range(len(known), len(call.arguments))
    unnamed = [f"argument {n}" if rest is None else f"{rest}[{n - len(known)}]" for n in more]
    return [*known[: len(call.arguments)], *unnamed, *call.options]


def is_number(leaf: Any) -> bool:
    """Whether a leaf is a number that is an input."""
    return type(leaf) in NUMBERS
