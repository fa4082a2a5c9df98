"""The kind of a call: everything besides values and guards that a trace depends on, as one key."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.base.attributes import attributes
from torpor.capture.trace import is_whole
from torpor.capture.tracer import cut_of
from torpor.ir.infer import JOINT, shape_of
from torpor.pipeline.canonical import Words, settings_now
from torpor.tensor.amp import lowest
from torpor.tensor.differentiate import hooks_now
from torpor.tensor.handle import Handle
from torpor.tensor.mode import default_float, grad_enabled, training
from torpor.tensor.storage import is_severed

# Settings that decide what is compiled, or which device a function makes its tensors on.
SETTINGS: Final = (
    "NOOPT", "STRICT_FLOAT", "BEAM", "DEVICE", "KERNEL_SIZE", "JIT", "TARGET", "CHECK",
    "THREADS",
)  # fmt: skip
_MODES: Final = ("the arguments", "", "whether gradients are recorded", "training mode",
                 "the default float", "the format of autocast", "hooks of leaves")  # fmt: skip


@lru_cache(maxsize=64)
def _chosen(_: Words) -> tuple[Any, ...]:
    """Those settings, as long as none changes."""
    return tuple(map(settings.snapshot().__getitem__, SETTINGS))


class TensorKey(NamedTuple):
    """What a trace depends on in a tensor that it is called with."""

    shape: Any
    dtype: Any
    device: str
    cut: Any
    requires: bool
    whole: bool | None
    graph: bool
    shared: int
    given: tuple[str, ...]


def kind_key(structure: Any, tensors: Sequence[Handle]) -> tuple[Any, ...]:
    """The key of a call with arguments of this structure and these tensors."""
    modes = grad_enabled(), training(), default_float(), lowest(), hooks_now[0]
    return (structure, _chosen(settings_now()), *modes, *_tensor_keys(tensors))


def _tensor_keys(tensors: Sequence[Handle]) -> list[TensorKey]:
    first: dict[int, int] = {}
    found = []
    for number, tensor in enumerate(tensors):
        storage, path = tensor._storage, tensor._path
        node = tensor._node if tensor._stamp == storage.stamp else tensor._current()
        shared = first.setdefault(id(storage), number)
        whole = None if path is None else is_whole(tensor)
        graph = storage.requires and not is_severed(storage.base)
        requires = tensor.requires_grad
        device = storage.device
        cut = cut_of(storage) if JOINT in device else None
        found.append(
            TensorKey(
                shape_of(node), node.dtype, device, cut, requires, whole, graph, shared,
                tuple(attributes(tensor)),
            )
        )  # fmt: skip
    return found


def without_sizes(key: tuple[Any, ...], varying: Mapping[int, Container[int]] | None) -> Any:
    """What kinds of call have in common that differ in sizes alone: of all axes of tensors, or of
    those that are named by the tensor's number.
    """

    def rest(number: int, tensor: TensorKey) -> TensorKey:
        axes = range(len(tensor.shape)) if varying is None else varying.get(number, ())
        sizes = enumerate(tensor.shape)
        return tensor._replace(shape=tuple([None if n in axes else size for n, size in sizes]))

    front = len(_MODES)
    return (*key[:front], *[rest(n, tensor) for n, tensor in enumerate(key[front:])])


def nearest(key: tuple[Any, ...], known: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The one of the known kinds that differs least from a new one."""

    def distance(other: tuple[Any, ...]) -> tuple[bool, int]:
        pairs = zip(_parts(key), _parts(other), strict=False)
        return key[0] != other[0], sum(one != two for (_, one), (_, two) in pairs)

    return min(known, key=distance)


def _parts(key: tuple[Any, ...], names: Iterable[str] = repeat("")) -> Iterator[tuple[str, Any]]:
    """All but the structure of a call, and what it is: settings first."""
    yield from zip([f"the setting {name}" for name in SETTINGS], key[1], strict=True)
    yield from zip(_MODES[2:], key[2:], strict=False)
    for name, tensor in zip(names, key[len(_MODES) :], strict=False):
        yield from zip([f"{_FIELDS[field]} of {name}" for field in tensor._fields], tensor)


def difference(
    key: tuple[Any, ...], other: tuple[Any, ...], names: Sequence[str], arguments: Sequence[str]
) -> tuple[str, Any, Any]:
    """What is different about a kind of call and an earlier one, in words; what it was, and is.

    names: what each tensor among the arguments is called; arguments: what these are called.
    """
    if key[0] != other[0] and key[1] == other[1]:
        return _argument_apart(other[0], key[0], arguments)
    for (what, now), (_, was) in zip(_parts(key, names), _parts(other, names), strict=False):
        if now != was:
            shape, _, name = what.partition(" of ")
            axes = _axes_apart(was, now) if shape == _FIELDS["shape"] else ()
            if len(axes) == 1:
                return f"axis {axes[0]} of {name}", was[axes[0]], now[axes[0]]
            return what, was, now
    return _MODES[0], None, None


def _axes_apart(was: Sequence[Any], now: Sequence[Any]) -> Sequence[int]:
    """The axes whose lengths differ; none where the numbers of axes do."""
    if len(was) != len(now):
        return ()
    return [axis for axis, (one, two) in enumerate(zip(was, now, strict=True)) if one != two]


def _argument_apart(was: Any, now: Any, names: Sequence[str]) -> tuple[str, Any, Any]:
    """The first argument that differs, where there are as many of them with the same names."""
    (_, (_, *one), (_, options, *more)), (_, (_, *two), (_, others, *rest)) = was, now
    if options == others and len(one) == len(two):
        for name, old, new in zip(names, (*one, *more), (*two, *rest), strict=True):
            if old != new:
                return f"the argument {name}", *_apart(old, new)
    return _MODES[0], *_apart(was, now)


def _apart(was: Any, now: Any) -> tuple[Any, Any]:
    """The first parts in which two structures differ."""
    while type(was) is type(now) is tuple and len(was) == len(now):
        if was[0] == now[0] == "object":
            return "one object", "another"
        was, now = next((one, two) for one, two in zip(was, now, strict=True) if one != two)
    return was, now


_FIELDS: Final = {
    "shape": "the shape",
    "dtype": "the format",
    "device": "the device",
    "cut": "the cut axis",
    "requires": "requires_grad",
    "whole": "whether it is a view",
    "graph": "the graph",
    "shared": "the shared memory",
    "given": "the program's attributes",
}
