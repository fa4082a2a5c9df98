"""Ways to run the programs of `programs.py`: through LLVM, gcc and OpenCL."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
from llvmlite import binding

from tests.source.programs import Case
from torpor.base.target import get_target
from torpor.ir import Ops
from torpor.source import RENDERERS, signature


def text_of(case: Case, target: str) -> str:
    """The case's source for a target; `wide_numbers` and all others by their own name."""
    return RENDERERS[target.partition(":")[0]](get_target(target)).render(case.name, case.linear)


def buffers(case: Case) -> list[np.ndarray]:
    """Zeroed outputs (what is never written must stay 0), then the inputs."""
    return [np.zeros(e.shape, e.dtype) for e in case.expected] + [a.copy() for a in case.inputs]


def compare(case: Case, results: list[np.ndarray], error: int) -> None:
    for number, (got, want) in enumerate(zip(results, case.expected, strict=False)):
        np.testing.assert_array_equal(got, want, f"{case.name}: output {number}", strict=True)
    assert error == (case.error or 0), case.name


def call(case: Case, address: int) -> None:
    """Run native code and compare what it leaves behind."""
    memory, error = buffers(case), ctypes.c_int64(0)
    takes = signature(case.linear)
    arguments: list[object] = [ctypes.c_void_p(m.ctypes.data) for m in memory]
    arguments += [ctypes.c_int(v) for v in case.variables]
    arguments += [ctypes.byref(error)] if any(n.op is Ops.CHECK for n in case.linear) else []
    if takes.thread is not None:
        arguments += [ctypes.c_int64(n) for n in case.threads or ()]
    ctypes.CFUNCTYPE(None)(address)(*arguments)
    compare(case, memory, error.value)


def machine(triple: str, cpu: str, features: str) -> binding.TargetMachine:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)


def parsed(text: str, generator: binding.TargetMachine) -> binding.ModuleRef:
    """The module, verified, with its registers in SSA form."""
    module = binding.parse_assembly(text)
    module.verify()
    builder = binding.create_pass_builder(generator, binding.create_pipeline_tuning_options())
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, builder)
    return module


def host_machine() -> binding.TargetMachine:
    features = binding.get_host_cpu_features().flatten()
    return machine(binding.get_process_triple(), binding.get_host_cpu_name(), features)


def run_llvm(case: Case) -> None:
    generator = host_machine()
    engine = binding.create_mcjit_compiler(parsed(text_of(case, "cpu"), generator), generator)
    engine.finalize_object()
    call(case, engine.get_function_address(case.name))


def compile_c(cases: list[Case], folder: Path) -> ctypes.CDLL:
    """All cases in one library; any warning fails."""
    files = []
    for case in cases:
        files.append(folder / f"{case.name}.c")
        files[-1].write_text(text_of(case, "c"))
    library = folder / "cases.so"
    command = ["gcc", "-std=c11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(library), *map(str, files), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def run_c(case: Case, library: ctypes.CDLL) -> None:
    call(case, ctypes.cast(getattr(library, case.name), ctypes.c_void_p).value or 0)
