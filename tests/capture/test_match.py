"""The steps of a pattern go through only where the general way finds the same kind of call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor
from torpor import Context, Tensor, dtypes
from torpor.capture.kind import kind_key
from torpor.capture.match import Pattern, pattern_of
from torpor.capture.program import Known, Slot
from torpor.capture.tree import flatten


def general(arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    tensors: list[Any] = []
    numbers: list[Any] = []
    structure = flatten((arguments, options), tensors, numbers, [])
    return kind_key(structure, tensors), tensors, numbers


class Missed(Exception):
    pass


def value(operand: Any, registers: dict[str, Any]) -> Any:
    if isinstance(operand, Known):
        return operand.value
    if isinstance(operand, Slot):
        return operand.name
    return registers[operand] if isinstance(operand, str) else operand


def need(holds: bool) -> None:
    if not holds:
        raise Missed


def taken(pattern: Pattern, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The tensors and numbers that the steps find in a call; None where they miss."""
    registers: dict[str, Any] = {}
    given = [*arguments, *options.values()]
    try:
        need(len(given) == pattern.given)
        for operation, operands, _ in pattern.steps:
            one, *more = operands
            known = [value(operand, registers) for operand in more]
            match operation:
                case "names":
                    need((tuple(options) or None) == one.value)
                case "argument":
                    registers[one] = given[more[0]]
                case "context":
                    default = [x.value for x in more[1:] if isinstance(x, Known)]
                    registers[one] = more[0].value.get(*default)
                case "type":
                    need(type(registers[one]) is known[0])
                case "is":
                    need(registers[one] is known[0])
                case "equal":
                    need(registers[one] == known[0])
                case "slot":
                    registers[one] = getattr(known[0], known[1], None)
                case "attributes":
                    registers[one] = vars(known[0])
                case "tuple_length" | "list_length" | "dict_length":
                    need(len(registers[one]) == known[0])
                case "constant":
                    registers[one] = known[0]
                case "tuple_item" | "list_item":
                    registers[one] = known[0][known[1]]
                case "distinct":
                    stores = [id(registers[f"s{n}"]) for n in range(more[0])]
                    need(len({*stores}) == len(stores))
                case _:
                    raise AssertionError(operation)
    except Missed:
        return None
    return [registers[x] for x in pattern.places], [registers[x] for x in pattern.amounts]


def match_of(key: tuple[Any, ...], call: Any) -> Any:
    pattern = pattern_of(key, *call)
    return None if pattern is None else lambda *other: taken(pattern, *other)


def computed(*shape: int, dtype: Any = None) -> Tensor:
    return Tensor(np.ones(shape, np.float32), dtype=dtype).realize()


class Pair(NamedTuple):
    first: Any
    second: Any


shared, thing = computed(2), object()
BASE = computed(4, 2)
LEAVES = [
    1, 2, 0.5, True, False, None, "a", "b", b"a", ..., dtypes.int8, thing, len, shared, computed(2),
    computed(2, 1), computed(2, dtype="int32"), BASE[0], BASE, computed(2).requires_grad_(),
    computed(2) + 1, Tensor(3.0), np.float32(1), slice(1, 2), 1j, computed(2).to("CPU:1"),
]  # fmt: skip
trees = st.recursive(
    st.sampled_from(LEAVES),
    lambda t: st.lists(t, max_size=3) | st.tuples(t, t) | st.builds(Pair, t, t)
    | st.dictionaries(st.sampled_from(["a", "b"]) | st.just(1), t, max_size=2),
    max_leaves=5,
)  # fmt: skip
calls = st.tuples(st.lists(trees, max_size=3).map(tuple), st.dictionaries(st.just("o"), trees))


@settings(max_examples=300, deadline=None)
@given(calls, calls)
def test_a_match_is_the_same_kind(one: Any, other: Any) -> None:
    key = general(*one)[0]
    match = match_of(key, one)
    for call in (one, other):
        found = match(*call) if match is not None else None
        if found is not None:
            other_key, tensors, numbers = general(*call)
            assert other_key == key
            assert [*map(id, found[0])] == [*map(id, tensors)]
            assert [*found[1]] == numbers


@pytest.mark.parametrize("leaf", [computed(2, 3), (computed(2), 1.5, ["a", ("b", None)])])
def test_plain_calls_match(leaf: Any) -> None:
    call = (leaf, computed(1)), {"flag": True, "more": computed(3)}
    match = match_of(general(*call)[0], call)
    assert match is not None
    assert match(*call) is not None
    assert match((leaf, computed(1)), {"flag": False, "more": computed(3)}) is None
    assert match((leaf, computed(1)), {"other": True, "more": computed(3)}) is None
    assert match((leaf, computed(1), True), {"more": computed(3)}) is None


def test_settings_and_modes_are_looked_at() -> None:
    call = (computed(2),), {}
    match = match_of(general(*call)[0], call)
    assert match is not None
    for other in (Context(NOOPT=1), Context(JIT=0), torpor.no_grad(), torpor.Tensor.train()):
        with other:
            assert match(*call) is None
        assert match(*call) is not None


def test_a_call_of_another_kind_takes_the_general_way() -> None:
    f = torpor.jit(lambda x, y=None: x + 1 if y is None else x * y)
    x = computed(2)
    for _ in range(2):
        assert f(x).tolist() == [2, 2]
        assert f(x * 2).tolist() == [3, 3]
        assert f(BASE[1]).tolist() == [2, 2]
        assert f(x, x).tolist() == [1, 1]
        assert f(x, y=computed(2)).tolist() == [1, 1]
        assert f(computed(2).requires_grad_()).tolist() == [2, 2]
