"""Sizes of caches: as systems tell them, and usual ones where that cannot be."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from torpor.device.caches import (
    USUAL,
    Cache,
    CacheSizes,
    cache_sizes,
    darwin_caches,
    linux_caches,
    sizes_of,
    windows_caches,
)

K, M = 1 << 10, 1 << 20


def test_this_machine_has_caches_of_growing_size():
    found = cache_sizes()
    assert 8 * K <= found.first < found.second <= found.last


@pytest.mark.parametrize(
    ("caches", "sizes"),
    [
        # AMD EPYC 7003: two threads a core, eight cores a die
        ([(1, 32 * K, 2), (2, 512 * K, 2), (3, 32 * M, 16)], (32 * K, 512 * K, 32 * M)),
        # Intel Xeon 8480
        ([(1, 48 * K, 2), (2, 2 * M, 2), (3, 105 * M, 112)], (48 * K, 2 * M, 105 * M)),
        # Apple M1: four fast cores share the last cache
        ([(1, 128 * K, 1), (2, 12 * M, 4), (3, 0, 1)], (128 * K, 3 * M, 12 * M)),
        # Raspberry Pi 4
        ([(1, 32 * K, 1), (2, 1 * M, 4)], (32 * K, 256 * K, 1 * M)),
        # a virtual machine that hides the third cache
        ([(1, 48 * K, 1), (2, 1 * M, 1)], (48 * K, 1 * M, USUAL.last)),
    ],
)
def test_sizes_are_those_of_a_core_and_the_whole_last_cache(caches, sizes):
    assert sizes_of([Cache(*cache) for cache in caches]) == CacheSizes(*sizes)


@pytest.mark.parametrize(
    "caches",
    [
        [],
        [(2, 512 * K, 1)],
        [(1, 32 * K, 1), (2, 4 * M, 1), (3, 16 * M, 1)],  # QEMU's plain processor
        [(1, 32 * K, 1), (2, 16 * K, 1), (3, 16 * M, 1)],
        [(1, 32 * K, 1), (2, 1 * M, 1), (3, 16 * K, 1)],
        [(1, 64, 1), (2, 1 * M, 1), (3, 16 * M, 1)],
        [(1, 32 * K, 0), (2, 1 * M, 0), (3, 16 * M, 0)],
        [(1, 32 * K, 1), (2, 1 * M, 1), (3, 1 << 40, 1)],
    ],
)
def test_what_cannot_be_is_not_believed(caches):
    assert sizes_of([Cache(*cache) for cache in caches]) == USUAL


def write_sysfs(folder: Path, rows: list[tuple[str, str, str, str]]) -> None:
    for number, row in enumerate(rows):
        entry = folder / f"index{number}"
        entry.mkdir()
        for name, text in zip(("level", "type", "size", "shared_cpu_list"), row, strict=True):
            (entry / name).write_text(f"{text}\n")


def test_linux_writes_sizes_and_threads(tmp_path):
    write_sysfs(
        tmp_path,
        [
            ("1", "Data", "48K", "0,64"),
            ("1", "Instruction", "32K", "0,64"),
            ("2", "Unified", "2048K", "0,64"),
            ("3", "Unified", "105M", "0-31,64-95"),
            ("4", "Unified", "", "0-127"),
        ],
    )
    (tmp_path / "index9").mkdir()  # nothing in it
    found = list(linux_caches(tmp_path))
    assert found == [Cache(1, 48 * K, 2), Cache(2, 2 * M, 2), Cache(3, 105 * M, 64)]
    assert list(linux_caches(tmp_path / "missing")) == []


def test_macos_tells_of_its_fast_cores():
    told = {
        "hw.l1dcachesize": 64 * K,
        "hw.l2cachesize": 4 * M,
        "hw.perflevel0.l1dcachesize": 128 * K,
        "hw.perflevel0.l2cachesize": 12 * M,
        "hw.perflevel0.cpusperl2": 4,
    }
    found = list(darwin_caches(lambda name: told.get(name, 0)))
    assert found == [Cache(1, 128 * K, 1), Cache(2, 12 * M, 4), Cache(3, 0, 1)]


def record(level: int, size: int, kind: int, mask: int) -> bytes:
    """A PROCESSOR_RELATIONSHIP record of a cache, as winnt.h has it."""
    head = struct.pack("<II", 2, 56)
    cache = struct.pack("<BBHII18xH", level, 8, 64, size, kind, 1)
    return head + cache + struct.pack("<QHHHH", mask, 0, 0, 0, 0)


def test_windows_writes_records():
    core = struct.pack("<II", 0, 48) + bytes(40)
    text = (
        record(1, 32 * K, 2, 0b11) + record(1, 32 * K, 1, 0b11) + record(2, 512 * K, 0, 0b11)
        + core + record(1, 48 * K, 2, 0b1100) + record(3, 32 * M, 0, 0xFFFF)
    )  # fmt: skip
    found = list(windows_caches(text))
    assert found == [Cache(1, 32 * K, 2), Cache(2, 512 * K, 2), Cache(3, 32 * M, 16)]
    assert list(windows_caches(b"")) == list(windows_caches(text[:20])) == []
