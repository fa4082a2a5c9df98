"""`checkpoint`: a part of a program whose values are computed again for its gradient, not kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torpor.graph import build
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle, make
from torpor.tensor.mode import grad_enabled
from torpor.tensor.tree import map_tree


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:  # fmt: skip
    """What functions, such as the modules of a `Sequential`, make of the input one after another:
    in `segments` parts of as many functions, each but the last a `checkpoint`.

    >>> checkpoint_sequential([Tensor.neg, Tensor.relu, Tensor.exp], 2, Tensor([0.5])).tolist()
    [1.0]
    """
    steps = list(functions)
    length = len(steps) // segments
    for start in range(0, length * (segments - 1), length or 1):
        input = checkpoint(_in_turn(steps[start : start + length]), input)
    return _in_turn(steps[length * (segments - 1) :])(input)


def _in_turn(steps: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def run(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return run


def checkpoint(
    function: Callable[..., Any],
    *arguments: Any,
    use_reentrant: bool | None = None,
    context_fn: Any = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **options: Any,
) -> Any:
    """`function(*arguments, **options)`; what it computes on the way is not kept for the gradient,
    but computed again from the arguments when that is taken: less memory, more work. Results and
    gradients are the same, random numbers too.

    The arguments' tensors, also in lists, tuples and dicts, are kept, and tensors that it reads
    from elsewhere. What else is given by the names above is PyTorch's and changes nothing.

    >>> w = Tensor([2.0, 3.0], requires_grad=True)
    >>> y = checkpoint(lambda x: (x * x).exp(), w)
    >>> y.sum().gradient(w)[0].tolist() == (2 * w * y).tolist()
    True
    """
    if not grad_enabled():
        return function(*arguments, **options)
    inputs: list[UOp] = []
    identity = build.identity()

    def given(value: Any) -> Any:
        if not isinstance(value, Handle):
            return value
        if value.is_pair:
            return value.by_parts(given)
        inputs.append(build.alias(value._operand(), build.identity()))
        return make(inputs[-1], value._storage.device, value.requires_grad)

    def result(value: Any) -> Any:
        if not isinstance(value, Handle) or not value.requires_grad:
            return value
        if value.is_pair:
            return value.by_parts(result)
        node = build.checkpoint(value._current(), inputs, identity)
        storage = value._storage
        return make(node, storage.device, value.requires_grad, depth=storage.depth)

    arguments, options = map_tree(given, (arguments, options))
    return map_tree(result, function(*arguments, **options))
