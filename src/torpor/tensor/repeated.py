"""Functions of tensors that are built once: the next time their nodes are made from a template."""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar

from torpor.base.dtypes import DType
from torpor.base.errors import TorporError
from torpor.base.site import Site, here
from torpor.graph.sizes import is_plain
from torpor.graph.template import Template, Templates
from torpor.ir.infer import JOINT, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle, make
from torpor.tensor.inside import fresh
from torpor.tensor.mode import default_float, grad_enabled
from torpor.tensor.watch import active

_Function = TypeVar("_Function", bound=Callable[..., Any])
_TOLD: Final = frozenset({int, bool, str, type(None), DType})  # whose values are their own keys


class _Call:
    """A call of a function, seen as tensors and what is said beside them. Without tensors there is
    nothing to go by.
    """

    __slots__ = ("arguments", "handles", "nodes", "key", "depth")

    def __init__(self, arguments: Sequence[Any], names: tuple[str, ...]):
        self.arguments, self.handles, self.nodes = arguments, list[Handle](), list[UOp]()
        words: list[Any] = [names, grad_enabled(), default_float()]
        self.depth = 0
        for one in arguments:
            kind = type(one)
            if isinstance(one, Handle) and not one.is_pair:
                storage = one._storage
                node = one._node if one._stamp == storage.stamp else one._current()
                requires = storage.requires if one._path is None else one.requires_grad
                words += (node.dtype, shape_of(node), requires, storage.device)
                self.handles.append(one)
                self.nodes.append(node)
                if storage.depth > self.depth:
                    self.depth = storage.depth
            elif kind in _TOLD or (kind is tuple and all(type(part) is int for part in one)):
                words += (kind, one)
            elif kind is float:
                words += (kind, struct.pack("<d", one))
            else:
                words.append(None)
                self.handles.clear()
                break
        self.key = tuple(words)

    def is_plain(self) -> bool:
        """Whether all its tensors are on one device, and their sizes are numbers."""
        device = self.handles[0]._storage.device
        same = all(one._storage.device == device for one in self.handles)
        return same and JOINT not in device and all(is_plain(one.shape) for one in self.handles)

    def stand_ins(self) -> list[Handle]:
        """Tensors of which nothing is known but their kind."""
        device = self.handles[0]._storage.device
        nodes = [UOp(Ops.SLOT, n.dtype, (), (fresh(), shape_of(n))) for n in self.nodes]
        return [make(n, device, h.requires_grad) for n, h in zip(nodes, self.handles, strict=True)]


def repeated(function: _Function) -> _Function:
    """A pure function of tensors and plain values that gives a tensor, or a tuple of them, and
    looks at their formats and shapes alone: it is run once for all calls that are alike, and their
    nodes are made of those of the tensors that are there. So the second pass of a loop makes the
    same graph as the first.
    """
    templates = Templates()

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if active:
            return function(*arguments, **options)
        names = tuple(options)
        given = (*arguments, *options.values()) if names else arguments
        call = _Call(given, names)
        template = templates.get(call.key)
        if template is None and call.handles and templates.is_wanted(call.key) and call.is_plain():
            with contextlib.suppress(TorporError):  # raised below, of the tensors
                template = learn(call, len(arguments), names)
        if template is None:
            return function(*arguments, **options)
        tie, required = template.about
        site = here()
        origins = _no_site if site is None else lambda _: (site,)
        make_nodes = template.made if True in required else template.called
        device, depth = call.handles[0]._storage.device, call.depth + 1
        results = [
            make(node, device, requires, None, None, depth)
            for node, requires in zip(make_nodes(call.nodes, origins), required)
            if node is not None
        ]
        return tie(results)

    def learn(call: _Call, count: int, names: tuple[str, ...]) -> Template | None:
        """Write down what a call makes; None where that is not a new value."""
        stand_ins = call.stand_ins()
        rest = iter(stand_ins)
        given = [next(rest) if isinstance(one, Handle) else one for one in call.arguments]
        made = function(*given[:count], **dict(zip(names, given[count:], strict=True)))
        results = made if isinstance(made, tuple) else (made,)
        nodes, inputs = [one._current() for one in results], [one._current() for one in stand_ins]
        given_to = {id(one._storage) for one in stand_ins}
        if any(id(one._storage) in given_to for one in results) or not set(inputs).isdisjoint(
            nodes
        ):
            return None  # views of the operands, and these themselves
        owners = dict.fromkeys(UOp.sink(*nodes).toposort(), inputs[0])
        tie: Callable[[Sequence[Any]], Any] = itemgetter(0)
        if isinstance(made, tuple):
            tie = getattr(type(made), "_make", tuple)
        about = tie, tuple([one.requires_grad for one in results])
        template = Template(inputs, nodes, owners, about)
        templates.learn(call.key, template)
        return template

    return wrapped  # type: ignore[return-value]


def _no_site(_: int) -> tuple[Site, ...]:
    return ()
