"""The native replayer as LLVM IR: an interpreter of steps over Python's objects, by its C API.

A program (see `program.py`) is a head and a list of records of `RECORD` words: the number of an
operation, three operands and where to go on if it fails (0: nowhere, the call is a miss). Registers
hold objects. Those that must outlive a call into Python are owned, and let go at the very end:
letting go may run any code, so nothing is looked at after it, and the lock is back by then.
Up to the first `put` nothing has been changed, so a step may fail; from there on none can.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from torpor.capture.looking import LOOKING
from torpor.capture.making import MAKING, OWNING
from torpor.device.pool import LENT
from torpor.device.words import written_out

RECORD: Final = 5
HEAD: Final = (
    "count", "runs", "executor", "execute", "long", "lend", "take_back",
    "lent", "threads", "release", "arguments", "registers", "owned", "words",
)  # fmt: skip

# name: result and arguments of each function of the C API
API: Final = {
    "PyCell_Get": "ptr (ptr)",
    "PyContextVar_Get": "i32 (ptr, ptr, ptr)",
    "PyDict_GetItemWithError": "ptr (ptr, ptr)",
    "PyDict_Next": "i32 (ptr, ptr, ptr, ptr)",
    "PyDict_Size": "i64 (ptr)",
    "PyErr_Clear": "void ()",
    "PyErr_Fetch": "void (ptr, ptr, ptr)",
    "PyErr_Occurred": "ptr ()",
    "PyErr_Restore": "void (ptr, ptr, ptr)",
    "PyEval_RestoreThread": "void (ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyFunction_GetCode": "ptr (ptr)",
    "PyFunction_GetDefaults": "ptr (ptr)",
    "PyFunction_GetKwDefaults": "ptr (ptr)",
    "PyList_GetItem": "ptr (ptr, i64)",
    "PyList_New": "ptr (i64)",
    "PyList_SetItem": "i32 (ptr, i64, ptr)",
    "PyList_Size": "i64 (ptr)",
    "PyLong_AsSsize_t": "i64 (ptr)",
    "PyLong_FromLongLong": "ptr (i64)",
    "PyObject_CallNoArgs": "ptr (ptr)",
    "PyObject_GenericGetDict": "ptr (ptr, ptr)",
    "PyObject_RichCompareBool": "i32 (ptr, ptr, i32)",
    "PyObject_Vectorcall": "ptr (ptr, ptr, i64, ptr)",
    "PyTuple_GetItem": "ptr (ptr, i64)",
    "PyTuple_New": "ptr (i64)",
    "PyTuple_SetItem": "i32 (ptr, i64, ptr)",
    "PyTuple_Size": "i64 (ptr)",
    "PyType_GenericAlloc": "ptr (ptr, i64)",
    "Py_DecRef": "void (ptr)",
    "Py_IncRef": "void (ptr)",
}


STATIC: Final = {"none": "_Py_NoneStruct", "true": "_Py_TrueStruct", "false": "_Py_FalseStruct"}


class Offsets(NamedTuple):
    """Offsets of slots that the text names, in bytes."""

    programs: int  # of a jitted function's tuple of programs
    op: int  # of a node's slots
    src: int
    arg: int
    version: int  # of a class: which one it is


class Objects(NamedTuple):
    """Objects that the text finds in a table, since they lie elsewhere in each process."""

    active: Any  # the dictionary of who watches, by thread
    general: Any  # the Python function for calls that are not replayed here
    buffer_op: Any
    reshape_op: Any
    leaf_op: Any
    severed: Any  # the arg of a leaf whose graph is gone


OPERATIONS: Final = {**LOOKING, **MAKING}

_HELPERS: Final = """
define internal void @own(ptr %owned, ptr %count.p, ptr %o) {{
  %count = load i64, ptr %count.p
  %owned[%count] = ptr %o
  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  ret void
}}

define internal void @word(ptr %words, i64 %to, ptr %tuple, i64 %place) {{
  %item = call ptr @PyTuple_GetItem(ptr %tuple, i64 %place)
  %value = call i64 @PyLong_AsSsize_t(ptr %item)
  %words[%to] = i64 %value
  ret void
}}
"""

_REPLAY: Final = """
define internal ptr @replay(ptr %program, ptr %arguments, ptr %names) {{
start:
  %cursor = alloca i64
  %key.p = alloca ptr
  %item.p = alloca ptr
  %locked = alloca i1
  %owned.count = alloca i64
  %error.kind = alloca ptr
  %error.value = alloca ptr
  %error.trace = alloca ptr
  %registers.n = i64 %program[{HEAD_registers}]
  %registers = alloca ptr, i64 %registers.n
  %owned.n = i64 %program[{HEAD_owned}]
  %owned = alloca ptr, i64 %owned.n
  %words.n = i64 %program[{HEAD_words}]
  %words = alloca i64, i64 %words.n
  store i1 0, ptr %locked
  store i64 0, ptr %owned.count
  %first = at %program[{HEAD_code}]
  br label %step
step:
  %here = phi ptr [%first, %start], [%after, %next], [%other, %elsewhere]
  %number = load i64, ptr %here
  %x = i64 %here[1]
  %y = i64 %here[2]
  %z = i64 %here[3]
  %at.x = at %registers[%x]
  %at.y = at %registers[%y]
  %at.z = at %registers[%z]
  switch i64 %number, label %missed [
{table}
  ]
{blocks}
owning:
  %fresh = phi ptr {owning}
  call void @own(ptr %owned, ptr %owned.count, ptr %fresh)
  br label %next
next:
  %after = at %here[{RECORD}]
  br label %step
missed:
  call void @PyErr_Clear()
  %other = ptr %here[4]
  if eq ptr %other, null then %leaving else %elsewhere
elsewhere:
  br label %step
raised:
  call void @PyErr_Fetch(ptr %error.kind, ptr %error.value, ptr %error.trace)
  br label %leaving
leaving:
  %gives = phi ptr [%do.return.o, %do.return], [inttoptr (i64 1 to ptr), %missed], [null, %raised]
  %is.locked = load i1, ptr %locked
  br i1 %is.locked, label %unlock, label %letting
unlock:
  %release = ptr %program[{HEAD_release}]
  %unlocked = call ptr @PyObject_CallNoArgs(ptr %release)
  if eq ptr %unlocked, null then %odd else %freed
odd:
  call void @PyErr_Clear()
  br label %letting
freed:
  call void @Py_DecRef(ptr %unlocked)
  br label %letting
letting:
  %left = load i64, ptr %owned.count
  if ne i64 %left, 0 then %let else %left.all
let:
  %left.less = sub i64 %left, 1
  store i64 %left.less, ptr %owned.count
  %gone = ptr %owned[%left.less]
  call void @Py_DecRef(ptr %gone)
  br label %letting
left.all:
  if eq ptr %gives, null then %again else %over
again:
  %kind.again = load ptr, ptr %error.kind
  %value.again = load ptr, ptr %error.value
  %trace.again = load ptr, ptr %error.trace
  call void @PyErr_Restore(ptr %kind.again, ptr %value.again, ptr %trace.again)
  br label %over
over:
  ret ptr %gives
}}
"""

_ENTRY: Final = """
define void @torpor_replayer_tell(ptr %objects) {{
  %all = load [{objects} x ptr], ptr %objects
  store [{objects} x ptr] %all, ptr @objects
  ret void
}}

define ptr @torpor_replayer(ptr %self, ptr %arguments, i64 %count, ptr %names) {{
start:
  if eq ptr %names, null then %unwatched else %named
named:
  %names.n = call i64 @PyTuple_Size(ptr %names)
  br label %unwatched
unwatched:
  %options = phi i64 [0, %start], [%names.n, %named]
  %given = add i64 %count, %options
  %active = load ptr, ptr {active}
  %watchers = call i64 @PyDict_Size(ptr %active)
  %quiet = icmp eq i64 %watchers, 0
  %programs.p = getelementptr i8, ptr %self, i64 {programs}
  %programs = load ptr, ptr %programs.p
  %known = icmp ne ptr %programs, null
  %able = and i1 %quiet, %known
  br i1 %able, label %choose, label %general
choose:
  call void @Py_IncRef(ptr %programs)
  %programs.n = call i64 @PyTuple_Size(ptr %programs)
  br label %each
each:
  %i = phi i64 [0, %choose], [%i.next, %unfit]
  if slt i64 %i, %programs.n then %ask else %none
ask:
  %address.o = call ptr @PyTuple_GetItem(ptr %programs, i64 %i)
  %address = call i64 @PyLong_AsSsize_t(ptr %address.o)
  %program = inttoptr i64 %address to ptr
  %runs = i64 %program[{HEAD_runs}]
  %taken = i64 %program[{HEAD_arguments}]
  %allowed = icmp ne i64 %runs, 0
  %fits = icmp eq i64 %taken, %given
  %try = and i1 %allowed, %fits
  br i1 %try, label %attempt, label %unfit
attempt:
  %found = call ptr @replay(ptr %program, ptr %arguments, ptr %names)
  if eq ptr %found, inttoptr (i64 1 to ptr) then %unfit else %done
unfit:
  %i.next = add i64 %i, 2
  br label %each
done:
  call void @Py_DecRef(ptr %programs)
  ret ptr %found
none:
  call void @Py_DecRef(ptr %programs)
  br label %general
general:
  %all = add i64 %given, 1
  %passed = alloca ptr, i64 %all
  store ptr %self, ptr %passed
  br label %copying
copying:
  %c = phi i64 [0, %general], [%c.next, %copy]
  %c.next = add i64 %c, 1
  if slt i64 %c, %given then %copy else %calling
copy:
  %from = ptr %arguments[%c]
  %passed[%c.next] = ptr %from
  br label %copying
calling:
  %with.self = add i64 %count, 1
  %function = load ptr, ptr {general}
  %answer = call ptr @PyObject_Vectorcall(
    ptr %function, ptr %passed, i64 %with.self, ptr %names)
  ret ptr %answer
}}
"""

_SHARED: Final = frozenset({
    "arguments", "cursor", "item.p", "key.p", "locked", "missed", "names", "next", "owned",
    "owned.count", "owning", "leaving", "program", "raised", "registers", "words", "x", "y", "z",
})  # fmt: skip
_NAME: Final = re.compile(r"%([a-z][a-z.]*)|^([a-z.]+):", re.MULTILINE)

# How an operation ends whose text does not say where it goes on, by the name in its last line.
_ENDS: Final = {
    "%ok": "\n  br i1 %ok, label %next, label %missed",
    "%found": """
  store ptr %found, ptr %at.x
  %broken = icmp eq ptr %found, null
  br i1 %broken, label %raised, label %owning""",
}


def _ended(text: str) -> str:
    """The text of an operation with its last branch."""
    last, *_ = text.rpartition("\n")[2].split()
    return text if last in ("br", "if") else text + _ENDS.get(last, "\n  br label %next")


def _block(name: str, text: str) -> str:
    """The text of an operation with names that only it has."""

    def own(match: re.Match[str]) -> str:
        local = match[1] or match[2]
        if local not in _SHARED and not local.startswith(("at.", "do.")):
            local = f"do.{name}.{local}"
        return f"%{local}" if match[1] else f"{local}:"

    return f"do.{name}:" + _NAME.sub(own, _ended(text))


def number_of(operation: str) -> int:
    """What stands for an operation in a record."""
    return [*OPERATIONS].index(operation)


def replayer_text(offsets: Offsets) -> str:
    """IR of `torpor_replayer`, a method with the convention of METH_FASTCALL and METH_KEYWORDS."""
    places = {f"HEAD_{name}": number for number, name in enumerate(HEAD)}
    places |= {f"LENT_{name}": number for number, name in enumerate(LENT)}
    named: dict[str, int | str] = {**offsets._asdict(), **places}
    named |= {"RECORD": RECORD, "HEAD_code": len(HEAD)}
    for number, name in enumerate(Objects._fields):
        named[name] = f"getelementptr (ptr, ptr @objects, i64 {number})"
    named |= {name: f"@{symbol}" for name, symbol in STATIC.items()}
    named["objects"] = len(Objects._fields)
    declared = [f"@objects = internal global [{len(Objects._fields)} x ptr] zeroinitializer"]
    declared += [f"@{symbol} = external global i8" for symbol in STATIC.values()]
    for name, kind in API.items():
        result, _, taken = kind.partition(" ")
        declared.append(f"declare {result} @{name}{taken}")
    table = "\n".join(f"    i64 {n}, label %do.{name}" for n, name in enumerate(OPERATIONS))
    blocks = "\n".join(_block(name, text.format(**named)) for name, text in OPERATIONS.items())
    owning = ", ".join(f"[%do.{name}.found, %do.{name}]" for name in OWNING)
    replay = _REPLAY.format(**named, table=table, blocks=blocks, owning=owning)
    texts = [*declared, _HELPERS.format(), replay, _ENTRY.format(**named)]
    return written_out("\n".join(texts))
