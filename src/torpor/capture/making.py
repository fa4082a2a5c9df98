"""Operations of the native replayer that take, run, make and change something.

For each its name and its text, as in `looking.py`. Those of `OWNING` have made `%found`, or taken
it over, and go on to `owning`, which has it let go in the end: so does a text that ends with
`%found`, which is put into register x, unless there is none since Python has raised an error.
"""

from __future__ import annotations

from typing import Final

# The text of two operations, which differ in the function that they call.
_FILL: Final = """
  %o = load ptr, ptr %at.x
  %item = load ptr, ptr %at.z
  call void @Py_IncRef(ptr %item)
  %failed = call i32 @SET(ptr %o, i64 %y, ptr %item)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %next, label %raised"""

# The run: the pool is lent where several threads may be used, by its own words if these
# say how (see `pool.LENT`), else by its method.
_LEND: Final = """
  %executor = i64 %program[{HEAD_executor}]
  store i64 %executor, ptr %words
  %words[1] = i64 0
  %words[2] = i64 0
  %words[3] = i64 1
  %words[4] = i64 0
  %lend = ptr %program[{HEAD_lend}]
  if eq ptr %lend, null then %run.ready else %run.quick
run.quick:
  %known = ptr %program[{HEAD_lent}]
  %wanted = i64 %program[{HEAD_threads}]
  %lent.threads = i64 %known[{LENT_threads}]
  if eq i64 %wanted, %lent.threads then %run.where else %run.lend
run.where:
  %core.of = ptr %known[{LENT_core_of}]
  if eq ptr %core.of, null then %run.acquire else %run.core
run.core:
  %core = call i32 %core.of()
  %core.n = sext i32 %core to i64
  %avoided = i64 %known[{LENT_core}]
  if eq i64 %core.n, %avoided then %run.acquire else %run.lend
run.acquire:
  %acquire = ptr %known[{LENT_acquire}]
  %return = ptr %known[{LENT_release}]
  store ptr {false}, ptr %item.p
  %free = call ptr @PyObject_Vectorcall(ptr %acquire, ptr %item.p, i64 1, ptr null)
  if eq ptr %free, null then %raised else %run.acquired
run.acquired:
  call void @Py_DecRef(ptr %free)
  if eq ptr %free, {true} then %run.take else %run.ready
run.take:
  %lent.state = i64 %known[{LENT_state}]
  %lent.run = i64 %known[{LENT_run}]
  %lent.helpers = i64 %known[{LENT_helpers}]
  %words[1] = i64 %lent.state
  %words[2] = i64 %lent.run
  %words[3] = i64 %lent.threads
  %words[4] = i64 %lent.helpers
  br label %run.ready
run.lend:
  %lent = call ptr @PyObject_CallNoArgs(ptr %lend)
  if eq ptr %lent, null then %raised else %run.lent
run.lent:
  call void @own(ptr %owned, ptr %owned.count, ptr %lent)
  if eq ptr %lent, {none} then %run.ready else %run.pool
run.pool:
  call void @word(ptr %words, i64 1, ptr %lent, i64 0)
  call void @word(ptr %words, i64 2, ptr %lent, i64 1)
  call void @word(ptr %words, i64 3, ptr %lent, i64 2)
  call void @word(ptr %words, i64 4, ptr %lent, i64 3)
  %back = ptr %program[{HEAD_take_back}]
  br label %run.ready"""

# The executor, without Python's lock if it takes long; the pool is given back.
_LAUNCH: Final = """
run.ready:
  %give.back = phi ptr [null, %do.run], [null, %run.acquired], [%return, %run.take],
    [null, %run.lent], [%back, %run.pool]
  %taken = icmp ne ptr %give.back, null
  %execute = ptr %program[{HEAD_execute}]
  %long = i64 %program[{HEAD_long}]
  if ne i64 %long, 0 then %run.free else %run.held
run.held:
  %held.failed = call i64 %execute(ptr %words)
  br label %run.done
run.free:
  %thread = call ptr @PyEval_SaveThread()
  %free.failed = call i64 %execute(ptr %words)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %run.done
run.done:
  %run.failed = phi i64 [%held.failed, %run.held], [%free.failed, %run.free]
  br i1 %taken, label %run.give, label %run.check
run.give:
  %given = call ptr @PyObject_CallNoArgs(ptr %give.back)
  if eq ptr %given, null then %raised else %run.gave
run.gave:
  call void @Py_DecRef(ptr %given)
  br label %run.check"""

# A failed check is a miss: nothing has been changed, and Python finds out what it means.
_CHECK: Final = """
run.check:
  if eq i64 %run.failed, 0 then %run.counting else %missed
run.counting:
  %run.count = i64 %program[{HEAD_count}]
  %run.counted = add i64 %run.count, 1
  %program[{HEAD_count}] = i64 %run.counted
  br label %next"""

MAKING: Final = {
    "own": """
  %o = load ptr, ptr %at.x
  call void @Py_IncRef(ptr %o)
  call void @own(ptr %owned, ptr %owned.count, ptr %o)""",
    "lock": """
  %acquire = inttoptr i64 %x to ptr
  store ptr {false}, ptr %item.p
  %found = call ptr @PyObject_Vectorcall(ptr %acquire, ptr %item.p, i64 1, ptr null)
  if eq ptr %found, null then %raised else %lock.found
lock.found:
  call void @Py_DecRef(ptr %found)
  %ok = icmp eq ptr %found, {true}
  store i1 %ok, ptr %locked
  br i1 %ok, label %next, label %missed""",
    "buffer": """
  %top = load ptr, ptr %at.y
  br label %buffer.look
buffer.look:
  %node = phi ptr [%top, %do.buffer], [%below, %buffer.below]
  %op.p = getelementptr i8, ptr %node, i64 {op}
  %arg.p = getelementptr i8, ptr %node, i64 {arg}
  %op = load i64, ptr %op.p
  %arg = load ptr, ptr %arg.p
  store ptr %arg, ptr %at.x
  %arg.n = ptrtoint ptr %arg to i64
  %buffer.op = load i64, ptr {buffer_op}
  if eq i64 %op, %buffer.op then %next else %buffer.over
buffer.over:
  %reshape.op = load i64, ptr {reshape_op}
  %leaf.op = load i64, ptr {leaf_op}
  %none.left = load i64, ptr {severed}
  %shaped = icmp eq i64 %op, %reshape.op
  %leaf = icmp eq i64 %op, %leaf.op
  %cut = icmp eq i64 %arg.n, %none.left
  %severed = and i1 %leaf, %cut
  %passes = or i1 %shaped, %severed
  br i1 %passes, label %buffer.below, label %missed
buffer.below:
  %src.p = getelementptr i8, ptr %node, i64 {src}
  %src = load ptr, ptr %src.p
  %below = call ptr @PyTuple_GetItem(ptr %src, i64 0)
  %there = icmp ne ptr %below, null
  br i1 %there, label %buffer.look, label %missed""",
    "word": """
  %words[%x] = i64 %y""",
    "address": """
  %o = load ptr, ptr %at.y
  %slot = getelementptr i8, ptr %o, i64 %z
  %value = load ptr, ptr %slot
  %address = call i64 @PyLong_AsSsize_t(ptr %value)
  %words[%x] = i64 %address
  %wrong = add i64 %address, 1
  %ok = icmp ugt i64 %wrong, 1""",
    # Register x: one of the results in the list of register y that nobody else holds.
    "take": """
  %known = load ptr, ptr %at.y
  %alone = load ptr, ptr %at.z
  %candidates = call i64 @PyList_Size(ptr %known)
  br label %take.one
take.one:
  %candidate = phi i64 [0, %do.take], [%candidate.next, %take.other]
  if slt i64 %candidate, %candidates then %take.look else %missed
take.look:
  %parts = call ptr @PyList_GetItem(ptr %known, i64 %candidate)
  %count = call i64 @PyList_Size(ptr %parts)
  %usual = call i64 @PyList_Size(ptr %alone)
  %candidate.next = add i64 %candidate, 1
  if eq i64 %count, %usual then %take.part else %take.other
take.part:
  %part = phi i64 [0, %take.look], [%part.next, %take.held]
  if slt i64 %part, %count then %take.held else %take.found
take.held:
  %thing = call ptr @PyList_GetItem(ptr %parts, i64 %part)
  %holders = load i32, ptr %thing
  %expected.o = call ptr @PyList_GetItem(ptr %alone, i64 %part)
  %expected = call i64 @PyLong_AsSsize_t(ptr %expected.o)
  %holders.n = zext i32 %holders to i64
  %holders.asked = add i64 %holders.n, 1
  %part.next = add i64 %part, 1
  if eq i64 %holders.asked, %expected then %take.part else %take.other
take.other:
  br label %take.one
take.found:
  %result = call ptr @PyList_GetItem(ptr %parts, i64 0)
  store ptr %result, ptr %at.x
  call void @Py_IncRef(ptr %result)
  call void @own(ptr %owned, ptr %owned.count, ptr %result)""",
    "make": """
  %function = inttoptr i64 %y to ptr
  %found = call ptr @PyObject_CallNoArgs(ptr %function)""",
    "run": _LEND + _LAUNCH + _CHECK,
    "call": """
  %function = inttoptr i64 %y to ptr
  %found = call ptr @PyObject_Vectorcall(ptr %function, ptr %at.z, i64 1, ptr null)""",
    "number": """
  %o = load ptr, ptr %at.y
  %item = call ptr @PyTuple_GetItem(ptr %o, i64 %z)
  %value = call i64 @PyLong_AsSsize_t(ptr %item)
  %words[%x] = i64 %value
  if eq i64 %value, -1 then %number.look else %next
number.look:
  %error = call ptr @PyErr_Occurred()
  %ok = icmp eq ptr %error, null""",
    "new": """
  %kind = inttoptr i64 %y to ptr
  %found = call ptr @PyType_GenericAlloc(ptr %kind, i64 0)""",
    "following": """
  %o = load ptr, ptr %at.y
  %number = call i64 @PyLong_AsSsize_t(ptr %o)
  %number.next = add i64 %number, 1
  %found = call ptr @PyLong_FromLongLong(i64 %number.next)""",
    "tuple": """
  %found = call ptr @PyTuple_New(i64 %z)""",
    "list": """
  %found = call ptr @PyList_New(i64 %z)""",
    "tuple_put": _FILL.replace("SET", "PyTuple_SetItem"),
    "list_put": _FILL.replace("SET", "PyList_SetItem"),
    # The slot of register x at offset y holds register z; what it held is let go later.
    "put": """
  %o = load ptr, ptr %at.x
  %slot = getelementptr i8, ptr %o, i64 %y
  %item = load ptr, ptr %at.z
  call void @Py_IncRef(ptr %item)
  %found = load ptr, ptr %slot
  store ptr %item, ptr %slot
  %empty = icmp eq ptr %found, null
  br i1 %empty, label %next, label %owning""",
    "return": """
  %o = load ptr, ptr %at.x
  call void @Py_IncRef(ptr %o)
  br label %leaving""",
}
OWNING: Final = ("put", "make", "call", "new", "following", "tuple", "list")
