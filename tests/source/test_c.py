"""C: compiles without a warning, and computes what NumPy does."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest

from tests.source import golden, programs, run

CASES = [c for c in programs.all_cases() if "c" not in c.unlike]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return run.compile_c(CASES, tmp_path_factory.mktemp("c"))


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_agrees_with_numpy(case, library):
    run.run_c(case, library)


def test_half_agrees_with_numpy(tmp_path):
    """Not every GCC has `_Float16`; where it has, each step is rounded to it."""
    probe = tmp_path / "probe.c"
    probe.write_text("_Float16 half(float x) { return (_Float16)x; }\n")
    command = ["gcc", "-std=c11", "-shared", "-fPIC", str(probe), "-o", str(tmp_path / "probe.so")]
    if shutil.which("gcc") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("gcc has no _Float16")
    halves = [programs.float_arithmetic(count, "float16") for count in (1, 4)]
    library = run.compile_c(halves, tmp_path)
    assert isinstance(library, ctypes.CDLL)
    for case in halves:
        run.run_c(case, library)


@pytest.mark.parametrize("case", golden.cases("c"), ids=[c.name for c in golden.cases("c")])
def test_golden(case):
    golden.check(case, "c")
