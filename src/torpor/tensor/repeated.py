"""Functions of tensors that are built once: the next time their nodes are made from a template."""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar

from torpor.base.dtypes import DType
from torpor.base.errors import TorporError
from torpor.base.site import Site, here
from torpor.graph.any_size import MARKS, AnySize, Unfit
from torpor.graph.sizes import is_plain
from torpor.graph.template import MOST, Template, Templates, writing_down
from torpor.ir.infer import JOINT, Shape, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.again_needed import is_left
from torpor.tensor.amp import lowest
from torpor.tensor.handle import Handle, make, paired
from torpor.tensor.inside import ARGUMENT, fresh
from torpor.tensor.mode import default_float, grad_enabled, with_tangents
from torpor.tensor.pending import on_the_way
from torpor.tensor.size import Size
from torpor.tensor.storage import DEEP
from torpor.tensor.watch import active

_Function = TypeVar("_Function", bound=Callable[..., Any])
_TOLD: Final = frozenset({int, bool, str, type(None), DType})  # whose values are their own keys
_ROWS: Final = frozenset({tuple, list, Size})
LARGEST: Final = 8  # number beside tensors of any sizes: a larger one may be meant as a size


class _Call:
    """A call of a function, seen as tensors and what is said beside them. Without tensors there is
    nothing to go by.
    """

    __slots__ = ("arguments", "names", "handles", "nodes", "key", "depth", "has_numbers")

    def __init__(self, arguments: Sequence[Any], names: tuple[str, ...]):
        self.arguments, self.names = arguments, names
        self.handles: list[Handle] = []
        self.nodes: list[UOp] = []
        words: list[Any] = [names, grad_enabled(), with_tangents(), default_float(), lowest()]
        shapes: list[Shape] = []
        self.depth, self.has_numbers = 0, False
        for one in arguments:
            kind = type(one)
            if isinstance(one, Handle):
                if one.is_pair:
                    words.append(kind)
                for part in one._parts:
                    storage = part._storage
                    node = part._node if part._stamp == storage.stamp else part._current()
                    requires = storage.requires if part._path is None else part.requires_grad
                    words += (node.dtype, requires, storage.device)
                    shapes.append(shape_of(node))
                    self.handles.append(part)
                    self.nodes.append(node)
                    if storage.depth > self.depth:
                        self.depth = storage.depth
            elif kind in _TOLD:
                self.has_numbers |= kind is int
                words += (kind, one)
            elif kind in _ROWS and all(part is None or type(part) is int for part in one):
                words += (kind, *one)
            elif kind is float:
                self.has_numbers = True
                words += (kind, struct.pack("<d", one))
            else:
                words.append(None)
                self.handles.clear()
                break
        self.key = tuple(words), tuple(shapes)

    def is_plain(self) -> bool:
        """Whether all its tensors are on one device, and their sizes are numbers."""
        device = self.handles[0]._storage.device
        same = all(one._storage.device == device for one in self.handles)
        return same and JOINT not in device and all(is_plain(one.shape) for one in self.handles)

    def stand_ins(self, shapes: Sequence[Shape]) -> list[Handle]:
        """Tensors of which nothing is known but their kind, in these shapes."""
        device, pairs = self.handles[0]._storage.device, zip(self.nodes, shapes, strict=True)
        nodes = [UOp(Ops.SLOT, node.dtype, (), (fresh(ARGUMENT), shape)) for node, shape in pairs]
        return [make(n, device, h.requires_grad) for n, h in zip(nodes, self.handles, strict=True)]

    def sizes(self) -> tuple[list[int], tuple[Any, ...]]:
        """Sizes of its tensors that may be others, and the shapes with them by number, below 0."""
        places: dict[Any, int] = {}
        numbered = [
            tuple([n if n < 2 else ~places.setdefault(n, len(places)) for n in shape])
            for shape in self.key[1]
        ]
        return [*places], tuple(numbered)

    def has_sizes(self) -> bool:
        """Whether a number beside the tensors may be meant as a size."""
        flat = [n for one in self.arguments for n in (one if type(one) in _ROWS else (one,))]
        return any(type(number) is int and abs(number) > LARGEST for number in flat)


class _WrittenDown:
    """The templates of a function."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.templates = function, Templates()
        self.of_any_size: dict[Any, AnySize | None] = {}
        self.seen: set[Any] = set()  # what is said with numbers, which may be others each time

    def of(self, call: _Call, count: int) -> Template | None:
        """The template for a call, `count` of whose arguments have no names; None: there is none.
        That of one that is new is written down by running the function if there are few such, else
        it is that for any sizes; with numbers when these come again.
        """
        template = self.templates.get(call.key)
        if template is not None or not (call.handles and call.is_plain()):
            return template
        if call.has_numbers and call.key[0] not in self.seen:
            if len(self.seen) >= MOST:
                self.seen.clear()
            self.seen.add(call.key[0])
            return None
        sizes, numbered = call.sizes()
        kind = call.key[0], numbered
        wanted = self.templates.is_wanted(call.key, kind)
        with contextlib.suppress(TorporError, Unfit):  # raised later, of the tensors
            if wanted and self.of_any_size.get(kind) is None:
                template = self.learn(call, count, call.key[1])
            elif (of_any := self._of_any_size(kind, call, count, len(sizes))) is not None:
                template = of_any.template(sizes)
        if template is not None:
            self.templates.learn(call.key, template)
        return template

    def _of_any_size(self, kind: Any, call: _Call, count: int, many: int) -> AnySize | None:
        """What a call makes of `many` sizes, whatever they are; None where that depends on them."""
        if kind not in self.of_any_size:
            if len(self.of_any_size) >= MOST:
                self.of_any_size.clear()
            self.of_any_size[kind] = None
            if many <= len(MARKS[0]) and not call.has_sizes():
                made, marks = [], [some[:many] for some in MARKS]
                for some in marks:
                    shapes = [tuple([some[~n] if n < 0 else n for n in shape]) for shape in kind[1]]
                    made.append(self.learn(call, count, shapes))
                    if made[-1].about[2]:
                        raise Unfit  # tables are for one size
                self.of_any_size[kind] = AnySize(made, marks)
        return self.of_any_size[kind]

    def learn(self, call: _Call, count: int, shapes: Sequence[Shape]) -> Template:
        """What a call makes of tensors in these shapes; `Unfit` where that is not a new value."""
        stand_ins, names = call.stand_ins(shapes), call.names
        rest = iter(stand_ins)
        given = [
            _next(one.is_pair, rest) if isinstance(one, Handle) else one for one in call.arguments
        ]
        with writing_down():
            made = self.function(*given[:count], **dict(zip(names, given[count:], strict=True)))
        whole = made if isinstance(made, tuple) else (made,)
        results = [part for one in whole for part in one._parts]
        nodes, inputs = [one._current() for one in results], [one._current() for one in stand_ins]
        given_to = {id(one._storage) for one in stand_ins}
        if any(id(one._storage) in given_to for one in results) or not set(inputs).isdisjoint(
            nodes
        ):
            raise Unfit  # views of the operands, and these themselves
        order = UOp.sink(*nodes).toposort()
        owners = dict.fromkeys(order, inputs[0])
        held = [node for node in order if node.op is Ops.BUFFER]  # tables, say
        tie: Callable[[Sequence[Any]], Any] = itemgetter(0)
        if isinstance(made, tuple):
            tie = getattr(type(made), "_make", tuple)
        if len(results) > len(whole):
            tie = functools.partial(_tied, tie, [one.is_pair for one in whole])
        about = tie, tuple([one.requires_grad for one in results]), held
        return Template([*inputs, *held], nodes, owners, about)


def _next(is_pair: bool, parts: Iterator[Any]) -> Any:
    """The next tensor, or a complex one of the next two."""
    return paired(next(parts), next(parts)) if is_pair else next(parts)


def _tied(tie: Callable[[Sequence[Any]], Any], pairs: Sequence[bool], parts: Sequence[Any]) -> Any:
    """Results some of which are complex, by their parts."""
    rest = iter(parts)
    return tie([_next(is_pair, rest) for is_pair in pairs])


def repeated(function: _Function) -> _Function:
    """A pure function of tensors and plain values that gives a tensor, or a tuple of them, and
    looks at their formats and shapes alone: it is run once for all calls that are alike, and their
    nodes are made of those of the tensors that are there. So the second pass of a loop makes the
    same graph as the first.
    """
    written_down = _WrittenDown(function)

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if active:
            return function(*arguments, **options)
        names = tuple(options)
        given = (*arguments, *options.values()) if names else arguments
        call = _Call(given, names)
        template = written_down.of(call, len(arguments))
        if template is None:
            with on_the_way():
                made = function(*arguments, **options)
            return _counted(made, call)
        tie, required, held = template.about
        site = here()
        origins = _no_site if site is None else lambda _: (site,)
        make_nodes = template.made if True in required else template.called
        device, depth = call.handles[0]._storage.device, call.depth + 1
        results = [
            make(node, device, requires, None, None, depth, site)
            for node, requires in zip(make_nodes([*call.nodes, *held], origins), required)
            if node is not None
        ]
        return tie(results)

    return wrapped  # type: ignore[return-value]


def _counted(made: Any, call: _Call) -> Any:
    """What a function gave, as one tensor in a row after those that it is made of, which it will be
    the next time too; those on the way to it are none.
    """
    ends, whole = set(call.nodes), made if isinstance(made, tuple) else (made,)
    results = [part for one in whole for part in one._parts]
    for one in results:
        one._storage.depth = min(one._storage.depth, call.depth + 1)
    sink = UOp.sink(*[one._current() for one in results])
    for node in sink.toposort(lambda node: node not in ends):
        if is_left(node) and node not in ends:
            node.held = False
    for one in results:
        if one._storage.depth >= DEEP and not one._storage.requires:
            Handle._deepened(one)
    return made


def _no_site(_: int) -> tuple[Site, ...]:
    return ()
