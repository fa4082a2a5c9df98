"""Why kernels are compiled again: what differs from those of the same line before; and a warning,
once, at a line that compiles at each call.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import RecompileWarning
from torpor.base.recent import forget_oldest
from torpor.base.site import Place, Site, decode, here
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp

IN_A_ROW: Final = 5  # calls of a line that compiled something again, until that is told: a choice
MOST_LINES: Final = 1024  # that are known
MOST_KERNELS: Final = 8  # of a line that are known
PATIENCE: Final = 1000  # calls of other lines until a line is no longer looked at

NEW: Final = "new"
OTHER: Final = "other operations"  # a line that many use, a helper, has kernels of many kinds

_Line = tuple[str, int]
_lock: Final = threading.RLock()  # held shortly, and never over a compilation
_kernels: Final[dict[_Line, deque[UOp]]] = {}  # by the line that built them, the last first
_rows: Final[dict[_Line, list[str]]] = {}  # what differed, for lines that may be at it
_warned: Final[set[_Line]] = set()
_looked = 0

HELP: Final = (
    "A kernel is made for its sizes and for the Python numbers in it. Let there be few sizes (pad, "
    "or cut into batches of one size), give numbers that change to a jitted function as arguments, "
    "or as tensors with an axis. docs/first-call.md says more, and torpor.profile() shows what is "
    "compiled."
)


class _Told(threading.local):
    because: str | None = None


_told: Final = _Told()


@contextmanager
def because(why: str | None) -> Iterator[None]:
    """Inside, kernels of this thread are made ready for this reason, if there is one."""
    before, _told.because = _told.because, why
    try:
        yield
    finally:
        _told.because = before


def reasons(items: Sequence[ScheduleItem]) -> list[str]:
    """Why the kernel of each item has to be made ready: what is known of all of them, or in which
    way it differs from the nearest one that its line had before; `NEW` where there was none.
    """
    lines = [line_of(item.origins[0]) if item.origins else ("", 0) for item in items]
    with _lock:
        found = [
            _told.because
            or _nearest(difference(known, item.ast) for known in _kernels.get(line, ()))
            for line, item in zip(lines, items, strict=True)
        ]
        for line, item in zip(lines, items, strict=True):
            forget_oldest(_kernels, MOST_LINES - 1)
            _kernels.setdefault(line, deque(maxlen=MOST_KERNELS)).appendleft(item.ast)
    return found


def _nearest(differences: Iterable[str]) -> str:
    """The smallest one."""
    return min(differences, key=lambda text: (text == OTHER, len(text)), default=NEW)


def line_of(site: Site) -> _Line:
    """File and number of the line."""
    place = decode(site)
    return place.file, place.line


# --- what differs ---------------------------------------------------------------------------------
def difference(before: UOp, after: UOp) -> str:
    """In which way a kernel's ast is another one, in a few words."""
    old, new = _operations(before), _operations(after)
    if [node.op for node in old] != [node.op for node in new]:
        return OTHER
    found = dict.fromkeys(
        text for a, b in zip(old, new, strict=True) for text in _differences(a, b)
    )
    return ", ".join(islice(found, 2)) or OTHER


def _operations(ast: UOp) -> list[UOp]:
    """All but the numbers: which of them are one node depends on what they are."""
    return [node for node in ast.toposort() if node.op is not Ops.CONST]


def _differences(before: UOp, after: UOp) -> Iterator[str]:
    """What differs in two nodes of one op, formats and numbers above all."""
    if before.dtype is not after.dtype:
        yield f"{before.dtype.name} -> {after.dtype.name}"
    for a, b in zip(before.src, after.src, strict=False):
        if a.op is Ops.CONST and b.op is Ops.CONST and a is not b and a.dtype is b.dtype:
            if before.op is Ops.RANGE:
                yield f"size {a.arg} -> {b.arg}"
            elif a.dtype is not dtypes.index:
                yield f"number {a.arg:.7g} -> {b.arg:.7g}"
            elif before.op in (Ops.ADD, Ops.CMPLT):
                yield f"position {a.arg} -> {b.arg}"


# --- the warning ----------------------------------------------------------------------------------
def compiled(why: Sequence[str]) -> None:
    """What is asked for at this line had kernels made ready, for these reasons."""
    again = [one for one in why if one not in (NEW, OTHER)]
    site = here()
    if site is None or not again:
        return
    line = line_of(site)
    with _lock:
        row = _rows.setdefault(line, [])
        row.append(again[0])
        tell = len(row) >= IN_A_ROW and line not in _warned
        if tell:
            _warned.add(line)
    if tell:
        warn(decode(site), row)


def ran() -> None:
    """What is asked for at this line could be run at once."""
    global _looked
    if not _rows:
        return
    site = here()
    with _lock:
        if site is not None:
            _rows.pop(line_of(site), None)
        _looked += 1
        if _looked > PATIENCE:
            _rows.clear()
            _looked = 0


def warn(place: Place, row: Sequence[str], what: str = "kernels are compiled") -> None:
    """Tell that this line compiles at each call, with what differed."""
    last = "; ".join(dict.fromkeys(row[-3:]))
    text = f"{what} at each call of this line ({place.text}), last because of: {last}. {HELP}"
    warnings.warn_explicit(text, RecompileWarning, place.file, place.line)
