"""Examples that are made: how a function is called on small tensors, for those without their own.

A row of `calls.txt` says a call, then the names that are called so. `x.NAME()` is what a method
without a row is called as, `NAME` stands for the whole path of what is no method. A call may need
statements before it, apart by semicolons.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torpor
from tools.reference.listing import Entry

VALUES: Final = {
    "x": "Tensor([[0.5, 0.25], [0.75, 1.0]])",
    "y": "Tensor([[0.25, 0.5], [1.0, 0.5]])",
    "v": "Tensor([0.5, 1.0])",
    "w": "Tensor([0, 1])",
    "n": "Tensor([[0, 1], [1, 0]])",
    "m": "Tensor([6, 4])",
    "a": "Tensor([[2.0, 1.0], [1.0, 3.0]])",
    "held": "Tensor([[True, False], [True, True]])",
    "c": "Tensor([1 + 2j, 3 - 1j])",
    "optimiser": "nn.optim.SGD(nn.Linear(2, 3).parameters(), lr=0.1)",
    "line": "Tensor.arange(8.0).reshape(1, 2, 4)",
    "image": "Tensor.arange(16.0).reshape(1, 1, 4, 4)",
    "cube": "Tensor.arange(8.0).reshape(1, 1, 2, 2, 2)",
}


@functools.cache
def rows(table: str = "calls.txt") -> dict[str, tuple[str, ...]]:
    """The calls of each name in a table."""
    text = Path(__file__).with_name(table).read_text(encoding="utf-8")
    found: dict[str, tuple[str, ...]] = {}
    for row in re.sub(r"\n +", " ", text).strip().splitlines():
        call, names = re.split(r": (?=[\w. ]+$)", row)
        for name in names.split():
            found[name] = (*found.get(name, ()), call)
    return found


def key(entry: Entry) -> str:
    """What an entry is called in the tables."""
    return entry.name if entry.space == "Tensor" else entry.path


def spelled(entry: Entry, row: str) -> str:
    """A row's call of an entry."""
    path = entry.path.removeprefix("torpor.")
    if entry.space == "Tensor":
        path = entry.name
    elif not path.startswith("nn."):
        path = f"torpor.{path}"
    return row.replace("NAME", path)


# What a parameter is given where there is no row; a function that needs another has no example.
USUAL: Final = {
    "x": "x", "input": "x", "x1": "x", "x2": "y", "other": "y", "target": "y", "arrays": "[x, y]",
    "tensors": "[x, y]", "shape": "(2, 3)", "size": "(2, 3)", "start": "0", "stop": "4", "num": "5",
    "dtype": "torpor.float64", "n": "2", "n_rows": "2", "s": "2.0", "row": "2", "col": "2",
    "fill_value": "2.0", "value": "2.0", "low": "5", "array": "x.numpy()", "end": "y",
    "weight": "0.5", "obj": "[1, 2]", "data": "[1, 2]",
}  # fmt: skip
_GUESSED: Final = ("Tensor", "array_api", "nn.functional", "special", "linalg", "fft")
# What changes how everything else is done, or shows what differs from run to run.
_LEFT_OUT: Final = ("train", "manual_seed", "schedule", "schedule_with_vars")


def _given(entry: Entry) -> str | None:
    """Usual values of all parameters that have to be given; none if one is not known."""
    try:
        parameters = inspect.signature(entry.value).parameters.values()
    except (TypeError, ValueError):
        return None
    given = []
    for one in parameters:
        if one.name == "self" or one.default is not one.empty or one.kind is one.VAR_KEYWORD:
            continue
        if one.name not in USUAL or one.kind is one.KEYWORD_ONLY:
            return None
        value = USUAL[one.name]
        given.append(value.strip("[]()") if one.kind is one.VAR_POSITIONAL else value)
    return ", ".join(given)


def call_of(entry: Entry) -> str | None:
    """How an entry is called: by its row, or with usual values."""
    if written := rows().get(key(entry)):
        return spelled(entry, written[0])
    if entry.space not in _GUESSED or entry.name in _LEFT_OUT:
        return None
    before = ("Tensor." if entry.is_static else "x.") if entry.space == "Tensor" else ""
    if entry.space == "Tensor" and entry.is_property:
        return f"x.{entry.name}"
    given = _given(entry)
    return None if given is None else spelled(entry, f"{before}NAME({given})")


def setting(call: str) -> list[str]:
    """The values that a call names."""
    return [name for name in VALUES if re.search(rf"(?<!\")\b{name}\b(?!\()(?!\s*[=:])", call)]


def evaluate(call: str, **given: Any) -> Any:
    """What a call gives, with these values instead of the usual ones; files are made elsewhere."""
    torpor.manual_seed(0)
    known: dict[str, Any] = {"__name__": "example", "torpor": torpor, "nn": torpor.nn}
    known |= {"Tensor": torpor.Tensor, **given}
    for name in setting(call):
        if name not in given:
            known[name] = eval(VALUES[name], known)  # noqa: S307 (the table's own text)
    *before, last = call.split("; ")
    with _elsewhere() if ".pt" in call else contextlib.nullcontext():
        for statement in before:
            exec(statement, known)
        run = exec if last.startswith("with ") else eval
        return run(last, known)


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield


def shown(entry: Entry) -> str:
    """The example as Markdown, with what it prints; nothing where there is none."""
    call = call_of(entry)
    if call is None:
        return ""
    made = evaluate(call)
    lines = [f">>> {name} = {VALUES[name]}" for name in setting(call)]
    printed = re.sub(r" at 0x[0-9a-f]+", "", repr(made))
    lines += [f">>> {statement}" for statement in call.split("; ")]
    return "```pycon\n" + "\n".join([*lines, *([] if made is None else [printed])]) + "\n```"
