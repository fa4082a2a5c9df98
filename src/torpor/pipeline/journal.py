"""What VIZ=1 writes down: a file of JSON lines, from which an explorer can show what happened.

Each line is an object with one of these keys, which says what it is:

    node:     a line as `ir.text` writes them, numbered through the whole file; before its first use
    file:     {name, text}: a file of the user's program, before it is first spoken of
    graph:    {root, lines}: what is about to be scheduled, and for each line of the user's program
              the nodes that it made
    rewrite:  {stage, rule, before, after, of}: one application of a rule to a node; `of` is the ast
              of the kernel that it was done for, if it was for one; and the line of `before`
    pass:     {name, root, of, start, microseconds}: what a pass or an opt made of a kernel
    schedule: a list of {ast, reason, lines, parameters, buffers, outputs}: kernels in order, with
              the places in the user's program that they come from, what memory they get, the
              numbers of these buffers, and which of them they write
    buffer:   {number, device, bytes, start}: memory that a schedule speaks of for the first time
    freed:    {number, start}: nobody holds it any more
    jit:      {name, line, why, change, plain, arguments, guards: [kind, path, value], takes, baked,
              start, graph}: a function that was traced: why, what changed, and if it cannot be
              replayed, why not; what it is replayed by: {commands:
              [name, slots], inputs, constants, results: [device, bytes, input whose memory it may
              take], arenas: [device, bytes], between: [bytes, slot, offset]}, slots in this order
    error:    {name, text, lines, start}: the program ended by an error that nobody caught; `lines`
              are those of the program on the way to it, the last one first
    mark:     {name, start}: the program says that it has come so far
    program:  {name, device, ast, opts, source, peaks}: a kernel that has been made ready, and what
              operations and bytes a second its device has at most
    made:     {of, linear, start, microseconds, machine}: the linear program of a kernel that has
              just been compiled, how long that took, and, as {start, microseconds}, making code of
              its text
    run:      {name, ast, device, start, microseconds, operations, bytes, line, asked, threads}: a
              launch, and for each thread that had a part in it: [start, microseconds]; `copy` has
              no program
    phase:    {phase, name, why, start, microseconds, own, line, asked, thread}: something else that
              took time (see `base/phases.py`)
    process:  who wrote the lines up to the next of these, 0 being the program; each process
              numbers nodes by itself

Nodes are given by number, equal ones by one; times in microseconds, starts by one clock; a `line`
is that which built it, `asked` that which had to wait. A program writes one file, and says which on
standard error; a process that helps it to compile gives its lines to it.
"""

from __future__ import annotations

import atexit
import io
import json
import linecache
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, finalize

from torpor.base import settings
from torpor.base.locks import recursive_lock
from torpor.base.phases import Event, writers
from torpor.base.site import Site, decode, here, is_inside
from torpor.device import Device
from torpor.device.pool import pool, thread_count
from torpor.ir.records import Program, ScheduleItem
from torpor.ir.text import show_node
from torpor.ir.trace import Event as Rewrite
from torpor.ir.uop import UOp

if TYPE_CHECKING:
    from torpor.pipeline.compiled_graph import CompiledGraph

LINE: Final = 64  # bytes that come from memory at once
LARGEST_FILE: Final = 1 << 20  # characters of a program's file that is kept
LARGEST_TEXT: Final = 10_000  # characters of an error
FRAMES: Final = 20  # lines on the way to an error
_lock: Final = recursive_lock()  # a finaliser may compute something while this thread writes
_current: list[Journal] = []  # this process's


def _since(start: float, end: float | None = None) -> dict[str, float]:
    """When something began, and how long it took up to `end`, as lines say it."""
    took = {} if end is None else {"microseconds": round((end - start) * 1e6, 1)}
    return {"start": round(start * 1e6, 1), **took}


def recording() -> bool:
    """Whether things are written down here and now."""
    return settings.number("VIZ") > 0


def journal() -> Journal:
    """This process's journal; a forked child begins its own."""
    with _lock:
        if not _current or _current[0].process != os.getpid():
            _current[:] = [Journal(settings.cache_dir() / "traces")]
        return _current[0]


def help_another() -> None:
    """This process compiles for another one, which it gives what it would write (`handed_over`)."""
    _current[:] = [Journal()]


class Journal:
    """One file, written as things happen; without a folder one in memory. Nodes that are gone are
    forgotten, not kept alive.
    """

    def __init__(self, folder: Path | None = None):
        self.process = os.getpid()
        self.file: IO[str] | None = None  # None: it cannot be written
        self.numbers: WeakKeyDictionary[UOp, int] = WeakKeyDictionary()
        self.files: set[str] = set()
        self.buffers: set[int] = set()
        self.freed: deque[tuple[int, float]] = deque()  # not written yet: finalisers only append
        self.since = time.perf_counter()  # the last pass ended, or the kernel was begun
        self.known: dict[str, int] = {}  # nodes that may be gone, and may be made again
        if folder is None:
            self.file = io.StringIO()
            self.write("process", self.process)
            return
        self.path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{self.process}.jsonl"
        with self._surviving():
            folder.mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("a", encoding="utf-8")
            print(f"VIZ: recording to {self.path}", file=sys.stderr)
            if settings.at_start("VIZ") == 1:
                os.environ["TORPOR_VIZ"] = "file"  # processes that this one starts show no page
                atexit.register(self._show)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """What the disk refuses in the block ends the recording, and nothing else."""
        try:
            yield
        except OSError as error:
            print(f"VIZ: nothing is recorded from here on: {error}", file=sys.stderr)
            file, self.file = self.file, None
            if file is not None:
                with suppress(OSError):
                    file.close()

    def _show(self) -> None:
        """Serve the page until Ctrl-C, from a process of its own: this one's state is its own, and
        it may no longer start threads.
        """
        if self.file is None or self.process != os.getpid() or not sys.executable:
            return
        import subprocess  # slow to import, and rarely needed

        with self._surviving():
            self.flush()
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            package = str(Path(__file__).resolve().parents[2])
            paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
            command = [sys.executable, "-P", "-m", "torpor", "explore", "--until-closed"]
            process = subprocess.Popen(
                [*command, "--trace", str(self.path)],
                env={**os.environ, "PYTHONPATH": paths, "TORPOR_VIZ": "0"},
                stdin=subprocess.PIPE,  # it ends when this process does, however that may be
                stdout=2,
            )
            with process, suppress(KeyboardInterrupt):
                process.wait()

    def write(self, kind: str, value: Any, at_once: bool = False) -> None:
        """One line; with `at_once`, it and all before it are then in the file."""
        if self.file is not None:
            with self._surviving():
                while self.freed:
                    number, start = self.freed.popleft()
                    line = {"freed": {"number": number, **_since(start)}}
                    self.file.write(json.dumps(line) + "\n")
                self.file.write(json.dumps({kind: value}) + "\n")
        if at_once:
            self.flush()

    def flush(self) -> None:
        """Have all so far in the file."""
        if self.file is not None:
            with self._surviving():
                self.file.flush()

    def handed_over(self) -> str:
        """The lines in memory, which then begin anew."""
        with _lock:
            lines, self.file = self.file, io.StringIO()
            self.write("process", self.process)
        return lines.getvalue() if isinstance(lines, io.StringIO) else ""

    def take_over(self, lines: str) -> None:
        """Write down what another process has handed over."""
        with _lock, self._surviving():
            if self.file is not None and lines:
                self.file.write(lines)
                self.write("process", 0)

    def number(self, root: UOp) -> int:
        """The number of a node; it and what it is made of are written down if they are new."""
        found = self.numbers.get(root)
        if found is not None:
            return found
        numbers, known = self.numbers, self.known
        for node in root.toposort(lambda below: below not in numbers):
            if node not in numbers:
                text = show_node(node, numbers)
                if text not in known:
                    known[text] = len(known)
                    self.write("node", f"%{known[text]} = {text}")
                numbers[node] = known[text]
        return numbers[root]

    def place(self, site: Site) -> str:
        """A place in the user's program; the file that it is in is written down if it is new."""
        place = decode(site)
        with _lock:
            if place.file not in self.files:
                self.files.add(place.file)
                text = "".join(linecache.getlines(place.file))
                if 0 < len(text) <= LARGEST_FILE:
                    self.write("file", {"name": place.file, "text": text})
        return str(place)

    def graph(self, root: UOp) -> None:
        """What is about to be scheduled."""
        lines: dict[str, list[int]] = {}
        with _lock:
            number = self.number(root)
            for node in root.toposort():
                for site in node.origins[:1]:
                    lines.setdefault(self.place(site), []).append(self.number(node))
            self.write("graph", {"root": number, "lines": lines})

    def rewrite(self, event: Rewrite, ast: UOp | None) -> None:
        """One application of a rule, and the kernel that it was done for."""
        with _lock:
            before, after = self.number(event.before), self.number(event.after)
            of = None if ast is None else self.number(ast)
            fields = {"stage": event.stage, "rule": event.rule, "before": before, "after": after}
            fields |= {"of": of}
            if event.before.origins:
                fields["line"] = self.place(event.before.origins[0])
            self.write("rewrite", fields)

    def after_pass(self, name: str, root: UOp, ast: UOp) -> None:
        """What a pass made of a kernel."""
        with _lock:
            fields = {"name": name, "root": self.number(root), "of": self.number(ast)}
            times = _since(self.since, time.perf_counter())
            self.write("pass", fields | times | {"thread": get_ident()})
            self.since = time.perf_counter()

    def schedule(self, items: Sequence[ScheduleItem]) -> None:
        """The kernels that are about to run."""
        with _lock:
            self.write("schedule", [self._item(item) for item in items], at_once=True)

    def _item(self, item: ScheduleItem) -> dict[str, Any]:
        memory = [node.arg for node in item.buffers]
        sites: Iterable[Site] = item.origins or [site for site in [here()] if site is not None]
        for one in memory:
            if one.number not in self.buffers:
                self.buffers.add(one.number)
                finalize(one, self._free, one.number).atexit = False
                facts = {"number": one.number, "device": one.device, "bytes": one.nbytes}
                self.write("buffer", facts | _since(time.perf_counter()))
        return {
            "ast": self.number(item.ast),
            "reason": item.reason,
            "lines": [self.place(site) for site in sites],
            "parameters": [f"{m.device} {m.dtype.name} {m.size}" for m in memory],
            "buffers": [m.number for m in memory],
            "outputs": list(item.outputs),
        }

    def _free(self, number: int) -> None:
        self.freed.append((number, time.perf_counter()))

    def mark(self, name: str) -> None:
        """The program says that it has come so far."""
        with _lock:
            self.write("mark", {"name": name, **_since(time.perf_counter())})

    def failed(self, error: BaseException) -> None:
        """The program ended by an error."""
        sites: list[Site] = [
            (trace.tb_frame.f_code, trace.tb_lasti)
            for trace in _traces(error)
            if not is_inside(trace.tb_frame) and Path(trace.tb_frame.f_code.co_filename).exists()
        ]
        with _lock:
            text = str(error)[:LARGEST_TEXT]
            fields: dict[str, Any] = {"name": type(error).__name__, "text": text}
            fields |= {"lines": [self.place(site) for site in reversed(sites[-FRAMES:])]}
            self.write("error", fields | _since(time.perf_counter()), at_once=True)

    def jit(self, site: Site | None, facts: dict[str, Any], graph: CompiledGraph | None) -> None:
        """A function that was traced, and what it is replayed by."""
        with _lock:
            line = None if site is None else self.place(site)
            fields = {"line": line, **_since(time.perf_counter())}
            self.write("jit", facts | fields | {"graph": None if graph is None else _facts(graph)})

    def program(self, ast: UOp, program: Program, device: str) -> None:
        """A kernel that has just been made ready."""
        with _lock:
            fields = {
                "name": program.name,
                "device": device,
                "ast": self.number(ast),
                "opts": [f"{opt.op.name} {opt.axis} {opt.arg}" for opt in program.opts],
                "source": program.source,
                "peaks": _peaks(device),
            }
            self.write("program", fields, at_once=True)

    def made(self, ast: UOp, linear: Iterable[UOp], start: float, text: float) -> None:
        """A kernel that has just been compiled, begun at `start`; its text was there at `text`."""
        with _lock:
            now = time.perf_counter()
            times = _since(start, now)
            fields = {"of": self.number(ast), "linear": [*map(self.number, linear)]}
            fields["machine"] = _since(text, now)
            self.write("made", fields | times | {"thread": get_ident()})

    def event(self, event: Event) -> None:
        """Something that took time: a launch, or a phase of another kind."""
        fields: dict[str, Any] = {
            "name": event.name,
            **_since(event.start, event.start + event.seconds),
            "line": None if event.built is None else self.place(event.built),
            "asked": None if event.asked is None else self.place(event.asked),
        }
        launched = event.phase == "kernel"
        if launched:
            fields |= {name: getattr(event, name) for name in ("device", "operations", "bytes")}
            shares = [(start, end - start) for start, end in pool.shares()]
            fields["threads"] = [[round(number * 1e6, 1) for number in one] for one in shares]
        else:
            own = round(event.own * 1e6, 1)
            fields |= {"phase": event.phase, "why": event.why, "own": own, "thread": event.thread}
        with _lock:
            if launched:
                fields["ast"] = self.number(event.subject[0].ast)
            self.write("run" if launched else "phase", fields, at_once=launched)


def _traces(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _facts(graph: CompiledGraph) -> dict[str, Any]:
    """Commands and memory of a compiled graph."""
    memory, donated = graph.memory, graph.donated
    return {
        "commands": [[c.program.name if c.program else "copy", c.slots] for c in graph.commands],
        "inputs": memory.inputs,
        "constants": len(memory.constants),
        "results": [[k.device, k.nbytes, donated.get(n)] for n, k in enumerate(memory.results)],
        "arenas": [[kind.device, kind.nbytes] for kind in memory.arenas],
        "between": [[one.kind.nbytes, one.base, one.offset] for one in memory.between],
    }


def _peaks(name: str) -> list[float]:
    """What the cost model knows of a device: float32 operations and bytes of memory a second."""
    target = Device[name].target
    cores = thread_count() if target.threads else 1
    flops = target.clock * target.multiply_adds * 2 * target.vector_bytes / 4
    return [cores * flops, cores * LINE * target.clock / sum(target.line_cycles)]


def write_event(event: Event) -> None:
    """Write it down if that is asked for here and now."""
    if recording():
        journal().event(event)


writers.append(write_event)


def mark(name: str) -> None:
    """Set a marker: where VIZ records, the explorer shows `name` at this time of the program, as in
    `torpor.mark("epoch 2")`. Else nothing happens.
    """
    if recording():
        journal().mark(str(name))


# --- what a program fails with --------------------------------------------------------------------
def note_failure(error: BaseException | None) -> None:
    """Write down an error that nobody caught, where something is recorded."""
    if recording() and isinstance(error, Exception):
        journal().failed(error)


def listen_for_failures() -> None:
    """From here on note what nobody catches, before Python prints it."""
    before = sys.excepthook

    def heard(kind: Any, error: BaseException, trace: Any) -> None:
        note_failure(error)
        before(kind, error, trace)

    sys.excepthook = heard
