"""The tuning database: what timed searches found, one JSON object a line, by hardware and kernel,
in a file that can be copied from machine to machine.

Lines are only ever added, each by one write; the last one for a kernel counts. A line that cannot
be read, or is of another version, is passed over.
"""

from __future__ import annotations

import json
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
        entry = Entry(**fields, opts=chosen, beam=beam, tried=tried)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    texts = entry.hardware, entry.kernel, entry.name, entry.code
    numbers = entry.gain, entry.seconds, entry.width, entry.spent, entry.done
    fine = all(isinstance(n, (int, float)) for n in numbers)
    return entry if fine and all(isinstance(t, str) for t in texts) else None


def from_opts(opts: Opts) -> list[list[Any]]:
    return [[opt.op.name, opt.axis, opt.arg] for opt in opts]


def to_opts(listed: Any) -> Opts:
    """The opts; what is none is a `KeyError`, `TypeError` or `ValueError`."""
    if not all(n is None or type(n) is int for _, *numbers in listed for n in numbers):
        raise TypeError("the axis and the amount of an opt are integers")
    return tuple([Opt(OptOps[name], axis, arg) for name, axis, arg in listed])


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
    """Append entries; a disk that cannot be written to is an `OSError`.

    Several processes may do so at once: each is one write to the end of the file. A line's end in
    front closes what a crash cut short, so that it spoils no other; empty lines are passed over.
    """
    file = path() if file is None else file
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as whole:
        for entry in entries:
            whole.write(b"\n" + to_line(entry).encode() + b"\n")


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
    offered, known = read(file), read()
    if not offered:
        raise TorporError(f"{file} holds nothing that a search of torpor found")

    def extent(entry: Entry) -> tuple[int, bool, float]:
        return entry.width, entry.done, entry.spent

    wanted = [e for key, e in offered.items() if key not in known or extent(e) > extent(known[key])]
    if wanted:
        add(wanted)
    return len(wanted)


def clear() -> int:
    """Forget everything; gives on how many kernels something was known."""
    known = len(read())
    path().unlink(missing_ok=True)
    return known
