"""The native replayer: an interpreter of steps over Python's objects, by its C API.

A program (see `program.py`) is a head and a list of records of `RECORD` words: the number of an
operation, three operands and where to go on if it fails (0: nowhere, the call is a miss). Registers
hold objects. Those that must outlive a call into Python are owned, and let go at the very end:
letting go may run any code, so nothing is looked at after it, and the lock is back by then.
Up to the first `put` nothing has been changed, so a step may fail; from there on none can.
"""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any, Final, NamedTuple

from torpor.device.pool import LENT
from torpor.device.words import Text

RECORD: Final = 5
HEAD: Final = (
    "count", "runs", "executor", "execute", "long", "lend", "take_back",
    "lent", "threads", "release", "arguments", "registers", "owned", "words",
)  # fmt: skip


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


# Operations on the operands x, y and z. Those that look at objects go on, or miss where these are
# not as expected (`assert`). Those of `OWNING` have made `found`, or taken it over: it is put into
# register x and let go in the end, unless there is none since Python has raised an error.
_OPERATIONS: Final = """
case "names":  # of arguments are those of the tuple x, or there are none and x is None
    if names == 0 or x == _Py_NoneStruct:
        assert names == 0 and x == _Py_NoneStruct
    else:
        assert low(PyObject_RichCompareBool(names, x, 2)) == 1
case "argument":
    registers[x] = arguments[y]
case "constant":
    registers[x] = y
case "type":
    assert registers[x][1] == y
case "is":
    assert registers[x] == y
case "not":
    assert registers[x] != y
case "distinct":  # registers x to x + y - 1 hold different objects
    for i in range(x, x + y):
        for j in range(i + 1, x + y):
            assert registers[i] != registers[j]
case "agree":
    assert registers[x] == registers[y]
case "equal":
    assert low(PyObject_RichCompareBool(registers[x], y, 2)) == 1
case "slot":
    registers[x] = o = (registers[y] + z)[0]
    assert o
case "tuple_length":
    assert PyTuple_Size(registers[x]) == y
case "list_length":
    assert PyList_Size(registers[x]) == y
case "dict_length":
    assert PyDict_Size(registers[x]) == y
case "tuple_item":
    registers[x] = o = PyTuple_GetItem(registers[y], z)
    assert o
case "list_item":
    registers[x] = o = PyList_GetItem(registers[y], z)
    assert o
case "dict_item":
    registers[x] = o = PyDict_GetItemWithError(registers[y], z)
    assert o
case "lacks":
    assert not PyDict_GetItemWithError(registers[x], y) and not PyErr_Occurred()
case "attributes":  # register x: the dict of the attributes of register y
    registers[x] = o = PyObject_GenericGetDict(registers[y], 0)
    Py_DecRef(o)
    assert o
case "dict_start":
    cursor[0] = 0
case "dict_pair":
    assert low(PyDict_Next(registers[x], cursor, key, item))
    assert key[0] == y and item[0] == z
case "dict_key":
    assert low(PyDict_Next(registers[x], cursor, key, item))
    assert key[0] == y
case "context":
    item[0] = 0
    PyContextVar_Get(y, z, item)
    registers[x] = o = item[0]
    Py_DecRef(o)
    assert o
case "cell":
    registers[x] = o = PyCell_Get(y)
    Py_DecRef(o)
    assert o
case "code":
    assert PyFunction_GetCode(x) == y
case "defaults":
    assert PyFunction_GetDefaults(x) == y
case "kwdefaults":
    assert PyFunction_GetKwDefaults(x) == y
case "version":
    assert half(x + VERSION) == y
case "holds":
    found = PyObject_Vectorcall(x, at(registers, y), z, 0)
    if not found:
        raise raised
    Py_DecRef(found)
    assert found == _Py_TrueStruct
case "jump":
    raise missed
case "own":
    found = registers[x]
    Py_IncRef(found)
    raise owning
case "lock":
    item[0] = _Py_FalseStruct
    found = PyObject_Vectorcall(x, item, 1, 0)
    if not found:
        raise raised
    Py_DecRef(found)
    locked = found == _Py_TrueStruct
    assert locked
case "buffer":  # register x: the buffer below the node in register y
    o = registers[y]
    while (o + OP)[0] != objects[buffer_op]:
        if (o + OP)[0] == objects[leaf_op]:
            assert (o + ARG)[0] == objects[severed]
        else:
            assert (o + OP)[0] == objects[reshape_op]
        o = PyTuple_GetItem((o + SRC)[0], 0)
        assert o
    registers[x] = (o + ARG)[0]
case "word":
    words[x] = y
case "address":
    words[x] = o = PyLong_AsSsize_t((registers[y] + z)[0])
    assert o and o != -1
case "take":  # register x: one of the results in the list of register y that nobody else holds
    for candidate in range(PyList_Size(registers[y])):
        parts, alone = PyList_GetItem(registers[y], candidate), registers[z]
        n, usual = PyList_Size(parts), PyList_Size(alone)
        if n == usual:
            while n and half(PyList_GetItem(parts, n - 1)) + 1 == PyLong_AsSsize_t(
                PyList_GetItem(alone, n - 1)
            ):
                n -= 1
            if not n:
                found = PyList_GetItem(parts, 0)
                Py_IncRef(found)
                raise made
    raise missed
case "make":
    found = PyObject_CallNoArgs(y)
    raise made
case "call":
    found = PyObject_Vectorcall(y, at(registers, z), 1, 0)
    raise made
case "run":
    words[0], words[1], words[2], words[3], words[4] = program[HEAD_executor], 0, 0, 1, 0
    back = 0
    if program[HEAD_lend]:  # by the pool's own words, if these say how (see `LENT`)
        lent = program[HEAD_lent]
        if lent[LENT_threads] == program[HEAD_threads] and (
            not lent[LENT_core_of] or low(lent[LENT_core_of]()) == lent[LENT_core]
        ):
            item[0] = _Py_FalseStruct
            found = PyObject_Vectorcall(lent[LENT_acquire], item, 1, 0)
            if not found:
                raise raised
            Py_DecRef(found)
            if found == _Py_TrueStruct:
                words[1], words[2] = lent[LENT_state], lent[LENT_run]
                words[3], words[4] = lent[LENT_threads], lent[LENT_helpers]
                back = lent[LENT_release]
        else:
            found = PyObject_CallNoArgs(program[HEAD_lend])
            if not found:
                raise raised
            owned[count] = found
            count += 1
            if found != _Py_NoneStruct:
                for n in range(4):
                    words[n + 1] = PyLong_AsSsize_t(PyTuple_GetItem(found, n))
                back = program[HEAD_take_back]
    execute, thread = program[HEAD_execute], 0
    if program[HEAD_long]:  # without Python's lock
        thread = PyEval_SaveThread()
    failed = execute(words)
    if thread:
        PyEval_RestoreThread(thread)
    if back:
        found = PyObject_CallNoArgs(back)
        if not found:
            raise raised
        Py_DecRef(found)
    assert not failed  # Python finds out what that means: nothing has been changed
    program[HEAD_count] += 1
case "number":
    words[x] = o = PyLong_AsSsize_t(PyTuple_GetItem(registers[y], z))
    assert o != -1 or not PyErr_Occurred()
case "new":
    found = PyType_GenericAlloc(y, 0)
    raise made
case "following":
    found = PyLong_FromLongLong(PyLong_AsSsize_t(registers[y]) + 1)
    raise made
case "tuple":
    found = PyTuple_New(z)
    raise made
case "list":
    found = PyList_New(z)
    raise made
case "tuple_put":
    Py_IncRef(registers[z])
    if low(PyTuple_SetItem(registers[x], y, registers[z])):
        raise raised
case "list_put":
    Py_IncRef(registers[z])
    if low(PyList_SetItem(registers[x], y, registers[z])):
        raise raised
case "put":  # the slot of register x at offset y holds register z; what it held is let go later
    Py_IncRef(registers[z])
    found = (registers[x] + y)[0]
    (registers[x] + y)[0] = registers[z]
    if found:
        raise owning
case "return":
    gives = registers[x]
    Py_IncRef(gives)
    break
"""
OPERATIONS: Final = tuple(re.findall(r'^case "(\w+)"', _OPERATIONS, re.MULTILINE))
OWNING: Final = (
    "own", "take", "run", "put", "make", "call", "new", "following", "tuple", "list",
)  # fmt: skip

_TEXT: Final = """
objects = words(OBJECTS)


def torpor_replayer_tell(given):
    for n in range(OBJECTS):
        objects[n] = given[n]


def replay(program, arguments, names):
    cursor, key, item, error = room(1), room(1), room(1), room(3)
    registers, owned = room(program[HEAD_registers]), room(program[HEAD_owned])
    words = room(program[HEAD_words])
    locked, count, gives = 0, 0, 0
    here = at(program, HEAD_code)
    while True:
        x, y, z = here[1], here[2], here[3]
        try:
            match here[0]:
OPERATIONS
        except made:
            if not found:
                raise raised
            registers[x] = found
            raise owning
        except owning:
            owned[count] = found
            count += 1
        except missed:
            PyErr_Clear()
            if not here[4]:
                gives = MISSED
                break
            here = here[4]
            continue
        except raised:
            PyErr_Fetch(error, at(error, 1), at(error, 2))
            break
        here = at(here, RECORD)
    if locked:
        found = PyObject_CallNoArgs(program[HEAD_release])
        if found:
            Py_DecRef(found)
        else:
            PyErr_Clear()
    while count:
        count -= 1
        Py_DecRef(owned[count])
    if not gives:
        PyErr_Restore(error[0], error[1], error[2])
    return gives


def torpor_replayer(self, arguments, count, names):
    given = count
    if names:
        given += PyTuple_Size(names)
    programs = (self + PROGRAMS)[0]
    if programs and not PyDict_Size(objects[active]):
        Py_IncRef(programs)
        for n in range(0, PyTuple_Size(programs), 2):
            program = PyLong_AsSsize_t(PyTuple_GetItem(programs, n))
            if program[HEAD_runs] and program[HEAD_arguments] == given:
                found = replay(program, arguments, names)
                if found != MISSED:
                    Py_DecRef(programs)
                    return found
        Py_DecRef(programs)
    passed = room(given + 1)
    passed[0] = self
    for n in range(given):
        passed[n + 1] = arguments[n]
    return PyObject_Vectorcall(objects[general], passed, count + 1, names)
"""
API: Final = frozenset(re.findall(r"\b_?Py\w*_\w+", _OPERATIONS + _TEXT))


def number_of(operation: str) -> int:
    """What stands for an operation in a record."""
    return OPERATIONS.index(operation)


def replayer_text(offsets: Offsets) -> Text:
    """`torpor_replayer`, a method with the convention of METH_FASTCALL and METH_KEYWORDS."""
    numbers = {f"HEAD_{name}": number for number, name in enumerate((*HEAD, "code"))}
    numbers |= {f"LENT_{name}": number for number, name in enumerate(LENT)}
    numbers |= {name: number for number, name in enumerate(Objects._fields)}
    numbers |= {name.upper(): offset for name, offset in offsets._asdict().items()}
    numbers |= {"RECORD": RECORD, "OBJECTS": len(Objects._fields), "MISSED": 1}
    operations = indent(_OPERATIONS.strip("\n"), " " * 16)
    return Text(_TEXT.replace("OPERATIONS\n", operations + "\n"), numbers)
