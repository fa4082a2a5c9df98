"""PyTorch's operator samples (`op_db`) through torpor: values and gradients beside PyTorch's.

A family is a name; it passes if every sample of each of its variants that was tried agrees.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import torpor
import torpor.nn.functional
from conformance.report import FAILED, MISSING, PASSED
from torpor.device.host import FUNCTIONS

# What is not counted: sparse, private and masked operators, operators whose result is random or
# uninitialised, and those that the project leaves out.
BEGINNINGS = tuple(
    """
    sparse masked. special. signal. _refs jiterator torch. ops. _segment _unsafe __r _native
    linalg.lu linalg.ldl linalg.householder rand empty new_empty resize_ as_strided lu igamma
    """.split()  # noqa: SIM905 (a table that is read)
)
NAMES = frozenset(
    """
    bernoulli multinomial cauchy exponential geometric log_normal normal uniform geqrf
    ormqr cdist polygamma mvlgamma svd_lowrank pca_lowrank to to_sparse type_as hash_tensor
    nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.alpha_dropout nn.functional.feature_alpha_dropout nn.functional.rrelu
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d native_dropout_backward
    """.split()  # noqa: SIM905 (a table that is read)
)
# Relative and absolute differences that are allowed, of values; gradients have ten times as much.
TOLERANCE = {"float16": (2e-3, 1e-3), "bfloat16": (2e-2, 1e-2), "float64": (1e-7, 1e-7)}
ORDINARY = (1e-4, 1e-5)


class Absent(Exception):
    """The name, or a format that the sample needs, is not there."""


class Late(Exception):
    """An operator took too long."""


class Differs(Exception):
    """A result is not PyTorch's."""


SECOND: list[bool] = []  # not empty: gradients of gradients are compared, too
REFERENCE: list[bool] = []  # not empty: PyTorch's larger set of samples, without gradients

# Names of families, and what they computed on the host.
host_calls: dict[str, set[str]] = {}


def is_counted(name: str) -> bool:
    """Whether the family counts (see BEGINNINGS and NAMES)."""
    return name not in NAMES and not name.startswith(BEGINNINGS)


def sweep(
    dtype: str, samples: int | None, only: tuple[str, ...] = (), seconds: int = 60
) -> dict[str, tuple[str, str]]:
    """For each family (verdict, reason)."""
    families: dict[str, tuple[str, str]] = {}
    for operator in op_db:
        name = operator.name
        if not is_counted(name) or (only and not name.startswith(only)):
            continue
        if getattr(torch, dtype) not in operator.dtypes or families.get(name, ("", ""))[0] in (
            FAILED, MISSING,
        ):  # fmt: skip
            continue
        with noted(name):
            families[name] = found = verdict(operator, getattr(torch, dtype), samples, seconds)
        print(f"{found[0]:8} {name} {found[1]}", file=sys.stderr, flush=True)
    return families


@contextmanager
def noted(family: str) -> Iterator[None]:
    """What is computed on the host inside is noted under a family."""
    whole = dict(FUNCTIONS)

    def told(name: str, *arguments: Any) -> Any:
        host_calls.setdefault(family, set()).add(name)
        return whole[name](*arguments)

    FUNCTIONS.update({name: partial(told, name) for name in whole})
    try:
        yield
    finally:
        FUNCTIONS.update(whole)


def verdict(
    operator: Any, dtype: torch.dtype, samples: int | None, seconds: int
) -> tuple[str, str]:
    """(verdict, reason) of one operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with limited(seconds):
                has_slope = dtype.is_floating_point or dtype.is_complex
                differentiable = operator.supports_autograd and has_slope
                differentiable = differentiable and not REFERENCE
                draw = operator.reference_inputs if REFERENCE else operator.sample_inputs
                drawn = list(draw("cpu", dtype, requires_grad=differentiable))
                drawn = [one for one in drawn if not is_random(operator.name, one)]
                for sample in few(drawn, samples):
                    agree(operator, sample, differentiable)
        except Absent as error:
            return MISSING, str(error)
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            named = "" if isinstance(error, Differs) else f"{type(error).__name__}: "
            return FAILED, f"{named}{first}"[:200]
    return PASSED, ""


def is_random(name: str, sample: Any) -> bool:
    """Whether elements are dropped at random."""
    if name == "nn.functional.multi_head_attention_forward":
        return bool(sample.args[9] and sample.kwargs["training"])
    return bool(sample.kwargs.get("dropout_p"))


def few(drawn: list[Any], count: int | None) -> list[Any]:
    """So many of them, the first, the last and some between."""
    if count is None or len(drawn) <= count:
        return drawn
    places = {round(place * (len(drawn) - 1) / max(count - 1, 1)) for place in range(count)}
    return [drawn[place] for place in sorted(places)]


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """`Late` is raised inside after so many seconds."""

    def late(*_: Any) -> None:
        raise Late(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- one sample -----------------------------------------------------------------------------------
WIDER = {
    torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip


def agree(operator: Any, sample: Any, differentiable: bool) -> None:
    """Raise unless torpor gives what PyTorch gives for a sample, or would if it rounded less: what
    it gives for the same numbers in the next wider format.
    """
    try:
        compare(operator, sample, differentiable)
    except Differs as error:
        try:
            compare(operator, sample, differentiable, wider=True)
        except Late:  # nobody knows
            raise
        except Exception:
            raise error from None


class Theirs:
    """A sample's values as PyTorch gets them: as they are, or tensors and formats one wider."""

    def __init__(self, wider: bool):
        self.wider = wider
        self.twins: dict[int, torch.Tensor] = {}

    def __call__(self, value: Any) -> Any:
        if not self.wider:
            return value
        if isinstance(value, torch.dtype):
            return WIDER.get(value, value)
        if not isinstance(value, torch.Tensor) or value.dtype not in WIDER:
            return value
        if id(value) not in self.twins:
            made = value.detach().to(WIDER[value.dtype])
            self.twins[id(value)] = made.requires_grad_(value.requires_grad)
        return self.twins[id(value)]


def compare(operator: Any, sample: Any, differentiable: bool, wider: bool = False) -> None:
    """Raise unless torpor gives what PyTorch gives for a sample, or for a wider one."""
    theirs = Theirs(wider)
    leaves: list[tuple[torch.Tensor, torpor.Tensor]] = []
    function = named(operator.name, sample.input)
    if (operator.name, operator.variant_test_name) == ("linalg.pinv", "singular"):
        pinv, function = function, lambda a, b: pinv(a @ b.mT)  # as the samples are meant
    if operator.variant_test_name == "grad_oriented":
        lstsq, function = function, lambda a, b, driver: lstsq(a, b, driver=driver)[:2]
    if operator.name == "max_pool2d_with_indices_backward":
        function = pool_backward(function)
    given, *arguments = map_tree(lambda x: ours(x, leaves), (sample.input, *sample.args))
    options = {name: map_tree(lambda x: ours(x, leaves), value)
               for name, value in sample.kwargs.items() if name not in FOREIGN}  # fmt: skip
    known = {name: value for name, value in sample.kwargs.items() if name not in FOREIGN}
    first, *others = map_tree(theirs, (sample.input, *sample.args))
    expected = operator(first, *others, **map_tree(theirs, known))
    leaves = [(theirs(one), other) for one, other in leaves]
    if operator.name in REORDERED:
        given, arguments[0] = arguments[0], given
    if operator.name.endswith("_"):  # no leaf is written to
        given = given.clone()
    made = function(given, *arguments, **options)
    trim = sample.output_process_fn_grad or (lambda x: x)
    expected, made = trim(expected), made if operator.name == "unique" else trim(made)
    pairs = list(zip(flat(expected), flat(made), strict=True))
    formats = [sample_dtype(sample), *(other.dtype for _, other in pairs if is_ours(other))]
    names = [str(one).partition(".")[2] for one in formats]
    tolerance = max(TOLERANCE.get(name, ORDINARY) for name in names)
    if operator.name in TIED and not sample.kwargs.get("stable"):
        pairs = picked(operator.name, sample, pairs)
    for one, other in pairs:
        check("value", one, other, tolerance)
    if differentiable and leaves:
        tied = operator.name in TIED
        check_gradients(pairs, leaves, (tolerance[0] * 10, tolerance[1] * 10), tied)


def pool_backward(backward: Callable[..., Any]) -> Callable[..., Any]:
    """As the samples are meant: of a pool's arguments, with a gradient of ones."""

    def function(x: Any, return_indices: bool = False, **options: Any) -> Any:
        pooled, places = x.max_pool2d(**options, return_indices=True)
        order = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        given = [options.get(name) for name in order]
        return backward(pooled.ones_like(), x, *given, places)

    return function


# Families that give places in the first tensor, of which PyTorch leaves open which one is given of
# equal elements; and which of their arguments says along which axis.
TIED = {"argsort": 0, "kthvalue": 1, "mode": 0, "msort": 0, "sort": 0, "topk": 1}


def picked(name: str, sample: Any, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The results with what lies at the places in place of these."""
    dim = sample.kwargs.get("dim", (*sample.args, -1, -1)[TIED[name]])
    dim = dim if isinstance(dim, int) and not isinstance(dim, bool) else -1

    def elements(places: Any) -> Any:
        places = torch.from_numpy(np.asarray(array_of(places)))
        alone = places.ndim < sample.input.ndim
        found = sample.input.gather(dim, places.unsqueeze(dim) if alone else places)
        return found.detach()

    return [
        (elements(one), elements(other)) if one.dtype is torch.int64 and place else (one, other)
        for place, (one, other) in enumerate(pairs, start=int(name == "argsort"))
    ]


# Samples that give the second argument first.
REORDERED = ("einsum", "nn.functional.embedding", "nn.functional.embedding_bag")
FOREIGN = ("memory_format", "layout", "device", "pin_memory", "generator", "options")


def sample_dtype(sample: Any) -> Any:
    """The format of a sample's first tensor."""
    return next((x.dtype for x in flat((sample.input, *sample.args))
                 if isinstance(x, torch.Tensor)), torch.float32)  # fmt: skip


def named(name: str, first: Any) -> Callable[..., Any]:
    """What a user of PyTorch would call: the method, or the function in its namespace."""
    *rooms, last = name.split(".")
    place: Any = torpor
    try:
        method = not rooms and isinstance(first, torch.Tensor) and last not in torpor.MAKERS
        if method and hasattr(torch.Tensor, last) and hasattr(torpor.Tensor, last):
            attribute = getattr(torpor.Tensor, last)
            if not callable(attribute):
                return lambda x: getattr(x, last)
            return lambda x, *arguments, **options: getattr(x, last)(*arguments, **options)
        for room in rooms:
            place = getattr(place, room)
        function: Callable[..., Any] = getattr(place, last)
    except AttributeError:
        raise Absent("no such name") from None
    return function


def ours(value: Any, leaves: list[tuple[torch.Tensor, torpor.Tensor]]) -> Any:
    """A tensor, or a format, as torpor's; a tensor that requires a gradient joins the leaves."""
    if isinstance(value, torch.dtype):
        name = str(value).removeprefix("torch.")
        if not hasattr(torpor.dtypes, name):
            raise Absent(f"the format {name}")
        return getattr(torpor.dtypes, name)
    if not isinstance(value, torch.Tensor):
        name = getattr(value, "__name__", type(value).__name__)
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
        return getattr(torpor.nn.functional, name, value) if callable(value) else value
    for theirs, mine in leaves:
        if theirs is value:
            return mine
    wide = value.detach().float() if value.dtype is torch.bfloat16 else value.detach()
    made = torpor.Tensor(wide.resolve_conj().resolve_neg().numpy())
    if value.dtype is torch.bfloat16:
        made = made.cast(torpor.dtypes.bfloat16)
    if value.requires_grad:
        made = made.requires_grad_()
        leaves.append((value, made))
    return made


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """`function` of what lists, tuples and dictionaries hold."""
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple) and not isinstance(tree, torch.Size):
        return type(tree)([map_tree(function, value) for value in tree])
    return function(tree)


def flat(tree: Any) -> list[Any]:
    """What lists and tuples hold, one after the other."""
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in flat(part)]
    return [tree]


def is_ours(value: Any) -> bool:
    return isinstance(value, torpor.Tensor)


def is_complex(value: Any) -> bool:
    return isinstance(value, complex) or (isinstance(value, torch.Tensor) and value.is_complex())


def array_of(value: Any) -> Any:
    """The elements as an array."""
    if isinstance(value, torch.Tensor):
        wide = value.detach().float() if value.dtype is torch.bfloat16 else value.detach()
        return wide.resolve_neg().numpy(force=True)
    if isinstance(value, torpor.Tensor):
        made = value.numpy()
        return made.astype(np.float32) if value.dtype is torpor.dtypes.bfloat16 else made
    return np.asarray(value)


def check(what: str, one: Any, other: Any, tolerance: tuple[float, float]) -> None:
    """Raise `Differs` unless shape, kind of format and elements agree."""
    expected, made = array_of(one), array_of(other)
    if expected.shape != made.shape:
        raise Differs(f"{what} of shape {made.shape}, not {expected.shape}")
    if expected.dtype.kind != made.dtype.kind:
        raise Differs(f"{what} of {made.dtype}, not {expected.dtype}")
    if made.dtype.kind in "biu":
        near = made == expected
    else:  # what cancels in a sum is as inexact as its terms are large
        finite = np.abs(expected[np.isfinite(expected)])
        largest = float(max(finite.max(initial=0), 1))
        near = np.isclose(made, expected, tolerance[0], tolerance[1] * largest, equal_nan=True)
    if not near.all():
        place = np.unravel_index(np.argmin(near), near.shape)
        raise Differs(f"{what} {made[place]}, not {expected[place]}, at {tuple(map(int, place))} "
                      f"of {expected.shape}")  # fmt: skip


def real_pairs(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The results, complex ones as their real and imaginary parts."""
    return [
        part
        for one, other in pairs
        for part in (
            [(one.real, other.real), (one.imag, other.imag)] if is_complex(one) else [(one, other)]
        )
    ]


def smooth(pairs: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    """PyTorch's and torpor's results of which PyTorch has a gradient, complex ones in parts."""
    found = [(one, other) for one, other in real_pairs(pairs)
             if isinstance(one, torch.Tensor) and one.requires_grad]  # fmt: skip
    return [one for one, _ in found], [other for _, other in found]


def total(library: Any, results: list[Any], curved: bool = False) -> Any:
    """The sum of all, each weighted by a number of its own, and of squares if it is `curved`."""
    random, made = np.random.default_rng(7), 0.0
    for one in results:
        wide = one.double() if one.dtype == library.float64 else one.float()
        weights = np.asarray(random.uniform(0.5, 1.5, tuple(one.shape)), np.float32)
        made = made + (wide * library.from_numpy(weights)).sum()
        made = made + wide.square().sum() * 0.1 if curved else made
    return made


def check_gradients(
    pairs: list[tuple[Any, Any]],
    leaves: list[tuple[torch.Tensor, torpor.Tensor]],
    tolerance: tuple[float, float],
    tied: bool = False,
) -> None:
    """Compare gradients of the results for all leaves; where which of equal elements is taken is
    open (`tied`), the sums over equal ones. If asked for, gradients of those, where PyTorch has
    them.
    """
    again = bool(SECOND)
    sources, targets = map(list, zip(*leaves, strict=True))
    theirs, mine = smooth(pairs)
    if not theirs:
        return
    expected = gradients(torch, total(torch, theirs, again), sources, again)
    made = gradients(torpor, total(torpor, mine, again), targets, again)
    compare_gradients("gradient", expected, made, sources, tolerance, tied)
    theirs, mine = smooth([*zip(expected, made, strict=True)]) if again else ([], [])
    if not theirs:
        return
    try:
        expected = gradients(torch, total(torch, theirs), sources)
    except (RuntimeError, NotImplementedError):  # it has none
        return
    made = gradients(torpor, total(torpor, mine), targets)
    compare_gradients("second gradient", expected, made, sources, tolerance, tied)


def compare_gradients(
    what: str, expected: Any, made: Any, leaves: list[Any], tolerance: tuple[float, float],
    tied: bool,
) -> None:  # fmt: skip
    """Raise `Differs` unless the gradients for all leaves agree; None is zeros."""
    for one, other, leaf in zip(expected, made, leaves, strict=True):
        zeros = torch.zeros_like(leaf)
        found = [array_of(zeros if part is None else part) for part in (one, other)]
        if tied:
            _, places = np.unique(array_of(leaf), return_inverse=True)
            found = [np.bincount(places.ravel(), part.ravel()) for part in found]
        check(what, found[0], found[1], tolerance)


def gradients(library: Any, peak: Any, leaves: list[Any], again: bool = False) -> Any:
    """The gradient for each leaf, or None; `again`: with gradients of their own."""
    if not peak.requires_grad:
        return [None] * len(leaves)
    return library.autograd.grad(peak, leaves, allow_unused=True, create_graph=again)
