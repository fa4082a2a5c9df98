"""What a function's bytecode reads and writes outside of its own variables, by name."""

from __future__ import annotations

import dis
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Final

# Methods of lists, dicts and sets that only change them: a list to which a function only appends is
# not something that it reads.
CHANGERS: Final = frozenset({
    "append", "extend", "insert", "add", "update", "clear", "remove", "discard", "appendleft",
    "extendleft",
})  # fmt: skip
_ATTRIBUTE_LOADS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"})
_OUTER_LOADS: Final = frozenset({
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF",
    "LOAD_FROM_DICT_OR_GLOBALS",
})  # fmt: skip
_BY_NAME: Final = frozenset({
    "hasattr", "getattr", "setattr", "delattr", "__getattribute__", "__setattr__", "__delattr__",
    "attrgetter", "methodcaller",
})  # fmt: skip
_FIELDS: Final = re.compile(r"\.([^\W\d]\w*)")  # of what a format shows
_STORES: Final = frozenset({
    "STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF",
})  # fmt: skip


@dataclass(frozen=True)
class Names:
    """Names that a code object uses outside of its local variables.

    loaded:   whose value it reads.
    changed:  of which it only calls a changing method, such as `append`.
    stored:   that it binds anew.
    outer:    those of all three that are globals or closure cells.
    imported: modules that it imports.
    asked:    those of `loaded` that need not be there: the code can tell whether they are.
    finds:    it may find modules by name: of what is called `modules` it reads more than whether
              something is in it.
    """

    loaded: frozenset[str]
    changed: frozenset[str]
    stored: frozenset[str]
    outer: frozenset[str]
    imported: frozenset[str]
    asked: frozenset[str]
    finds: bool


@lru_cache(maxsize=4096)
def names_of(code: CodeType) -> Names:
    """The names that `code` uses; nested functions have code of their own."""
    loaded: set[str] = set()
    changed: set[str] = set()
    stored: set[str] = set()
    outer: set[str] = set()
    imported: set[str] = set()
    finds = False
    steps = list(dis.get_instructions(code))
    for number, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            imported.add(step.argval)
        elif step.opname == "MATCH_CLASS":
            loaded |= {"__match_args__", *_keywords(steps[number - 1])}
        elif step.opname in _STORES:
            stored.add(step.argval)
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                outer.add(step.argval)
        elif step.opname in _ATTRIBUTE_LOADS or step.opname in _OUTER_LOADS:
            following = steps[number + 1] if number + 1 < len(steps) else None
            changes = _only_changes(following) and step.argval != "__dict__"
            into = changed if changes else loaded
            into.add(step.argval)
            seeks = following is not None and following.opname == "CONTAINS_OP"
            finds |= step.argval == "modules" and not seeks
            if step.opname in _OUTER_LOADS:
                outer.add(step.argval)
    asked = _asked(code, outer, loaded)
    loaded |= asked
    if loaded & {"setattr", "delattr", "__setattr__", "__delattr__"}:
        stored |= asked | _texts(code)
    finds |= "modules" in asked
    read, only = frozenset(loaded), frozenset(changed - loaded)
    others = frozenset(stored), frozenset(outer), frozenset(imported), frozenset(asked)
    return Names(read, only, *others, finds)


@lru_cache(maxsize=4096)
def asks_for_types(code: CodeType | None) -> str | None:
    """Why a number must be nothing but a number for this code (and code inside it), if so."""
    if code is None:
        return None
    if "type" in names_of(code).outer:
        return f"{code.co_name} asks for types by type()"
    inner = (asks_for_types(part) for part in code.co_consts if isinstance(part, CodeType))
    return next(filter(None, inner), None)


def _asked(code: CodeType, outer: set[str], loaded: set[str]) -> set[str]:
    """Names in `hasattr(x, "name")`, and those that an `except AttributeError` may be about."""
    asked = set(loaded) if "AttributeError" in outer else set()
    if loaded & {"format", "format_map"}:
        asked |= {name for text in _constants(code) for name in _FIELDS.findall(text)}
    return asked | _texts(code) if (outer | loaded) & _BY_NAME else asked


def _texts(code: CodeType) -> set[str]:
    """Texts in the code that may be names of attributes, dotted ones taken apart."""
    return {x for text in _constants(code) for x in text.split(".") if x.isidentifier()}


def _constants(code: CodeType) -> list[str]:
    return [text for text in code.co_consts if isinstance(text, str)]


def _keywords(step: dis.Instruction) -> tuple[str, ...]:
    """The names of attributes in a pattern, which are loaded just before it is matched."""
    return step.argval if isinstance(step.argval, tuple) else ()


def _only_changes(step: dis.Instruction | None) -> bool:
    return step is not None and step.opname in _ATTRIBUTE_LOADS and step.argval in CHANGERS


_imported: tuple[list[str], frozenset[str]] = [], frozenset()


def imported() -> frozenset[str]:
    """The names of the modules that are there, but for those that are taken as they are."""
    global _imported
    names = [*sys.modules]
    if names != _imported[0]:
        _imported = names, frozenset(name for name in names if not is_opaque(name))
    return _imported[1]


# --- whose code is looked at ----------------------------------------------------------------------
_OPAQUE: Final = frozenset(
    {*sys.stdlib_module_names, "numpy", "llvmlite", "ml_dtypes", "torpor"} - {"__main__"}
)
# Standard modules whose functions give something else each time, or act on the world outside.
CHANGING: Final = frozenset(
    """
    random secrets uuid time datetime os io tempfile socket subprocess threading queue select shutil
    urllib http multiprocessing asyncio sqlite3 getpass logging ctypes importlib
    """.split()  # noqa: SIM905 (a table that is read)
)
# Modules of C code that act on the world outside, or that it acts on.
OUTER: Final = CHANGING | frozenset(
    """
    posix nt _random _io _socket _ssl _posixsubprocess _locale _warnings fcntl mmap signal resource
    """.split()  # noqa: SIM905 (a table that is read)
)
# Modules whose functions read all that there is of an object.
READING: Final = frozenset(
    "copy dataclasses inspect json pickle pprint reprlib".split()  # noqa: SIM905 (a table)
)


# Torpor's own modules whose objects remember what they did.
STATEFUL: Final = ("torpor.nn", "torpor.tensor.grad_scaler", "torpor.tensor.quasirandom")


def root_of(module: str | None) -> str:
    """The first part of a dotted module name."""
    return (module or "").split(".")[0]


def is_ours(module: str | None) -> bool:
    """Whether a module is part of torpor."""
    return root_of(module) == "torpor"


def is_opaque(module: str | None) -> bool:
    """Whether a module is taken as it is: the standard library (and what `namedtuple` makes), what
    torpor stands on, and torpor but for what has a state (`STATEFUL`).
    """
    if module is not None and module.startswith(STATEFUL):
        return False
    return root_of(module) in _OPAQUE or (module or "").startswith("namedtuple_")
