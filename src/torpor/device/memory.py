"""Host memory that is used again: page faults on fresh memory cost more than most kernels.

Blocks come in size classes, four to a power of two, so that at most a fifth of one is not used.
Large ones have a class for each power of two: pages that nobody touches cost no memory, and an
arena that is a little larger than the one before it lies in the same pages.
Freed blocks are kept by class, up to a limit, the oldest given back first; of the large ones of a
class those that it has not needed for a few seconds are given back. `free` only appends to a queue,
which needs no lock; the books are kept when the next block is asked for.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import threading
import time
from collections import OrderedDict, deque
from typing import Any, Final, final

import numpy as np

from torpor.base.errors import DeviceError
from torpor.base.locks import free_after_fork, taken
from torpor.device.base import Allocator
from torpor.ir.records import BufferSpec

PADDING: Final = 64  # bytes past the end that may be read: one full vector register
BATCH: Final = 1 << 13  # bytes that are asked for at once where blocks are small: two pages,
BATCHED: Final = 1 << 9  # bytes of the largest such blocks: 16 of them. Both are choices
PAGES_FROM: Final = 1 << 18  # bytes from which a block has pages of its own, to be given back
HUGE_PAGE: Final = 1 << 21
# Bytes from which huge pages are asked for. Memory that is new was filled at 2 MiB in 0.12 ms with
# them and 1.17 without, at 4 MiB in 0.22 and 2.5, at 64 MiB in 7.4 and 49, below without difference
# (bench/results/constants.md). Below 4 MiB too much of a block's last huge page would be unused.
HUGE_FROM: Final = 1 << 22
# Bytes up to which address space is reserved by powers of two. Beyond, a system that counts what
# is reserved (Linux refuses more than there is) might have to say no. A choice.
RESERVED_TO: Final = 1 << 30
KEEP_AT_LEAST: Final = 1 << 28  # bytes, by choice, however little memory there is
# Seconds in which freed blocks with pages of their own have to be needed, or are given back: a loop
# needs what it frees at each turn. A choice; new pages cost 0.1 ms for 2 MiB.
IDLE: Final = 10.0
KEEP_UNKNOWN: Final = 1 << 31  # where the machine does not say how much memory it has
# Seconds that a thread waits for the books. No other thread has them for longer; who still waits
# has interrupted their keeper, as the handler of a signal, and would wait for ever.
PATIENCE: Final = 0.01


def size_class(nbytes: int) -> int:
    """The least class that holds `nbytes` and the padding: (4 ... 7) * 2**k bytes, at least 128,
    2**k for those with huge pages.
    """
    wanted = max(nbytes + PADDING, 128)
    shift = wanted.bit_length() - (1 if HUGE_FROM <= wanted <= RESERVED_TO else 3)
    return -(-wanted >> shift) << shift


def _keep_limit() -> int:
    """How many bytes of freed blocks are kept: a quarter of the machine's memory."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return KEEP_UNKNOWN
    return max(KEEP_AT_LEAST, physical // 4)


@final
class Block:
    """`capacity` bytes from `address` on; `keeper` is the object that owns them."""

    __slots__ = ("address", "capacity", "keeper", "read_only", "pooled")

    def __init__(
        self,
        address: int,
        capacity: int,
        keeper: Any,
        read_only: bool = False,
        pooled: bool = False,
    ):
        self.address, self.capacity, self.keeper = address, capacity, keeper
        self.read_only, self.pooled = read_only, pooled


def _aligned(address: int, alignment: int) -> int:
    return -(-address // alignment) * alignment


def _small_blocks(capacity: int, alignment: int) -> list[Block]:
    """Blocks in one piece of memory, which stays as long as one of them is used or kept."""
    count = BATCH // capacity if capacity <= BATCHED else 1
    step = _aligned(capacity, alignment)
    keeper = np.empty(count * step + alignment, np.uint8)
    first = _aligned(keeper.ctypes.data, alignment)
    return [Block(first + n * step, capacity, keeper, pooled=True) for n in range(count)]


def _bytes_at(address: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes from an address on."""
    memory: Any = (ctypes.c_char * nbytes).from_address(address)
    return np.ndarray(nbytes, np.uint8, memory)


def _paged_block(capacity: int, alignment: int, nbytes: int) -> Block:
    """A block of pages of its own, private to this process after a fork. Huge pages are those that
    `nbytes` fill, the last one by half.
    """
    alignment = max(alignment, HUGE_PAGE if capacity >= HUGE_FROM else mmap.PAGESIZE)
    length = capacity + alignment
    if sys.platform == "win32":
        pages = mmap.mmap(-1, length)
    else:
        pages = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    keeper = (ctypes.c_char * length).from_buffer(pages)
    address = _aligned(ctypes.addressof(keeper), alignment)
    if capacity >= HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        begin = address - ctypes.addressof(keeper)
        filled = (nbytes + HUGE_PAGE // 2) // HUGE_PAGE * HUGE_PAGE
        with contextlib.suppress(OSError):  # a kernel without them is only slower
            pages.madvise(mmap.MADV_HUGEPAGE, begin, filled)
    return Block(address, capacity, keeper, pooled=True)


class HostAllocator(Allocator):
    """Host memory, aligned to 64 bytes, with 64 readable bytes past the end."""

    def __init__(self) -> None:
        self.keep_limit = _keep_limit()
        self.kept = 0  # bytes
        self._lock = free_after_fork(threading.Lock())
        self._taken = taken  # a name that outlives this module
        self._returned: deque[Block] = deque()
        self._free: OrderedDict[int, deque[Block]] = OrderedDict()  # last used class last
        self._least: dict[int, int] = {}  # by class: the fewest that were there since the last look
        # Names that outlive the module.
        self._clock, self._idle, self._paged = time.monotonic, IDLE, PAGES_FROM
        self._look = 0.0  # when to look for idle ones next

    def allocate(self, nbytes: int, spec: BufferSpec) -> Block:
        capacity = size_class(nbytes)
        block = None if spec.alignment > PADDING else self._kept_block(capacity)
        if block is not None:
            if spec.zeros:  # as memory from the system is
                ctypes.memset(block.address, 0, nbytes)
            return block
        for _ in range(2):
            try:
                return self._fresh(capacity, spec, nbytes)
            except (MemoryError, OSError, ValueError, OverflowError):
                self.drop()
        raise MemoryError(f"there are no {nbytes:,} bytes of host memory left")

    def free(self, block: Block) -> None:
        if not block.pooled:
            return
        self._returned.append(block)
        if self._taken(self._lock):  # held here or elsewhere: the next one settles
            try:
                self._settle()
            finally:
                self._lock.release()

    def drop(self) -> None:
        """Give every block that is kept back to the system."""
        if taken(self._lock, PATIENCE):
            try:
                self._settle()
                self._free.clear()
                self._least.clear()
                self.kept = 0
            finally:
                self._lock.release()

    def address(self, block: Block) -> int:
        return block.address

    def read_only(self, block: Block) -> bool:
        return block.read_only

    def adopt(self, external: Any, nbytes: int) -> Block:
        if isinstance(external, int):
            return Block(external, nbytes, None)
        array = np.asarray(external)
        if not array.flags.c_contiguous or array.nbytes < nbytes:
            raise DeviceError(
                f"a buffer of {nbytes} bytes needs as many contiguous ones, got {array.nbytes} "
                f"with shape {array.shape} and strides {array.strides}"
            )
        return Block(array.ctypes.data, nbytes, array, not array.flags.writeable)

    def copyin(self, block: Block, offset: int, source: memoryview) -> None:
        if source.nbytes:
            _bytes_at(block.address + offset, source.nbytes)[:] = source

    def copyout(self, block: Block, offset: int, destination: memoryview) -> None:
        if destination.nbytes:
            found = _bytes_at(block.address + offset, destination.nbytes)
            np.frombuffer(destination, np.uint8)[:] = found

    def _kept_block(self, capacity: int) -> Block | None:
        """One of the freed blocks of a class, which is kept no longer."""
        if not taken(self._lock, PATIENCE):
            return None
        try:
            if self._returned:
                self._settle()
            blocks = self._free.get(capacity)
            if not blocks:
                return None
            self.kept -= capacity
            block = blocks.pop()
            if len(blocks) < self._least.get(capacity, 0):
                self._least[capacity] = len(blocks)
            return block
        finally:
            self._lock.release()

    def _fresh(self, capacity: int, spec: BufferSpec, nbytes: int) -> Block:
        alignment = max(spec.alignment, PADDING)
        if capacity >= PAGES_FROM or spec.zeros:
            return _paged_block(capacity, alignment, nbytes)
        block, *more = _small_blocks(capacity, alignment)
        self._returned.extend(more)
        return block

    def _settle(self) -> None:
        """Put returned blocks on their class's list; the lock is held."""
        returned, free, now = self._returned, self._free, self._clock()
        while returned:
            block = returned.popleft()
            blocks = free.get(block.capacity)
            if blocks is None:
                # No name of this module: at the interpreter's end they are gone before buffers are.
                blocks = free[block.capacity] = type(returned)()
            free.move_to_end(block.capacity)
            blocks.append(block)
            self.kept += block.capacity
        if now > self._look:
            self._look = now + self._idle
            self._drop_idle()
        while self.kept > self.keep_limit:
            capacity, blocks = next(iter(free.items()))
            if blocks:
                blocks.popleft()
                self.kept -= capacity
                self._least[capacity] = min(self._least.get(capacity, 0), len(blocks))
            else:
                del free[capacity]

    def _drop_idle(self) -> None:
        """Give large blocks back that none of their class needed since the last look; the lock is
        held.
        """
        for capacity, blocks in self._free.items():
            if capacity >= self._paged:
                for _ in range(self._least.get(capacity, 0)):
                    blocks.popleft()
                    self.kept -= capacity
                self._least[capacity] = len(blocks)


host: Final = HostAllocator()
