"""Names that bytecode reads and writes, on every supported version of Python."""

from __future__ import annotations

from typing import Any

from torpor.capture.code import is_opaque, names_of

LOG: list[int] = []
RATE = 1.0


def read(thing: Any) -> Any:
    return thing.weight * RATE + thing.inner.bias


def write(thing: Any) -> None:
    LOG.append(1)
    thing.last = RATE


def test_what_is_read() -> None:
    names = names_of(read.__code__)
    assert {"weight", "inner", "bias", "RATE"} <= names.loaded
    assert names.outer == {"RATE"}
    assert not names.stored


def test_what_is_written_or_only_changed() -> None:
    names = names_of(write.__code__)
    assert names.changed == {"LOG"}
    assert names.stored == {"last"}
    assert "RATE" in names.loaded
    assert "LOG" not in names.loaded


def test_closure_cells_are_outer() -> None:
    factor = 2

    def inner(x: int) -> int:
        nonlocal factor
        factor += 1
        return x * factor

    names = names_of(inner.__code__)
    assert "factor" in names.outer & names.loaded & names.stored


def test_whose_code_is_looked_into() -> None:
    assert is_opaque("numpy.linalg")
    assert is_opaque("random")
    assert is_opaque("torpor.tensor.handle")
    assert not is_opaque("torpor.nn.layers")
    assert not is_opaque("__main__")
    assert not is_opaque(__name__)
