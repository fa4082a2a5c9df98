"""What all tests share: caches of their own, so that none sees the user's or another worker's."""

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

folder = tempfile.mkdtemp(prefix="torpor-tests-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
os.environ["TORPOR_CACHE_DIR"] = folder
# Every stage's contract is checked after every pass.
os.environ.setdefault("TORPOR_CHECK", "1")
# PoCL's cache does not stand two processes that fill it at once.
os.environ["POCL_CACHE_DIR"] = os.path.join(folder, "pocl")
os.makedirs(os.environ["POCL_CACHE_DIR"])

# What a shell starts in the background ignores Ctrl-C, and so would the programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("torpor", deadline=None)
settings.load_profile("torpor")


@pytest.fixture(autouse=True)
def nothing_waits() -> None:
    """No test computes what another has left waiting: kernels would be others, and last bits."""
    from torpor.tensor.pending import taken_along  # not before the cache's folder is set

    taken_along()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of kernels, as they are compiled."""
    from torpor import Context  # not before the cache's folder is set
    from torpor.device.llvm import LlvmCompiler

    names: list[str] = []
    compile_one = LlvmCompiler.compile

    def counted(self, program):
        names.append(program.name)
        return compile_one(self, program)

    monkeypatch.setattr(LlvmCompiler, "anywhere", False)
    monkeypatch.setattr(LlvmCompiler, "compile", counted)
    with Context(CACHE=0):
        yield names


@pytest.fixture(scope="session")
def fusion(tmp_path_factory) -> Path:
    """A trace of the documents' fusion example."""
    from tests.recorded import FUSION, record

    folder = tmp_path_factory.mktemp("fusion")
    script = folder / "fusion.py"
    script.write_text(FUSION)
    return record(script, folder)


HERE = Path(__file__).parent
# Where choices by vectors and caches are made, and what comes of them: `make test-targets`.
TARGET_ROOMS = (
    "kernel/choose", "kernel/split", "schedule/test_online", "schedule/test_blocks",
    "schedule/test_chain", "schedule/test_skip", "source/test_llvm", "device/test_machine",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of what depends on the processor."""
    for item in items:
        if item.path.relative_to(HERE).as_posix().startswith(TARGET_ROOMS):
            item.add_marker(pytest.mark.target)
