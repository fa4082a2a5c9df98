"""Results that take over the memory of what their kernel reads for the last time."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TypeVar

from torpor.ir.records import Program

Memory = TypeVar("Memory", bound=Hashable)


def heirs(
    kernels: Sequence[tuple[Program | None, Sequence[Memory]]], dying: Collection[Memory]
) -> dict[int, list[tuple[Memory, Memory]]]:
    """By number of the kernel: (result, the memory that it may lie in from its first moment on).

    `kernels` are programs (None: a copy) and their memory by parameter, in the order in which they
    run. `dying` is memory that nobody needs after the last kernel that has it.
    """
    first: dict[Memory, int] = {}
    last: dict[Memory, int] = {}
    for number, (_, places) in enumerate(kernels):
        for place in places:
            first.setdefault(place, number)
            last[place] = number
    found: dict[int, list[tuple[Memory, Memory]]] = {}
    for number, (program, places) in enumerate(kernels):
        taken: set[Memory] = set()
        for output, slot in program.shared if program is not None else ():
            new, old = places[output], places[slot]
            alone = places.count(new) == places.count(old) == 1
            if alone and old in dying and first[new] == number == last[old]:
                if not taken & {new, old}:
                    taken |= {new, old}
                    found.setdefault(number, []).append((new, old))
    return found
