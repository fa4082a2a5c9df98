"""A trace: what the journal of VIZ wrote, as plain data (`reading.py` reads it)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

WIDEST: Final = 2000  # characters of an expression that is written out
_PLACE: Final = re.compile(r"(.+?):(\d+)(?:: (.*))?", re.DOTALL)
_BUFFER: Final = re.compile(r"Buffer\(#(\d+), .+, (\d+), \w+\)")
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
    line: str = ""  # of the program, where what is rewritten has one


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
    asked:    the call of the program that it was first launched for.
    later:    kernels that alone read what it writes, and were planned after it had been computed.
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
    asked: str = ""
    later: list[int] = field(default_factory=list)
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
    errors: list[dict[str, Any]] = field(default_factory=list)  # what the program ended by
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
        """The nodes below these as `ir.text` reads them; of buffers number and size are known."""
        lines = []
        for number in self.below(roots):
            node = self.nodes[number]
            if node.op == "BUFFER" and (found := _BUFFER.fullmatch(node.arg)):
                node = node._replace(arg=f"ParamArg({found[1]}, {found[2]})")
            lines.append(self._line(number, node._replace(op=f"Ops.{node.op}")))
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
    return Place(found[1], int(found[2]), found[3] or "") if found else Place("", 0, text)
