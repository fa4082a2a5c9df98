"""What targets are called."""

import pytest

from torpor import Context, Tensor, lower
from torpor.base.errors import DeviceError
from torpor.base.target import get_target


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("llvm", "cpu"),
        ("LLVM", "cpu"),
        ("CPU", "cpu"),
        ("webgpu", "wgsl"),
        ("webgpu:f16", "wgsl:f16"),
    ],
)
def test_other_names_of_targets(name, meant):
    assert get_target(name) == get_target(meant)
    x = Tensor.empty(4)
    (program,), (same,) = lower(x + 1, target=name), lower(x + 1, target=meant)
    assert program == same
    assert program.target == meant.partition(":")[0]


def test_each_name_of_the_documents_compiles():
    for name in ("cpu", "c", "cuda", "cuda:sm_90a", "opencl", "metal", "wgsl", "wgsl:f16"):
        (program,) = lower(Tensor.empty(4) + 1, target=name)
        assert "E_4" in program.source


@pytest.mark.parametrize(
    "name",
    ["", "gpu", "llvm ir", "cpu:avx2", "cuda:", "cuda:sm_", "cuda:90", "wgsl:f32", 5],
)
def test_what_is_no_target_is_refused(name):
    with pytest.raises(DeviceError, match="unknown target"):
        lower(Tensor.empty(4) + 1, target=name)


def test_a_processor_is_no_target_and_a_target_no_processor():
    with pytest.raises(DeviceError, match="the setting TARGET says which processor"):
        get_target("cpu:avx2")
    with Context(TARGET="cuda"), pytest.raises(DeviceError, match=r"lower\(..., target=...\)"):
        lower(Tensor.empty(4) + 1)
