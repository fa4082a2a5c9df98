"""`python -m conformance.refusals [NAME...]`: what PyTorch's operators refuse is refused here.

Of each operator (`op_db`) the samples that PyTorch calls errors. Prints those that give a result
here, and errors of Python's own that say nothing of tensors. Not counted: numbers where PyTorch
wants a tensor, which are taken here, and devices, layouts and formats of memory that are not there.
Needs torch and expecttest.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.testing._internal.common_methods_invocations import op_db

import torpor
from conformance.sweep import FOREIGN, REORDERED, Absent, flat, limited, map_tree, named, ours

SECONDS: Final = 20  # for one sample
LEFT_OUT: Final = ("sparse", "_refs", "masked", "jiterator", "ops.", "_")
# Python's own words, where a line of torpor divides or looks up before it has checked.
BARE: Final = (ZeroDivisionError, KeyError, AssertionError, UnboundLocalError, RecursionError)


def main(names: list[str]) -> int:
    """Try the samples; the exit status is 1 if one ended with an error that says nothing."""
    count = refused = bare = 0
    for operator in op_db:
        if operator.error_inputs_func is None or operator.name.startswith(LEFT_OUT):
            continue
        if names and not operator.name.startswith(tuple(names)):
            continue
        for sample in samples(operator):
            try:
                outcome = tried(operator, sample)
            except Absent:
                continue
            count += 1
            refused += outcome is not None
            if outcome is None:
                print(f"given: {described(operator, sample)}", flush=True)
            elif isinstance(outcome, BARE):
                bare += 1
                print(f"bare: {described(operator, sample)}: {outcome!r}", flush=True)
    print(f"{refused} of {count} samples are refused")
    return int(bare > 0)


def samples(operator: Any) -> Iterator[Any]:
    """Those of dense tensors on the processor that are wrong here, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in operator.error_inputs("cpu"):
            sample = one.sample_input
            given = flat((sample.input, *sample.args, *sample.kwargs.values()))
            tensors = [x for x in given if isinstance(x, torch.Tensor)]
            dense = all(x.layout is torch.strided and x.device.type == "cpu" for x in tensors)
            numbers = [x for x in given if isinstance(x, int | float)]
            instead = not one.error_regex and bool(numbers)  # of a tensor
            if dense and not instead and not any(name in FOREIGN for name in sample.kwargs):
                yield sample


def tried(operator: Any, sample: Any) -> Exception | None:
    """The error that a sample ends with, if it does."""
    function = named(operator.name, sample.input)
    try:
        given, *arguments = map_tree(lambda x: ours(x, []), (sample.input, *sample.args))
        options = {name: map_tree(lambda x: ours(x, []), x) for name, x in sample.kwargs.items()}
        if operator.name in REORDERED:
            given, arguments[0] = arguments[0], given
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = function(given, *arguments, **options)
            for one in flat(list(made) if isinstance(made, list | tuple) else [made]):
                if isinstance(one, torpor.Tensor):
                    one.detach().numpy()
    except Absent:
        raise
    except Exception as error:
        return error
    return None


def described(operator: Any, sample: Any) -> str:
    """The call, with shapes and formats in place of tensors."""

    def word(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
        return repr(x)

    options = (f"{name}={map_tree(word, x)}" for name, x in sample.kwargs.items())
    given = map(str, map_tree(word, [sample.input, *sample.args]))
    return f"{operator.name}({', '.join([*given, *options])})"[:200]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
