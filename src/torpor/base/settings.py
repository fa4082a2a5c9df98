"""Settings: the sole reader of the environment, and `Context`, which overrides them for a while.

A setting `NAME` is read as `TORPOR_NAME`, then `NAME`. Overrides are context-local: they follow
`contextvars`, so threads and asynchronous tasks do not see each other's.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping
from contextvars import ContextVar, Token
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from torpor.base.errors import SettingError

if TYPE_CHECKING:
    from pathlib import Path

Value = int | str

DEFAULTS: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "DEBUG": 0,  # 0-7, each level prints more; 4:matmul* only of kernels of this name
        "DEBUG_KERNELS": "",  # what DEBUG has after its colon
        "VIZ": 0,  # 1: write down all that happens and show it at the end, 2 or file: write it down
        "BEAM": 0,  # width of the timed search, 0: heuristics only
        "BEAM_SECONDS": 10,  # most time that the search for one kernel takes
        "BEAM_TOTAL": 600,  # most time that all searches of this process take
        "NOOPT": 0,  # 1: no optimisation at all
        "DEVICE": "CPU",  # the default device
        "THREADS": 0,  # worker threads, 0: one a core
        "CHECK": 0,  # 1: check the contract of each stage after every pass
        "CACHE_DIR": "",  # where compiled objects are kept, "": the user's cache folder
        "CACHE": 1,  # 0: no disk cache
        "CACHE_MB": 1000,  # most megabytes of it; beyond, what was written first goes
        "SEED": 0,  # first seed of the default generator
        "JIT": "1",  # 0: jit runs the function as it is; strict: refuse what cannot be guarded
        "STRICT_FLOAT": 0,  # 1: no licence to reorder or contract floating point
        "TARGET": "",  # CPU and features to generate for, "": the host's
        "KERNEL_SIZE": 2000,  # most steps fused into one kernel
    }
)


_WORDS: Final = {("VIZ", "file"): 2}


def _parse(name: str, text: str) -> Value:
    if isinstance(DEFAULTS[name], str):
        return text
    if (name, text) in _WORDS:
        return _WORDS[name, text]
    try:
        return int(text)
    except ValueError:
        raise SettingError(f"{name} takes an integer, got {text!r}") from None


def _split(name: str, text: str) -> dict[str, Value]:
    """What a setting's text sets: itself, and a filter that is written with it."""
    level, colon, names = text.partition(":")
    if name == "DEBUG" and colon:
        return {name: _parse(name, level), "DEBUG_KERNELS": names}
    return {name: _parse(name, text)}


def _from_environment() -> dict[str, Value]:
    values: dict[str, Value] = dict(DEFAULTS)
    for name in DEFAULTS:
        if (own := os.environ.get(f"TORPOR_{name}")) is not None:
            values |= _split(name, own)
        elif (short := os.environ.get(name)) is not None:
            try:
                values |= _split(name, short)
            except SettingError:
                warnings.warn(f"ignoring {name}={short!r}, which is not torpor's", stacklevel=2)
    return values


_current: ContextVar[Mapping[str, Value]] = ContextVar("torpor_settings")
_environment: Final[Mapping[str, Value]] = MappingProxyType(_from_environment())


def get(name: str) -> Value:
    """The value of setting `name` here and now."""
    return _current.get(_environment)[name]


# All settings here and now; the same object as long as none changes. Asked at every call.
snapshot: Final = functools.partial(_current.get, _environment)


def number(name: str) -> int:
    """The value of an integer setting."""
    return _current.get(_environment)[name]  # type: ignore[return-value]


def text(name: str) -> str:
    """The value of a text setting."""
    return str(_current.get(_environment)[name])


def at_start(name: str) -> Value:
    """The value of setting `name` for the whole process, whatever a `Context` says here."""
    return _environment[name]


class Context:
    """Overrides settings inside a `with` block: `with Context(DEBUG=2): ...`.

    Unknown names raise a `SettingError` that lists the known ones. May be nested and re-entered.
    """

    def __init__(self, **overrides: Value):
        self.overrides: dict[str, Value] = {}
        for name, value in overrides.items():
            if name not in DEFAULTS:
                known = ", ".join(DEFAULTS)
                raise SettingError(f"unknown setting {name!r}; the known ones are {known}")
            self.overrides |= _split(name, str(int(value) if isinstance(value, bool) else value))
        self._tokens: list[Token[Mapping[str, Value]]] = []

    def __enter__(self) -> Context:
        merged = {**_current.get(_environment), **self.overrides}
        self._tokens.append(_current.set(MappingProxyType(merged)))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())


def cache_dir() -> Path:
    """The folder of everything torpor keeps between runs (not created here)."""
    from pathlib import Path  # slow to import

    if chosen := text("CACHE_DIR"):
        return Path(chosen)
    if local := os.environ.get("LOCALAPPDATA"):
        return Path(local) / "torpor" / "cache"
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home) / "torpor"
    try:
        return Path.home() / ".cache" / "torpor"
    except RuntimeError:  # a user without a home
        return _own_folder()


@lru_cache(maxsize=1)
def _own_folder() -> Path:
    """A folder that nobody else can write to, for this process alone; where there can be none, a
    place in which nothing can be kept.
    """
    import tempfile  # slow to import, and rarely needed
    from pathlib import Path

    try:
        return Path(tempfile.mkdtemp(prefix="torpor-"))
    except OSError:
        return Path(os.devnull)
