"""Compiled kernels on disk: written whole or not at all, checked when read, rebuilt if damaged."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final

from torpor.base import settings
from torpor.base.files import read_checked, write_checked
from torpor.base.target import Target
from torpor.device import llvm, resident
from torpor.ir.records import Program

KERNELS: Final = "kernels"
SCHEDULES: Final = "schedules"
_LOOKS: Final = "00"  # names are digests: one of 256 asks how much there is
ROOMS: Final = ("base", "ir", "rules", "view", "kernel", "source", "device")


@cache
def code_version(rooms: tuple[str, ...] = ROOMS) -> str:
    """A digest of the compiler's own text: entries made by other code are never used."""
    parts = (llvm.version(), *map(text_of_room, rooms))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def text_of_room(room: str) -> str:
    """A digest of a room's own text: each is read once in a process."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for path in sorted(sources(root / room)):
        digest.update(path.removeprefix(str(root)).encode())
        with open(path, "rb", 0) as file:
            digest.update(file.read())
    return digest.hexdigest()


def sources(folder: Path) -> Iterator[str]:
    """The Python files in a folder and below, quicker than pathlib's way: each process asks."""
    for path, _, names in os.walk(folder):
        yield from (os.path.join(path, name) for name in names if name.endswith(".py"))


def usable(target: Target) -> bool:
    """Whether programs for the target are worth keeping: those that compile to machine code."""
    return bool(settings.number("CACHE")) and target.name == "cpu"


def name_of(key: bytes, *more: str) -> str:
    """The name of the entry for a kernel and everything else that decides what it compiles to."""
    digest = hashlib.sha256(key)
    for text in (code_version(), *more):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def folder() -> Path:
    """Where the entries of kernels lie."""
    return settings.cache_dir() / KERNELS


def read(name: str) -> tuple[Program, bytes] | None:
    """The entry, or None if it is missing, damaged or another one's."""
    body = read_body(KERNELS, name)
    if body is None:
        return None
    found: tuple[Program, bytes] = pickle.loads(body)
    return found


def read_body(kind: str, name: str) -> bytes | None:
    """What an entry in the folder `kind` holds, or None as for `read`."""
    return read_checked(settings.cache_dir() / kind / name)


def write(name: str, program: Program, compiled: bytes) -> None:
    """Keep an entry; a disk that cannot be written to is not an error."""
    if all(isinstance(size, int) for size in program.global_size):
        write_body(KERNELS, name, pickle.dumps((replace(program, linear=()), compiled)))


def write_body(kind: str, name: str, body: bytes) -> None:
    """Keep an entry in the folder `kind`, as `write`."""
    place = settings.cache_dir() / kind
    write_checked(place / name, body)
    if name.startswith(_LOOKS):
        bound(place, settings.number("CACHE_MB") * 10**6)


def bound(place: Path, most: int) -> None:
    """Remove what was written first, as long as a folder holds more than `most` bytes."""
    with suppress(OSError):  # of a disk that cannot be written to
        found = sorted(((s.st_mtime_ns, s.st_size, path) for path, s in stats(place)), reverse=True)
        kept = accumulate(size for _, size, _ in found)
        for (_, _, path), held in zip(found, kept, strict=True):
            if held > most:
                os.unlink(path)


def stats(place: Path) -> Iterator[tuple[str, os.stat_result]]:
    """What is known of each file in a folder; other processes may remove some meanwhile."""
    with os.scandir(place) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield entry.path, entry.stat()


def entries() -> list[Path]:
    """Every entry of a kernel that there is."""
    return files_in(folder())


def files_in(place: Path) -> list[Path]:
    """The files in a folder, if it is there."""
    there = place.iterdir() if place.is_dir() else ()
    return sorted(path for path in there if path.is_file())


def clear() -> int:
    """Remove every kernel, all schedules, and torpor's own native code; gives how many kernels
    there were.
    """
    resident.clear()
    found = entries()
    for path in (*found, *files_in(settings.cache_dir() / SCHEDULES)):
        path.unlink(missing_ok=True)
    return len(found)
