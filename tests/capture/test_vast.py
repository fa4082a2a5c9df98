"""A function that touches a package of thousands of classes: what is looked at is bounded."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from torpor import Context, Tensor, explain, jit
from torpor.base.errors import CaptureError
from torpor.capture.reach import MOST

CLASSES = 3000


class Settings:
    factor = 2.0


@pytest.fixture
def vast() -> Iterator[Any]:
    """A package that is found as any other; its classes have attributes, and lead to each other."""
    package = types.ModuleType("vast")
    package.scale = 3.0
    before = object
    for number in range(CLASSES):
        own = {"__module__": "vast", "next": before, "number": number, "text": lambda self: "vast"}
        before = type(f"Class{number}", (), own)
        setattr(package, before.__name__, before)
    sys.modules["vast"] = package
    yield package
    del sys.modules["vast"]


def guards(function: Any) -> int:
    return explain(function).count("guards")


def test_attributes_that_are_named_are_guarded(vast) -> None:
    f = jit(lambda x: x * vast.scale)
    assert f(Tensor([1.0])).tolist() == [3]
    vast.scale = 4.0
    assert f(Tensor([1.0])).tolist() == [4]
    assert guards(f) < 20
    assert "baked" not in explain(f)


def test_names_that_are_computed_bake_what_is_beyond(vast) -> None:
    """And what a program has of its own is guarded as ever."""
    settings, names = Settings(), ["factor", "scale"]

    @jit
    def f(x: Tensor) -> Tensor:
        return x * getattr(settings, names[0]) * getattr(vast, names[1])

    assert f(Tensor([1.0])).tolist() == [6]
    assert "what there is in vast, by names that are computed" in explain(f)
    assert guards(f) < CLASSES + 10 * MOST
    settings.factor = 5.0
    assert f(Tensor([1.0])).tolist() == [15]
    Settings.other = 1.0
    vast.scale = 4.0
    assert f(Tensor([1.0])).tolist() == [20]
    del Settings.other


def test_that_is_refused_where_nothing_may_be_baked(vast) -> None:
    f = jit(lambda x: x * getattr(vast, "sca" + "le"))
    with Context(JIT="strict"), pytest.raises(CaptureError, match="what there is in vast"):
        f(Tensor([1.0]))
