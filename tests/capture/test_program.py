"""Steps are put into memory as the replayer reads them."""

from __future__ import annotations

import numpy as np

from torpor.capture.program import Known, Program, step
from torpor.capture.replayer import HEAD, RECORD, number_of


def records_of(program: Program) -> list[list[int]]:
    words = program._memory[len(HEAD) :].reshape(-1, RECORD)
    return words.tolist()  # type: ignore[no-any-return]


def test_registers_numbers_and_objects() -> None:
    known = object()
    steps = [step("argument", "x", 0), step("is", "x", Known(known)), step("return", "x")]
    program = Program(steps, ("first",), 1, 2, test_registers_numbers_and_objects)
    looked, asked, left = records_of(program)
    assert looked == [number_of("argument"), 1, 0, 0, 0]
    assert asked == [number_of("is"), 1, id(known), 0, 0]
    assert left == [number_of("return"), 1, 0, 0, 0]
    assert program.get("registers") == 2 and program.get("arguments") == 1
    assert program.get("owned") == 0


def test_what_is_tried_instead() -> None:
    either = (step("argument", "x", 1),)
    steps = [
        step("argument", "x", 0)._replace(either=either),
        step("own", "x")._replace(either=either),
        step("return", "x"),
    ]
    program = Program(steps, (), 2, 0, print)
    records = records_of(program)
    first = program.address + 8 * len(HEAD)
    goes = [None if not r[-1] else (r[-1] - first) // (8 * RECORD) for r in records]
    assert program.operations() == ["argument", "own", "jump", "argument", "return"]
    assert goes == [3, 3, 4, None, None]
    assert program.get("owned") == 1
    program.set(runs=np.int64(5))
    assert program.get("runs") == 5
