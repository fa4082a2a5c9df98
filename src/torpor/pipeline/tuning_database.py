"""The tuning database: what timed searches found, one JSON object a line, by hardware and kernel,
in a file that can be copied from machine to machine.

Lines are only ever added, each by one write; the last one for a kernel counts. A line that cannot
be read, or is of another version, is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from torpor.base import settings
from torpor.base.errors import TorporError
from torpor.base.files import replacing
from torpor.ir.records import Opt, OptOps

VERSION: Final = 2
Opts = tuple[Opt, ...]


@dataclass(frozen=True)
class Entry:
    """What a search found for one kernel on one kind of machine.

    hardware: the processor or device, its features, the compiler, the number of threads.
    kernel:   digest of the kernel and of what else decides what may be tried.
    name:     the kernel's, for people.
    code:     digest of the compiler that the times were measured with.
    opts:     the opts that won; None where the heuristics' choice was not beaten.
    gain:     the heuristics' time over theirs; 1 where none won.
    seconds:  what one run takes.
    extent:   members of the beam, and seconds that the search was given.
    tried:    how many lists were timed.
    """

    hardware: str
    kernel: str
    name: str
    code: str
    opts: Opts | None = None
    gain: float = 1.0
    seconds: float = 0.0
    extent: tuple[int, float] = (0, 0.0)
    tried: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.hardware, self.kernel

    def suffices(self, width: int, seconds: float) -> bool:
        """Whether a search as wide, and as long, as wanted has been made."""
        return self.extent[0] >= width and self.extent[1] >= seconds


def to_line(entry: Entry) -> str:
    """The entry as JSON, without a line's end."""
    opts = entry.opts and [[opt.op.name, opt.axis, opt.arg] for opt in entry.opts]
    return json.dumps({"torpor_search": VERSION, **asdict(entry), "opts": opts})


def from_line(line: str) -> Entry | None:
    """The entry that `to_line` wrote; None for anything else."""
    try:
        fields = json.loads(line)
        if fields.pop("torpor_search") != VERSION:
            return None
        opts, (width, given) = fields.pop("opts"), fields.pop("extent")
        chosen = None if opts is None else to_opts(opts)
        entry = Entry(**fields, opts=chosen, extent=(int(width), float(given)))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    texts = entry.hardware, entry.kernel, entry.name, entry.code
    numbers = entry.gain, entry.seconds, entry.tried
    fine = all(isinstance(n, (int, float)) for n in numbers)
    return entry if fine and all(isinstance(t, str) for t in texts) else None


def to_opts(listed: Any) -> Opts:
    """The opts; what is none is a `KeyError`, `TypeError` or `ValueError`."""
    if not all(n is None or type(n) is int for _, *numbers in listed for n in numbers):
        raise TypeError("the axis and the amount of an opt are integers")
    return tuple([Opt(OptOps[name], axis, arg) for name, axis, arg in listed])


# --- the file -------------------------------------------------------------------------------------
def path() -> Path:
    """Where the entries lie."""
    return settings.cache_dir() / "search.jsonl"


def read(file: Path | None = None) -> dict[tuple[str, str], Entry]:
    """The last entry for each (hardware, kernel) in a file, by default torpor's own; a file that
    is not there has none.
    """
    try:
        text = (file or path()).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {e.key: e for line in text.splitlines() if (e := from_line(line)) is not None}


def add(entries: Iterable[Entry], file: Path | None = None) -> None:
    """Append entries; a disk that cannot be written to is an `OSError`.

    Several processes may do so at once: each is one write to the end of the file. A line's end in
    front closes what a crash cut short, so that it spoils no other; empty lines are passed over.
    """
    file = file or path()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as whole:
        for entry in entries:
            whole.write(b"\n" + to_line(entry).encode() + b"\n")


def export(file: Path) -> int:
    """Write what was found to a file of its own, one line a kernel; gives how many."""
    kept = read().values()
    with replacing(file) as whole:
        whole.writelines(to_line(entry).encode() + b"\n" for entry in kept)
    return len(kept)


def import_from(file: Path) -> int:
    """Add what another file has on kernels of which less, or nothing, is known here; gives how
    many. A file without a single entry is an error: it is something else.
    """
    file.stat()  # raises where it is not there
    offered, known = read(file), read()
    if not offered:
        raise TorporError(f"{file} holds nothing that a search of torpor found")

    def is_more(entry: Entry) -> bool:
        mine = known.get(entry.key, entry)
        return entry.suffices(*mine.extent) and (mine is entry or entry.extent != mine.extent)

    wanted = list(filter(is_more, offered.values()))
    if wanted:
        add(wanted)
    return len(wanted)


def clear() -> int:
    """Forget everything; gives on how many kernels something was known."""
    known = len(read())
    path().unlink(missing_ok=True)
    return known
