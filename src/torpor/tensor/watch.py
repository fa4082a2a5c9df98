"""Who is told, thread by thread, what happens to tensors: the jit while it traces a function.

The hot paths ask only `if active:`; the dictionary is empty while nobody traces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torpor.base.dtypes import DType
    from torpor.ir.infer import Shape
    from torpor.ir.uop import UOp
    from torpor.tensor.handle import Handle
    from torpor.tensor.storage import Storage


class Watcher(ABC):
    """What a trace wants to know. `at_once`: what the host computes is computed at the call."""

    at_once = False

    @abstractmethod
    def made(self, storage: Storage) -> None:
        """A storage has been made."""

    @abstractmethod
    def viewed(self, view: Handle) -> None:
        """Another view of a storage has been made."""

    @abstractmethod
    def touch(self, handle: Handle) -> None:
        """The value (or only the shape) of a tensor is about to be looked at."""

    @abstractmethod
    def writing(self, handle: Handle) -> None:
        """A tensor is about to be written to."""

    @abstractmethod
    def turned(self, handle: Handle) -> None:
        """A tensor is about to become another view of what it is a view of."""

    @abstractmethod
    def read(self, handle: Handle, lent: bool) -> None:
        """The host is about to read a tensor's elements; `lent`: it may write to them later."""

    @abstractmethod
    def differentiated(self, leaf: Handle | None) -> None:
        """`.grad` of a leaf is about to be looked at and set; None: gradients are being taken."""

    @abstractmethod
    def forgot(self, leaf: Handle) -> None:
        """`.grad` of a leaf is about to be set to None, whatever it was."""

    @abstractmethod
    def drew(self, generator: Any, state: Any) -> None:
        """A random draw has been numbered, from a generator (None: the context's own)."""

    def numbered(self, rounds: int) -> UOp | None:
        """How many draws (uint32) a draw is further on than its number says, where it stands for
        several: it takes `rounds` of them at each step of a loop.
        """
        return None

    def draws(self, rounds: int) -> int:
        """How many draws such a draw takes."""
        return rounds

    def told(self, shape: Shape) -> tuple[Any, ...]:
        """Sizes as whoever asks for them is told them."""
        return shape

    def holds(self, storage: Storage) -> bool:
        """Whether what waits to be computed may be computed here: it was made or is used here."""
        return False

    def fixes(self, size: UOp) -> None:  # noqa: B027 (most need not mind)
        """Something is about to depend on the value of a symbolic size."""

    @abstractmethod
    def stands_for(self, node: UOp, value: UOp) -> bool:
        """Whether a value that was computed for a node may be used in its place."""


class Traced(ABC):
    """A number that is another one at each replay of a trace.

    _value: what it is while the function is traced; nothing may depend on it but errors.
    """

    __slots__ = ()
    _value: Any

    @abstractmethod
    def _constant(self, dtype: DType, shape: Shape) -> UOp:
        """The number in this format in every element of the shape, as a node."""

    @abstractmethod
    def _size(self) -> UOp | None:
        """The number as a size, if that is another one at each replay too."""


active: Final[dict[int, Watcher]] = {}


def watcher() -> Watcher | None:
    """Who watches this thread, if anyone does."""
    return active.get(get_ident())


def told(shape: Shape) -> tuple[Any, ...]:
    """Sizes as whoever calls the caller is told them."""
    watching = watcher() if active else None
    return shape if watching is None else watching.told(shape)


def as_size(value: Any) -> Any:
    """A number of a trace as the size that it is; anything else as it is."""
    if active and type(value) is not int and isinstance(value, Traced):
        size = value._size()
        return value if size is None else size
    return value


def is_watched() -> bool:
    """Whether this thread traces a function, which computes what it leaves behind in one go."""
    return bool(active) and watcher() is not None
