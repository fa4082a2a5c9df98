"""What kernels are generated for: the facts about a target that the compiler may use."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from torpor.base.errors import DeviceError

LINE: Final = 64  # bytes of a cache line (128 on Apple's processors: then two of them)

WORD: Final = 4  # bytes of the words that a DOT multiplies the parts of
DOT_BYTES: Final = 16  # of the shortest vectors of words for which x86 and AArch64 have one


class Fragment(NamedTuple):
    """An instruction that multiplies matrices: sums[rows, columns] += left[rows, words] @
    right[words, columns], all in words of 32 bits, of which a factor's hold parts of its format.

    cycles:     until the unit can begin the next one.
    latency:    until its sums can be used.
    registers:  how many matrices of any kind can be held.
    """

    left: str
    right: str
    rows: int
    columns: int
    words: int
    cycles: float = 1.0
    latency: float = 1.0
    registers: int = 8

    @property
    def depth(self) -> int:
        """Terms of each sum: so many words of them, of 16 bits or 8."""
        return self.words * (2 if self.left.endswith("16") else 4)


@dataclass(frozen=True)
class Target:
    """Facts about a target.

    name:          as in `lower(target=...)`: cpu, c, cuda, opencl, metal, wgsl, python.
    arch:          instruction set or chip: x86-64 features, sm_90a, f16, ...; "": a plain default.
    vector_bytes:  width of a vector register in bytes (16 where only 4-wide loads exist).
    registers:     how many vector registers there are.
    groups:        kernels run as a grid of groups: gid and lid, local memory, barriers.
    group_limit:   most work items in one group.
    grid:          most groups along each of the three axes; None: no limit.
    local_bytes:   most local memory of a group, bytes.
    parameters:    most parameters of a kernel: memory, variables, the error word; None: no limit.
    threads:       the outermost axis may be cut among native threads.
    missing:       dtype names that the target cannot compute with (decomposed before rendering).
    converts:      of those, the ones that it converts to and from float32 all the same.
    dots:          of which two small formats, in alphabetical order, one instruction multiplies the
                   parts of two words of 32 bits and adds the products to a third word.
    fragments:     the instructions that multiply matrices of such words.
    first_bytes:   size of a core's first cache for data, bytes.
    cache_bytes:   size of the second cache, or of a core's share of it, bytes.
    last_bytes:    size of the last cache, which cores share, bytes.
    stage_bytes:   most memory that a kernel may copy tiles to, for each thread, bytes.
    stream_bytes:  bytes of outputs from which storing past the caches pays; None: it never does.
    clock:         cycles a second.
    multiply_adds: vectors that are multiplied and added in a cycle.
    broadcasts:    one instruction reads an element and fills a vector with it.
    masks:         parts of vectors are read as quickly as whole ones.
    gathers:       one instruction reads a vector of elements that lie anywhere.
    latency:       cycles until the result of a multiply-add can be used.
    issue:         instructions that begin in a cycle.
    load_bytes:    bytes that are read from the first cache in a cycle.
    line_cycles:   cycles between lines that follow each other from the second cache; how many more
                   if they come from the last one; and more, from memory.
    pages:         pages whose place is at hand.
    page_cycles:   cycles until that of another one is.
    """

    name: str
    arch: str = ""
    vector_bytes: int = 16
    registers: int = 16
    groups: bool = False
    group_limit: int = 256
    grid: tuple[int, int, int] | None = None
    local_bytes: int = 32768
    parameters: int | None = None
    threads: bool = False
    missing: frozenset[str] = frozenset()
    converts: frozenset[str] = frozenset()
    dots: frozenset[tuple[str, str]] = frozenset()
    fragments: tuple[Fragment, ...] = ()
    first_bytes: int = 32 * 1024
    cache_bytes: int = 512 * 1024
    last_bytes: int = 32 * 1024 * 1024
    stage_bytes: int = 384 * 1024
    stream_bytes: int | None = None
    clock: float = 3e9
    multiply_adds: float = 2.0
    broadcasts: bool = True
    masks: bool = False
    gathers: bool = False
    latency: float = 4.0
    issue: int = 6
    load_bytes: int = 64
    line_cycles: tuple[float, float, float] = (2.0, 3.0, 4.0)
    pages: int = 64
    page_cycles: float = 7.0

    def has_dot(self, formats: tuple[str, str], lanes: int) -> bool:
        """Whether one instruction is a DOT of these formats in so many lanes."""
        first, second = sorted(formats)
        fits = self.groups or DOT_BYTES <= lanes * WORD <= self.vector_bytes
        return (first, second) in self.dots and fits

    def fragment(self, formats: tuple[str, str]) -> Fragment | None:
        """The instruction that multiplies matrices of these formats; None where there is none."""
        return next((f for f in self.fragments if (f.left, f.right) == formats), None)

    def either_fragment(self, formats: tuple[str, str]) -> Fragment | None:
        """The same, of one order of the formats or the other."""
        return self.fragment(formats) or self.fragment(formats[::-1])

    def lanes(self, itemsize: int) -> int:
        """How many elements of `itemsize` bytes one vector register holds (at least 1)."""
        return max(1, self.vector_bytes // itemsize)


# No target computes with 8 bits.
_FLOATS_OF_8: Final = frozenset({"float8_e4m3fn", "float8_e5m2"})
_SMALL_FLOATS: Final = frozenset({"float16", "bfloat16"}) | _FLOATS_OF_8
# The formats of a DOT's parts of which some processor has an instruction.
DOTS: Final = (
    ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8"), ("bfloat16", "bfloat16"),
    ("int16", "int16"),
)  # fmt: skip
PARTS: Final = frozenset(name for formats in DOTS for name in formats)
# AMX: tiles of 16 rows of 64 bytes, eight of them; one unit takes 16 cycles for a product of two,
# whose sums can be used after 52 ("Intel 64 and IA-32 Architectures Optimization Reference Manual",
# "Intel Advanced Matrix Extensions").
TILES: Final = {
    feature: tuple(Fragment(*formats, 16, 16, 16, 16.0, 52.0, 8) for formats in pairs)
    for feature, pairs in (
        ("amx-bf16", (("bfloat16", "bfloat16"),)),
        ("amx-int8", tuple((a, b) for a in ("int8", "uint8") for b in ("int8", "uint8"))),
    )
}
_TARGETS: Final[dict[str, Target]] = {
    "cpu": Target("cpu", vector_bytes=32, threads=True, missing=_SMALL_FLOATS),
    "c": Target("c", vector_bytes=32, threads=True, missing=_FLOATS_OF_8 | {"bfloat16"}),
    "python": Target(
        "python", groups=True, dots=frozenset(DOTS), fragments=sum(TILES.values(), ())
    ),
    # 1024 work items, the grid, 48 KiB and 4096 bytes of parameters: CUDA C++ Programming Guide,
    # "Technical Specifications" and "Function Parameters".
    "cuda": Target(
        "cuda", "sm_80", groups=True, group_limit=1024, local_bytes=49152,
        grid=(2**31 - 1, 65535, 65535), parameters=512, missing=_FLOATS_OF_8,
    ),
    # The least CL_DEVICE_MAX_PARAMETER_SIZE of a full profile: 1024 bytes, 8 each.
    "opencl": Target("opencl", groups=True, parameters=128, missing=_SMALL_FLOATS),
    # Metal Feature Set Tables: 1024 threads and 32 KiB of memory for a threadgroup, 31 buffers.
    "metal": Target(
        "metal", groups=True, group_limit=1024, parameters=31, missing=_FLOATS_OF_8 | {"float64"}
    ),
    # WebGPU's default limits: 256 invocations a workgroup, 65535 of them along an axis, 16 KiB of
    # workgroup memory, 8 storage buffers (variables are uniforms, of which there may be 12, and
    # count here all the same).
    "wgsl": Target(
        "wgsl", groups=True, grid=(65535, 65535, 65535), local_bytes=16384, parameters=8,
        missing=_SMALL_FLOATS | {"float64"},
    ),
}  # fmt: skip


# What the people who write it are used to say.
_OTHER_NAMES: Final = {"llvm": "cpu", "webgpu": "wgsl"}
_VARIANTS: Final = {"cuda": re.compile(r"sm_\d+[af]?"), "wgsl": re.compile("f16")}


def get_target(text: str) -> Target:
    """The target called `name` or `name:arch`; a `DeviceError` lists the known ones.

    `llvm` is `cpu` and `webgpu` is `wgsl`; `wgsl:f16` is WebGPU with its optional feature
    shader-f16, `cuda:sm_90a` a generation of NVIDIA's.
    """
    name, colon, arch = text.lower().partition(":") if isinstance(text, str) else ("", "", "")
    name = _OTHER_NAMES.get(name, name)
    if name not in _TARGETS:
        raise DeviceError(f"unknown target {text!r}; the known ones are {', '.join(_TARGETS)}")
    found = _TARGETS[name]
    if not colon:
        return found
    if name not in _VARIANTS or not _VARIANTS[name].fullmatch(arch):
        raise DeviceError(
            f"unknown target {text!r}: there are cuda:sm_NN and wgsl:f16, and the setting TARGET "
            f"says which processor cpu is"
        )
    missing = found.missing - {"float16"} if name == "wgsl" else found.missing
    return replace(found, arch=arch, missing=missing)
