"""`backward` and `grad` of several tensors at once; gradients that are forgotten or cleared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torpor.base.errors import DTypeError, GradientError
from torpor.tensor.differentiate import put_gradient
from torpor.tensor.handle import Handle
from torpor.tensor.mode import set_grad_enabled
from torpor.tensor.watch import active, watcher


def forget_gradients(leaves: Iterable[Handle]) -> None:
    """Set `.grad` of each to None."""
    watching = watcher() if active else None
    for leaf in leaves:
        if watching is not None:
            for part in leaf._parts:
                watching.forgot(part)
        leaf.grad = None


def clear_gradients(leaves: Iterable[Handle]) -> None:
    """Make zeros of each `.grad` that there is."""
    watching = watcher() if active else None
    for leaf in leaves:
        if watching is not None:
            for part in leaf._parts:
                watching.differentiated(part)
        if leaf.grad is not None:
            put_gradient(leaf, leaf.grad.detach().zeros_like())


def _several(given: Any, count: int = 1) -> list[Any]:
    several = isinstance(given, Iterable) and not isinstance(given, Handle)
    return list(given) if several else [given] * count


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Any = None,
) -> None:  # fmt: skip
    """`backward` of each tensor, from the gradients given, with the arguments of that."""
    roots = _several(tensors)
    for root, seed in zip(roots, _several(grad_tensors, len(roots)), strict=True):
        root.backward(seed, retain_graph, create_graph, inputs)


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, allow_unused: bool | None = None, materialize_grads: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The sums of the outputs' gradients for each input; nothing is added to `.grad`. An input that
    no output depends on is an error, None with `allow_unused`, zeros with `materialize_grads`.
    With `create_graph` the sums can be differentiated again. As of `backward`, those
    of an output whose gradients were taken before may be an error.
    """
    targets, roots = _several(inputs), _several(outputs)
    for one in (*targets, *roots):
        if not isinstance(one, Handle):
            raise DTypeError(f"grad takes tensors, not {one!r}")
    totals: list[Any] = [None] * len(targets)
    for root, seed in zip(roots, _several(grad_outputs, len(roots)), strict=True):
        with set_grad_enabled(create_graph):  # for hooks
            found = root.gradient(*targets, gradient=seed, materialize=False)
        nodes = [part._current() for one in found if one is not None for part in one._parts]
        root._spend(nodes, seed, create_graph if retain_graph is None else retain_graph)
        for number, part in enumerate(found):
            if part is not None:
                totals[number] = part if totals[number] is None else totals[number] + part
    for number, (target, total) in enumerate(zip(targets, totals, strict=True)):
        if total is None and materialize_grads:
            totals[number] = target.detach().zeros_like()
        elif total is None and not allow_unused:
            raise GradientError("an input that no output depends on; set allow_unused=True")
    return tuple([one if one is None or create_graph else one.detach() for one in totals])
