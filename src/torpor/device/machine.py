"""Which processor code is generated for: the host with all it has, or what the setting TARGET says.

TARGET is a list with commas. Its first word may be `native`, `sse`, `avx2`, `avx512` (levels 2, 3
and 4 of the x86-64 psABI), `amx` (level 4 with products of tiles), `aarch64`, or a processor's name
as LLVM spells it; words that begin with + or - turn one feature on or off: `native,-avx512f`. The
sizes of caches, on which opts depend too, are given as `l1=48K`, `l2=2M` (of one core, or its
share) and `l3=64M` (all of it).
"""

from __future__ import annotations

import math
import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm

from torpor.base.errors import DeviceError
from torpor.base.target import DOTS, LINE, TILES, Fragment, Target, get_target
from torpor.device.caches import USUAL, CacheSizes, bytes_written, cache_sizes
from torpor.device.tiles import may_use_tiles

LEVELS: Final = {
    "sse": "x86-64-v2", "avx2": "x86-64-v3", "avx512": "x86-64-v4", "amx": "x86-64-v4"
}  # fmt: skip
# What a host must have to run a level (x86-64 psABI, "Micro-Architecture Levels").
LEVEL_NEEDS: Final = {
    "sse": ("sse4.2", "popcnt", "ssse3"),
    "avx2": ("avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"),
    "avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
AMX: Final = "amx-tile", "amx-bf16", "amx-int8"
LEVEL_NEEDS["amx"] = (*LEVEL_NEEDS["avx512"], "avx512bf16", "avx512vnni", *AMX)
ARM: Final = ("aarch64", "arm64")
# Those that compute vectors of 512 bits with the ports for 256, two at a time (Zen 4: "Software
# Optimization Guide for the AMD Zen4 Microarchitecture", 2.11) or have one port for them; others
# that know such vectors have two.
HALVES: Final = ("znver4", "cannonlake", "icelake-client", "tigerlake", "rocketlake")
CACHES: Final = ("l1", "l2", "l3")  # words of TARGET for the fields of `CacheSizes`
GROUPS: Final = Path("/sys/fs/cgroup")  # where Linux shows control groups,
OWN_GROUPS: Final = Path("/proc/self/cgroup")  # and which of them this process is in
STAGED: Final = 0.75  # of the second-level cache for packed tiles: the rest is for what passes by
# Bytes, since packed tiles lie on the stack of whichever thread runs a kernel. A choice: the pool's
# threads have 4 MiB, others on Linux 8 MiB as a rule, those of macOS and Windows 0.5 to 1 MiB.
MOST_STAGED: Final = 1 << 20 if sys.platform == "linux" else 384 << 10
# Bytes of a last cache that the threads of a process have, at most: a virtual machine is told of
# the whole of its host's. Of 480 MiB, transposes of 64 MB take a tenth of the time past the caches,
# sums two thirds; a result of 32 MiB that is read at once is there as quickly either way. Not where
# a vector is no whole line: the parts may go one by one, for three times as long.
MOST_KEPT: Final = 32 << 20


@dataclass(frozen=True)
class Machine:
    """A processor as LLVM names it, whether its code runs here, and how large its caches are."""

    triple: str
    processor: str
    features: str
    runs_here: bool = True
    caches: CacheSizes = USUAL

    @property
    def is_arm(self) -> bool:
        return self.triple.startswith(ARM)

    def has(self, feature: str) -> bool:
        features = self.features.split(",")
        return f"+{feature}" in features and f"-{feature}" not in features


def _host_features() -> dict[str, bool]:
    features: dict[str, bool] = dict(llvm.get_host_cpu_features())
    if features.get("amx-tile") and not may_use_tiles():
        features |= dict.fromkeys((name for name in features if name.startswith("amx")), False)
    return features


def _written(features: dict[str, bool]) -> str:
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))


def process_triple() -> str:
    """What code of this process is: on Windows in ELF's format, since that is what the loader of
    LLVM's JIT knows best; calls follow Windows all the same.
    """
    triple: str = llvm.get_process_triple()
    return f"{triple}-elf" if sys.platform == "win32" else triple


def _level_machine(level: str) -> Machine:
    if platform.machine().lower() in ARM:
        triple, runs = "x86_64-unknown-linux-gnu", False
    else:
        triple = process_triple()
        runs = all(_host_features().get(need, False) for need in LEVEL_NEEDS[level])
    wide = ("avx2", "avx", "f16c")
    names = {"sse": (), "avx2": wide}.get(level, (*LEVEL_NEEDS[level], *wide))
    return Machine(triple, LEVELS[level], ",".join(f"+{name}" for name in names), runs)


def _arm_machine() -> Machine:
    if platform.machine().lower() in ARM:
        return _native_machine({})
    return Machine("aarch64-unknown-linux-gnu", "generic", "+neon", runs_here=False)


def _native_machine(masks: dict[str, bool]) -> Machine:
    features = _host_features()
    beyond = [name for name, on in masks.items() if on and not features.get(name, False)]
    triple = process_triple()
    written = _written({**features, **masks})
    return Machine(triple, _host_processor(), written, not beyond)


def _host_processor() -> str:
    """The processor as LLVM knows it by family and model. A virtual machine may name the model of a
    smaller one: none before Sapphire Rapids has AMX.
    """
    name: str = llvm.get_host_cpu_name()
    return "sapphirerapids" if name in HALVES and _host_features().get("amx-tile") else name


@lru_cache(maxsize=32)
def machine(setting: str) -> Machine:
    """The processor that the setting TARGET names; a `DeviceError` for one that is unknown."""
    words = [word.strip().lower() for word in setting.split(",") if word.strip()]
    masks = {word[1:]: word[0] == "+" for word in words if word[0] in "+-"}
    sizes = dict(word.split("=", 1) for word in words if "=" in word)
    names = [word for word in words if word[0] not in "+-" and "=" not in word] or ["native"]
    if len(names) > 1:
        raise DeviceError(f"TARGET names one processor, got {', '.join(names)}")
    made = _named_machine(names[0], masks)
    return replace(made, caches=_with_sizes(cache_sizes() if made.runs_here else USUAL, sizes))


def _named_machine(name: str, masks: dict[str, bool]) -> Machine:
    if name in ("native", llvm.get_host_cpu_name(), _host_processor()):
        return _native_machine(masks)
    if name in LEVELS:
        made = _level_machine(name)
    elif name in ARM:
        made = _arm_machine()
    else:
        raise DeviceError(
            f"unknown processor {name!r} in TARGET; it may be native, {', '.join(LEVELS)} or "
            f"aarch64, followed by features such as +fma or -avx512f, and caches such as l2=2M "
            f"(other targets than processors are for lower(..., target=...) and render)"
        )
    extra = _written(masks)
    runs = made.runs_here and not any(masks.values())
    return replace(made, features=",".join(filter(None, (made.features, extra))), runs_here=runs)


def _with_sizes(caches: CacheSizes, given: dict[str, str]) -> CacheSizes:
    """The caches with those that are given, by the words of `CACHES`."""
    found = list(caches)
    for word, text in given.items():
        try:
            found[CACHES.index(word)] = bytes_written(text.upper())
        except ValueError:
            raise DeviceError(
                f"TARGET: {word}={text} is no size of a cache; write l1=48K, l2=2M or l3=64M"
            ) from None
    if not 0 < found[0] <= found[1] <= found[2]:
        raise DeviceError(f"TARGET: caches grow from level to level, got {found} bytes")
    return CacheSizes(*found)


@lru_cache(maxsize=32)
def facts(found: Machine) -> Target:
    """What the compiler may know about the processor."""
    if found.is_arm:
        arch, width, registers = "aarch64-neon", 16, 32
    elif found.has("avx512f"):
        arch, width, registers = "x86-64-avx512", 64, 32
    elif found.has("avx2"):
        arch, width, registers = "x86-64-avx2", 32, 16
    else:
        arch, width, registers = "x86-64-sse", 16, 16
    fused = found.is_arm or width > 16
    ports = 1 if width == 64 and found.processor in HALVES else 2
    caches = found.caches
    kept = MOST_KEPT if width == LINE else caches.last
    return replace(
        get_target("cpu"),
        arch=arch,
        vector_bytes=width,
        registers=registers,
        converts=frozenset({"float16"} if found.is_arm or found.has("f16c") else ()),
        dots=dots_of(found, width),
        fragments=fragments_of(found),
        first_bytes=caches.first,
        cache_bytes=caches.second,
        last_bytes=caches.last,
        stage_bytes=min(int(caches.second * STAGED), MOST_STAGED),
        # On x86 alone, where it was measured: stores past the caches save reading what is
        # overwritten, a third of a copy's traffic, and less than the last cache is still in it
        # when it is read.
        stream_bytes=None if found.is_arm else min(caches.last, kept),
        multiply_adds=ports / (1 if fused else 2),
        broadcasts=fused,
        masks=width == 64,
        # AMD's processors take the elements one by one: single loads take 0.8 of the time (Zen 5).
        gathers=width == 64 and not found.processor.startswith("znver"),
        load_bytes=ports * width,
    )


def dots_of(found: Machine, width: int) -> frozenset[tuple[str, str]]:
    """The formats of a DOT's parts for which the processor has an instruction, in vectors of
    `width` bytes: sdot, udot, usdot and bfdot; vpdpbssd, vpdpbuud, vpdpbusd, vdpbf16ps and pmaddwd.
    """
    if found.is_arm:
        features = ("dotprod", "dotprod", "i8mm", "bf16", "")
    elif width == 64:
        features = ("", "", "avx512vnni", "avx512bf16", "avx512bw")
    else:
        alike = "avxvnniint8" if width == 32 else ""
        short = found.has("avx512vl")  # what is of 64 bytes is there in shorter vectors too
        mixed = "avx512vnni" if short and not found.has("avxvnni") else "avxvnni"
        features = (alike, alike, mixed, "avx512bf16" if short else "", "sse2")
    known = dict(zip(DOTS, features, strict=True))
    return frozenset(dot for dot, name in known.items() if name == "sse2" or found.has(name))


def fragments_of(found: Machine) -> tuple[Fragment, ...]:
    """The processor's products of matrices, where it has vectors as wide as their rows."""
    if not found.has("amx-tile") or not found.has("avx512f"):
        return ()
    return tuple(one for feature, all_ in TILES.items() if found.has(feature) for one in all_)


def processor_name() -> str:
    """What the processor calls itself, as far as the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    names = (line.partition(":")[2] for line in text.splitlines() if line.startswith("model name"))
    return next(names, "").strip() or platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use: its first thread, whichever thread asks. As much time
    as a container gives it, in whole cores, is the most that any number of them is good for.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    there = len(os.sched_getaffinity(os.getpid()))
    given = quota() if sys.platform == "linux" else None
    return there if given is None else max(1, min(there, math.ceil(given)))


def quota(root: Path = GROUPS, own: Path = OWN_GROUPS) -> float | None:
    """Seconds of processor time a second that control groups allow this process; None: no limit.

    The least of its own group and those around it, by version 2 (`cpu.max`: microseconds of each
    period, or "max", and the period).
    """
    found = []
    with suppress(OSError, ValueError):
        lines = own.read_text(encoding="utf-8").splitlines()
        path = next((line[3:] for line in lines if line.startswith("0::")), "/")
        inside = root / path.strip("/")
        for group in (inside, *inside.parents):
            with suppress(OSError, ValueError):
                most, period = (group / "cpu.max").read_text(encoding="utf-8").split()
                found.append(int(most) / int(period))
    return min(found, default=None)
