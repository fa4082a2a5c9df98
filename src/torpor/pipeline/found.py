"""What timed searches found: one JSON object a line, by hardware and kernel, in a file that can be
copied from machine to machine.

Lines are only ever added, each by one write; the last one for a kernel counts. A line that cannot
be read, or is of another version, is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from torpor.base import settings
from torpor.base.errors import TorporError
from torpor.base.files import replacing
from torpor.ir.records import Opt, OptOps

VERSION: Final = 1
Opts = tuple[Opt, ...]


@dataclass(frozen=True)
class Entry:
    """The state of the search for one kernel on one kind of machine.

    hardware: the processor or device, its features, the compiler, the number of threads.
    kernel:   digest of the kernel and of what else decides what may be tried.
    name:     the kernel's, for people.
    code:     digest of the compiler that the times were measured with.
    opts:     the opts that won; None where the heuristics' choice was not beaten.
    gain:     the heuristics' time over theirs, in the final comparison; 1 where none won.
    seconds:  what one run takes.
    width:    members of the beam.
    spent:    seconds that the search took so far.
    done:     whether nothing is left to try.
    beam:     (seconds, opts) of the best few, fastest first.
    tried:    digests of what was tried.
    """

    hardware: str
    kernel: str
    name: str
    code: str
    opts: Opts | None = None
    gain: float = 1.0
    seconds: float = 0.0
    width: int = 0
    spent: float = 0.0
    done: bool = False
    beam: tuple[tuple[float, Opts], ...] = ()
    tried: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.hardware, self.kernel

    def suffices(self, width: int, seconds: float) -> bool:
        """Whether a search as wide and as long as wanted has been made."""
        return self.width >= width and (self.done or self.spent >= seconds)


def to_line(entry: Entry) -> str:
    """The entry as JSON, without a line's end."""
    fields = asdict(entry)
    fields["opts"] = None if entry.opts is None else from_opts(entry.opts)
    fields["beam"] = [[seconds, from_opts(opts)] for seconds, opts in entry.beam]
    return json.dumps({"torpor_search": VERSION, **fields})


def from_line(line: str) -> Entry | None:
    """The entry that `to_line` wrote; None for anything else."""
    try:
        fields = json.loads(line)
        if fields.pop("torpor_search") != VERSION:
            return None
        opts = fields.pop("opts")
        beam = tuple((float(seconds), to_opts(one)) for seconds, one in fields.pop("beam"))
        tried = tuple(map(str, fields.pop("tried")))
        chosen = None if opts is None else to_opts(opts)
        return checked(Entry(**fields, opts=chosen, beam=beam, tried=tried))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def checked(entry: Entry) -> Entry:
    """The entry; a `TypeError` where a field is of the wrong type."""
    kinds: dict[str, Any] = {"str": str, "float": (float, int), "int": int, "bool": bool}
    for name, field in Entry.__dataclass_fields__.items():
        kind = kinds.get(str(field.type), object)
        if not isinstance(getattr(entry, name), kind):
            raise TypeError(name)
    return entry


def from_opts(opts: Opts) -> list[list[Any]]:
    return [[opt.op.name, opt.axis, opt.arg] for opt in opts]


def to_opts(listed: Any) -> Opts:
    """The opts; what is none is a `KeyError`, `TypeError` or `ValueError`."""
    made = []
    for name, axis, arg in listed:
        if not all(n is None or type(n) is int for n in (axis, arg)):
            raise TypeError("the axis and the amount of an opt are integers")
        made.append(Opt(OptOps[name], axis, arg))
    return tuple(made)


# --- the file -------------------------------------------------------------------------------------
def path() -> Path:
    """Where the entries lie."""
    return settings.cache_dir() / "search.jsonl"


_read: dict[Path, tuple[tuple[int, int], dict[tuple[str, str], Entry]]] = {}


def read(file: Path | None = None) -> dict[tuple[str, str], Entry]:
    """The last entry for each (hardware, kernel) in a file, by default torpor's own; a file that
    is not there has none.
    """
    file = path() if file is None else file
    try:
        facts = file.stat()
        state = facts.st_size, facts.st_mtime_ns
        if file in _read and _read[file][0] == state:
            return _read[file][1]
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = {entry.key: entry for line in lines if (entry := from_line(line)) is not None}
    _read[file] = state, found
    return found


def add(entries: Iterable[Entry], file: Path | None = None) -> None:
    """Append entries, each whole or not at all; a disk that cannot be written to is an `OSError`.

    Several processes may do so at once: each line is one write to the end of the file. One that a
    crash cut short is ended here, so that it spoils no other; one that is just being written may
    look so, and then an empty line is left.
    """
    file = path() if file is None else file
    file.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    handle = os.open(file, flags, 0o644)
    try:
        size = os.fstat(handle).st_size
        cut = b""
        if size:
            os.lseek(handle, -1, os.SEEK_END)
            cut = b"" if os.read(handle, 1) == b"\n" else b"\n"
        for entry in entries:
            os.write(handle, cut + to_line(entry).encode() + b"\n")
            cut = b""
    finally:
        os.close(handle)


def export(file: Path) -> int:
    """Write what was found to a file of its own, one line a kernel, without what only a search
    that goes on needs; gives how many.
    """
    kept = [replace(entry, beam=(), tried=()) for entry in read().values()]
    with replacing(file) as whole:
        whole.writelines(to_line(entry).encode() + b"\n" for entry in kept)
    return len(kept)


def import_from(file: Path) -> int:
    """Add what another file has on kernels of which less, or nothing, is known here; gives how
    many. A file without a single entry is an error: it is something else.
    """
    file.stat()  # raises where it is not there
    offered = read(file)
    if not offered:
        raise TorporError(f"{file} holds nothing that a search of torpor found")
    known = read()
    wanted = [e for key, e in offered.items() if key not in known or more(e, known[key])]
    if wanted:
        add(wanted)
    return len(wanted)


def more(offered: Entry, known: Entry) -> bool:
    """Whether an entry tells more than the one that is known."""
    return (offered.width, offered.done, offered.spent) > (known.width, known.done, known.spent)


def clear() -> int:
    """Forget everything; gives on how many kernels something was known."""
    known = len(read())
    path().unlink(missing_ok=True)
    return known
