"""Formats of what an example gives, for each format of its tensors: found by calling it with them.

Shapes and formats are told at the call, so that nothing is computed for most of this.
"""

from __future__ import annotations

from typing import Final

from tools.reference import samples
from tools.reference.trying import NO_FLOATS, results, tensors

GROUPS: Final = {
    "bool": ("bool",),
    "integers": ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    "8-bit floats": ("float8_e4m3fn", "float8_e5m2"),
    "floats": ("float16", "bfloat16", "float32", "float64"),
    "complex numbers": ("complex64", "complex128"),
}


def varied(call: str) -> list[str]:
    """The example's tensors whose format says that of the result: floats, if there are any."""
    names = tensors(call)
    floats = [name for name in names if name not in NO_FLOATS]
    return floats or [name for name in names if name != "held"]


def _outcome(call: str, one: str) -> tuple[str, ...] | str:
    """Formats of what comes out, or the name of the error that a format is refused with."""
    cast = {name: f"{samples.VALUES[name]}.cast({one!r})" for name in varied(call)}
    try:
        made = results(call, **{name: samples.evaluate(text) for name, text in cast.items()})
    except Exception as error:
        return f"raise `{type(error).__name__}`"
    return tuple(part.dtype.name for part in made)


def _worded(one: str, made: tuple[str, ...] | str, every: list[tuple[str, ...]]) -> str:
    """An outcome in words that are the same for formats of which the same is to be said."""
    if isinstance(made, str):
        return made
    fixed = [len(set(names)) == 1 for names in zip(*every, strict=True)]
    texts = ["the same" if name == one and not all_alike else f"`{name}`"
             for name, all_alike in zip(made, fixed, strict=True)]  # fmt: skip
    return "stay" if {*texts} == {"the same"} else f"give {' and '.join(dict.fromkeys(texts))}"


def told(call: str) -> str:
    """What each format of a call's tensors gives; nothing where there are none."""
    if not varied(call) or not results(call):
        return ""
    made = {one: _outcome(call, one) for formats in GROUPS.values() for one in formats}
    given = [names for names in made.values() if not isinstance(names, str)]
    said: dict[str, list[str]] = {}
    for group, formats in GROUPS.items():
        words = {one: _worded(one, made[one], given) for one in formats}
        for what in dict.fromkeys(words.values()):
            there = [one for one in formats if words[one] == what]
            said.setdefault(what, []).extend([group] if len(there) == len(formats) else there)
    if len(said) == 1:
        return f"all {next(iter(said))}"
    return "; ".join(f"{', '.join(names)} {what}" for what, names in said.items())
