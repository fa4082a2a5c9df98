"""Names that enter source text: validated, and kept apart."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from torpor.base.errors import ContractError

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# Words of C, C++, CUDA, OpenCL, Metal, WGSL and of the preludes that mean something else already.
_WORDS: Final = """
    active alias alignas alignof and and_eq array asm atomic atomic_cancel auto await become
    bitand bitcast bitor blockDim blockIdx bool break case cast catch char char16_t char32_t class
    co_await co_return co_yield compl concept const const_assert const_cast constant constexpr
    continue continuing crate debugger decltype default delete demote device diagnostic discard do
    double dynamic_cast else enable enum explicit export extern f16 f32 false float fn for
    fragment friend from fxgroup get global goto gridDim half handle highp i32 if impl implements
    import inline inout instanceof int interface kernel layout let local long loop lowp macro main
    match mediump meta metal mod module move mut mutable namespace new nil noexcept noinline not
    not_eq null nullptr of operator or or_eq override package packoffset pass patch pixelfragment
    precise precision premerge private protected ptr public ref regardless register
    reinterpret_cast requires resource restrict return sampler self set shared short signed sizeof
    smooth snorm static static_assert static_cast std struct subroutine super switch target
    template texture_2d this thread threadIdx thread_local threadgroup throw trait true try type
    typedef typeid typename typeof u32 uchar uint ulong union unless unorm unsigned use ushort
    using var varying vec2 vec3 vec4 vertex vertexfragment virtual void volatile wchar_t wgsl
    where while with workgroup writeonly xor xor_eq yield
"""
KEYWORDS: Final = frozenset(_WORDS.split())


def identifier(name: str) -> str:
    """`name`, if it can be a name in every target's text; else a `ContractError`."""
    if not isinstance(name, str) or not _IDENTIFIER.match(name):
        raise ContractError(f"{name!r} is not an identifier: [A-Za-z_][A-Za-z0-9_]*")
    if name in KEYWORDS or name.startswith("__"):
        raise ContractError(f"{name!r} is a word of a target's language")
    return name


class Names:
    """Gives out names that no other value of the function has: `alu0`, `alu1`, ..."""

    def __init__(self, taken: Iterable[str] = ()):
        self.taken = set(taken)
        self.counts: dict[str, int] = {}

    def numbered(self, prefix: str) -> str:
        """The next free name that starts with `prefix`."""
        while True:
            number = self.counts.get(prefix, 0)
            self.counts[prefix] = number + 1
            name = f"{prefix}{number}"
            if name not in self.taken and name not in KEYWORDS:
                self.taken.add(name)
                return name

    def exact(self, name: str) -> str:
        """The validated `name` itself where it is free, else with a number behind it."""
        if identifier(name) in self.taken:
            return self.numbered(f"{name}_")
        self.taken.add(name)
        return name
