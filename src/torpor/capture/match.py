"""A generated function for each kind of call, which says whether a call is of that kind.

It saves the general way (`flatten`, `kind_key`) for calls with plain, computed tensors. It may say
no where the general way says yes, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.base.dtypes import DType
from torpor.capture.kind import TensorKey, settings_key
from torpor.capture.tree import NUMBERS
from torpor.ir.infer import JOINT
from torpor.tensor.handle import Handle
from torpor.tensor.mode import default_float, grad_enabled, training

Found = tuple[tuple[Any, ...], tuple[Any, ...]]
Match = Callable[[tuple[Any, ...], dict[str, Any]], Found | None]


class Pattern(NamedTuple):
    """Lines that leave by `return MISS` where a call, `a` and `o`, is not of a kind.

    tensors, numbers: tuples of what they found, as text. `scope`: what the lines name.
    `seen` are the settings; `snapshot` in the scope is what they were when this was made.
    """

    lines: list[str]
    tensors: str
    numbers: str
    scope: dict[str, Any]


_SAME: Final = frozenset({bool, type(None), type(Ellipsis), DType})
_EQUAL: Final = frozenset({str, bytes})
_MOST_LEAVES: Final = 64


class _Unfit(Exception):
    """The arguments hold something for which there is only the general way."""


class _Writer:
    """Writes the function's lines for arguments like these."""

    def __init__(self, keys: Sequence[TensorKey]):
        self.keys, self.lines = keys, list[str]()
        self.tensors: list[str] = []
        self.numbers: list[str] = []
        self.scope: dict[str, Any] = {"type": type, "len": len}

    def bind(self, value: Any) -> str:
        name = f"q{len(self.scope)}"
        self.scope[name] = value
        return name

    def need(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return MISS")

    def tree(self, tree: Any, text: str) -> None:
        """The lines that check that what `text` gives is like `tree`."""
        kind = type(tree)
        if isinstance(tree, Handle):
            self.need(f"type({text}) is {self.bind(kind)}")
            self.tensor(text)
        elif kind in NUMBERS:
            self.need(f"type({text}) is {self.bind(kind)}")
            self.numbers.append(text)
        elif kind in _SAME:
            self.need(f"{text} is {self.bind(tree)}")
        elif kind in _EQUAL:
            self.need(f"type({text}) is {self.bind(kind)} and {text} == {self.bind(tree)}")
        elif kind in (tuple, list):
            self.need(f"type({text}) is {self.bind(kind)} and len({text}) == {len(tree)}")
            self.parts(tree, [f"{text}[{number}]" for number in range(len(tree))])
        elif kind is dict and all(type(key) is str for key in tree):
            self.need(f"type({text}) is {self.bind(dict)}")
            self.need(f"[*{text}] == {self.bind([*tree])}" if tree else f"not {text}")
            if tree:
                self.need(f"[*map(type, {text})] == {self.bind([str] * len(tree))}")
            values = list(tree.values())
            self.parts(values, [f"{text}[{self.bind(key)}]" for key in tree])
        else:
            self.need(f"{text} is {self.bind(self._object(tree))}")

    def _object(self, tree: Any) -> Any:
        if isinstance(tree, list | tuple | dict | slice) or hasattr(tree, "tobytes"):
            raise _Unfit
        return tree

    def parts(self, trees: Sequence[Any], texts: Sequence[str]) -> None:
        for tree, text in zip(trees, texts, strict=True):
            place = f"x{len(self.lines)}"
            self.lines.append(f"{place} = {text}")
            self.tree(tree, place)

    def tensor(self, text: str) -> None:
        """A whole tensor on one device, without gradient, whose memory no other one shares."""
        number = len(self.tensors)
        key = self.keys[number]
        ordinary = key.whole is None and key.cut is None and JOINT not in key.device
        if not ordinary or key.requires or key.graph or key.shared != number:
            raise _Unfit
        self.tensors.append(text)
        storage = f"s{number}"
        self.lines.append(f"{storage} = {text}._storage")
        self.need(f"{text}._path is None and {storage}.requires is False")
        base = f"{storage}.base"
        self.need(
            f"{base}._shape == {self.bind(key.shape)} and {base}.dtype is "
            f"{self.bind(key.dtype)} and {storage}.device == {key.device!r}"
        )

    def finish(self) -> Pattern:
        stores = [f"s{number}" for number in range(len(self.tensors))]
        if 2 <= len(stores) <= 3:
            pairs = [(a, b) for place, a in enumerate(stores) for b in stores[:place]]
            self.need(" and ".join(f"{a} is not {b}" for a, b in pairs))
        elif stores:
            self.need(f"len({{{', '.join(map('id({})'.format, stores))}}}) == {len(stores)}")
        given = "".join(f"{text}, " for text in self.tensors)
        numbers = "".join(f"{text}, " for text in self.numbers)
        return Pattern(self.lines, f"({given})", f"({numbers})", self.scope)


def pattern_of(key: tuple[Any, ...], arguments: tuple[Any, ...], options: Any) -> Pattern | None:
    """What tells calls of the kind with this key, of which this is one; None if it needs more."""
    _, known, grad, train, floats, *keys = key
    writer = _Writer(keys)
    writer.scope |= {"now": settings.snapshot, "settings": settings_key, "grad": grad_enabled,
                     "train": training, "floats": default_float, "id": id, "map": map,
                     "AttributeError": AttributeError}  # fmt: skip
    writer.scope["snapshot"] = settings.snapshot()
    writer.lines.append("seen = now()")
    writer.need(f"seen is snapshot or settings() == {writer.bind(known)}")
    writer.need(f"grad() is {writer.bind(grad)}")
    writer.need(f"train() is {writer.bind(train)} and floats() is {writer.bind(floats)}")
    try:
        writer.tree(arguments, "a")
        writer.tree(dict(options), "o")
        pattern = writer.finish()
    except _Unfit:
        return None
    return None if len(writer.scope) > 8 * _MOST_LEAVES else pattern


def matcher(pattern: Pattern) -> Match:
    """The function that says whether a call is of the pattern's kind."""
    scope = pattern.scope | {"MISS": None}
    body = "\n  ".join([*pattern.lines, f"return {pattern.tensors}, {pattern.numbers}"])
    # A node that has not been asked for its shape yet has none to read.
    exec(f"def match(a, o):\n try:\n  {body}\n except AttributeError:\n  return None\n", scope)
    found: Match = scope["match"]
    return found
