"""Torpor's own native code, which runs and replays programs: compiled once, then kept on disk.

Its text is the same in every process of one version, so that only the first one compiles it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from torpor.base import settings
from torpor.base.files import read_checked, write_checked
from torpor.device import llvm
from torpor.device.machine import machine
from torpor.device.words import VERSION, Text


def addresses(text: Text, name: str, symbols: Sequence[str]) -> list[int]:
    """Where the functions `symbols` lie, which are compiled for this processor if no process has
    done so before.
    """
    compiled = _compiled(text, name)
    return [llvm.load(compiled, symbol) for symbol in symbols]


def prepare(text: Text, name: str) -> None:
    """Have what `addresses` compiles on the disk."""
    _compiled(text, name)


def _compiled(text: Text, name: str) -> bytes:
    """The sealed object file of native code. What LLVM could do for it, at three times the price,
    is 2 ns for a command of the executor, and less than what can be measured for the pool.
    """
    host, made = machine(""), None
    key = hashlib.sha256("\0".join((repr(text), VERSION, repr(host), llvm.version())).encode())
    place = folder() / key.hexdigest()
    if settings.number("CACHE"):
        made = read_checked(place)
    if made is None:
        made = llvm.compile_text(text.written_out(), name, host, quick=True)
        if settings.number("CACHE"):
            write_checked(place, made)
    return made


def folder() -> Path:
    """Where object files are kept."""
    return settings.cache_dir() / "native"


def clear() -> None:
    """Remove all that are kept."""
    for path in folder().iterdir() if folder().is_dir() else ():
        path.unlink(missing_ok=True)
