"""How large this machine's caches are, as far as the system tells and as far as that can be true.

Linux says so in sysfs, macOS by `sysctlbyname`, Windows by `GetLogicalProcessorInformationEx`. Only
the first has been run: the others are tested on records written as their documents say.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple


class Cache(NamedTuple):
    """A cache that holds data: its level, its size in bytes, how many threads of the machine (two
    of them may be one core) read through it.
    """

    level: int
    size: int
    threads: int = 1


class CacheSizes(NamedTuple):
    """Bytes of the first cache of a core, of its share of the second, of the whole last one."""

    first: int
    second: int
    last: int


# Where the machine does not say: what AMD's Zen 2 to 4 have for each core or group of cores.
USUAL: Final = CacheSizes(32 << 10, 512 << 10, 32 << 20)
# Beyond these it cannot be. First caches of today's processors have 16 to 192 KiB, second ones 128
# KiB to 16 MiB, 3 MiB at most where each core has its own, last ones up to 384 MiB in one piece.
LEAST: Final = CacheSizes(8 << 10, 64 << 10, 512 << 10)
MOST: Final = CacheSizes(512 << 10, 16 << 20, 1 << 30)
MOST_OWN: Final = 3 << 20  # plain processors of QEMU claim 4 MiB
# Of Windows' winnt.h: RelationCache; the kinds of caches that hold data (unified, data); and where
# a record of SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX has a cache's level, size, kind and threads.
_RELATION_CACHE: Final = 2
_HOLD_DATA: Final = (0, 2)
_RECORD: Final = struct.Struct("<II BxxxII 20x Q")
_SYSFS: Final = Path("/sys/devices/system/cpu/cpu0/cache")


@lru_cache(maxsize=1)
def cache_sizes() -> CacheSizes:
    """What the caches of this machine are taken to hold."""
    readers: dict[str, Callable[[], Iterator[Cache]]] = {
        "darwin": darwin_caches,
        "win32": windows_caches,
    }
    return sizes_of(list(readers.get(sys.platform, linux_caches)()))


def sizes_of(caches: Sequence[Cache]) -> CacheSizes:
    """The sizes that matter; usual ones where one of them is not told or cannot be. Where there is
    no third cache, it is hidden, or the second one is the last: if several cores share that.
    """
    levels = {cache.level: cache for cache in caches if cache.size > 0 and cache.threads > 0}
    if 1 not in levels or 2 not in levels:
        return USUAL
    first, second = levels[1], levels[2]
    cores = max(second.threads // first.threads, 1)
    last = levels[3].size if 3 in levels else second.size if cores > 1 else USUAL.last
    found = CacheSizes(first.size, second.size // cores, last)
    within = (low <= size <= high for low, size, high in zip(LEAST, found, MOST, strict=True))
    alone = cores == 1 and found.second > MOST_OWN
    plain = all(within) and not alone and found.first < found.second <= found.last
    return found if plain else USUAL


def linux_caches(folder: Path = _SYSFS) -> Iterator[Cache]:
    """From sysfs, where sizes are written as `512K`, and threads as `0-3,8`."""
    for entry in sorted(folder.glob("index*")):
        try:
            level, size, kind, threads = (
                (entry / name).read_text(encoding="ascii").strip()
                for name in ("level", "size", "type", "shared_cpu_list")
            )
            if kind != "Instruction":
                yield Cache(int(level), bytes_written(size), numbers_written(threads))
        except (OSError, ValueError):  # this one is not told
            continue


def bytes_written(text: str) -> int:
    """`512K` as a number."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)


def numbers_written(text: str) -> int:
    """How many numbers `0-3,8` stands for: 5."""
    parts = (part.partition("-") for part in text.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)


def darwin_caches(read: Callable[[str], int] | None = None) -> Iterator[Cache]:
    """From `sysctl`: of the fast cores where there are two kinds, as `hw.perflevel0` has them."""
    read = read or _sysctl()
    levels = ((1, "l1dcachesize"), (2, "l2cachesize"), (3, "l3cachesize"))
    for level, name in levels:
        size = read(f"hw.perflevel0.{name}") or read(f"hw.{name}")
        threads = read(f"hw.perflevel0.cpusperl{level}") if level > 1 else 1
        yield Cache(level, size, threads or 1)


def _sysctl() -> Callable[[str], int]:
    """Reads a number by its name; 0 where there is none."""
    import ctypes.util  # it imports `subprocess`, and is rarely needed

    library = ctypes.CDLL(ctypes.util.find_library("c"))
    by_name: Any = getattr(library, "sysctlbyname", None)

    def read(name: str) -> int:
        """The number of this name."""
        value, length = ctypes.c_int64(0), ctypes.c_size_t(8)
        at = ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t(0)
        failed = by_name is None or by_name(name.encode(), *at)
        return 0 if failed else value.value

    return read


def windows_caches(records: bytes | None = None) -> Iterator[Cache]:
    """From the records of `GetLogicalProcessorInformationEx`, of whichever core comes first."""
    text, at = _windows_records() if records is None else records, 0
    told: set[int] = set()
    while at + 8 <= len(text):
        relation, length = struct.unpack_from("<II", text, at)
        if relation == _RELATION_CACHE and at + _RECORD.size <= len(text):
            _, _, level, size, kind, mask = _RECORD.unpack_from(text, at)
            if kind in _HOLD_DATA and level not in told:
                told.add(level)
                yield Cache(level, size, mask.bit_count())
        at += max(length, 8)


def _windows_records() -> bytes:
    """What Windows says of all caches; nothing where there is no such call, or it fails."""
    library: Any = ctypes.CDLL("kernel32")
    call, length = getattr(library, "GetLogicalProcessorInformationEx", None), ctypes.c_uint32(0)
    if call is None:
        return b""
    call(_RELATION_CACHE, None, ctypes.byref(length))  # fails, and says how much there is
    memory = ctypes.create_string_buffer(length.value)
    return memory.raw if call(_RELATION_CACHE, memory, ctypes.byref(length)) else b""
