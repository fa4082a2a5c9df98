"""A generated function for each kind of call, which says whether a call is of that kind.

It saves the general way (`flatten`, `kind_key`) for calls with plain, computed tensors. It may say
no where the general way says yes, and never the other way round.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.capture.holding import is_a
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


_EQUAL: Final = frozenset({str, bytes})
_MOST_LINES: Final = 2000

# What a step of the native replayer does, as a line of Python over its operands.
_LINES: Final = {
    "type": "if type({0}) is not {1}: return MISS",
    "is": "if {0} is not {1}: return MISS",
    "equal": "if not {0} == {1}: return MISS",
    "slot": "{0} = {1}.{2}",
    "tuple_length": "if len({0}) != {1}: return MISS",
    "list_length": "if len({0}) != {1}: return MISS",
    "tuple_item": "{0} = {1}[{2}]",
    "list_item": "{0} = {1}[{2}]",
}


class _Unfit(Exception):
    """The arguments hold something for which there is only the general way."""


class _Writer:
    """Writes the function's lines, and the steps, for arguments like these."""

    def __init__(self, keys: Sequence[TensorKey]):
        self.keys, self.lines = keys, list[str]()
        self.tensors: list[str] = []
        self.numbers: list[str] = []
        self.scope: dict[str, Any] = {"type": type, "len": len}
        self._names: dict[int, str] = {}  # of what the scope holds, by id
        self.steps: list[Step] = []
        self.native = True  # whether the steps do what the lines do

    def bind(self, value: Any) -> str:
        name = self._names.setdefault(id(value), f"q{len(self.scope)}")
        self.scope[name] = value
        return name

    def ask(self, operation: str, *operands: Any) -> str:
        """One step, as such and as a line; gives the name of its first operand."""
        self.steps.append(step(operation, *operands))
        self.lines.append(_LINES[operation].format(*map(self._text, operands)))
        return str(operands[0])

    def _text(self, operand: Any) -> str:
        if isinstance(operand, Known):
            return self.bind(operand.value)
        return operand.name if isinstance(operand, Slot) else str(operand)

    def need(self, condition: str, *steps: Step) -> None:
        """Go on only if the condition holds, which the steps ask for too."""
        self.lines.append(f"if not ({condition}): return MISS")
        self.steps += steps
        self.native &= bool(steps)

    def look(self, name: str, getter: Any, known: Any) -> None:
        """Go on only if a context-local variable holds `known` (see `look`)."""
        self.lines.append(f"{name} = {self.bind(getter)}()")
        asked, compared = look(name, getter, known)
        self.steps.append(asked)
        self.ask(compared.operation, *compared.operands)

    def tree(self, tree: Any, text: str) -> None:
        """What checks that what `text` gives is like `tree`."""
        kind = type(tree)
        if is_a(tree, Handle):
            self.ask("type", text, Known(kind))
            self.tensor(text)
        elif kind in NUMBERS:
            self.ask("type", text, Known(kind))
            self.numbers.append(text)
        elif kind in _EQUAL:
            self.ask("type", text, Known(kind))
            self.ask("equal", text, Known(tree))
        elif kind in (tuple, list):
            self.ask("type", text, Known(kind))
            self.ask(f"{kind.__name__}_length", text, len(tree))
            for number, part in enumerate(tree):
                name = f"x{len(self.lines)}"
                self.tree(part, self.ask(f"{kind.__name__}_item", name, text, number))
        elif kind is dict and all(type(key) is str for key in tree):
            self.dictionary(tree, text)
        elif is_a(tree, list | tuple | dict | slice) or hasattr(type(tree), "tobytes"):
            raise _Unfit
        else:
            self.ask("is", text, Known(tree))

    def dictionary(self, tree: dict[str, Any], text: str) -> None:
        """The lines that check a dictionary; there are no steps for it."""
        self.need(f"type({text}) is {self.bind(dict)}")
        self.need(f"[*{text}] == {self.bind([*tree])}" if tree else f"not {text}")
        if tree:
            self.need(f"[*map(type, {text})] == {self.bind([str] * len(tree))}")
        for key, value in tree.items():
            name = f"x{len(self.lines)}"
            self.lines.append(f"{name} = {text}[{self.bind(key)}]")
            self.tree(value, name)

    def tensor(self, text: str) -> None:
        """A whole tensor on one device, without gradient, whose memory no other one shares."""
        number = len(self.tensors)
        key = self.keys[number]
        ordinary = key.whole is None and key.cut is None and JOINT not in key.device
        if not ordinary or key.requires or key.graph or key.shared != number:
            raise _Unfit
        self.tensors.append(text)
        ask = self.ask
        storage = ask("slot", f"s{number}", text, Slot(Handle, "_storage"))
        ask("is", ask("slot", "path", text, Slot(Handle, "_path")), Known(None))
        ask("is", ask("slot", "requires", storage, Slot(Storage, "requires")), Known(False))
        base = ask("slot", "base", storage, Slot(Storage, "base"))
        ask("equal", ask("slot", "shape", base, Slot(UOp, "_shape")), Known(key.shape))
        ask("is", ask("slot", "dtype", base, Slot(UOp, "dtype")), Known(key.dtype))
        ask("equal", ask("slot", "device", storage, Slot(Storage, "device")), Known(key.device))

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
        """What checks what a function is called with. The replayer takes no options, and asks
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
    writer.scope |= {"now": settings.snapshot, "settings": settings_key, "id": id, "map": map,
                     "AttributeError": AttributeError}  # fmt: skip
    snapshot = writer.scope["snapshot"] = settings.snapshot()
    writer.lines.append("seen = now()")
    test = f"seen is snapshot or settings() == {writer.bind(known)}"
    writer.need(test, *look("seen", settings.snapshot, snapshot))
    writer.look("grad", grad_enabled, grad)
    writer.look("train", training, train)
    writer.look("floats", default_float, floats)
    try:
        writer.call(arguments, options)
        pattern = writer.finish()
    except _Unfit:
        return None
    return None if len(pattern.lines) > _MOST_LINES else pattern


def matcher(pattern: Pattern) -> Match:
    """The function that says whether a call is of the pattern's kind."""
    scope = pattern.scope | {"MISS": None}
    body = "\n  ".join([*pattern.lines, f"return {pattern.tensors}, {pattern.numbers}"])
    # A node that has not been asked for its shape yet has none to read.
    exec(f"def match(a, o):\n try:\n  {body}\n except AttributeError:\n  return None\n", scope)
    found: Match = scope["match"]
    return found
