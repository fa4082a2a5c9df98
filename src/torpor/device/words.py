"""Torpor's own native code is text in a small subset of Python, whose values are words of 64 bits.

A word is a signed number or an address; `a[n]` is the n-th word behind the address `a`. There are
functions, names, assignments, `while`, `for` over a `range`, `if`, `break`, `continue`, `return`,
arithmetic (`//`, `%` and `>>` are for what is not negative), comparisons, `and`, `or`, `not`, and
calls: of functions of the text, of addresses, and of the process's own functions by their names.
`match` tells numbers apart, or names, which stand for their places among the cases. `raise name`
goes on behind `except name` of a `try` around it; an `assert` that fails, behind `except missed`.
`name = words(n)` outside of functions are n words of memory.

    at(a, n)    the address of a[n]             room(n)     n words, until the function returns
    byte(a)     the byte at an address          half(a)     the 32 bits at an address
    min, max    of two numbers                  low(x)      what a C function gives as an `int`
    atomic_load(a), atomic_store(a, x)          in one order with all others; what was at `a`
    atomic_add(a, x), atomic_least(a, x)        before is their value
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

_BINARY: Final[dict[type, str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "udiv", ast.Mod: "urem",
    ast.LShift: "shl", ast.RShift: "lshr", ast.BitAnd: "and", ast.BitOr: "or",
}  # fmt: skip
_COMPARED: Final[dict[type, str]] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge",
}  # fmt: skip
VERSION: Final = "1"  # of what is made of a text: part of keys on disk
_DEFINED: Final = re.compile(r"^define .*@(\w+)\(", re.MULTILINE)


class Text(NamedTuple):
    """Native code: functions and memory, the numbers that it has names for, and IR besides."""

    text: str
    numbers: Mapping[str, int] = {}
    ir: str = ""

    def written_out(self) -> str:
        """All of it as LLVM IR; whatever else it names is the process's."""
        known, parts = {*_DEFINED.findall(self.ir)}, [self.ir]
        outside: dict[str, str] = {}
        for node in ast.parse(self.text).body:
            match node:
                case ast.FunctionDef(name=name):
                    parts.append(_Function(node, self.numbers, outside).text())
                case ast.Assign([ast.Name(name)], ast.Call(_, [ast.Name(count)])):
                    memory = f"[{self.numbers[count]} x i64] zeroinitializer"
                    parts.append(f"@{name} = internal global {memory}")
            known.add(name)
        return "\n".join([*parts, *(line for name, line in outside.items() if name not in known)])


class _Function:
    """Writes one function, and into `outside` what declares things that it names."""

    def __init__(
        self, tree: ast.FunctionDef, numbers: Mapping[str, int], outside: dict[str, str]
    ) -> None:
        self.tree, self.numbers, self.outside = tree, numbers, outside
        self.taken = [argument.arg for argument in tree.args.args]
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        stored = [node.id for node in names if isinstance(node.ctx, ast.Store)]
        self.own = dict.fromkeys([*self.taken, *stored])
        self.lines: list[str] = []
        self.count = 0
        self.reached = True  # whether a run comes to what is written next
        self.labels: dict[str, str] = {}  # where `break`, `continue` and each `raise` go

    def text(self) -> str:
        self.all(self.tree.body)
        self.end("ret i64 0")
        head = (
            f"define i64 @{self.tree.name}({', '.join(f'i64 %{name}' for name in self.taken)}) {{"
        )
        start = [f"  %{name}.p = alloca i64" for name in self.own]
        start += [f"  store i64 %{name}, ptr %{name}.p" for name in self.taken]
        return "\n".join([head, *start, *self.lines, "}"])

    # --- lines ------------------------------------------------------------------------------------
    def put(self, line: str) -> None:
        if self.reached:
            self.lines.append(f"  {line}")

    def made(self, line: str) -> str:
        """The name of what a line gives."""
        self.count += 1
        self.put(f"%.{self.count} = {line}")
        return f"%.{self.count}"

    def end(self, line: str) -> None:
        """The last line of a block."""
        self.put(line)
        self.reached = False

    def go(self, label: str) -> None:
        self.end(f"br label %{label}")

    def some(self, count: int) -> list[str]:
        """Labels that are not used yet."""
        self.count += count
        return [f"l{self.count - n}" for n in range(count)]

    def label(self, name: str) -> None:
        """What is written next is where this label is."""
        self.go(name)
        self.lines.append(f"{name}:")
        self.reached = True

    # --- values -----------------------------------------------------------------------------------
    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(number)):
                return str(int(number))
            case ast.Name(id=name):
                return self.named(name)
            case ast.BinOp(left, operation, right):
                operands = f"{self.value(left)}, {self.value(right)}"
                return self.made(f"{_BINARY[type(operation)]} i64 {operands}")
            case ast.UnaryOp(ast.USub(), operand):
                return self.made(f"sub i64 0, {self.value(operand)}")
            case ast.IfExp(test, one, other):
                operands = f"i64 {self.value(one)}, i64 {self.value(other)}"
                return self.made(f"select i1 {self.holds(test)}, {operands}")
            case ast.Subscript():
                return self.made(f"load i64, ptr {self.place(node)}")
            case ast.Call(function, arguments):
                return self.call(function, [*map(self.value, arguments)])
            case ast.Compare(ops=[_]):
                return self.made(f"zext i1 {self.holds(node)} to i64")
            case _:
                raise SyntaxError(f"{ast.unparse(node)} is no word")

    def named(self, name: str) -> str:
        if name in self.own:
            return self.made(f"load i64, ptr %{name}.p")
        if name in self.numbers:
            return str(self.numbers[name])
        self.outside.setdefault(name, f"@{name} = external global i8")
        return f"ptrtoint (ptr @{name} to i64)"

    def pointer(self, value: str) -> str:
        return self.made(f"inttoptr i64 {value} to ptr")

    def place(self, node: ast.expr) -> str:
        """Where a name's value or a word of memory is."""
        match node:
            case ast.Name(name):
                return f"%{name}.p"
            case ast.Subscript(base, number):
                start = self.pointer(self.value(base))
                return self.made(f"getelementptr i64, ptr {start}, i64 {self.value(number)}")
            case _:
                raise SyntaxError(f"{ast.unparse(node)} is no place of a word")

    def call(self, function: ast.expr, values: Sequence[str]) -> str:
        given = ", ".join(f"i64 {value}" for value in values)
        if not isinstance(function, ast.Name) or function.id in self.own:
            return self.made(f"call i64 {self.pointer(self.value(function))}({given})")
        name = function.id
        if (known := _KNOWN.get(name)) is not None:
            return known(self, *values)
        kinds = ", ".join(["i64"] * len(values))
        self.outside[name] = f"declare i64 @{name}({kinds})"
        return self.made(f"call i64 @{name}({given})")

    # --- conditions -------------------------------------------------------------------------------
    def holds(self, node: ast.expr) -> str:
        """A comparison as a bit; of anything else whether it is not 0."""
        match node:
            case ast.Compare(left, [operation], [right]):
                operands = f"{self.value(left)}, {self.value(right)}"
                return self.made(f"icmp {_COMPARED[type(operation)]} i64 {operands}")
            case _:
                return self.made(f"icmp ne i64 {self.value(node)}, 0")

    def branch(self, node: ast.expr, yes: str, no: str) -> None:
        """Go to one label where a condition holds, else to another."""
        match node:
            case ast.Constant(True):
                self.go(yes)
            case ast.BoolOp(operation, [*values, last]):
                for value in values:
                    (further,) = self.some(1)
                    both = isinstance(operation, ast.And)
                    self.branch(value, *((further, no) if both else (yes, further)))
                    self.label(further)
                self.branch(last, yes, no)
            case ast.UnaryOp(ast.Not(), operand):
                self.branch(operand, no, yes)
            case _:
                self.end(f"br i1 {self.holds(node)}, label %{yes}, label %{no}")

    # --- statements -------------------------------------------------------------------------------
    def all(self, statements: Sequence[ast.stmt]) -> None:
        for node in statements:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(sources)):
                for target, value in zip(targets, [*map(self.value, sources)], strict=True):
                    self.assign(target, value)
            case ast.Assign(targets, source):
                value = self.value(source)
                for target in targets:
                    self.assign(target, value)
            case ast.AugAssign(target, operation, operand):
                place = self.place(target)
                before = self.made(f"load i64, ptr {place}")
                operands = f"{before}, {self.value(operand)}"
                after = self.made(f"{_BINARY[type(operation)]} i64 {operands}")
                self.put(f"store i64 {after}, ptr {place}")
            case ast.Expr(value=ast.Call() as call):
                self.value(call)
            case ast.Return(source):
                self.end(f"ret i64 {0 if source is None else self.value(source)}")
            case ast.Break() | ast.Continue():
                self.go(self.labels[type(node).__name__])
            case ast.Raise(ast.Name(name)):
                self.go(self.labels[name])
            case ast.Assert(test):
                (further,) = self.some(1)
                self.branch(test, further, self.labels["missed"])
                self.label(further)
            case ast.Pass():
                pass
            case _:
                self.compound(node)

    def assign(self, target: ast.expr, value: str) -> None:
        self.put(f"store i64 {value}, ptr {self.place(target)}")

    def compound(self, node: ast.stmt) -> None:
        before = self.labels
        match node:
            case ast.If(test, body, otherwise):
                yes, no, after = self.some(3)
                self.branch(test, yes, no)
                for label, statements in ((yes, body), (no, otherwise)):
                    self.label(label)
                    self.all(statements)
                    self.go(after)
                self.label(after)
            case ast.While(test, body, []):
                look, inside, after = self.some(3)
                self.label(look)
                self.branch(test, inside, after)
                self.label(inside)
                self.labels = {**before, "Break": after, "Continue": look}
                self.all(body)
                self.go(look)
                self.label(after)
            case ast.For(ast.Name(name), ast.Call(_, arguments), body, []):
                self.counted(name, [*map(self.value, arguments)], body)
            case ast.Try(body, handlers, [], []):
                names: Any = [handler.type for handler in handlers]
                after, *labels = self.some(1 + len(names))
                named = {name.id: to for name, to in zip(names, labels, strict=True)}
                self.labels = {**before, **named}
                self.all(body)
                for handler, label in zip(handlers, labels, strict=True):
                    self.go(after)
                    self.label(label)
                    self.all(handler.body)
                self.label(after)
            case ast.Match(subject, cases):
                value, (after, *labels) = self.value(subject), self.some(1 + len(cases))
                numbers = [case.pattern.value.value for case in cases]  # type: ignore[attr-defined]
                known = [n if isinstance(one, str) else one for n, one in enumerate(numbers)]
                pairs = zip(known, labels, strict=True)
                table = " ".join(f"i64 {n}, label %{to}" for n, to in pairs)
                self.end(f"switch i64 {value}, label %{after} [{table}]")
                for case, label in zip(cases, labels, strict=True):
                    self.label(label)
                    self.all(case.body)
                    self.go(after)
                self.label(after)
            case _:
                raise SyntaxError(f"{ast.unparse(node)} has no meaning in native code")
        self.labels = before

    def counted(self, name: str, bounds: Sequence[str], body: Sequence[ast.stmt]) -> None:
        """A `for` over a range; the bounds are looked at once."""
        first, last, step = (*([] if len(bounds) > 1 else ["0"]), *bounds, "1")[:3]
        look, inside, further, after = self.some(4)
        self.put(f"store i64 {first}, ptr %{name}.p")
        self.label(look)
        more = self.made(f"icmp slt i64 {self.named(name)}, {last}")
        self.end(f"br i1 {more}, label %{inside}, label %{after}")
        self.label(inside)
        self.labels = {**self.labels, "Break": after, "Continue": further}
        self.all(body)
        self.label(further)
        following = self.made(f"add i64 {self.named(name)}, {step}")
        self.put(f"store i64 {following}, ptr %{name}.p")
        self.go(look)
        self.label(after)


# --- what has a meaning of its own ----------------------------------------------------------------
def _narrow(write: _Function, address: str, bits: int) -> str:
    found = write.made(f"load i{bits}, ptr {write.pointer(address)}")
    return write.made(f"zext i{bits} {found} to i64")


def _low(write: _Function, value: str) -> str:
    low = write.made(f"trunc i64 {value} to i32")
    return write.made(f"sext i32 {low} to i64")


def _at(write: _Function, base: str, number: str) -> str:
    place = write.made(f"getelementptr i64, ptr {write.pointer(base)}, i64 {number}")
    return write.made(f"ptrtoint ptr {place} to i64")


def _room(write: _Function, count: str) -> str:
    place = write.made(f"alloca i64, i64 {count}")
    return write.made(f"ptrtoint ptr {place} to i64")


def _chosen(write: _Function, one: str, other: str, comparison: str) -> str:
    holds = write.made(f"icmp {comparison} i64 {one}, {other}")
    return write.made(f"select i1 {holds}, i64 {one}, i64 {other}")


def _changed(write: _Function, address: str, value: str, operation: str) -> str:
    return write.made(f"atomicrmw {operation} ptr {write.pointer(address)}, i64 {value} seq_cst")


def _loaded(write: _Function, address: str) -> str:
    return write.made(f"load atomic i64, ptr {write.pointer(address)} seq_cst, align 8")


def _stored(write: _Function, address: str, value: str) -> str:
    write.put(f"store atomic i64 {value}, ptr {write.pointer(address)} seq_cst, align 8")
    return value


_KNOWN: Final[dict[str, Callable[..., str]]] = {
    "at": _at, "room": _room, "low": _low,
    "byte": partial(_narrow, bits=8), "half": partial(_narrow, bits=32),
    "min": partial(_chosen, comparison="slt"), "max": partial(_chosen, comparison="sgt"),
    "atomic_load": _loaded, "atomic_store": _stored,
    "atomic_add": partial(_changed, operation="add"),
    "atomic_least": partial(_changed, operation="umin"),
}  # fmt: skip
