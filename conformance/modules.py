"""`python -m conformance.modules [NAME...]`: PyTorch's own samples of layers and optimisers.

Of each layer (`module_db`): state, results and gradients in training and in evaluation, beside
PyTorch's with the same state. Of each optimiser (`optim_db`): parameters after a few steps, in
float64, and the names in its state. Prints what differs. Needs torch and expecttest.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

import torpor
from conformance.sweep import ORDINARY, Differs, array_of, check, check_gradients, flat, map_tree
from conformance.sweep import ours as ours_of
from torpor import nn, optim

RANDOM: Final = ("Dropout", "RReLU", "Fractional")  # in training: shapes alone are compared
STEPS: Final = 5
EXACT: Final = (1e-5, 1e-6)  # of float64 after some steps, of which each grows differences
BY_HALVES: Final = {"Muon": (1e-3, 1e-3)}  # PyTorch makes its matrices orthogonal in bfloat16
# Names in PyTorch's state that are not in ours: scratch memory of its LBFGS.
SCRATCH: Final = {"al"}


def main(names: list[str]) -> int:
    """Compare layers and optimisers; the exit status is 1 if any differs."""
    failed = count = 0
    for info in (*module_db, *optim_db):
        cls = getattr(info, "module_cls", None) or info.optim_cls
        if names and cls.__name__ not in names:
            continue
        room = nn if hasattr(info, "module_cls") else optim
        mine = getattr(room, cls.__name__, None)
        if mine is None:
            print(f"{cls.__name__}: missing")
            continue
        compare = layer_samples if room is nn else optimiser_samples
        for what, function in compare(info, cls, mine):
            count += 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function()
            except Exception as error:
                failed += 1
                print(f"{cls.__name__} {what}: {type(error).__name__}: {error}"[:300], flush=True)
    print(f"{count - failed} of {count} samples agree")
    return int(failed > 0)


Samples = list[tuple[str, Callable[[], None]]]


def layer_samples(info: Any, cls: Any, mine: Any) -> Samples:
    """What to compare of a layer, each with a description."""
    found: Samples = []
    for training in (False, True):
        drawn = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        )
        for sample in drawn:
            made, called = sample.constructor_input, sample.forward_input
            what = f"{made.args} {made.kwargs} {'training' if training else 'evaluation'}"
            found.append((what, lambda m=made, c=called, t=training: layer(cls, mine, m, c, t)))
    return found


def layer(cls: Any, mine: Any, made: Any, called: Any, training: bool) -> None:
    """Raise unless a layer gives what PyTorch's gives, with its state before and after."""
    theirs = cls(*made.args, **made.kwargs).train(training)
    given, options = (called.args, called.kwargs) if called else ((), {})
    try:
        theirs(*given, **options)
    except Exception:
        return  # samples of what PyTorch refuses
    theirs = cls(*made.args, **made.kwargs).train(training)
    twin = mine(*map_tree(twin_of, made.args), **map_tree(twin_of, made.kwargs)).train(training)
    lazy = cls.__name__.startswith("Lazy")
    if not lazy:
        twin.load_state_dict(map_tree(lambda x: ours_of(x, []), dict(theirs.state_dict())))
    leaves: list[tuple[torch.Tensor, torpor.Tensor]] = []
    arguments = map_tree(lambda x: ours_of(x, leaves), list(given))
    named = map_tree(lambda x: ours_of(x, leaves), dict(options))
    expected, found = flat(theirs(*given, **options)), flat(twin(*arguments, **named))
    kinds = [type(one).__name__ for one in theirs.modules()]
    drops = training and any(word in kind for kind in kinds for word in RANDOM)
    for one, other in zip(expected, found, strict=True):
        if drops or lazy:
            assert tuple(one.shape) == tuple(other.shape)
        elif isinstance(one, torch.Tensor):
            check("value", one, other, ORDINARY)
    if drops or lazy:
        return
    for name, value in theirs.state_dict().items():
        if isinstance(value, torch.Tensor):
            check(f"state {name}", value, twin.state_dict()[name], ORDINARY)
    own = dict(twin.named_parameters())
    leaves += [(one, own[name]) for name, one in theirs.named_parameters() if one.requires_grad]
    if leaves:
        pairs = [pair for pair in zip(expected, found, strict=True) if pair[0] is not None]
        check_gradients(pairs, leaves, (ORDINARY[0] * 10, ORDINARY[1] * 10))


def twin_of(value: Any) -> Any:
    """What our layer is made with where PyTorch's is made with `value`."""
    if not isinstance(value, torch.nn.TransformerEncoderLayer):
        return ours_of(value.detach() if isinstance(value, torch.Tensor) else value, [])
    one = value.self_attn
    made = nn.TransformerEncoderLayer(
        one.embed_dim, one.num_heads, value.linear1.out_features, value.dropout.p,
        ours_of(value.activation, []), batch_first=one.batch_first, norm_first=value.norm_first,
        bias=value.linear1.bias is not None,
    )  # fmt: skip
    made.load_state_dict(map_tree(lambda x: ours_of(x, []), dict(value.state_dict())))
    return made


def optimiser_samples(info: Any, cls: Any, mine: Any) -> Samples:
    """What to compare of an optimiser, each with a description."""
    return [
        (f"{sample.kwargs}", lambda given=sample.kwargs: optimiser(cls, mine, given))
        for sample in info.optim_inputs_func(device="cpu")
    ]


def optimiser(cls: Any, mine: Any, options: dict[str, Any]) -> None:
    """Raise unless an optimiser leaves what PyTorch's leaves after a few steps."""
    expected, kept = stepped(torch, cls, options)
    found, own = stepped(torpor, mine, map_tree(twin_of, options))
    for one, other in zip(expected, found, strict=True):
        check("parameter", one, other, BY_HALVES.get(cls.__name__, EXACT))
    if kept - SCRATCH != own - SCRATCH:
        raise Differs(f"state has {sorted(own)}, not {sorted(kept)}")


def stepped(library: Any, cls: Any, options: dict[str, Any]) -> tuple[list[Any], set[str]]:
    """Parameters of a small network after a few steps, and the names in the optimiser's state."""
    random = np.random.default_rng(5)
    first, second, x = (library.tensor(random.normal(size=s)) for s in ((10, 5), (5, 3), (7, 10)))
    parameters = [first.requires_grad_(), second.requires_grad_()]
    made = cls(parameters, **options)

    def loss() -> Any:
        made.zero_grad()
        value = ((x @ first).tanh() @ second).square().mean()
        value.backward()
        return value

    for _ in range(STEPS):
        made.step(loss)
    state = made.state_dict()["state"]
    return [array_of(one) for one in parameters], {name for one in state.values() for name in one}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
