"""What makes a call another kind of call, and the words for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

import torpor
from torpor import Context, Tensor
from torpor.capture.kind import SETTINGS

ones = Tensor.ones


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
    for what in ("axis 0 of y", "the format of y", "the shared memory of y"):
        assert f"missed because of {what}" in text


@pytest.mark.parametrize(
    ("function", "call", "expected"),
    [
        (lambda x, w: x @ w.T, lambda f, n: f(ones(n, 3), ones(4, 3)), "axis 0 of x"),
        (lambda x, w: x @ w.T, lambda f, n: f(ones(2, 3), w=ones(n, 3)), "axis 0 of w"),
        (lambda *rows: rows[1] * 2, lambda f, n: f(ones(1), ones(2, n)), "axis 1 of rows[1]"),
        (lambda batch: batch["in"][0] + 1, lambda f, n: f({"in": [ones(n)]}), "batch['in'][0]"),
        (lambda *, mask: mask + 1, lambda f, n: f(mask=ones(n, n)), "the shape of mask"),
        (lambda x: x * 2, lambda f, n: f(ones(*[1] * n)), "the shape of x"),
        (lambda z: z * 2, lambda f, n: f(torpor.zeros(n, dtype="complex64")), "axis 0 of z"),
        (lambda x, how: x * 2, lambda f, n: f(ones(1), n == 2), "the argument how"),
        (lambda x, how: x * 2, lambda f, n: f(ones(1), how=str(n)), "the argument how"),
        (lambda x, how: x * 2, lambda f, n: f(ones(1), [object()]), "the argument how"),
        (lambda *x: x[0] * 2, lambda f, n: f(ones(1), *[1] * n), "the arguments"),
    ],
)  # fmt: skip
def test_what_differs_is_called_as_in_the_function(function: Any, call: Any, expected: str) -> None:
    jitted = torpor.jit(function)
    for n in (2, 3):
        call(jitted, n)
    (missed,) = re.findall("missed because of (.*)", torpor.explain(jitted))
    assert missed.endswith(expected)


def test_arguments_of_methods_are_called_by_their_names() -> None:
    class Model:
        def step(self, x: Any) -> Any:
            return x + 1

    for jitted in (torpor.jit(Model().step), torpor.jit(Model.step).__get__(Model())):
        for n in (2, 3):
            jitted(ones(n))
        assert "missed because of axis 0 of x" in torpor.explain(jitted)


def test_what_is_guarded_of_libraries_is_counted() -> None:
    net = torpor.nn.Sequential(torpor.nn.Linear(3, 5), torpor.nn.ReLU(), torpor.nn.Linear(5, 1))
    optimiser = torpor.nn.optim.Adam(net.parameters())

    @torpor.jit
    def step(x: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss

    step(ones(4, 3))
    text = torpor.explain(step)
    assert "guards net\n" in text
    assert re.search(r"guards \d+ names of torpor and other libraries", text)
    assert len(text.splitlines()) < 80
