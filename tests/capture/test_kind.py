"""What makes a call another kind of call, and the words for it."""

from __future__ import annotations

from typing import Any

import pytest

import torpor
from torpor import Context, Tensor
from torpor.capture.kind import SETTINGS


def explained(*changes: Any) -> str:
    """What `explain` says after a call under each of the contexts."""
    f = torpor.jit(lambda x: x + 1)
    f(Tensor([1.0, 2.0]))
    for change in changes:
        with change:
            for _ in range(2):
                assert f(Tensor([1.0, 2.0])).tolist() == [2, 3]
    assert f(Tensor([1.0, 2.0])).tolist() == [2, 3]
    return str(torpor.explain(f))


OTHER = {
    "CHECK": 0,
    "DEVICE": "CPU:1",
    "JIT": "strict",
    "TARGET": "avx2",
    "THREADS": 3,
    "KERNEL_SIZE": 7,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_makes_another_kind(name: str) -> None:
    text = explained(Context(**{name: OTHER.get(name, 1)}))
    assert text.count("trace ") == 2
    assert f"missed because of the setting {name}" in text


def test_modes_make_other_kinds() -> None:
    text = explained(torpor.no_grad(), Tensor.train())
    assert text.count("trace ") == 3
    assert "whether gradients are recorded" in text
    assert "training mode" in text


def test_settings_that_only_print_make_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(Context(DEBUG=2), Context(CACHE=0)).count("trace ") == 1
    assert "***" in capsys.readouterr().err


def test_tensors_of_another_kind() -> None:
    f = torpor.jit(lambda x, y: x + y)
    one = Tensor([1.0, 2.0])
    f(one, Tensor([1.0, 1.0]))
    for y in (Tensor([1.0]), Tensor([1, 1]), one, Tensor([1.0, 2.0]).requires_grad_()):
        f(one, y)
    text = torpor.explain(f)
    for field in ("the shape", "the format", "the shared memory"):
        assert f"missed because of {field} of tensor 1 among the arguments" in text
