"""How much slower the opts that the cost model ranks first are than the best of its candidates.

    python -m bench.regret [--most CANDIDATES] [--only WORD] [--json FILE]

Every candidate of each kernel is compiled and timed on one thread. A kernel's regret is the time of
the one that is predicted to be best over the least time, less one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from torpor import Tensor
from torpor.device import Device
from torpor.ir.uop import UOp
from torpor.kernel import Kernel
from torpor.kernel.choose.plans import best_plans
from torpor.kernel.choose.products import apply_plan
from torpor.kernel.choose.vectors import attempt_all
from torpor.pipeline import program_for

SAMPLES = 24
SMALL = 0x3B  # the bytes of a small positive number in all formats
SECONDS = 0.0004  # of a sample: shorter than what a busy machine lets another program run for


def shapes() -> Iterator[tuple[str, Tensor]]:
    """Results whose kernels are looked at."""
    e = Tensor.empty
    for rows, inner, columns in [
        (64, 64, 64), (96, 96, 96), (128, 128, 128), (192, 192, 192), (256, 256, 256),
        (384, 384, 384), (512, 512, 512), (500, 500, 500), (777, 777, 777), (1024, 1024, 1024),
        (300, 700, 500), (64, 2048, 96), (2048, 64, 2048), (17, 300, 1000), (96, 600, 300),
        (2048, 512, 32), (32, 512, 2048), (128, 4096, 128), (1000, 128, 1000), (256, 1024, 33),
        (50, 80, 130), (100, 33, 4000), (1000, 1000, 17), (200, 30, 40), (640, 480, 320),
        (333, 777, 111), (96, 96, 3000), (3000, 96, 96), (700, 1500, 64), (48, 48, 48),
    ]:  # fmt: skip
        name = f"{rows}x{inner}x{columns}"
        yield f"product {name}", e(rows, inner) @ e(inner, columns)
        yield f"product {name} tn", e(inner, rows).T @ e(inner, columns)
        yield f"product {name} nt", e(rows, inner) @ e(columns, inner).T
    for batch, length, width in [(8, 128, 64), (16, 200, 64), (4, 512, 64), (32, 100, 32)]:
        q, k = e(batch, length, width), e(batch, length, width)
        yield f"scores {batch}x{length}x{width}", q @ k.transpose(1, 2)
        yield f"values {batch}x{length}x{width}", e(batch, length, length) @ k
    for images, c, o, side, k, s in product((1, 4), (16, 64), (32, 128), (14, 28), (1, 3), (1, 2)):
        yield f"convolution {images}x{c}x{o}x{side} k{k} s{s}", convolved(images, c, o, side, k, s)
    for c, o, side, k, s in [
        (3, 64, 112, 7, 2), (64, 64, 56, 3, 1), (128, 128, 28, 3, 1), (256, 256, 14, 3, 1),
        (96, 80, 23, 3, 1), (24, 48, 32, 5, 1), (256, 64, 56, 1, 1), (512, 512, 7, 3, 1),
        (160, 160, 14, 3, 1), (48, 48, 40, 3, 1), (12, 40, 33, 3, 1), (40, 40, 17, 3, 1),
        (64, 96, 20, 5, 2), (32, 64, 41, 3, 2), (200, 100, 10, 1, 1),
    ]:  # fmt: skip
        x, w = e(4, c, side, side), e(o, c, k, k)
        y = x.conv2d(w, stride=s, padding=k // 2)
        yield f"convolution 4x{c}x{o}x{side} k{k} s{s}", y
        x, w = (Tensor.empty(*t.shape, requires_grad=True) for t in (x, w))
        loss = (x.conv2d(w, stride=s, padding=k // 2) * e(*y.shape)).sum()
        for name, found in zip(("image", "weight"), loss.gradient(x, w), strict=True):
            yield f"gradient {name} 4x{c}x{o}x{side} k{k} s{s}", found


def convolved(images: int, inputs: int, outputs: int, side: int, k: int, s: int) -> Tensor:
    x, w = Tensor.empty(images, inputs, side, side), Tensor.empty(outputs, inputs, k, k)
    return x.conv2d(w, stride=s, padding=k // 2)


def runner(item: Any, ast: UOp, opts: Any) -> Callable[[], object]:
    """What runs a kernel with these opts again and again."""
    device = Device["CPU"]
    program = program_for(ast, device.target, opts)
    executable = device.executable(program, device.compiler.compile(program))
    buffers = [node.arg for node in item.buffers]
    for buffer in buffers:
        if not buffer.is_allocated():  # pages that nobody wrote to are all the same one
            buffer.allocate()
            buffer.numpy().view("uint8")[:] = SMALL
    return lambda: executable(buffers)


def rounds_of(call: Callable[[], object]) -> int:
    """How many calls a sample takes."""
    call()
    started = time.perf_counter()
    call()
    return max(1, round(SECONDS / (time.perf_counter() - started)))


def sampled(calls: list[Callable[[], object]]) -> list[float]:
    """Least seconds of each call, sampled in turn, so that a busy machine is so for all."""
    rounds, best = [rounds_of(call) for call in calls], [float("inf")] * len(calls)
    for _ in range(SAMPLES):
        for number, call in enumerate(calls):
            started = time.perf_counter()
            for _ in range(rounds[number]):
                call()
            best[number] = min(best[number], (time.perf_counter() - started) / rounds[number])
    return best


def spread(found: list[Any], most: int) -> list[Any]:
    """Some of the candidates: the first ones, and others evenly from the rest."""
    head, rest = found[: most // 2], found[most // 2 :]
    return [*head, *rest[:: max(1, 2 * len(rest) // most)]]


def candidates(item: Any, most: int) -> list[dict[str, Any]]:
    """Predicted and measured seconds of candidates, in the order of the predictions."""
    kernel = Kernel(item.ast, Device["CPU"].target)
    found, calls = [], []
    for predicted, plan in spread(best_plans(kernel), most):
        trial = kernel.copy()
        if attempt_all(trial, kernel, apply_plan, plan):
            calls.append(runner(item, item.ast, trial.opts))
            bare = plan.roles._replace(
                lead=None, other=None, around=(), rows=(), lane=None, sums=()
            )
            found.append({"predicted": predicted, "plan": str(plan._replace(roles=bare))})
    for one, taken in zip(found, sampled(calls), strict=True):
        one["measured"] = taken
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=16)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    seen: set[bytes] = set()
    record: dict[str, list[dict[str, Any]]] = {}
    regrets = []
    for name, result in shapes():
        if chosen.only not in name:
            continue
        for item in result.schedule():
            if item.ast.key in seen:
                continue
            seen.add(item.ast.key)
            found = candidates(item, chosen.most)
            if found:
                best = min(found, key=lambda one: one["measured"])
                regrets.append(found[0]["measured"] / best["measured"] - 1)
                record[name] = found
                first, predicted = (found[0][key] * 1e6 for key in ("measured", "predicted"))
                line = f"{name:44s} {len(found):3d} {regrets[-1]:6.1%}  {first:9.1f} us"
                print(f"{line} (predicted {predicted:9.1f})", flush=True)
                if chosen.json:
                    chosen.json.write_text(json.dumps(record))
    regrets.sort()
    print(
        f"{len(regrets)} kernels: median {statistics.median(regrets):.1%}, "
        f"95th percentile {regrets[int(0.95 * (len(regrets) - 1))]:.1%}"
    )


if __name__ == "__main__":
    main()
