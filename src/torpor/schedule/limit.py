"""The limit of memory that holds here and now (`afresh` plans within it), and what it has cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Economy(NamedTuple):
    """What a limit has cost: values that are computed afresh, operations more and in all, and the
    most bytes before and now.
    """

    values: int
    more: int
    operations: int
    before: int
    now: int

    def __str__(self) -> str:
        share = self.more / max(self.operations, 1)
        return (
            f"{self.values} values are computed again, {share:.0%} more operations; "
            f"{megabytes(self.now)} instead of {megabytes(self.before)}"
        )


def megabytes(count: int) -> str:
    """A number of bytes, to read."""
    return f"{count / 1e6:,.1f} MB"


@dataclass
class Limit:
    """The most bytes that kernels may write for results and on the way; `economies`: what it has
    cost, graph by graph.
    """

    bytes: int
    economies: list[Economy] = field(default_factory=list)


_limit: Final[ContextVar[Limit | None]] = ContextVar("torpor_memory_limit", default=None)
limit_now: Final = _limit.get


@contextmanager
def limited(limit: Limit | None) -> Iterator[None]:
    """Plan graphs in the block within the limit."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)
