"""Kernels of a trace compiled anew, for other targets and with other opts."""

import shutil
import sys

import pytest

from torpor.explore.assembly import COMPILERS
from torpor.explore.remake import TARGETS, compute_program, material


def made(trace, **request):
    return compute_program({**material(trace, trace.kernels[0], "program"), **request})


def test_the_recorded_opts_give_the_recorded_source(trace):
    kernel = trace.kernels[0]
    found = made(trace, target="cpu", opts="\n".join(kernel.opts))
    assert (found["source"], found["opts"]) == (kernel.source, kernel.opts)
    assert kernel.name in found["assembly"]


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_its_source(trace, target):
    assert trace.kernels[0].name.split("_")[0] in made(trace, target=target, opts=None)["source"]


@pytest.mark.parametrize(
    ("processor", "sign"), [("sse", "xmm"), ("avx2", "ymm"), ("avx512", "zmm"), ("aarch64", ".4s")]
)
def test_processors_that_are_not_here_have_their_assembly(trace, processor, sign):
    found = made(trace, target=processor, opts="UPCAST 0 4")
    assert sign in found["assembly"] or sign in made(trace, target=processor)["assembly"]


def test_cuda_has_its_ptx(trace):
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as missing:
        pytest.skip(f"NVRTC cannot be loaded: {missing}")
    found = made(trace, target="cuda:sm_80", opts=None, what="assembly")
    assert ".target sm_80" in found["assembly"] and ".entry" in found["assembly"]


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="there is no compiler of C")
def test_c_has_its_assembly(trace):
    found = made(trace, target="c", opts=None, what="assembly")
    assert f"{trace.kernels[0].name.split('_')[0]}_" in found["assembly"]
    assert "ret" in found["assembly"]


@pytest.mark.parametrize(
    ("target", "needed"),
    [("cuda:sm_80", "torpor[cuda]"), ("c", "clang, gcc, cc"), ("metal", "macOS"),
     ("opencl", "OpenCL"), ("wgsl", "browser")],
)  # fmt: skip
def test_where_there_is_no_assembly_it_says_what_is_lacking(trace, monkeypatch, target, needed):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = made(trace, target=target, opts=None, what="assembly")
    assert found["assembly"] == "" and needed in found["lacking"] and found["source"]


@pytest.mark.parametrize(
    ("opts", "error"),
    [
        ("UPCAST 0 7", "does not fit"),
        ("import os", "is no opt"),
        ("UPCAST 0 2\n" * 70, "more than 64 opts"),
        ("UPCAST 0 (2, 2)", "is no opt"),
    ],
)
def test_opts_that_cannot_be_are_refused(trace, opts, error):
    assert error in made(trace, target="cpu", opts=opts)["error"]


def test_other_targets_are_refused(trace):
    assert "none of cpu" in made(trace, target="nothing", opts=None)["error"]
