"""`python -m conformance.program_passes`: random programs as the bodies of loops, by PyTorch and by
torpor.

    python -m conformance.program_passes --seconds 600    ten minutes of them
    python -m conformance.program_passes --seed 17        one of them, with its text

In each of a loop's passes other numbers come in; one length of the inputs stays, grows, alternates
or is drawn; all results, some, or others each time are asked for, in some order; what nobody asked
for may be kept and asked for passes later. Half of those that can be are jitted.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from conformance.programs import (
    Maker,
    Program,
    coarsest,
    differs,
    given_tensor,
    is_steady,
    of_torch,
    search,
)

PASSES = 14
LATER = 4  # so many passes one after which all is asked for that was kept
GROWTH: dict[str, Callable[[random.Random, int], int]] = {
    "stays": lambda _, number: 0,
    "grows": lambda _, number: number,
    "alternates": lambda _, number: number % 2 * 3,
    "is drawn": lambda chance, _: chance.randint(0, 6),
}


def redrawn(numbers: np.random.Generator, tensor: Any, shape: list[int]) -> Any:
    """Other numbers of a tensor's format."""
    import torch

    if tensor.dtype == torch.bool:
        return torch.tensor(numbers.random(shape) < 0.5)
    if tensor.dtype.is_floating_point:
        return torch.tensor(numbers.standard_normal(shape)).to(tensor.dtype)
    least = 0 if tensor.dtype == torch.uint8 else -9
    return torch.tensor(numbers.integers(least, 9, shape)).to(tensor.dtype)


def passes_of(program: Program, chance: random.Random, seed: int) -> Iterator[Program]:
    """The program with the inputs of each pass that PyTorch takes."""
    numbers = np.random.default_rng(seed)
    sizes = sorted({n for one in program.inputs.values() for n in one.shape if n > 1})
    changing, grows = chance.choice(sizes or [0]), GROWTH[chance.choice([*GROWTH])]
    for number in range(PASSES):
        more = grows(chance, number)
        for by in (more, 0):
            inputs = {
                name: redrawn(numbers, one, [n + by * (n == changing) for n in one.shape])
                for name, one in program.inputs.items()
            }
            made = program._replace(inputs=inputs)
            try:
                of_torch(made)
            except Exception:
                continue
            yield made
            break


def compared(seed: int) -> tuple[Program, str]:
    """A program, and in which pass torpor differs and how: nothing, if it does not."""
    import torpor

    maker, chance = Maker(seed), random.Random(seed)
    maker.special = ()
    program = maker.program()
    scope: dict[str, Any] = {"torch": torpor, "F": torpor.nn.functional}
    exec(compile(program.text(), "<program>", "exec"), scope)
    function: Callable[..., Any] = scope["program"]
    if program.jittable and chance.random() < 0.5:
        function = torpor.jit(function)
    names = program.results
    some, mode = [name for name in names if chance.random() < 0.5], chance.randrange(3)
    waiting: list[tuple[str, Any, Any, Any]] = []
    for number, now in enumerate(passes_of(program, chance, seed)):
        expected = of_torch(now)
        try:
            wide: list[Any] = list(of_torch(now, wide=True))
        except Exception:
            wide = [None] * len(expected)
        drawn = [name for name in names if chance.random() < 0.4]
        asked = (names, some, drawn)[mode]
        try:
            given = [given_tensor(one) for one in now.inputs.values()]
            rows = [*zip(names, function(*given), expected, wide, strict=True)]
            todo = [row for row in rows if row[0] in asked]
            chance.shuffle(todo)
            waiting += [row for row in rows if row[0] not in asked and chance.random() < 0.2]
            if number % LATER == LATER - 1:
                todo, waiting = todo + waiting, []
            for name, found, other, exact in todo:
                array = found.dtype.name, found.detach().numpy()
                reason = differs(array, other, exact, coarsest(program, name))
                if reason and is_steady(now, name, array, other):
                    return now, f"pass {number}: {name}: {reason}"
        except Exception as error:
            return now, f"pass {number}: {''.join(traceback.format_exception(error)[-3:])}"
    return program, ""


if __name__ == "__main__":
    sys.exit(search("conformance.program_passes", compared))
