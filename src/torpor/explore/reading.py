"""Reads a trace from the lines that the journal of VIZ wrote.

Each process numbers nodes by itself; here equal nodes have one number, whoever wrote them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from torpor.base.errors import ParseError
from torpor.explore.arena import arena_of
from torpor.explore.trace import Graph, Kernel, Node, Pass, Step, Trace, place_of

LARGEST: Final = 1 << 29  # bytes of a file that is read
_NODE: Final = re.compile(
    r"%(\d+) = Ops\.(\w+) (\w+)(?: \((%\d+(?:, %\d+)*)\))?(?: = (.+))?", re.DOTALL
)


def read(path: Any) -> Trace:
    """The trace in a file. A last line that was cut off is left out; `ParseError` names any other
    line that cannot be read, and what is missing.
    """
    path = Path(path)
    if path.stat().st_size > LARGEST:
        raise ParseError(f"{path}: larger than {LARGEST >> 20} MiB")
    reader = _Reader(Trace(path.stem))
    for number, record in _records(path):
        try:
            ((kind, value),) = record.items()
            _TAKES[kind](reader, value)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ParseError(f"{path}:{number}: no record of a trace ({error!r})") from None
    return reader.finished()


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                if line.endswith("\n"):
                    raise ParseError(f"{path}:{number}: no line of a trace") from None


class _Reader:
    """A trace as it grows, the numbers of its nodes, and who wrote what comes next."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.equal: dict[Node, int] = {}
        self.numbers: dict[int, dict[int, int]] = {0: {}}  # by process
        self.process = 0  # which wrote the file
        self.asked: dict[str, dict[str, str]] = {}  # by name: why kernels were compiled
        self.making: dict[int, dict[str, Any]] = {}  # by kernel: when it was compiled

    def finished(self) -> Trace:
        trace = self.trace
        trace.events.sort(key=lambda event: event["start"])
        for memory in trace.memory.values():
            _note_later(trace, memory)
        return trace

    def node(self, value: str) -> None:
        found = _NODE.fullmatch(value)
        numbers = self.numbers[self.process]
        if found is None or int(found[1]) in numbers:
            raise ValueError(f"{value[:80]} cannot be read, or is written twice")
        source = tuple(numbers[int(s[1:])] for s in found[4].split(", ")) if found[4] else ()
        node = Node(found[2], found[3], source, found[5] or "")
        here = numbers[int(found[1])] = self.equal.setdefault(node, len(self.equal))
        self.trace.nodes[here] = node

    def by(self, value: int) -> None:
        self.process = int(value)
        self.numbers.setdefault(self.process, {})

    def known(self, number: Any) -> int:
        """The number of a node here, from that of who wrote it."""
        return self.numbers[self.process][number]

    def kernel(self, number: Any) -> Kernel:
        """The kernel with this ast."""
        return self.trace.kernel(self.known(number))

    def add(self, phase: str, name: str, value: dict[str, Any], **facts: Any) -> dict[str, Any]:
        """One more event, at the time that a record says."""
        times = {"start": value["start"], "microseconds": value.get("microseconds", 0)}
        _check_numbers(times)
        asked = {fact: str(value.get(fact) or "") for fact in ("line", "asked", "why")}
        who = {"process": self.process, "thread": int(value.get("thread", 0))}
        event = {"phase": phase, "name": name, **who, **times, **asked, **facts}
        self.trace.events.append(event)
        return event

    def graph(self, value: dict[str, Any]) -> None:
        lines = {
            self.known(n): place_of(text)
            for text, numbers in value["lines"].items()
            for n in numbers
        }
        self.trace.graphs.append(Graph(self.known(value["root"]), lines))

    def rewrite(self, value: dict[str, Any]) -> None:
        of = value.get("of")
        steps = self.trace.steps if of is None else self.kernel(of).steps
        before, after = self.known(value["before"]), self.known(value["after"])
        line = str(value.get("line", ""))
        steps.append(Step(str(value["stage"]), str(value["rule"]), before, after, line))

    def after_pass(self, value: dict[str, Any]) -> None:
        kernel, name = self.kernel(value["of"]), str(value["name"])
        kernel.passes.append(Pass(name, self.known(value["root"]), len(kernel.steps)))
        self.add("pass", name, value, kernel=kernel.number)

    def made(self, value: dict[str, Any]) -> None:
        kernel = self.kernel(value["of"])
        kernel.linear = [self.known(number) for number in value["linear"]]
        self.making[kernel.number] = self.add("compile", "", value, kernel=kernel.number)
        if isinstance(value.get("machine"), dict):
            self.add("pass", "machine code", value | value["machine"], kernel=kernel.number)

    def file(self, value: dict[str, Any]) -> None:
        self.trace.files[str(value["name"])] = str(value["text"])

    def schedule(self, value: list[dict[str, Any]]) -> None:
        writers: dict[int, Kernel] = {}
        for item in value:
            kernel = self.kernel(item["ast"])
            buffers = [int(number) for number in item["buffers"]]
            outputs = {int(place) for place in item["outputs"]}
            for place, number in enumerate(buffers):
                writer = writers.get(number)
                memory = self.trace.memory.get(number, {"readers": []})
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

    def program(self, value: dict[str, Any]) -> None:
        kernel = self.kernel(value["ast"])
        kernel.name, kernel.device = str(value["name"]), str(value["device"])
        kernel.opts, kernel.source = [str(opt) for opt in value["opts"]], str(value["source"])
        kernel.peaks = [float(peak) for peak in value.get("peaks", [])]
        if (event := self.making.pop(kernel.number, None)) is not None:
            event |= {"name": kernel.name, **self.asked.pop(kernel.name, {})}

    def run(self, value: dict[str, Any]) -> None:
        kernel = self.kernel(value["ast"])
        kernel.name, kernel.device = kernel.name or str(value["name"]), str(value["device"])
        numbers = {name: value[name] for name in ("start", "microseconds", "operations", "bytes")}
        _check_numbers(numbers)
        kernel.runs.append(numbers)
        kernel.asked = kernel.asked or str(value.get("asked") or "")
        name, facts = str(value["name"]), {"kernel": kernel.number, "device": kernel.device}
        self.add("kernel", name, value, **facts)
        for number, (start, microseconds) in enumerate(value.get("threads", [])):
            share = {"start": start, "microseconds": microseconds}
            self.add("share", name, value | share, **facts, worker=number)

    def phase(self, value: dict[str, Any]) -> None:
        name, phase = str(value["name"]), str(value["phase"])
        if phase == "compile":  # what is told of it is about many at once; see `made`
            self.asked[name] = {fact: str(value[fact] or "") for fact in ("line", "asked", "why")}
        else:
            self.add(phase, name, value)

    def buffer(self, value: dict[str, Any]) -> None:
        numbers = {name: value[name] for name in ("number", "bytes", "start")}
        _check_numbers(numbers)
        facts = {"device": str(value["device"]), "end": None, "writer": None}
        self.trace.memory[numbers["number"]] = numbers | facts | {"readers": list[int]()}

    def freed(self, value: dict[str, Any]) -> None:
        _check_numbers(value)
        self.trace.memory[value["number"]]["end"] = value["start"]

    def jit(self, value: dict[str, Any]) -> None:
        texts, lists = ("name", "why", "change", "plain"), ("arguments", "takes", "baked")
        found: dict[str, Any] = {name: str(value[name] or "") for name in texts}
        found |= {name: [str(one) for one in value[name]] for name in lists}
        found["guards"] = [[str(kind), str(path), str(now)] for kind, path, now in value["guards"]]
        line = None if value["line"] is None else place_of(str(value["line"]))._asdict()
        self.trace.jits.append(found | {"line": line, "arena": arena_of(value["graph"])})
        self.add("mark", f"traced {value['name']}", {"start": value["start"]})

    def error(self, value: dict[str, Any]) -> None:
        lines = [place_of(str(line))._asdict() for line in value["lines"]]
        texts = {"name": str(value["name"]), "text": str(value["text"])}
        self.trace.errors.append(texts | {"lines": lines})
        self.add("mark", str(value["name"]), value)

    def mark(self, value: dict[str, Any]) -> None:
        self.add("mark", str(value["name"]), value)


def _note_later(trace: Trace, memory: dict[str, Any]) -> None:
    """Who alone reads this memory, where the program asked for it before that was planned; what is
    read more often than written would be computed more often, too.
    """
    if memory["writer"] is None or len(memory["readers"]) != 1:
        return
    writer, (reader,) = trace.kernels[memory["writer"]], memory["readers"]
    known = reader in (writer.number, *writer.readers, *writer.later)
    if writer.reasons == ["output"] and len(writer.runs) == len(trace.kernels[reader].runs):
        writer.later += [] if known else [reader]


def _check_numbers(numbers: dict[str, Any]) -> None:
    for name, value in numbers.items():
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} is no number")


_PLAIN: Final = (
    "node file graph rewrite made schedule program run buffer freed jit error mark phase"
)
_TAKES: Final[dict[str, Callable[[_Reader, Any], None]]] = {
    "process": _Reader.by, "pass": _Reader.after_pass,
    **{name: getattr(_Reader, name) for name in _PLAIN.split()},
}  # fmt: skip
