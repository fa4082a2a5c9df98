"""PyTorch's `torch.backends` and what else chooses how it computes, which programs set before they
begin. No value depends on it here: float32 is computed in float32 and denormal numbers are kept, by
generated code that gives the same at each run.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from torpor.base import settings
from torpor.base.errors import ValueRangeError
from torpor.base.missing import missing, names_of
from torpor.device.pool import thread_count
from torpor.tensor.cuda import is_available
from torpor.tensor.spelling import among

_precision = "highest"


class _Switches(ModuleType):
    """Names that may be set, to no effect; and whether a backend is there."""

    def __init__(self, name: str, there: Any = False, **switches: Any):
        super().__init__(f"torpor.backends.{name}")
        vars(self).update(switches, is_available=there if callable(there) else lambda: there)
        vars(self).update(is_built=self.is_available)
        names_of(self.__name__, lambda: vars(self))

    def __getattr__(self, name: str) -> Any:
        missing(self.__name__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name[0] != "_" and name not in vars(self):
            missing(self.__name__, name)
        super().__setattr__(name, value)


_REDUCED: Final = {
    f"allow_{name}": False
    for name in (
        "tf32", "fp16_reduced_precision_reduction", "bf16_reduced_precision_reduction",
        "fp16_accumulation",
    )
}  # fmt: skip
cudnn = _Switches(
    "cudnn", is_available, enabled=True, benchmark=False, deterministic=True, allow_tf32=False,
    benchmark_limit=10, fp32_precision="ieee", version=lambda: None,
)  # fmt: skip
cuda = _Switches(
    "cuda", is_available, matmul=_Switches("cuda.matmul", **_REDUCED, fp32_precision="ieee"),
    **{
        f"enable_{name}_sdp": lambda enabled: None
        for name in ("flash", "math", "mem_efficient", "cudnn")
    },
)  # fmt: skip
mps, mkldnn, mkl, openmp = (
    _Switches(name, enabled=False) for name in ("mps", "mkldnn", "mkl", "openmp")
)
opt_einsum = _Switches("opt_einsum", True, enabled=True, strategy="auto")


def set_float32_matmul_precision(precision: str) -> None:
    """Nothing: products of float32 are computed in float32, as for "highest".

    >>> torpor.set_float32_matmul_precision("high")
    >>> torpor.get_float32_matmul_precision()
    'high'
    """
    global _precision
    among("the precision", precision, "highest", "high", "medium")
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What was said last; "highest" at first."""
    return _precision


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are kept."""
    return False


def set_num_threads(threads: int) -> None:
    """So many threads compute from here on, in this context: the setting THREADS."""
    if threads < 1:
        raise ValueRangeError(f"at least one thread computes, not {threads}")
    settings.Context(THREADS=threads).__enter__()


def get_num_threads() -> int:
    """How many threads compute."""
    return thread_count()


__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]
__getattr__ = names_of("torpor.backends", lambda: __all__, __name__)
