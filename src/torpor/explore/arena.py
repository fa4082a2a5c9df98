"""What lies where in the memory of a replayed function, from which command to which."""

from __future__ import annotations

from typing import Any


def arena_of(graph: dict[str, Any] | None) -> dict[str, Any] | None:
    """Commands by name, arenas by size, and for each value its place, its size, and the first and
    the last command that use it; of results also the input whose memory they may take.
    """
    if graph is None:
        return None
    commands = [(str(name), [int(slot) for slot in slots]) for name, slots in graph["commands"]]
    results = [(str(device), int(size), donor) for device, size, donor in graph["results"]]
    arenas = [(str(device), int(size)) for device, size in graph["arenas"]]
    between = [tuple(int(number) for number in one) for one in graph["between"]]
    first_result = int(graph["inputs"]) + int(graph["constants"])
    first_arena = first_result + len(results)
    start = first_arena + len(arenas)
    uses: dict[int, list[int]] = {}
    for number, (_, slots) in enumerate(commands):
        for slot in slots:
            uses.setdefault(slot, []).append(number)
    values = []
    for slot, (size, base, offset) in enumerate(between, start):
        where = base - first_arena if base >= first_arena else f"result {base - first_result}"
        if slot in uses:
            times = {"first": uses[slot][0], "last": uses[slot][-1]}
            values.append({"bytes": size, "arena": where, "offset": offset, **times})
    return {
        "commands": [name for name, _ in commands],
        "inputs": int(graph["inputs"]),
        "arenas": [{"device": device, "bytes": size} for device, size in arenas],
        "values": values,
        "results": [
            {"device": device, "bytes": size, "donor": None if donor is None else int(donor),
             "first": min(uses.get(first_result + n, [0]))}
            for n, (device, size, donor) in enumerate(results)
        ],
    }  # fmt: skip
