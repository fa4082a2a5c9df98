"""Which launches of a kernel stand for all of them, where it has VARIABLEs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

Values = Mapping[str, int]  # of a launch's VARIABLEs, by name


def typical(launches: Sequence[Values]) -> tuple[Values, ...]:
    """The launch whose values are nearest to all the others', then the first and the last one, each
    once. What a block of causal attention does grows with its number, so none stands for all.
    """
    known = [dict(pairs) for pairs in dict.fromkeys(tuple(one.items()) for one in launches)]
    if not known:
        return ({},)
    middle = {name: statistics.median(one[name] for one in known) for name in known[0]}
    spread = {name: max(abs(one[name] - middle[name]) for one in known) for name in middle}

    def distance(values: Values) -> float:
        """From the middle, each number by how far it goes."""
        return sum(abs(values[name] - middle[name]) / (spread[name] or 1) for name in middle)

    chosen = (min(known, key=distance), known[0], known[-1])
    return tuple(one for n, one in enumerate(chosen) if one not in chosen[:n])
