"""`torpor.autograd.functional`: derivatives of functions at a place, by PyTorch's names.

`inputs`, `v` and what the function gives are tensors or tuples of them, and so is what comes out.
Without `create_graph` that has no gradients of its own. What no output depends on has zeros; with
`strict` it is a `GradientError`, and so is a gradient that does not depend on the inputs where it
is differentiated. `vectorize` says nothing, and neither does an `outer_jacobian_strategy`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from torpor.base.errors import GradientError
from torpor.tensor import transforms
from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import Handle
from torpor.tensor.seeding import fork_rng

Function = Callable[..., Any]


def _tuple(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _checked(func: Function, strict: bool, apart: bool = False) -> Function:
    """The function; `strict`, and what it gives must have gradients for each of its arguments:
    `apart` for leaves in their places, by a call of its own that draws no random numbers of the
    other's, where what it gives has slopes of the arguments' gradients.
    """
    if not strict:
        return func

    def checked(*arguments: Any) -> Any:
        given: Any = arguments
        with fork_rng() if apart else nullcontext():
            if apart:
                given = [one.detach().requires_grad_() for one in arguments]
            result = func(*given)
        for number, made in enumerate(map(as_tensor, transforms.parts_in(result))):
            slope = made.detach().ones_like()
            found = made.gradient(*given, gradient=slope, materialize=False)
            for place, one in enumerate(found):
                if one is None:
                    what = f"output {number} does not depend on input {place}, and strict is True"
                    raise GradientError(what)
        return func(*arguments) if apart else result

    return checked


def _places(inputs: Any) -> Any:
    return tuple(range(len(inputs))) if isinstance(inputs, tuple | list) else 0


def _shown(made: Any, create_graph: bool, like: Any = None) -> Any:
    """As it comes out: one tensor where `like` is one."""
    if isinstance(made, tuple | list):
        if isinstance(like, Handle) and len(made) == 1:
            return _shown(made[0], create_graph)
        return tuple(_shown(one, create_graph) for one in made)
    return made if create_graph else made.detach()


def jacobian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Jacobian tensor[*output, *input], for each output and each input."""
    follow = transforms.jacfwd if strategy == "forward-mode" else transforms.jacrev
    return _shown(follow(_checked(func, strict), _places(inputs))(*_tuple(inputs)), create_graph)


def hessian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives tensor[*input, *input] of a function that gives one number."""
    places = _places(inputs)
    slopes = _checked(transforms.jacrev(_checked(func, strict), places), strict, apart=True)
    return _shown(transforms.jacfwd(slopes, places)(*_tuple(inputs)), create_graph)


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(outputs, v times the Jacobian); v may be left out for one number."""
    made, pull = transforms.vjp(_checked(func, strict), *_tuple(inputs))
    if v is None and isinstance(made, Handle) and made.numel() == 1:
        v = made.detach().ones_like()
    if v is None:
        raise GradientError("vjp needs v where the function gives more than one number")
    found = pull(tuple(v) if isinstance(v, list) else v)
    return _shown(made, create_graph), _shown(found, create_graph, inputs)


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(outputs, the Jacobian times v); v may be left out for one number."""
    made, change = transforms.jvp(_checked(func, strict), _tuple(inputs), _directions(inputs, v))
    return _shown(made, create_graph), _shown(change, create_graph)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(output, the second derivatives times v) of a function that gives one number."""
    given = _tuple(inputs)
    slope = _checked(transforms.grad(func, tuple(range(len(given)))), strict, apart=True)
    change = transforms.jvp(slope, given, _directions(inputs, v))[1]
    return _shown(func(*given), create_graph), _shown(change, create_graph, inputs)


vhp = hvp  # second derivatives are symmetric


def _directions(inputs: Any, v: Any) -> tuple[Any, ...]:
    given = _tuple(inputs)
    if v is None and [one.numel() for one in given] == [1]:
        return (given[0].detach().ones_like(),)
    if v is None:
        raise GradientError("v is needed for more than one number")
    return _tuple(v)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
