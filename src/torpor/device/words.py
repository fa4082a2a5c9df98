"""Short forms for words of memory and for branches in LLVM IR: torpor's own native code is full of
them.

A word has 64 bits: a number (i64) or an address (ptr). A line that says one of

    %x = i64 %base[place]    reads the word at this place behind `%base`
    %base[place] = i64 %x    writes it
    %x = at %base[place]     is its address

    if slt i64 %x, %y then %yes else %no    goes on where a comparison (of `icmp`) says

is written out as LLVM has it. A place is a number, or a name that holds one.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Final

_PLACE: Final = r"(%[\w.]+)\[(%?[\w.]+)\]"
_READ: Final = re.compile(rf"^  (%[\w.]+) = (i64|ptr|at) {_PLACE}$", re.MULTILINE)
_WRITTEN: Final = re.compile(rf"^  {_PLACE} = (i64|ptr) (\S+)$", re.MULTILINE)
_IF: Final = re.compile(r"^  if (.+) then (%[\w.]+) else (%[\w.]+)$", re.MULTILINE)


def written_out(text: str) -> str:
    """The text without short forms. Addresses have names that end in `.at`, or begin with `%to.`,
    comparisons `%if.` and a number.

    >>> print(written_out("  %x = i64 %base[2]"))
      %x.at = getelementptr i64, ptr %base, i64 2
      %x = load i64, ptr %x.at
    """
    numbers = count()

    def read(match: re.Match[str]) -> str:
        name, kind, base, place = match.groups()
        address = f"getelementptr i64, ptr {base}, i64 {place}"
        if kind == "at":
            return f"  {name} = {address}"
        return f"  {name}.at = {address}\n  {name} = load {kind}, ptr {name}.at"

    def write(match: re.Match[str]) -> str:
        base, place, kind, value = match.groups()
        to = f"%to.{next(numbers)}"
        return (
            f"  {to} = getelementptr i64, ptr {base}, i64 {place}\n  store {kind} {value}, ptr {to}"
        )

    def branch(match: re.Match[str]) -> str:
        asked, yes, no = match.groups()
        holds = f"%if.{next(numbers)}"
        return f"  {holds} = icmp {asked}\n  br i1 {holds}, label {yes}, label {no}"

    return _IF.sub(branch, _WRITTEN.sub(write, _READ.sub(read, text)))
