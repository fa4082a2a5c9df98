"""Assembly of a kernel: LLVM's for processors, and for others that of a compiler that is here."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from torpor.base.errors import DeviceError

COMPILERS: Final = ("clang", "gcc", "cc")  # of C
NONE: Final = {
    "opencl": "The driver of an OpenCL device makes its machine code, and keeps it.",
    "metal": "Apple's compiler, which only macOS has, makes machine code of Metal.",
    "wgsl": "The browser, and the driver below it, make machine code of WGSL.",
}


def assembly_of(name: str, source: str) -> str:
    """The assembly of a source for a target that LLVM is not asked for: of C by a compiler that is
    installed, of CUDA as PTX by NVRTC. A `DeviceError` says what would be needed.
    """
    family, _, architecture = name.partition(":")
    if family == "c":
        return of_c(source)
    if family == "cuda":
        return of_cuda(source, architecture)
    raise DeviceError(NONE[family])


def of_c(source: str) -> str:
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    if found is None:
        raise DeviceError(
            f"Assembly of C needs a compiler: none of {', '.join(COMPILERS)} is here."
        )
    command = [found, "-O2", "-S", "-x", "c", "-o", "-", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceError(f"{found}: {done.stderr}")
    return done.stdout


def of_cuda(source: str, architecture: str) -> str:
    """PTX, of which the driver makes machine code."""
    try:
        from cuda.bindings import nvrtc

        _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    except (ImportError, RuntimeError):
        needed = (
            "Assembly for CUDA (PTX) needs NVRTC: pip install 'torpor[cuda]'; no GPU is needed."
        )
        raise DeviceError(needed) from None
    options = [f"--gpu-architecture={architecture.replace('sm', 'compute')}", *_headers()]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    failed = status != nvrtc.nvrtcResult.NVRTC_SUCCESS
    what = "ProgramLog" if failed else "PTX"
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    text: bytes = b" " * size
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    if failed:
        raise DeviceError(f"NVRTC: {text.decode()}")
    return text.rstrip(b"\0 ").decode()


def _headers() -> list[str]:
    """Options for those of small floats, which come in a wheel of their own."""
    wheels = find_spec("nvidia")
    places = [] if wheels is None else wheels.submodule_search_locations or []
    folders = {h.parent for p in places for h in Path(p).glob("*/include/cuda_bf16.h")}
    return [f"--include-path={folder}" for folder in sorted(folders)]
