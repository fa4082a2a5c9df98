"""Every workload there is, one file a family."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from bench.workload import Workload
from bench.workloads import attention, convolution, indexing, language, matmul, memory, steps

ALL: tuple[Workload, ...] = (
    *matmul.WORKLOADS,
    *memory.WORKLOADS,
    *convolution.WORKLOADS,
    *attention.WORKLOADS,
    *indexing.WORKLOADS,
    *language.WORKLOADS,
    *steps.WORKLOADS,
)


def choose(patterns: Sequence[str], quick: bool) -> list[Workload]:
    """The workloads whose names hold (or, with wildcards, match) one of the patterns; all without
    any. `quick` leaves only the short list, unless patterns choose.
    """
    chosen = [x for x in ALL if not patterns or any(matches(x.name, p) for p in patterns)]
    short = [x for x in chosen if x.quick]
    return short if quick and (short or not patterns) else chosen


def matches(name: str, pattern: str) -> bool:
    """Whether a workload's name is meant."""
    return fnmatchcase(name, pattern if any(c in pattern for c in "*?[") else f"*{pattern}*")
