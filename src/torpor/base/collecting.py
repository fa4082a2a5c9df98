"""Compilers make many nodes, which die by their counts of references: looking for cycles among
them, and among all else that a program holds, takes 11 to 14 % of a first call's processor time (a
ResNet and a transformer; two cores of Zen 4, 2026-11-23). What is left of them stays: counted as
new, it would have Python look through everything in some later pass of a loop, for 20 to 60 ms.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

FIRST: Final = 32  # times that what there is counts as old: who compiles for ever may leave cycles
_times: Final = count()


@contextmanager
def uncollected() -> Iterator[None]:
    """Python looks for no cycles inside, in any thread; afterwards it does as before, and what
    there is by then is old, the first few times.
    """
    was = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was:
            if not gc.get_freeze_count() and next(_times) < FIRST:  # what is frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()
