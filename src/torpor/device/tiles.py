"""Whether this process may use the tile registers of AMX, which Linux has to be asked for.

Threads that are there and those that come later may use them once it allowed that to one of them,
and so may processes forked from this one (Linux, "Documentation/arch/x86/xstate.rst").
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import lru_cache
from typing import Final

ARCH_PRCTL: Final = 158  # the system call's number on x86-64
REQUEST: Final = 0x1023  # ARCH_REQ_XCOMP_PERM
TILE_DATA: Final = 18  # XFEATURE_XTILE_DATA


@lru_cache(maxsize=1)
def may_use_tiles() -> bool:
    """Whether the system allows it; asked once. Other systems than Linux are taken not to."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return bool(call(ARCH_PRCTL, REQUEST, TILE_DATA) == 0)
