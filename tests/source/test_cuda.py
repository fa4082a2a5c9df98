"""CUDA C++: golden text, the documents' form, and that NVRTC compiles it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source import golden, programs, run
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.ir.ops import ROUNDED
from torpor.source import render

CASES = [c for c in programs.all_cases() if "cuda" not in c.unlike]


def add_seven() -> list[UOp]:
    """Four elements an item: data0[4i...] = data1[4i...] + 7, lanes written out."""
    item = UOp(Ops.SPECIAL, dtypes.int32, (programs.number(4),), "lidx0")
    out, a = programs.param(0, dtypes.float32, 16), programs.param(1, dtypes.float32, 16)
    index = item << 2
    value = programs.load(programs.at(a, index), 4)
    sums = tuple(value.gep(n) + 7.0 for n in range(4))
    vector = UOp(Ops.VECTORIZE, value.dtype, sums)
    return [out, a, item, programs.store(programs.at(out, index), vector)]


def test_four_floats_at_once():
    text = render(add_seven(), "cuda", "E_4_4")
    assert text == (
        'extern "C" __global__ void __launch_bounds__(4) E_4_4(float* data0, float* data1) {\n'
        "  int lidx0 = threadIdx.x; /* 4 */\n"
        "  int alu0 = lidx0<<2;\n"
        "  float4 val0 = *((float4*)(data1+alu0));\n"
        "  *((float4*)(data0+alu0)) = "
        "make_float4(val0.x+7.0f, val0.y+7.0f, val0.z+7.0f, val0.w+7.0f);\n"
        "}\n"
    )


def test_a_vector_that_may_be_misaligned_is_read_by_lanes():
    loop = UOp.range(4, 0, dtype=dtypes.int32)
    a, out = programs.param(1, dtypes.float32), programs.param(0, dtypes.float32)
    value = programs.load(programs.at(a, loop * 4 + 1), 4)
    place = programs.at(out, loop * 4)
    text = render([out, a, loop, programs.store(place, value), UOp.end(loop)], "cuda", "shift")
    assert text.count("float4") == 2  # the store: a pointer's type, and the value
    assert text.count("data1[") == 4


@pytest.mark.parametrize("case", golden.cases("cuda"), ids=lambda c: c.name)
def test_golden(case):
    golden.check(case, "cuda")


@pytest.mark.nvrtc
def test_nvrtc_compiles_everything():
    text = "\n".join(f"namespace n{n} {{\n{run.text_of(c, 'cuda')}}}" for n, c in enumerate(CASES))
    lines = text.splitlines()
    defines = dict.fromkeys(t for t in lines if t.startswith("#define"))
    compile_cuda("\n".join([*defines, *(t for t in lines if not t.startswith("#define"))]))


@pytest.mark.nvrtc
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nvrtc_compiles_small_floats(dtype):
    """Their headers come in a wheel of their own."""
    nvidia = pytest.importorskip("nvidia")
    headers = [h for p in nvidia.__path__ for h in Path(p).glob("*/include/cuda_bf16.h")]
    if not headers:
        pytest.skip("the wheel with CUDA's headers is not installed")
    small = getattr(dtypes, dtype)
    out, a, whole = (
        programs.param(0, small),
        programs.param(1, small),
        programs.param(2, dtypes.int8),
    )
    loop = UOp.range(programs.SIZE, 0, dtype=dtypes.int32)
    value, other = programs.load(programs.at(a, loop)), programs.load(programs.at(whole, loop))
    result = (value * 1.5 - value.cast(dtypes.float64).cast(small)).maximum(other.cast(small))
    result = (value < 0.1).where(result.alu(Ops.SQRT), value.cast(dtypes.float32).cast(small))
    place = programs.at(out, loop)
    flag = programs.at(whole, loop)
    linear = [out, a, whole, loop, programs.store(place, result),
              programs.store(flag, value.cast(dtypes.int8)), UOp.end(loop)]  # fmt: skip
    compile_cuda(render(linear, "cuda", "small"), headers[0].parent)


def compile_cuda(text: str, headers: Path | None = None) -> None:
    """Fails with the compiler's log if NVRTC refuses the text."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"cases.cu", 0, [], [])
    except RuntimeError as missing:
        pytest.skip(f"NVRTC cannot be loaded: {missing}")
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    options = [b"--gpu-architecture=sm_80"]
    options += [f"--include-path={headers}".encode()] if headers else []
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()


def test_a_rounded_difference_is_not_contracted():
    out, a = programs.param(0, dtypes.float32, 1), programs.param(1, dtypes.float32, 1)
    x = programs.load(programs.at(a, programs.number(0)))
    less = UOp(Ops.SUB, dtypes.float32, (x * x, x), ROUNDED)
    linear = [out, a, programs.store(programs.at(out, programs.number(0)), less)]
    assert "__fsub_rn((val0*val0), val0)" in render(linear, "cuda", "less")
    assert "FP_CONTRACT OFF" in render(linear, "opencl", "less")
