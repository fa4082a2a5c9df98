"""What small things cost beside their kernels, in microseconds.

python -m bench.latency                  # all libraries by turns, each in fresh processes
python -m bench.latency torpor           # one of them in this process, as JSON
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from bench import process

LIBRARIES: Final = ("torpor", "torch", "jax")
SIZE: Final = (16, 16)
TINY: Final = 1000  # kernels in one function
ROUNDS: Final = 200  # of which the least is taken: others take away time, nobody gives any
CALLS: Final = 200
WARM: Final = 3000
WHAT: Final = {
    "built": "`a + b`, a node built",
    "eager": "`a + b` computed, again and again",
    "jitted": "jitted `a + b`",
    "tiny": f"each of {TINY} kernels of one jitted function",
}

Call = Callable[[], Any]


def microseconds(call: Call, calls: int = CALLS, warm: int = WARM) -> float:
    """The least over rounds of what a call takes."""
    for _ in range(warm):
        call()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - began) / calls)
    return min(times) * 1e6


def of_torpor(a: Any, b: Any) -> dict[str, float]:
    import torpor

    a, b = torpor.Tensor(a).realize(), torpor.Tensor(b).realize()
    add = torpor.jit(lambda a, b: a + b)

    def chain(x: Any) -> Any:
        for _ in range(TINY):
            x = (x + 1).contiguous()
        return x

    chain = torpor.jit(chain)
    return {
        "built": microseconds(lambda: a + b),
        "eager": microseconds(lambda: (a + b).realize()),
        "jitted": microseconds(lambda: add(a, b).realize()),
        "tiny": microseconds(lambda: chain(a).realize(), 5, 20) / TINY,
    }


def of_torch(a: Any, b: Any) -> dict[str, float]:
    import torch

    a, b = torch.from_numpy(a), torch.from_numpy(b)

    def chain() -> Any:
        x = a
        for _ in range(TINY):
            x = x + 1
        return x

    return {"eager": microseconds(lambda: a + b), "tiny": microseconds(chain, 5, 20) / TINY}


def of_jax(a: Any, b: Any) -> dict[str, float]:
    import jax

    a, b = jax.device_put(a), jax.device_put(b)
    add = jax.jit(lambda a, b: a + b)

    def chain(x: Any) -> Any:
        for _ in range(TINY):
            x = jax.lax.optimization_barrier(x + 1)  # type: ignore[no-untyped-call]
        return x

    chain = jax.jit(chain)
    return {
        "eager": microseconds(lambda: a + b),
        "eager, waited for": microseconds(lambda: (a + b).block_until_ready()),
        "jitted": microseconds(lambda: add(a, b)),
        "jitted, waited for": microseconds(lambda: add(a, b).block_until_ready()),
        "tiny": microseconds(lambda: chain(a).block_until_ready(), 5, 20) / TINY,
    }


def timed(name: str) -> dict[str, float]:
    """Microseconds of one library."""
    process.library(name)
    a, b = np.ones(SIZE, np.float32), np.ones(SIZE, np.float32)
    return {"torpor": of_torpor, "torch": of_torch, "jax": of_jax}[name](a, b)


def measured(name: str) -> dict[str, float]:
    """The same in a process of its own."""
    with process.scratch() as cache:
        variables = process.environment(process.THREADS, cache)
        found: dict[str, float] = process.answer("bench.latency", name, variables=variables)
    return found


def cell(found: dict[str, float], key: str) -> str:
    """What the table says of one library; what is waited for, in brackets."""
    if key not in found:
        return "–"
    waited = found.get(f"{key}, waited for")
    return f"{found[key]:.2f}" + (f" ({waited:.2f})" if waited else "")


def main() -> None:
    """A table; or one library in this process."""
    if len(sys.argv) == 2 and sys.argv[1] in LIBRARIES:
        print(json.dumps(timed(sys.argv[1])))
        return
    parser = argparse.ArgumentParser(prog="bench.latency")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library")
    rounds = parser.parse_args().rounds
    found = {name: [measured(name) for _ in range(rounds)] for name in LIBRARIES}
    best = {
        name: {key: float(np.median([one[key] for one in ones])) for key in ones[0]}
        for name, ones in found.items()
    }
    print("Microseconds; in brackets with waiting for the result.\n")
    print(f"| 16 × 16 floats | {' | '.join(LIBRARIES)} |\n|{'---|' * (len(LIBRARIES) + 1)}")
    for key, what in WHAT.items():
        print(f"| {what} | {' | '.join(cell(best[name], key) for name in LIBRARIES)} |")


if __name__ == "__main__":
    main()
