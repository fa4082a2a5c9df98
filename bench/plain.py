"""Programs as they are first written, without a jit: time of the first, second and 100th pass.

python -m bench.plain            # torpor beside PyTorch, each program in a process of its own
python -m bench.plain torpor rows   # one of them: three times in seconds, as JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from bench import process

PASSES: Final = 120
LATE: Final = slice(90, None)  # passes whose median counts as the hundredth
LIBRARIES: Final = ("torpor", "torch")
RANDOM: Final = np.random.default_rng(0)


def tensor(lib: Any, array: Any) -> Any:
    """The array as a tensor of the library."""
    return lib.from_numpy(array.copy()) if lib.__name__ == "torch" else lib.Tensor(array).realize()


def descent(lib: Any) -> Callable[[int], float]:
    """Least squares, the step written by hand."""
    x = tensor(lib, RANDOM.standard_normal((500, 20)).astype(np.float32))
    y = tensor(lib, RANDOM.standard_normal(500).astype(np.float32))
    w = tensor(lib, np.zeros(20, np.float32)).requires_grad_()

    def step(_: int) -> float:
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with lib.no_grad():
            w.sub_(w.grad * 0.1) if lib.__name__ == "torch" else w.assign(w - w.grad * 0.1)
        w.grad = None
        return float(loss.item())

    return step


def minibatches(lib: Any) -> Callable[[int], float]:
    """A small network on slices of its data, with an optimiser."""
    x = tensor(lib, RANDOM.standard_normal((20_000, 64)).astype(np.float32))
    y = tensor(lib, RANDOM.integers(0, 10, 20_000))
    nn = lib.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimiser = (lib.optim if lib.__name__ == "torch" else nn.optim).Adam(model.parameters())

    def step(n: int) -> float:
        rows = slice(n * 128, n * 128 + 128)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimiser.step()
        return float(loss.item())

    return step


def crops(lib: Any) -> Callable[[int], float]:
    """A crop at a random place of images."""
    images = tensor(lib, RANDOM.standard_normal((16, 3, 64, 64)).astype(np.float32))
    places = RANDOM.integers(0, 16, (PASSES, 2)).tolist()

    def step(n: int) -> float:
        top, left = places[n]
        cut = images[:, :, top : top + 48, left : left + 48]
        return float(((cut - 0.5) * 2).abs().mean().item())

    return step


def rows(lib: Any) -> Callable[[int], float]:
    """A row of a table after the other."""
    table = tensor(lib, RANDOM.standard_normal((PASSES, 1000)).astype(np.float32))
    return lambda n: float((table[n] * 2).sum().item())


def cache(lib: Any) -> Callable[[int], float]:
    """Rows written to a cache, all of which is read each time."""
    kept = tensor(lib, np.zeros((PASSES, 256), np.float32))
    new = tensor(lib, RANDOM.standard_normal((PASSES, 256)).astype(np.float32))

    def step(n: int) -> float:
        kept[n] = new[n] * 2
        return float((kept @ new[n]).max().item())

    return step


PROGRAMS: Final = {p.__name__: p for p in (descent, minibatches, crops, rows, cache)}


def timed(name: str, program: str) -> list[float]:
    """Seconds of the first, the second and the hundredth pass."""
    step = PROGRAMS[program](process.library(name))
    times = []
    for n in range(PASSES):
        started = time.perf_counter()
        step(n)
        times.append(time.perf_counter() - started)
    return [times[0], times[1], float(np.median(times[LATE]))]


def main() -> None:
    """A table of all programs; or one of them, in this process."""
    if len(sys.argv) == 3:
        print(json.dumps(timed(*sys.argv[1:])))
        return
    print("Milliseconds.\n")
    print("| program | torpor: 1st | 2nd | 100th | torch: 1st | 2nd | 100th | 100th / torch |")
    print("|---|---|---|---|---|---|---|---|")
    for program in PROGRAMS:
        ours, theirs = (process.answer("bench.plain", name, program) for name in LIBRARIES)
        cells = [f"{seconds * 1e3:.2f}" for seconds in (*ours, *theirs)]
        print(f"| {program} | {' | '.join(cells)} | {ours[2] / theirs[2]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
