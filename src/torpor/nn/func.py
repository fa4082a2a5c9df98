"""PyTorch's `torch.func` by its names: functions made of functions, and of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torpor.base.errors import StateError
from torpor.nn import state
from torpor.nn.module import Module
from torpor.nn.norms import BatchNorm
from torpor.tensor import Tensor
from torpor.tensor.differentiate import is_parameter
from torpor.tensor.transforms import (
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    value_and_grad,
    vjp,
    vmap,
)

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev",
    "jvp", "linearize", "replace_all_batch_norm_modules_", "stack_module_state", "value_and_grad",
    "vjp", "vmap",
]  # fmt: skip


def functional_call(
    module: Module, parameter_and_buffer_dicts: Any, args: Any = None,
    kwargs: Mapping[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """What the module computes of `args` (one, or a tuple) with these tensors for its own, by the
    names of its state, from one dict or several. Tied tensors change together with `tie_weights`;
    with `strict` all have to be given. Buffers are written to in the tensors given.
    """
    several = parameter_and_buffer_dicts
    dicts = [several] if isinstance(several, Mapping) else list(several)
    own, given = state.tensors_of(module), {name: one for d in dicts for name, one in d.items()}
    unknown, missing = given.keys() - own.keys(), own.keys() - given.keys()
    if unknown or (strict and missing):
        what = f"missing {sorted(missing if strict else ())}, unexpected {sorted(unknown)}"
        raise StateError(f"the tensors do not fit: {what}")
    if tie_weights:
        by_tensor = {id(own[name]): one for name, one in given.items()}
        given = {n: by_tensor[id(one)] for n, one in own.items() if id(one) in by_tensor} | given
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        _place(module, given)
        return module(*positional, **(kwargs or {}))
    finally:
        _place(module, {name: own[name] for name in given})


def _place(module: Module, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        state.put_inside(module, name, tensor)


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of modules of one kind by name, stacked along a new axis 0, for a
    `vmap` of `functional_call`.
    """
    stacked: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    states = [state.tensors_of(model) for model in models]
    for name, first in states[0].items():
        whole = Tensor.stack([one[name].detach() for one in states])
        trained = is_parameter(first)
        stacked[not trained][name] = whole.requires_grad_() if trained else whole
    return stacked


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: writes in place are parts of a graph that nothing changes already."""
    return func


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """`value_and_grad`, the gradient first."""
    both = value_and_grad(func, argnums, has_aux)
    return lambda *arguments, **options: both(*arguments, **options)[::-1]


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(outputs, a function from tangents of the primals to those of the outputs)."""
    return func(*primals), lambda *tangents: jvp(func, primals, tangents)[1]


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Have the batch norms of a module do without running statistics; gives the module."""
    for one in root.modules():
        if isinstance(one, BatchNorm):
            one.running_mean = one.running_var = one.num_batches_tracked = None
            one.track_running_stats = False
    return root
