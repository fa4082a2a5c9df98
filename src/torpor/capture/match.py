"""A generated function for each kind of call, which says whether a call is of that kind.

It saves the general way (`flatten`, `kind_key`) for calls with plain, computed tensors. It may say
no where the general way says yes, and never the other way round.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.base.dtypes import DType
from torpor.capture.kind import TensorKey, settings_key
from torpor.capture.program import Known, Slot, Step, step
from torpor.capture.tree import NUMBERS
from torpor.ir.infer import JOINT
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle
from torpor.tensor.mode import default_float, grad_enabled, training
from torpor.tensor.storage import Storage

Found = tuple[tuple[Any, ...], tuple[Any, ...]]
Match = Callable[[tuple[Any, ...], dict[str, Any]], Found | None]


class Pattern(NamedTuple):
    """Lines that leave by `return MISS` where a call, `a` and `o`, is not of a kind.

    tensors, numbers: tuples of what they found, as text.
    scope:   what the lines name. `seen` are the settings; `snapshot` is what they were when this
             was made.
    places:  names of the tensors; `s0` and so on are their storages.
    amounts: names of the numbers.
    steps:   do what the lines do for the native replayer, and may miss where those do not; None:
             there are none.
    """

    lines: list[str]
    tensors: str
    numbers: str
    scope: dict[str, Any]
    places: tuple[str, ...]
    amounts: tuple[str, ...]
    steps: tuple[Step, ...] | None


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
        self.steps: list[Step] = []
        self.native = True  # whether the steps do what the lines do

    def bind(self, value: Any) -> str:
        name = f"q{len(self.scope)}"
        self.scope[name] = value
        return name

    def need(self, condition: str, *steps: Step) -> None:
        """Go on only if the condition holds, which the steps ask for too."""
        self.lines.append(f"if not ({condition}): return MISS")
        self.steps += steps
        self.native &= bool(steps)

    def tree(self, tree: Any, text: str) -> None:
        """The lines that check that what `text` gives is like `tree`."""
        kind = type(tree)
        is_of = step("type", text, Known(kind))
        if isinstance(tree, Handle):
            self.need(f"type({text}) is {self.bind(kind)}", is_of)
            self.tensor(text)
        elif kind in NUMBERS:
            self.need(f"type({text}) is {self.bind(kind)}", is_of)
            self.numbers.append(text)
        elif kind in _SAME:
            self.need(f"{text} is {self.bind(tree)}", step("is", text, Known(tree)))
        elif kind in _EQUAL:
            equal = step("equal", text, Known(tree))
            test = f"type({text}) is {self.bind(kind)} and {text} == {self.bind(tree)}"
            self.need(test, is_of, equal)
        elif kind in (tuple, list):
            long = step(f"{kind.__name__}_length", text, len(tree))
            test = f"type({text}) is {self.bind(kind)} and len({text}) == {len(tree)}"
            self.need(test, is_of, long)
            self.parts(tree, text)
        elif kind is dict and all(type(key) is str for key in tree):
            self.need(f"type({text}) is {self.bind(dict)}")
            self.need(f"[*{text}] == {self.bind([*tree])}" if tree else f"not {text}")
            if tree:
                self.need(f"[*map(type, {text})] == {self.bind([str] * len(tree))}")
            for key, value in tree.items():
                self.tree(value, self.place(f"{text}[{self.bind(key)}]"))
        else:
            known = self._object(tree)
            self.need(f"{text} is {self.bind(known)}", step("is", text, Known(known)))

    def _object(self, tree: Any) -> Any:
        if isinstance(tree, list | tuple | dict | slice) or hasattr(tree, "tobytes"):
            raise _Unfit
        return tree

    def place(self, text: str) -> str:
        """A name for what the text gives."""
        name = f"x{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def parts(self, tree: Sequence[Any], text: str) -> None:
        """The lines for what is in a tuple or a list."""
        for number, part in enumerate(tree):
            name = self.place(f"{text}[{number}]")
            self.steps.append(step(f"{type(tree).__name__}_item", name, text, number))
            self.tree(part, name)

    def tensor(self, text: str) -> None:
        """A whole tensor on one device, without gradient, whose memory no other one shares."""
        number = len(self.tensors)
        key = self.keys[number]
        ordinary = key.whole is None and key.cut is None and JOINT not in key.device
        if not ordinary or key.requires or key.graph or key.shared != number:
            raise _Unfit
        self.tensors.append(text)
        storage, base = f"s{number}", f"s{number}.base"
        self.lines.append(f"{storage} = {text}._storage")
        self.steps.append(step("slot", storage, text, Slot(Handle, "_storage")))
        self.need(
            f"{text}._path is None and {storage}.requires is False",
            step("slot", "path", text, Slot(Handle, "_path")),
            step("is", "path", Known(None)),
            step("slot", "requires", storage, Slot(Storage, "requires")),
            step("is", "requires", Known(False)),
        )
        self.steps.append(step("slot", "base", storage, Slot(Storage, "base")))
        self.need(
            f"{base}._shape == {self.bind(key.shape)} and {base}.dtype is "
            f"{self.bind(key.dtype)} and {storage}.device == {key.device!r}",
            step("slot", "shape", "base", Slot(UOp, "_shape")),
            step("equal", "shape", Known(key.shape)),
            step("slot", "dtype", "base", Slot(UOp, "dtype")),
            step("is", "dtype", Known(key.dtype)),
            step("slot", "device", storage, Slot(Storage, "device")),
            step("equal", "device", Known(key.device)),
        )

    def finish(self) -> Pattern:
        stores = [f"s{number}" for number in range(len(self.tensors))]
        distinct = step("distinct", "s0", len(stores))
        if 2 <= len(stores) <= 3:
            pairs = [(a, b) for place, a in enumerate(stores) for b in stores[:place]]
            self.need(" and ".join(f"{a} is not {b}" for a, b in pairs), distinct)
        elif stores:
            every = ", ".join(map("id({})".format, stores))
            self.need(f"len({{{every}}}) == {len(stores)}", distinct)
        given = "".join(f"{text}, " for text in self.tensors)
        numbers = "".join(f"{text}, " for text in self.numbers)
        steps = tuple(self.steps) if self.native else None
        names = tuple(self.tensors), tuple(self.numbers)
        return Pattern(self.lines, f"({given})", f"({numbers})", self.scope, *names, steps)

    def call(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """The lines for what a function is called with. The replayer takes no options, and asks
        itself how many arguments there are.
        """
        self.tree(arguments, "a")
        self.steps = [known for known in map(_of_arguments, self.steps) if known is not None]
        native = self.native and not options
        self.tree(dict(options), "o")
        self.native = native


def _of_arguments(known: Step) -> Step | None:
    """A step that names the arguments as the replayer has them; None for what it asks itself."""
    operation, operands, _ = known
    if operation == "tuple_item" and operands[1] == "a":
        return step("argument", operands[0], operands[2])
    return None if operands[0] == "a" else known


def look(name: str, getter: Any, known: Any) -> tuple[Step, Step]:
    """The steps that ask whether a context-local variable holds `known`. `getter` is its `get`,
    or that with a default.
    """
    default: Any = 0
    if isinstance(getter, functools.partial):
        (default,), getter = map(Known, getter.args), getter.func
    return step("context", name, Known(getter.__self__), default), step("is", name, Known(known))


def pattern_of(key: tuple[Any, ...], arguments: tuple[Any, ...], options: Any) -> Pattern | None:
    """What tells calls of the kind with this key, of which this is one; None if it needs more."""
    _, known, grad, train, floats, *keys = key
    writer = _Writer(keys)
    writer.scope |= {"now": settings.snapshot, "settings": settings_key, "grad": grad_enabled,
                     "train": training, "floats": default_float, "id": id, "map": map,
                     "AttributeError": AttributeError}  # fmt: skip
    snapshot = writer.scope["snapshot"] = settings.snapshot()
    writer.lines.append("seen = now()")
    test = f"seen is snapshot or settings() == {writer.bind(known)}"
    writer.need(test, *look("seen", settings.snapshot, snapshot))
    writer.need(f"grad() is {writer.bind(grad)}", *look("grad", grad_enabled, grad))
    test = f"train() is {writer.bind(train)} and floats() is {writer.bind(floats)}"
    modes = *look("train", training, train), *look("floats", default_float, floats)
    writer.need(test, *modes)
    try:
        writer.call(arguments, options)
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
