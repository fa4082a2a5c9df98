"""LLVM inside the process: IR text to an object file, and object files into one engine.

llvmlite holds one lock around LLVM, so compiling in several threads gains nothing. All that is here
runs under a lock of torpor's own besides, which a fork waits for: no child finds LLVM half-way.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from torpor.base.errors import CompileError, DeviceError
from torpor.device.base import Compiler
from torpor.device.machine import Machine, machine
from torpor.ir.records import Program

# Explicit vectors need no pass but those that turn memory into registers; scalar text does.
VECTOR_TYPE: Final = re.compile(r"<\d+ x ")
PASSES_VERSION: Final = "4"  # part of cache keys; raise it when `_optimise` changes
# Loop strength reduction takes a fifth of the time and gains nothing where addresses are explicit;
# an option that some later LLVM does not have would end the process.
AS_WRITTEN: Final = "-disable-lsr"
NEWEST_KNOWN: Final = 22
EXCERPT_LINES: Final = 2  # of the text, around what LLVM complains about

SEAL: Final = b"torpor object 1\n"
_SEALED: Final = len(SEAL) + hashlib.sha256().digest_size  # bytes in front of an object file

lock: Final = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )


@lru_cache(maxsize=1)
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    for name, address in _memory_functions().items():
        llvm.add_symbol(name, address)


def _memory_functions() -> dict[str, int]:
    """The C functions that LLVM may call of its own accord, where the engine does not find them."""
    if sys.platform != "win32":
        return {}  # the engine looks into the process, which has them
    library = ctypes.CDLL("msvcrt")
    names = ("memset", "memcpy", "memmove")
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names}


@lru_cache(maxsize=16)
def _target_machine(where: Machine) -> Any:
    _initialise()
    return llvm.Target.from_triple(where.triple).create_target_machine(
        cpu=where.processor,
        features=where.features,
        opt=2,
        # Not "pic": a JIT's large code model then takes constants relative to the object's GOT, for
        # which LLVM's loader takes the first object's, so later ones would misread theirs.
        reloc="static",
        codemodel="jitdefault" if where.runs_here else "default",
        jit=where.runs_here,
    )


def version() -> str:
    """The compiler's part of a cache key."""
    number = ".".join(map(str, llvm.llvm_version_info))
    return f"llvm-{number}-llvmlite-{llvmlite.__version__}-{PASSES_VERSION}"


# --- the function that is called ------------------------------------------------------------------
def entry_name(program: Program) -> str:
    """The symbol of a program's entry: another for other text, so that objects never clash."""
    shape = repr((program.parameters, program.variables, program.checks, program.thread_range))
    digest = hashlib.sha256(f"{program.source}\0{shape}".encode()).hexdigest()[:32]
    return f"torpor_{digest}"


def entry_text(program: Program) -> str:
    """IR of `void entry(int64* table, int64 begin, int64 end)`, which calls the program.

    The table holds, eight bytes each: the parameters' addresses, the variables, and, if the program
    has checks, the address of the error word.
    """
    kinds = ["ptr"] * len(program.parameters)
    kinds += ["i64" if dtype in ("int64", "uint64") else "i32" for _, dtype in program.variables]
    kinds += ["ptr"] if program.checks else []
    lines, arguments = [], []
    for place, kind in enumerate(kinds):
        lines.append(f"  %p{place} = getelementptr i64, ptr %table, i64 {place}")
        lines.append(f"  %a{place} = load {kind}, ptr %p{place}")
        arguments.append(f"{kind} %a{place}")
    if program.thread_range is not None:
        arguments += ["i64 %begin", "i64 %end"]
    return "\n".join([
        f"define void @{entry_name(program)}(ptr %table, i64 %begin, i64 %end) {{",
        *lines,
        f"  call void @{program.name}({', '.join(arguments)})",
        "  ret void",
        "}",
    ])  # fmt: skip


# --- compiling ------------------------------------------------------------------------------------
def _parse(text: str) -> Any:
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    return module


def _optimise(module: Any, where: Machine, vectorised: bool) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(_target_machine(where), options)
    if vectorised:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
    else:
        options.loop_vectorization = options.slp_vectorization = True
        passes = builder.getModulePassManager()
    passes.run(module, builder)


@contextmanager
def _as_written(text: str) -> Iterator[None]:
    """Code for explicit vectors is generated here without what their addresses do not need; other
    users of LLVM in the process keep it.
    """
    known = llvm.llvm_version_info[0] <= NEWEST_KNOWN and VECTOR_TYPE.search(text)
    try:
        if known:
            llvm.set_option("torpor", AS_WRITTEN)
        yield
    finally:
        if known:
            llvm.set_option("torpor", f"{AS_WRITTEN}=false")


def _refusal(text: str, error: Exception, name: str) -> CompileError:
    """The complaint, with the lines of the text that it is about."""
    message = str(error).strip()
    match = re.search(r":(\d+):\d+: error", message)
    lines = text.splitlines()
    line = int(match[1]) if match else 0
    first = max(0, line - 1 - EXCERPT_LINES)
    excerpt = "\n".join(f"{n + 1:5} {lines[n]}" for n in range(first, min(line, len(lines))))
    return CompileError(f"LLVM refused {name}: {message}\n{excerpt}")


def _prepared(
    text: str, name: str, where: Machine, kept: str = "torpor_", quick: bool = False
) -> Any:
    """The module, optimised (little, if `quick`); functions whose names do not begin with `kept`
    are its own affair.
    """
    _target_machine(where)
    try:
        module = _parse(text)
    except RuntimeError as error:
        raise _refusal(text, error, name) from None
    module.triple = where.triple
    module.data_layout = str(_target_machine(where).target_data)
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith(kept):
            function.linkage = "internal"  # kernels of one name in several objects never meet
    little = quick or VECTOR_TYPE.search(text) is not None
    _optimise(module, where, little)
    return module


def compile_text(text: str, name: str, where: Machine, quick: bool = False) -> bytes:
    """The sealed object file of IR `text`; functions named `torpor_...` can be found in it.

    `quick`: for text that gains little from what LLVM can do.
    """
    with lock, _as_written(text):
        made: bytes = _target_machine(where).emit_object(_prepared(text, name, where, quick=quick))
    return SEAL + hashlib.sha256(made).digest() + made


def unsealed(compiled: bytes) -> bytes:
    """The object file alone; a `DeviceError` for bytes that are not as they were compiled.

    LLVM does not survive a damaged object file, so none may reach it.
    """
    made = compiled[_SEALED:]
    if compiled[:_SEALED] != SEAL + hashlib.sha256(made).digest():
        raise DeviceError("an object file is damaged; it has to be compiled again")
    return made


class LlvmCompiler(Compiler):
    """LLVM IR text to object files for one machine."""

    anywhere = True

    def __init__(self, where: Machine):
        self.machine = where

    def compile(self, program: Program) -> bytes:
        text = f"{program.source}\n{entry_text(program)}\n"
        return compile_text(text, program.name, self.machine)

    def assembly(self, program: Program) -> str:
        with lock, _as_written(program.source):
            _target_machine(self.machine)
            module = _prepared(program.source, program.name, self.machine, program.name)
            text: str = _target_machine(self.machine).emit_assembly(module)
        return text


# --- loading --------------------------------------------------------------------------------------
class Engine:
    """The one engine that every object file of this process is loaded into, for good."""

    def __init__(self) -> None:
        _initialise()
        host = machine("")
        with lock:
            # Its own machine: the engine owns what it is given.
            target = llvm.Target.from_triple(host.triple).create_target_machine(
                cpu=host.processor, features=host.features, opt=2, jit=True
            )
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
            self._addresses: dict[str, int] = {}
            self._loaded: set[bytes] = set()  # digests of object files

    def load(self, compiled: bytes, symbol: str) -> int:
        """The address of `symbol`, which `compiled` has; a `DeviceError` for damaged bytes."""
        with lock:
            known = self._addresses.get(symbol)
            if known is not None:
                return known
            try:
                if (seal := compiled[:_SEALED]) not in self._loaded:
                    self._engine.add_object_file(llvm.ObjectFileRef.from_data(unsealed(compiled)))
                    self._engine.finalize_object()
                    self._loaded.add(seal)
                address = int(self._engine.get_function_address(symbol))
            except (RuntimeError, OSError) as error:
                raise DeviceError(f"an object file cannot be loaded: {error}") from None
            if not address:
                raise DeviceError(f"an object file has no {symbol}")
            self._addresses[symbol] = address
            return address


@lru_cache(maxsize=1)
def _the_engine() -> Engine:
    return Engine()


def load(compiled: bytes, symbol: str) -> int:
    """The address of `symbol` in the object file `compiled`, loaded once."""
    with lock:  # or two threads make an engine each, and the code of one goes away with it
        engine = _the_engine()
    return engine.load(compiled, symbol)


Entry: Final = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
