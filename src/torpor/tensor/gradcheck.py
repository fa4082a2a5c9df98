"""Gradients beside differences of the function's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torpor.base.errors import GradientError
from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import Handle

Function = Callable[..., Any]
Matrix = NDArray[Any]


def gradcheck(
    func: Function, inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, **_options: Any,
) -> bool:  # fmt: skip
    """Whether the gradients of `func(*inputs)` for the inputs that require one, floats of 64 bits
    best, agree with central differences of step eps: an error unless `raise_exception` is False.
    The imaginary parts of complex numbers are inputs and outputs beside the real ones. Further
    arguments that PyTorch has are taken and say nothing.
    """
    given = list(inputs) if isinstance(inputs, Sequence) else [inputs]
    asked = [n for n, one in enumerate(given) if isinstance(one, Handle) and one.requires_grad]
    if not asked:
        raise GradientError("gradcheck needs an input that requires a gradient")
    for place in asked:
        slopes = _differences(func, given, place, eps)
        for number, (output, slope) in enumerate(zip(_outputs(func, given), slopes, strict=True)):
            rows = [_parts(one.gradient(given[place])[0]) for one in output.reshape(-1)]
            found = np.stack(rows, axis=1)  # of the input's numbers, by those of the output
            if not np.allclose(found, slope, rtol, atol, equal_nan=True):
                if not raise_exception:
                    return False
                what = f"output {number} for input {place}: the gradient is\n{found}\n"
                raise GradientError(f"{what}and differences of values are\n{slope}")
    return True


def gradgradcheck(func: Function, inputs: Any, grad_outputs: Any = None, **options: Any) -> bool:
    """`gradcheck` of the gradients, for the inputs and for the gradients of the outputs, which are
    random unless they are given.
    """
    given = list(inputs) if isinstance(inputs, Sequence) else [inputs]
    asked = [n for n, one in enumerate(given) if isinstance(one, Handle) and one.requires_grad]
    seeds = grad_outputs
    if seeds is None:
        seeds = [one.detach().randn_like().requires_grad_() for one in _outputs(func, given)]
    seeds = list(seeds) if isinstance(seeds, Sequence) else [seeds]

    def gradients(*both: Any) -> list[Any]:
        ins, outs = both[: len(given)], both[len(given) :]
        totals: list[Any] = [0.0] * len(asked)
        for output, seed in zip(_outputs(func, ins), outs, strict=True):
            parts = output.gradient(*(ins[n] for n in asked), gradient=seed)
            totals = [total + part for total, part in zip(totals, parts, strict=True)]
        return totals

    return gradcheck(gradients, [*given, *seeds], **options)


def _outputs(func: Function, inputs: Sequence[Any]) -> list[Any]:
    """The outputs that have gradients; complex ones as real ones with a last axis of two."""
    made = func(*inputs)
    several = made if isinstance(made, list | tuple) else (made,)
    smooth = [one for one in several if isinstance(one, Handle) and one.requires_grad]
    return [one.view_as_real() if one.dtype.kind == "complex" else one for one in smooth]


def _parts(tensor: Any) -> Matrix:
    """The numbers of a tensor, of complex ones each part."""
    found: Matrix = tensor.numpy()
    return found.reshape(-1).view(found.real.dtype)


def _differences(func: Function, given: list[Any], place: int, eps: float) -> list[Matrix]:
    """For each output its change with each number of an input: matrix[number, output's number]."""
    like, rows = given[place], list[list[Matrix]]()
    before = like.numpy()
    for number in range(_parts(like).size):
        ends = []
        for step in (eps, -eps):
            moved = before.copy()
            flat = moved.reshape(-1).view(moved.real.dtype)
            flat[number] += step
            tensor = as_tensor(moved, dtype=like.dtype, device=like.device).requires_grad_()
            outputs = _outputs(func, [*given[:place], tensor, *given[place + 1 :]])
            ends.append([_parts(one.detach()) for one in outputs])
        rows.append([(up - down) / (2 * eps) for up, down in zip(*ends, strict=True)])
    return [np.stack(column) for column in zip(*rows, strict=True)]
