"""`python -m conformance.differences`: writes docs/differences.md, each program executed.

Needs torch for PyTorch's column; tests/test_differences.py executes the others wherever it runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from conformance.difference_programs import TOPICS

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "differences.md"
NOTHING: Final = "–"
HEAD: Final = """# What differs from PyTorch and NumPy

Everything that has a name of PyTorch's is meant to give PyTorch's result, but for what stands here.
Each line is a program. It was executed with torpor, with PyTorch (with `torch` for `torpor`) and,
where there is a third program, with NumPy; the tests do so again. What a program gives is written
as its format and values, an error as its class, and *when needed* says that the call itself went
well: the error comes when the value is asked for, and names the line that built the operation.

Classes of errors are torpor's own, each of them also the one that Python would raise
(`ShapeError` is a `ValueError`, `DTypeError` a `TypeError`, `OutOfBoundsError` an `IndexError`),
and a `RuntimeError`, which PyTorch raises for most. So only differences in what is an error, and in
when, are listed. [numbers.md](numbers.md) has the rules for numbers,
[coming-from-pytorch.md](coming-from-pytorch.md) what to write instead. This page is written by
`python -m conformance.differences`.
"""


class Program(NamedTuple):
    """A program with `torpor` for the library, and NumPy's, or nothing."""

    text: str
    numpy: str


def programs(text: str) -> Iterator[Program]:
    """Those of a topic's lines."""
    for line in text.strip().replace("\n~", " ~").splitlines():
        first, _, second = line.partition(" ~ ")
        yield Program(first, second)


def shown(value: Any) -> str:
    """A result: its format and values if it has them."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return f"{str(value.dtype).rpartition('.')[2]} {value.tolist()}"
    return repr(value)


def outcome(program: str, library: Any) -> str:
    """What the program gives, or the class of the error that it ends with."""
    *before, last = (line.strip() for line in program.split("; "))
    space: dict[str, Any] = {"torpor": library, "np": np}
    late = ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            exec("\n".join([*before, f"result = {last}"]), space)
            late = " when needed"
            return shown(space["result"])
        except Exception as error:
            # PyTorch's versions differ in which of their RuntimeErrors say that nothing is built
            plain = isinstance(error, NotImplementedError)
            return ("RuntimeError" if plain else type(error).__name__) + late


def cell(text: str) -> str:
    """Code in a table."""
    return f"`{text.replace('|', chr(92) + '|')}`"


def found(text: str) -> str:
    """An outcome in a table."""
    code, late, _ = text.partition(" when needed")
    return cell(code) + late


def numpy_cell(program: str) -> str:
    """NumPy's program and its outcome."""
    return f"{cell(program)} gives {found(outcome(program, np))}" if program else NOTHING


def row(program: Program, torch_cell: str) -> str:
    """A line of a table; `torch_cell` is PyTorch's part."""
    here = found(outcome(program.text, importlib.import_module("torpor")))
    return f"| {cell(program.text)} | {here} | {torch_cell} | {numpy_cell(program.numpy)} |"


def page(library: Any) -> str:
    """The whole page, with PyTorch as `library`."""
    parts = [HEAD]
    for topic in TOPICS:
        parts.append(f"\n## {topic.heading}\n\n{topic.why}\n")
        parts.append("\n| program | torpor | PyTorch | NumPy |\n|---|---|---|---|\n")
        for program in programs(topic.programs):
            parts.append(row(program, found(outcome(program.text, library))) + "\n")
    return "".join(parts)


def rows(text: str) -> dict[str, str]:
    """The lines of the page's tables, by their programs."""
    return {line.split("`")[1]: line for line in re.findall(r"^\| `.*$", text, re.MULTILINE)}


def main() -> int:
    """Write the page; the exit status is 0 also where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: nothing was written")
        return 0
    PAGE.write_text(page(importlib.import_module("torch")), encoding="utf-8")
    print(f"{len(rows(PAGE.read_text(encoding='utf-8')))} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
