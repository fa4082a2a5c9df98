"""How long it takes to begin: imports, a first sum, and compiling n equal layers.

python -m bench.first                        # everything, in fresh processes
python -m bench.first --only import          # one part: import, sum or layers
python -m bench.first --rounds 21            # medians of more processes
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
from bench.steps import kernels, seconds

IMPORTS: Final = {
    "numpy": "import numpy",
    "torpor": "import torpor",
    "torpor's Tensor": "from torpor import Tensor",
    "torpor's Tensor, nn, jit": "from torpor import Tensor, jit, nn",
    "torch": "import torch",
    "jax": "import jax.numpy",
}
LAYERS: Final = (1, 2, 4, 8, 16, 32, 64)
WIDTH: Final = 96
BATCH: Final = 32


# --- in this process ------------------------------------------------------------------------------
def summed(name: str) -> dict[str, float]:
    """Seconds of the first sum of two arrays, and of the second, after the import."""
    lib = process.library(name)
    made = {"torpor": lambda x: lib.Tensor(x), "torch": lambda x: lib.tensor(x)}
    make: Callable[[Any], Any] = made.get(name) or lib.numpy.asarray
    a, b = np.ones((16, 16), np.float32), np.ones((16, 16), np.float32)
    make(a)  # the import of what makes tensors is not counted here
    times = [time.perf_counter()]
    for _ in range(2):
        np.asarray((make(a) + make(b)) if name == "jax" else (make(a) + make(b)).numpy())
        times.append(time.perf_counter())
    return {"first": times[1] - times[0], "second": times[2] - times[1]}


def layered(count: str) -> dict[str, float]:
    """Seconds and kernels of the first step of training so many equal layers."""
    lib = process.library("torpor")
    nn = lib.nn
    parts = [part for _ in range(int(count)) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    model = nn.Sequential(*parts)
    rule = nn.optim.SGD(model.parameters(), lr=0.01)

    def step(x: Any, y: Any) -> Any:
        rule.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        rule.step()
        return loss

    jitted = lib.jit(step)
    x, y = lib.Tensor.ones(BATCH, WIDTH).realize(), lib.Tensor.zeros(BATCH, WIDTH).realize()
    times = [time.perf_counter()]
    for _ in range(2):
        float(jitted(x, y).item())
        times.append(time.perf_counter())
    made = {"first": times[1] - times[0], "second": times[2] - times[1]}
    return made | {"kernels": kernels(lib, jitted)}


# --- all of them ----------------------------------------------------------------------------------
PARTS: Final[dict[str, Callable[[str], dict[str, float]]]] = {"sum": summed, "layers": layered}
CLOCK: Final = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"


def medians(rounds: int, part: str, what: str, again: bool = False) -> list[dict[str, float]]:
    """What a part gives, the median of each figure: with an empty cache on the disk and, `again`,
    with what that left there.
    """
    found: list[list[dict[str, float]]] = []
    for _ in range(rounds):
        with process.scratch() as cache:
            variables = process.environment(process.THREADS, cache)
            found.append([process.answer("bench.first", part, what, variables=variables)
                          for _ in range(1 + again)])  # fmt: skip
    return [
        {key: float(np.median([one[key] for one in ones])) for key in ones[0]}
        for ones in zip(*found, strict=True)
    ]


def imports(rounds: int) -> None:
    """The table of imports, each into an interpreter that has nothing else."""
    print("| import of | seconds |\n|---|---|")
    for what, statement in IMPORTS.items():
        times = [process.said("-c", CLOCK.format(statement)) for _ in range(rounds + 1)][1:]
        print(f"| {what} | {seconds(float(np.median(times)))} |", flush=True)


def sums(rounds: int) -> None:
    """The table of first sums."""
    print("| `(a + b).numpy()` | first, cold | warm | second |\n|---|---|---|---|")
    for name in ("torpor", "torch", "jax"):
        cold, warm = medians(rounds, "sum", name, again=True)
        cells = (cold["first"], warm["first"], warm["second"])
        print(f"| {name} | {' | '.join(map(seconds, cells))} |", flush=True)


def layers(rounds: int) -> None:
    """The table of equal layers."""
    print("| equal layers | first step, cold | warm | second | kernels |\n|---|---|---|---|---|")
    for count in LAYERS:
        cold, warm = medians(rounds, "layers", str(count), again=True)
        cells = (seconds(x) for x in (cold["first"], warm["first"], warm["second"]))
        print(f"| {count} | {' | '.join(cells)} | {warm['kernels']:.0f} |", flush=True)


TABLES: Final = {"import": imports, "sum": sums, "layers": layers}


def main() -> None:
    """All tables; or one figure in this process, as JSON."""
    if len(sys.argv) == 3 and sys.argv[1] in PARTS:
        print(json.dumps(PARTS[sys.argv[1]](sys.argv[2])))
        return
    parser = argparse.ArgumentParser(prog="bench.first")
    parser.add_argument("--only", choices=list(TABLES), action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for part in options.only or TABLES:
        TABLES[part](1 if part == "layers" else options.rounds)
        print()


if __name__ == "__main__":
    main()
