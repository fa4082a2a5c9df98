"""Nothing outside device/ assumes Linux, and torpor works where a system lacks what Linux has."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import torpor
from torpor.base import settings
from torpor.device import bulk, caches, machine

SOURCE = Path(torpor.__file__).parent
# Modules of the standard library that Windows lacks (https://docs.python.org/3/py-modindex.html).
UNIX = frozenset({
    "curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios",
    "tty",
})  # fmt: skip
# Functions of `os` that Windows or macOS lacks: whoever uses one asks first whether it is there.
SOME_HAVE = frozenset({
    "fork", "forkpty", "getuid", "geteuid", "getgid", "killpg", "mkfifo", "nice", "pipe2",
    "register_at_fork", "sched_getaffinity", "sched_setaffinity", "setsid", "sysconf", "uname",
    "memfd_create", "posix_fallocate", "getloadavg", "wait", "waitpid",
})  # fmt: skip
FOLDERS = ("/dev/", "/proc/", "/sys/", "/tmp", "/usr/", "/etc/", "/bin/")


def name_of(node: ast.AST) -> str:
    """`a.b.c` of such an expression."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def words(node: ast.Call) -> set[str]:
    return {keyword.arg or "" for keyword in node.keywords}


def is_binary(node: ast.Call) -> bool:
    return any(
        isinstance(a, ast.Constant) and isinstance(a.value, str) and "b" in a.value
        for a in node.args[:2]
    )


def offences(text: str, in_device: bool = False) -> Iterator[str]:
    """What a module does that some system has not."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            for name in [module or "", *(alias.name for alias in node.names)]:
                if name.partition(".")[0] in UNIX:
                    yield f"line {node.lineno}: imports {name}"
        elif isinstance(node, ast.Call):
            called = name_of(node.func)
            last = called.rpartition(".")[2]
            opens = called == "open" or last in ("read_text", "write_text")
            if opens and "encoding" not in words(node) and not is_binary(node):
                yield f"line {node.lineno}: {last} without an encoding"
            if last in SOME_HAVE and called.startswith("os."):
                asks = f'hasattr(os, "{last}")' in text or "AttributeError" in text
                if not asks:
                    yield f"line {node.lineno}: {called} without asking whether it is there"
            if "shell" in words(node) or called == "os.system":
                yield f"line {node.lineno}: a shell"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not in_device:
            if node.value.startswith(FOLDERS):
                yield f"line {node.lineno}: the path {node.value}"


def test_the_package_assumes_no_system():
    found = [
        f"{path.relative_to(SOURCE)} {what}"
        for path in sorted(SOURCE.rglob("*.py"))
        for what in offences(
            path.read_text(encoding="utf-8"), path.is_relative_to(SOURCE / "device")
        )
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "import fcntl",
        "from resource import getrusage",
        "open('x')",
        "path.read_text()",
        "path.write_text('x')",
        "os.fork()",
        "os.sched_getaffinity(0)",
        "subprocess.run('ls', shell=True)",
        "os.system('ls')",
        "open('/dev/shm/x', 'rb')",
    ],
)
def test_what_some_system_lacks_is_found(text):
    assert len(list(offences(text))) == 1


BARE = """
import ctypes, mmap, os, subprocess, sys, sysconfig, tempfile
sysconfig.get_config_vars()  # of this system, as they are in a file
import llvmlite.binding, ml_dtypes, numpy as np, PIL.Image, rich.table  # they ask in their own ways
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in %r:
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
for name in %r:
    sys.modules.pop(name, None)
for name in %r:
    if hasattr(os, name):
        delattr(os, name)
sys.platform = %r
usual = ctypes.CDLL
import time
ticks = ctypes.POINTER(ctypes.c_int64)
def clock(to):
    to[0] = time.monotonic_ns() // 100
    return 1
def frequency(to):
    to._obj.value = 10**7
class Kernel32:
    SwitchToThread = usual(None).sched_yield
    QueryPerformanceCounter = ctypes.CFUNCTYPE(ctypes.c_int, ticks)(clock)
    QueryPerformanceFrequency = staticmethod(frequency)
def library(name):
    return {"kernel32": Kernel32, "msvcrt": usual(None)}[name] if name else usual(None)
if sys.platform == "win32":
    ctypes.CDLL = library
from torpor import Context, Tensor, jit
x = Tensor(np.arange(200000, dtype=np.float32).reshape(400, 500))
wanted = (np.arange(200000.0).reshape(400, 500).sum(0) ** 2).sum()
assert abs((x @ x.T).sum().item() / wanted - 1) < 1e-5
with Context(THREADS=3):
    assert abs((x @ x.T).sum().item() / wanted - 1) < 1e-5
assert jit(lambda t: t * 2 + 1)(x).numpy()[3, 4] == 3009
from torpor.cli.info import facts
assert facts()["cores"] >= 1
print("fine")
"""


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_it_runs_without_what_only_unix_has(tmp_path, system):
    """No affinity, no fork, no sysconf, none of the modules, and where it takes this for another
    system, nothing but what that has besides.
    """
    absent = sorted(UNIX - {"posix", "pwd"})  # Python itself needs these two here
    functions = sorted(SOME_HAVE - {"waitpid"})  # and this one, to start another process
    text = BARE % (absent, absent, functions, system)
    folder = tmp_path / "a folder ü"
    environment = {**os.environ, "TORPOR_CACHE_DIR": str(folder), "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("fine", "", 0)
    assert list((folder / "kernels").iterdir())


def test_a_user_without_a_home_gets_a_folder_of_his_own(monkeypatch):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("LOCALAPPDATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", staticmethod(nowhere))
    with torpor.Context(CACHE_DIR=""):
        folder = settings.cache_dir()
        assert folder.is_dir()
        assert folder == settings.cache_dir()
    folder.rmdir()
    settings._own_folder.cache_clear()


@pytest.mark.parametrize("frozen", [False, True])
def test_a_program_that_python_is_part_of_is_not_started_again(monkeypatch, frozen):
    if frozen:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:
        monkeypatch.setattr(sys, "executable", None)
    monkeypatch.setattr(bulk.subprocess, "Popen", None)
    assert bulk.make_all(range(12), str, "") == [str(n) for n in range(12)]


def test_code_for_windows_is_in_the_format_that_the_loader_knows(monkeypatch):
    assert not machine.process_triple().endswith("-elf") or sys.platform == "win32"
    monkeypatch.setattr(sys, "platform", "win32")
    assert machine.process_triple().endswith("-elf")


def test_the_processor_has_a_name_anywhere(monkeypatch):
    assert machine.processor_name()

    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert machine.processor_name()
    assert list(caches.linux_caches()) == []
