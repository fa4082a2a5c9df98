"""PyTorch's `torch.random` by its names: where random numbers begin and go on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torpor.base.missing import names_of
from torpor.tensor.random import (
    get_rng_state,
    go_on_from,
    manual_seed,
    set_rng_state,
    state_of,
)

__all__ = [
    "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
]  # fmt: skip
__getattr__ = names_of("random", lambda: __all__)


def initial_seed() -> int:
    """The seed that this context's random numbers began from.

    >>> torpor.manual_seed(7)
    >>> torpor.random.initial_seed()
    7
    """
    return state_of(None).seed


def seed() -> int:
    """Begin this context's random numbers again, from a seed that nobody knows; gives it."""
    made = secrets.randbits(63)
    manual_seed(made)
    return made


@contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "", _devices_kw: str = "",
    device_type: str = "",
) -> Iterator[None]:  # fmt: skip
    """Random numbers drawn inside do not count behind it; all devices share one state, so which are
    named says nothing.

    >>> before = torpor.random.get_rng_state()
    >>> with torpor.random.fork_rng():
    ...     drawn = torpor.rand(2)
    >>> torpor.equal(torpor.random.get_rng_state(), before)
    True
    """
    state = state_of(None)
    try:
        yield
    finally:
        if enabled:
            go_on_from(None, state)
