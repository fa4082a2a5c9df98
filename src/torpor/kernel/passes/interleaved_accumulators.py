"""In which order sums that are written out are computed: what several of them read is read once.

before  a0*w0, a0*w0 + a1*w1, ..., then a1*w0, a1*w0 + a2*w1, ...
after   a0*w0, then a0*w0 + a1*w1 and a1*w0, ...

Sums beside each other (windows that overlap) would else be computed one after the other, and what
they share would wait in a register, or be read again, for as long as a whole sum takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

LONG: Final = 3  # terms from which a sum has an order to speak of
REGISTERS: Final = 12  # for sums, and for factors: others are left to what is loaded

Chain = list[UOp]  # additions of a product each to what is there, in order


class Together(NamedTuple):
    """Sums that grow at once: their additions in order, and the last one of each."""

    steps: list[UOp]
    sums: list[UOp]


@dataclass
class Group:
    """Sums that share what is loaded: the step at which each begins, and when loads are used."""

    chains: list[tuple[int, Chain]]
    used: dict[UOp, int]


def interleaved(nodes: Iterable[UOp], is_here: Callable[[UOp], bool]) -> list[Together]:
    """The additions of long sums of products among some nodes, in an order in which sums that share
    what is loaded here use it at once: of those that grow together, and then of the next ones.
    """
    groups: list[Group] = []
    for chain in chains_of(nodes):
        place(chain, groups, is_here)
    order: list[Together] = []
    batch: list[tuple[int, Chain]] = []
    for group in groups:
        if batch and len(batch) + len(group.chains) > most_together(group):
            order.append(in_turns(batch))
            batch = []
        batch += group.chains
    return [*order, in_turns(batch)] if batch else order


def most_together(group: Group) -> int:
    """How many sums grow at once. Factors that are there before either stay in registers, or are
    so many that none does: then sums side by side read each of them together.
    """
    factors = {s for _, chain in group.chains for step in chain for s in step.src[1].src}
    others = len(factors - group.used.keys())
    return REGISTERS if others > REGISTERS // 2 + 2 else REGISTERS - others


def chains_of(nodes: Iterable[UOp]) -> list[Chain]:
    """The sums of products, added one after the other, that are long."""
    ending: dict[UOp, Chain] = {}
    for node in nodes:
        if node.op is Ops.ADD and node.src[1].op is Ops.MUL and node.dtype.is_float:
            ending[node] = [*ending.pop(node.src[0], ()), node]
    return [chain for chain in ending.values() if len(chain) >= LONG]


def place(chain: Chain, groups: list[Group], is_here: Callable[[UOp], bool]) -> None:
    """Put a sum into the group with which it shares loads, at the step that brings them together;
    into one of its own if there is none.
    """
    factors = [[s for s in step.src[1].src if s.op is Ops.LOAD] for step in chain]
    loads = [(load, n) for n, found in enumerate(factors) for load in found if is_here(load)]
    found = next((g for g in groups if any(load in g.used for load, _ in loads)), None)
    if found is None:
        found = Group([], {})
        groups.append(found)
    start = next((found.used[load] - n for load, n in loads if load in found.used), 0)
    found.chains.append((start, chain))
    for load, n in loads:
        found.used.setdefault(load, start + n)


def in_turns(chains: list[tuple[int, Chain]]) -> Together:
    """The steps of all sums, those first that come first."""
    timed = [
        (start + n, number, step)
        for number, (start, chain) in enumerate(chains)
        for n, step in enumerate(chain)
    ]
    steps = [step for _, _, step in sorted(timed, key=when)]
    return Together(steps, [chain[-1] for _, chain in chains])


def when(timed: tuple[int, int, UOp]) -> tuple[int, int]:
    """Sort key of steps."""
    return timed[:2]
