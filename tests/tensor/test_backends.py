"""What chooses how PyTorch computes: it may be set, and changes nothing."""

import pytest

import torpor
from torpor.device.pool import thread_count


def test_switches_of_backends_may_be_set():
    import torpor.backends.cudnn as cudnn

    cudnn.benchmark = True
    torpor.backends.cuda.matmul.allow_tf32 = True
    assert torpor.backends.cudnn.benchmark and torpor.backends.cuda.matmul.allow_tf32
    assert torpor.backends.mps.is_available() is torpor.backends.mps.is_built() is False
    torpor.backends.cuda.enable_flash_sdp(False)
    with pytest.raises(AttributeError, match="benchmrk"):
        cudnn.benchmrk = True
    with pytest.raises(AttributeError, match="xeon"):
        torpor.backends.xeon  # noqa: B018
    cudnn.benchmark = torpor.backends.cuda.matmul.allow_tf32 = False


def test_precision_threads_and_denormals():
    before = torpor.get_float32_matmul_precision()
    torpor.set_float32_matmul_precision("medium")
    assert torpor.get_float32_matmul_precision() == "medium"
    torpor.set_float32_matmul_precision(before)
    with pytest.raises(ValueError, match="highest"):
        torpor.set_float32_matmul_precision("low")
    assert torpor.set_flush_denormal(True) is False
    assert (torpor.tensor([1e-40]) * 1).item() > 0
    with torpor.Context(THREADS=2):
        torpor.set_num_threads(1)
        assert torpor.get_num_threads() == thread_count() == 1
        with pytest.raises(ValueError, match="at least one"):
            torpor.set_num_threads(0)
    assert issubclass(torpor.base.errors.MemoryLimitError, torpor.cuda.OutOfMemoryError)
