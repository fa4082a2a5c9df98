"""A trace read back: what the journal of VIZ wrote, as plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from torpor.base.errors import ParseError
from torpor.explore.arena import arena_of

LARGEST: Final = 1 << 29  # bytes of a file that is read
WIDEST: Final = 2000  # characters of an expression that is written out
_NODE: Final = re.compile(
    r"%(\d+) = Ops\.(\w+) (\w+)(?: \((%\d+(?:, %\d+)*)\))?(?: = (.+))?", re.DOTALL
)
_PLACE: Final = re.compile(r"(.+?):(\d+)(?:: (.*))?", re.DOTALL)
_INFIX: Final = {
    "ADD": "+", "SUB": "-", "MUL": "*", "FDIV": "/", "IDIV": "//", "MOD": "%", "POW": "**",
    "AND": "&", "OR": "|", "XOR": "^", "SHL": "<<", "SHR": ">>", "CMPLT": "<", "CMPNE": "!=",
    "CMPEQ": "==",
}  # fmt: skip


class Node(NamedTuple):
    """A node: `src` are numbers, `arg` is text."""

    op: str
    dtype: str
    src: tuple[int, ...]
    arg: str


class Step(NamedTuple):
    """One application of a rule."""

    stage: str
    rule: str
    before: int
    after: int


class Pass(NamedTuple):
    """What a pass left, and how many rules had been applied by then."""

    name: str
    root: int
    steps: int


class Place(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass
class Kernel:
    """A kernel: what it computes, why it is one, what it became, and how it ran.

    number:   in the order in which kernels are first spoken of.
    items:    the schedule's entries for it: {reason, lines, parameters}.
    readers:  kernels that read what it writes.
    """

    number: int
    ast: int
    name: str = ""
    device: str = ""
    opts: list[str] = field(default_factory=list)
    source: str = ""
    linear: list[int] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Why its outputs are stored, each reason once."""
        return list(dict.fromkeys(str(item["reason"]) for item in self.items))

    @property
    def places(self) -> list[Place]:
        """The lines of the user's program that it computes, that which asks for it first."""
        found = dict.fromkeys(line for item in self.items for line in item["lines"])
        return [place_of(line) for line in found]

    @property
    def microseconds(self) -> float:
        """All its launches."""
        return float(sum(run["microseconds"] for run in self.runs))

    def rate(self, what: str) -> float:
        """`operations` or `bytes` a second, in thousand millions, of its quickest launch."""
        rates = (run[what] / run["microseconds"] / 1e3 for run in self.runs if run["microseconds"])
        return max(rates, default=0.0)


@dataclass
class Graph:
    """What was scheduled together: its root, and the lines of the nodes in it."""

    root: int
    lines: dict[int, Place]


@dataclass
class Trace:
    """All that a file says."""

    name: str = ""
    nodes: dict[int, Node] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)  # while graphs were scheduled
    files: dict[str, str] = field(default_factory=dict)  # texts of the user's files
    events: list[dict[str, Any]] = field(default_factory=list)  # launches and phases, by start
    memory: dict[int, dict[str, Any]] = field(default_factory=dict)  # by number of the buffer
    jits: list[dict[str, Any]] = field(default_factory=list)  # functions that were traced
    _known: dict[int, Kernel] = field(default_factory=dict, repr=False)

    def kernel(self, ast: int) -> Kernel:
        """The kernel with this ast."""
        if ast not in self._known:
            self._known[ast] = Kernel(len(self.kernels), ast)
            self.kernels.append(self._known[ast])
        return self._known[ast]

    def named(self, name: str) -> list[Kernel]:
        """The kernels of a name; a `#2` after it is the second of them."""
        plain, _, number = name.partition("#")
        found = [kernel for kernel in self.kernels if kernel.name == plain]
        if not number:
            return found
        return found[int(number) - 1 : int(number)] if number.isdecimal() and number != "0" else []

    def below(self, roots: Iterable[int]) -> list[int]:
        """The nodes that these are made of, each after what it is made of."""
        found: dict[int, None] = {}
        stack = [(root, False) for root in reversed(list(roots))]
        while stack:
            number, ready = stack.pop()
            if number in found:
                continue
            if ready:
                found[number] = None
            else:
                stack.append((number, True))
                stack.extend((s, False) for s in reversed(self.nodes[number].src))
        return list(found)

    def text(self, roots: Iterable[int]) -> str:
        """The nodes below these as `ir.text` reads them; buffers are known by what they are called
        only.
        """
        lines = []
        for number in self.below(roots):
            node = self.nodes[number]
            known = node._replace(arg=repr(node.arg)) if node.op == "BUFFER" else node
            lines.append(self._line(number, known._replace(op=f"Ops.{node.op}")))
        return "\n".join(lines)

    def line(self, number: int) -> str:
        """A node as `ir.text` writes it, in short."""
        return self._line(number, self.nodes[number])

    def _line(self, number: int, node: Node) -> str:
        source = f" ({', '.join(f'%{s}' for s in node.src)})" if node.src else ""
        return f"%{number} = {node.op} {node.dtype}{source}{f' = {node.arg}' if node.arg else ''}"

    def expression(self, number: int, room: int = WIDEST) -> str:
        """A node as an expression, with `…` for what would make it longer than `room`."""
        node = self.nodes[number]
        if node.op == "CONST":
            return node.arg
        if node.op in ("RANGE", "VARIABLE", "PARAM", "SPECIAL", "BUFFER"):
            return name_of(node)
        if room < 8:
            return "…"
        share = room // max(len(node.src), 1) - 8
        parts = [self.expression(s, share) for s in node.src]
        if node.op in _INFIX and len(parts) == 2:
            return f"({parts[0]}{_INFIX[node.op]}{parts[1]})"
        if node.op == "WHERE" and len(parts) == 3:
            return f"({parts[1]} if {parts[0]} else {parts[2]})"
        return f"{node.op.lower()}({', '.join(parts)})"


def name_of(node: Node) -> str:
    """What a leaf is called."""
    found = re.search(r"slot=(\d+)" if node.op == "PARAM" else r"\w+", node.arg)
    if node.op == "BUFFER":
        found = re.search(r"#\d+", node.arg)
        return f"buffer{found[0]}" if found else "buffer"
    stem = {"RANGE": "ridx", "PARAM": "data"}.get(node.op, "")
    text = found[1] if found and node.op == "PARAM" else found[0] if found else node.arg
    return f"{stem}{text}"


def place_of(text: str) -> Place:
    """A place from its text, `file:line: text`."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return Place("", 0, text)
    return Place(found[1], int(found[2]), found[3] or "")


def read(path: Any) -> Trace:
    """The trace in a file. A last line that was cut off is left out; `ParseError` names any other
    line that cannot be read, and what is missing.
    """
    path = Path(path)
    if path.stat().st_size > LARGEST:
        raise ParseError(f"{path}: larger than {LARGEST >> 20} MiB")
    trace = Trace(path.stem)
    for number, record in _records(path):
        try:
            ((kind, value),) = record.items()
            _TAKES[kind](trace, value)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ParseError(f"{path}:{number}: no record of a trace ({error!r})") from None
    trace.events.sort(key=lambda event: event["start"])
    return trace


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                if line.endswith("\n"):
                    raise ParseError(f"{path}:{number}: no line of a trace") from None


def _take_node(trace: Trace, value: str) -> None:
    found = _NODE.fullmatch(value)
    if found is None:
        raise ValueError(value[:80])
    source = tuple(int(s[1:]) for s in found[4].split(", ")) if found[4] else ()
    if int(found[1]) in trace.nodes or any(s not in trace.nodes for s in source):
        raise ValueError(f"{value[:80]} is written twice, or uses one that is not written")
    trace.nodes[int(found[1])] = Node(found[2], found[3], source, found[5] or "")


def _take_graph(trace: Trace, value: dict[str, Any]) -> None:
    lines = {n: place_of(text) for text, numbers in value["lines"].items() for n in numbers}
    trace.graphs.append(Graph(_known(trace, value["root"]), lines))


def _take_rewrite(trace: Trace, value: dict[str, Any]) -> None:
    of = value.get("of")
    steps = trace.steps if of is None else trace.kernel(_known(trace, of)).steps
    before, after = _known(trace, value["before"]), _known(trace, value["after"])
    steps.append(Step(str(value["stage"]), str(value["rule"]), before, after))


def _take_pass(trace: Trace, value: dict[str, Any]) -> None:
    kernel = trace.kernel(_known(trace, value["of"]))
    root = _known(trace, value["root"])
    kernel.passes.append(Pass(str(value["name"]), root, len(kernel.steps)))
    if "start" in value:
        numbers = {name: value[name] for name in ("start", "microseconds")}
        _check_numbers(numbers)
        texts = {"phase": "pass", "name": str(value["name"]), "why": "", "line": "", "asked": ""}
        trace.events.append(numbers | texts)


def _take_file(trace: Trace, value: dict[str, Any]) -> None:
    trace.files[str(value["name"])] = str(value["text"])


def _take_schedule(trace: Trace, value: list[dict[str, Any]]) -> None:
    writers: dict[int, Kernel] = {}
    for item in value:
        kernel = trace.kernel(_known(trace, item["ast"]))
        buffers = [int(number) for number in item["buffers"]]
        outputs = {int(place) for place in item["outputs"]}
        for place, number in enumerate(buffers):
            writer = writers.get(number)
            memory = trace.memory.get(number, {"readers": []})
            if place in outputs:
                memory["writer"] = kernel.number
            elif kernel.number not in memory["readers"]:
                memory["readers"].append(kernel.number)
            if writer and place not in outputs and kernel.number not in writer.readers:
                writer.readers.append(kernel.number)
        writers |= {buffers[place]: kernel for place in outputs}
        kept = {"reason": str(item["reason"])}
        lists = {name: [str(one) for one in item[name]] for name in ("lines", "parameters")}
        if kept | lists not in kernel.items:
            kernel.items.append(kept | lists)


def _take_program(trace: Trace, value: dict[str, Any]) -> None:
    kernel = trace.kernel(_known(trace, value["ast"]))
    kernel.name, kernel.device = str(value["name"]), str(value["device"])
    kernel.opts, kernel.source = [str(opt) for opt in value["opts"]], str(value["source"])
    kernel.peaks = [float(peak) for peak in value.get("peaks", [])]
    kernel.linear = [_known(trace, number) for number in value["linear"]]


def _take_run(trace: Trace, value: dict[str, Any]) -> None:
    kernel = trace.kernel(_known(trace, value["ast"]))
    kernel.name, kernel.device = kernel.name or str(value["name"]), str(value["device"])
    numbers = {name: value[name] for name in ("start", "microseconds", "operations", "bytes")}
    _check_numbers(numbers)
    kernel.runs.append(numbers)
    event = numbers | {"phase": "kernel", "name": str(value["name"]), "kernel": kernel.number}
    trace.events.append(event | {"line": value["line"], "asked": value["asked"], "why": ""})


def _take_phase(trace: Trace, value: dict[str, Any]) -> None:
    numbers = {name: value[name] for name in ("start", "microseconds", "thread")}
    _check_numbers(numbers)
    texts = {name: value[name] for name in ("phase", "name", "why", "line", "asked")}
    trace.events.append(numbers | texts)


def _take_buffer(trace: Trace, value: dict[str, Any]) -> None:
    numbers = {name: value[name] for name in ("number", "bytes", "start")}
    _check_numbers(numbers)
    facts = {"device": str(value["device"]), "end": None, "writer": None}
    trace.memory[numbers["number"]] = numbers | facts | {"readers": list[int]()}


def _take_freed(trace: Trace, value: dict[str, Any]) -> None:
    _check_numbers(value)
    trace.memory[value["number"]]["end"] = value["start"]


def _take_jit(trace: Trace, value: dict[str, Any]) -> None:
    found: dict[str, Any] = {name: str(value[name] or "") for name in ("name", "why", "plain")}
    found |= {name: [str(one) for one in value[name]] for name in ("guards", "takes", "baked")}
    line = None if value["line"] is None else place_of(str(value["line"]))._asdict()
    trace.jits.append(found | {"line": line, "arena": arena_of(value["graph"])})
    event = {"phase": "mark", "name": f"traced {value['name']}", "start": value["start"]}
    _take_mark(trace, event)


def _take_mark(trace: Trace, value: dict[str, Any]) -> None:
    _check_numbers({"start": value["start"]})
    event = {"phase": "mark", "name": str(value["name"]), "start": value["start"]}
    rest = {"microseconds": 0, "why": "", "line": "", "asked": ""}
    trace.events.append(event | rest)


def _check_numbers(numbers: dict[str, Any]) -> None:
    for name, value in numbers.items():
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} is no number")


def _known(trace: Trace, number: Any) -> int:
    if not isinstance(number, int) or number not in trace.nodes:
        raise KeyError(f"there is no node {number!r}")
    return number


_TAKES: Final[dict[str, Callable[[Trace, Any], None]]] = {
    "node": _take_node,
    "file": _take_file,
    "graph": _take_graph,
    "rewrite": _take_rewrite,
    "pass": _take_pass,
    "schedule": _take_schedule,
    "program": _take_program,
    "run": _take_run,
    "buffer": _take_buffer,
    "freed": _take_freed,
    "jit": _take_jit,
    "mark": _take_mark,
    "phase": _take_phase,
}
