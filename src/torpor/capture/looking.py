"""Operations of the native replayer that look at objects, and miss where they are not as expected.

For each its name and its text: `%x` to `%z` are the operands, `%at.x` to `%at.z` the registers of
these numbers. It goes on to `next` or `missed`, or to `raised` where Python has raised an error.
One that ends with `%ok` goes on to `next` where that holds, else to `missed`; one that ends without
a branch goes on to `next`.
"""

from __future__ import annotations

from typing import Final

# Texts of several operations, which differ in the function that they call.
_LENGTH: Final = """
  %o = load ptr, ptr %at.x
  %length = call i64 @SIZE(ptr %o)
  %ok = icmp eq i64 %length, %y"""
_ITEM: Final = """
  %o = load ptr, ptr %at.y
  %item = call ptr @GET(ptr %o, i64 %z)
  store ptr %item, ptr %at.x
  %ok = icmp ne ptr %item, null"""
_PART: Final = """
  %function = inttoptr i64 %x to ptr
  %item = call ptr @GET(ptr %function)
  %item.n = ptrtoint ptr %item to i64
  %ok = icmp eq i64 %item.n, %y"""

LOOKING: Final = {
    # The names of arguments are those of the tuple x, or there are none and x is None.
    "names": """
  %wanted = inttoptr i64 %x to ptr
  %none.wanted = icmp eq ptr %wanted, {none}
  %none.given = icmp eq ptr %names, null
  if eq i1 %none.wanted, %none.given then %names.some else %missed
names.some:
  br i1 %none.given, label %next, label %names.compare
names.compare:
  %alike = call i32 @PyObject_RichCompareBool(ptr %names, ptr %wanted, i32 2)
  %ok = icmp eq i32 %alike, 1
  br i1 %ok, label %next, label %missed""",
    "argument": """
  %o = ptr %arguments[%y]
  store ptr %o, ptr %at.x""",
    "constant": """
  %o = inttoptr i64 %y to ptr
  store ptr %o, ptr %at.x""",
    "type": """
  %o = load ptr, ptr %at.x
  %kind.p = getelementptr i8, ptr %o, i64 8
  %kind = load i64, ptr %kind.p
  %ok = icmp eq i64 %kind, %y""",
    "is": """
  %o = load i64, ptr %at.x
  %ok = icmp eq i64 %o, %y""",
    "not": """
  %o = load i64, ptr %at.x
  %ok = icmp ne i64 %o, %y""",
    # Registers x to x + y - 1 hold different objects.
    "distinct": """
  br label %distinct.one
distinct.one:
  %i = phi i64 [0, %do.distinct], [%i.next, %distinct.all]
  if slt i64 %i, %y then %distinct.start else %next
distinct.start:
  %i.next = add i64 %i, 1
  %one = ptr %at.x[%i]
  br label %distinct.other
distinct.other:
  %j = phi i64 [%i.next, %distinct.start], [%j.next, %distinct.look]
  if slt i64 %j, %y then %distinct.look else %distinct.all
distinct.look:
  %j.next = add i64 %j, 1
  %two = ptr %at.x[%j]
  if eq ptr %one, %two then %missed else %distinct.other
distinct.all:
  br label %distinct.one""",
    "agree": """
  %o = load ptr, ptr %at.x
  %other = load ptr, ptr %at.y
  %ok = icmp eq ptr %o, %other""",
    "equal": """
  %o = load ptr, ptr %at.x
  %other = inttoptr i64 %y to ptr
  %equal = call i32 @PyObject_RichCompareBool(ptr %o, ptr %other, i32 2)
  %ok = icmp eq i32 %equal, 1""",
    "slot": """
  %o = load ptr, ptr %at.y
  %slot = getelementptr i8, ptr %o, i64 %z
  %value = load ptr, ptr %slot
  store ptr %value, ptr %at.x
  %ok = icmp ne ptr %value, null""",
    "tuple_length": _LENGTH.replace("SIZE", "PyTuple_Size"),
    "list_length": _LENGTH.replace("SIZE", "PyList_Size"),
    "dict_length": _LENGTH.replace("SIZE", "PyDict_Size"),
    "tuple_item": _ITEM.replace("GET", "PyTuple_GetItem"),
    "list_item": _ITEM.replace("GET", "PyList_GetItem"),
    "dict_item": """
  %o = load ptr, ptr %at.y
  %key = inttoptr i64 %z to ptr
  %item = call ptr @PyDict_GetItemWithError(ptr %o, ptr %key)
  store ptr %item, ptr %at.x
  %ok = icmp ne ptr %item, null""",
    "lacks": """
  %o = load ptr, ptr %at.x
  %key = inttoptr i64 %y to ptr
  %item = call ptr @PyDict_GetItemWithError(ptr %o, ptr %key)
  %absent = icmp eq ptr %item, null
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  %ok = and i1 %absent, %fine""",
    # Register x: the dict of the attributes of register y.
    "attributes": """
  %o = load ptr, ptr %at.y
  %item = call ptr @PyObject_GenericGetDict(ptr %o, ptr null)
  store ptr %item, ptr %at.x
  call void @Py_DecRef(ptr %item)
  %ok = icmp ne ptr %item, null""",
    "dict_pair": """
  %o = load ptr, ptr %at.x
  %more = call i32 @PyDict_Next(ptr %o, ptr %cursor, ptr %key.p, ptr %item.p)
  %key = load i64, ptr %key.p
  %item = load i64, ptr %item.p
  %same.key = icmp eq i64 %key, %y
  %same.item = icmp eq i64 %item, %z
  %same = and i1 %same.key, %same.item
  %has = icmp ne i32 %more, 0
  %ok = and i1 %has, %same""",
    "dict_start": """
  store i64 0, ptr %cursor""",
    "context": """
  %variable = inttoptr i64 %y to ptr
  %default = inttoptr i64 %z to ptr
  store ptr null, ptr %item.p
  %failed = call i32 @PyContextVar_Get(ptr %variable, ptr %default, ptr %item.p)
  %item = load ptr, ptr %item.p
  store ptr %item, ptr %at.x
  call void @Py_DecRef(ptr %item)
  %ok = icmp ne ptr %item, null""",
    "cell": """
  %cell = inttoptr i64 %y to ptr
  %item = call ptr @PyCell_Get(ptr %cell)
  store ptr %item, ptr %at.x
  call void @Py_DecRef(ptr %item)
  %ok = icmp ne ptr %item, null""",
    "code": _PART.replace("GET", "PyFunction_GetCode"),
    "defaults": _PART.replace("GET", "PyFunction_GetDefaults"),
    "kwdefaults": _PART.replace("GET", "PyFunction_GetKwDefaults"),
    "version": """
  %kind = inttoptr i64 %x to ptr
  %slot = getelementptr i8, ptr %kind, i64 {version}
  %version = load i32, ptr %slot
  %version.n = zext i32 %version to i64
  %ok = icmp eq i64 %version.n, %y""",
    "holds": """
  %function = inttoptr i64 %x to ptr
  %first = at %registers[%y]
  %found = call ptr @PyObject_Vectorcall(ptr %function, ptr %first, i64 %z, ptr null)
  if eq ptr %found, null then %raised else %holds.found
holds.found:
  call void @Py_DecRef(ptr %found)
  %ok = icmp eq ptr %found, {true}""",
    "jump": """
  br label %missed""",
}
