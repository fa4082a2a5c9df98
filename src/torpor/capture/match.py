"""What tells a call of a kind: steps for the native replayer that miss where it is of another.

They may miss where the general way (`flatten`, `kind_key`) finds the kind, and never the other way
round.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.capture.holding import is_a, is_tensor
from torpor.capture.kind import TensorKey
from torpor.capture.program import Known, Slot, Step, step
from torpor.capture.tree import NUMBERS
from torpor.ir.infer import JOINT
from torpor.ir.uop import UOp
from torpor.tensor.amp import lowest
from torpor.tensor.differentiate import hooks_now
from torpor.tensor.handle import Handle
from torpor.tensor.mode import default_float, grad_enabled, training
from torpor.tensor.pairs import Pair
from torpor.tensor.storage import Storage


class Pattern(NamedTuple):
    """Steps that miss where a call is not of a kind.

    places:  names of the tensors; `s0` and so on are their storages.
    amounts: names of the numbers.
    given:   how many arguments there are, those with names among them.
    """

    steps: tuple[Step, ...]
    places: tuple[str, ...]
    amounts: tuple[str, ...]
    given: int


_EQUAL: Final = frozenset({str, bytes})
_MOST_STEPS: Final = 2000  # of a pattern that is replayed without Python


class _Unfit(Exception):
    """The arguments hold something for which there is only the general way."""


class _Writer:
    """Writes the steps for arguments like these."""

    def __init__(self, keys: Sequence[TensorKey]):
        self.keys = keys
        self.tensors: list[str] = []
        self.numbers: list[str] = []
        self.steps: list[Step] = []

    def ask(self, operation: str, *operands: Any) -> str:
        """One step; gives the name of its first operand."""
        self.steps.append(step(operation, *operands))
        return str(operands[0])

    def tree(self, tree: Any, name: str) -> None:
        """What checks that what a register holds is like `tree`."""
        kind = type(tree)
        if is_tensor(tree):
            self.ask("type", name, Known(kind))
            self.tensor(name)
        elif kind in NUMBERS:
            self.ask("type", name, Known(kind))
            self.numbers.append(name)
        elif kind in _EQUAL:
            self.ask("type", name, Known(kind))
            self.ask("equal", name, Known(tree))
        elif kind in (tuple, list):
            self.ask("type", name, Known(kind))
            self.ask(f"{kind.__name__}_length", name, len(tree))
            for number, part in enumerate(tree):
                place = f"x{len(self.steps)}"
                self.tree(part, self.ask(f"{kind.__name__}_item", place, name, number))
        elif is_a(tree, Pair):
            self.ask("type", name, Known(kind))
            for slot, part in zip(("_re", "_im"), tree._parts, strict=True):
                place = f"x{len(self.steps)}"
                self.tree(part, self.ask("slot", place, name, Slot(Pair, slot)))
        elif is_a(tree, list | tuple | dict | slice) or hasattr(type(tree), "tobytes"):
            raise _Unfit
        else:
            self.ask("is", name, Known(tree))

    def tensor(self, name: str) -> None:
        """A whole tensor on one device, without gradient, whose memory no other one shares, and to
        which the program has given no attributes.
        """
        number = len(self.tensors)
        key = self.keys[number]
        ordinary = key.whole is None and key.cut is None and JOINT not in key.device
        if not ordinary or key.requires or key.graph or key.given or key.shared != number:
            raise _Unfit
        self.tensors.append(name)
        ask = self.ask
        ask("dict_length", ask("attributes", "own", name), 0)
        storage = ask("slot", f"s{number}", name, Slot(Handle, "_storage"))
        ask("is", ask("slot", "path", name, Slot(Handle, "_path")), Known(None))
        ask("is", ask("slot", "requires", storage, Slot(Storage, "requires")), Known(False))
        base = ask("slot", "base", storage, Slot(Storage, "base"))
        # A node that has not been asked for its shape yet has none to read.
        ask("equal", ask("slot", "shape", base, Slot(UOp, "_shape")), Known(key.shape))
        ask("is", ask("slot", "dtype", base, Slot(UOp, "dtype")), Known(key.dtype))
        ask("equal", ask("slot", "device", storage, Slot(Storage, "device")), Known(key.device))

    def call(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Pattern:
        """What checks what a function is called with."""
        self.ask("names", Known(tuple(options) or None))
        for number, tree in enumerate((*arguments, *options.values())):
            name = f"x{len(self.steps)}"
            self.tree(tree, self.ask("argument", name, number))
        if self.tensors:
            self.ask("distinct", "s0", len(self.tensors))
        given = len(arguments) + len(options)
        return Pattern(tuple(self.steps), tuple(self.tensors), tuple(self.numbers), given)


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
    _, _, grad, train, floats, narrow, hooks, *keys = key
    writer = _Writer(keys)
    writer.steps += [
        step("constant", "every", Known(hooks_now)),
        step("list_item", "hooks", "every", 0),
        step("is", "hooks", Known(hooks)),
    ]
    for name, getter, known in (
        ("seen", settings.snapshot, settings.snapshot()),
        ("grad", grad_enabled, grad),
        ("train", training, train),
        ("floats", default_float, floats),
        ("narrow", lowest, narrow),
    ):
        writer.steps += look(name, getter, known)
    try:
        pattern = writer.call(arguments, options)
    except _Unfit:
        return None
    return None if len(pattern.steps) > _MOST_STEPS else pattern
