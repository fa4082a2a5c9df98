"""The abstract classes of a device. A new device is one file that subclasses them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

from torpor.base.errors import DeviceError
from torpor.base.target import Target
from torpor.device.share import Trial
from torpor.ir.records import BufferSpec, Program

if TYPE_CHECKING:
    from torpor.device.buffer import Buffer


class Allocator(ABC):
    """Gives out blocks of a device's memory. All methods may be called from any thread.

    A block is whatever the device calls memory: an address and its owner, a driver's handle. The
    rest of torpor sees a block only inside a `Memory`.
    """

    @abstractmethod
    def allocate(self, nbytes: int, spec: BufferSpec) -> Any:
        """A block of at least `nbytes` bytes (0 too); `MemoryError` where there is none."""

    @abstractmethod
    def free(self, block: Any) -> None:
        """Take a block back. Must not take a lock: garbage collection calls it anywhere."""

    @abstractmethod
    def copyin(self, block: Any, offset: int, source: memoryview) -> None:
        """Copy the bytes of `source` (contiguous) into `block`, `offset` bytes in."""

    @abstractmethod
    def copyout(self, block: Any, offset: int, destination: memoryview) -> None:
        """Copy from `block`, `offset` bytes in, to fill `destination` (contiguous, writable)."""

    def address(self, block: Any) -> int | None:
        """Where the host sees the block's bytes, or None where it does not see them."""
        return None

    def read_only(self, block: Any) -> bool:
        """Whether the block's bytes cannot be written."""
        return False

    def adopt(self, external: Any, nbytes: int) -> Any:
        """A block over `nbytes` bytes of memory that somebody else owns (and that it keeps)."""
        raise DeviceError(f"{type(self).__name__} cannot use memory from outside")


@final
class Memory:
    """A block while somebody uses it; it goes back to its allocator with the last reference.

    Buffers, views of them and NumPy arrays that look into it all hold the one `Memory`. `own`:
    nobody outside of torpor knows of it but by these.
    """

    __slots__ = ("allocator", "block", "nbytes", "address", "read_only", "own", "__weakref__")

    def __init__(self, allocator: Allocator, block: Any, nbytes: int, own: bool = True):
        self.allocator, self.block, self.nbytes, self.own = allocator, block, nbytes, own
        self.address = allocator.address(block)
        self.read_only = allocator.read_only(block)

    def __del__(self) -> None:
        self.allocator.free(self.block)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's protocol: the bytes as an array of shape (nbytes,), uint8."""
        if self.address is None:
            raise DeviceError("this memory cannot be seen from the host")
        data = (self.address, self.read_only)
        return {"data": data, "shape": (self.nbytes,), "typestr": "|u1", "version": 3}


class Compiler(ABC):
    """Turns a program's text into what the device loads."""

    @abstractmethod
    def compile(self, program: Program) -> bytes:
        """What `DeviceBase.executable` loads, fit for a disk cache; `CompileError` if refused."""

    anywhere: ClassVar[bool] = False  # whether another process may compile for this one

    def assembly(self, program: Program) -> str:
        """The machine code as text, for people to read."""
        raise DeviceError(f"{type(self).__name__} has no assembly to show")


class NativeEntry(NamedTuple):
    """A program as native code may call it: `entry(table, 0, total)` (see `llvm.entry_text`).

    total:   None: it depends on variables that are not known yet (see `Executable.sizes`).
    trial:   whether several threads share [0, total); None: it is not worth them.
    checked: whether its table ends with the address of an error word.
    """

    address: int
    total: int | None
    trial: Trial | None
    checked: bool


class Executable(ABC):
    """A loaded program. May be called from several threads at once."""

    def native(self, variables: Sequence[int | None]) -> NativeEntry | None:
        """How native code calls it with these variables (None: not known yet); None if there is no
        native code.
        """
        return None

    def sizes(self, variables: Sequence[int]) -> tuple[int, Trial | None]:
        """The `total` and `trial` of its native code with these variables."""
        raise NotImplementedError

    @abstractmethod
    def __call__(self, buffers: Sequence[Buffer], variables: Sequence[int] = ()) -> int:
        """Run with `buffers` by parameter number and `variables` in the program's order; wait.

        Returns the error word: 0, or 1 + the number of the CHECK that failed.
        """


class DeviceBase(ABC):
    """An open device called `name`, such as `CPU` or `CPU:1`."""

    kind: ClassVar[str]

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    @abstractmethod
    def allocator(self) -> Allocator:
        """The allocator of its memory."""

    @property
    def target(self) -> Target:
        """What kernels for it are generated for; a `DeviceError` where it runs none."""
        raise self._no_kernels()

    @property
    def compiler(self) -> Compiler:
        """The compiler of its programs; a `DeviceError` where it runs none."""
        raise self._no_kernels()

    @property
    def key(self) -> str:
        """What a compiled program depends on besides its text: versions, features, flags."""
        raise self._no_kernels()

    def executable(self, program: Program, compiled: bytes) -> Executable:
        """`program`, loaded from what `compiler.compile` gave for it, now or in another process."""
        raise self._no_kernels()

    def synchronize(self) -> None:  # noqa: B027 (most devices have nothing to wait for)
        """Wait until everything that was started has ended."""

    def _no_kernels(self) -> DeviceError:
        return DeviceError(
            f"{self.name} only holds memory and runs no kernels; move the tensor to a device "
            f'that computes first, for example x.to("CPU")'
        )
