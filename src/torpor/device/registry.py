"""`Device`: open devices by name. A name is a kind, `CPU`, or a kind and a number, `CPU:1`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from torpor.base import settings
from torpor.base.errors import DeviceError
from torpor.base.locks import recursive_lock
from torpor.device.base import DeviceBase
from torpor.ir.infer import JOINT

Factory = Callable[[str], DeviceBase]

ENTRY_POINTS: Final = "torpor.devices"
_named: Final[dict[str, DeviceName]] = {}
_NAME: Final = re.compile(r"([A-Za-z][A-Za-z_]*)(?::(\d+))?")
NEAR: Final = 0.7  # how much a name must be like another: GPU is not CPU misspelt
# What a processor for graphics is called elsewhere.
GRAPHICS: Final = ("GPU", "CUDA", "HIP", "ROCM", "MPS", "METAL", "XPU", "WEBGPU", "VULKAN", "CL")
# Where torpor's own are, as `module:class`; they are imported when they are first opened.
_OWN: Final = {
    "CPU": "cpu:CpuDevice",
    "PYTHON": "python:PythonDevice",
    "DISK": "disk:DiskDevice",
    "NPY": "npy:NpyDevice",
    "NULL": "null:NullDevice",
    "OPENCL": "opencl:OpenclDevice",
}


def _opening(load: Callable[[], Factory]) -> Factory:
    """What opens a device, and is imported when it first does."""
    return lambda device: load()(device)


def _own(place: str) -> Any:
    """What opens a device of torpor's own."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"torpor.device.{module}"), name)


def _is_graphics(device: DeviceBase) -> bool:
    """Whether kernels run there as a grid of groups, as on a processor for graphics."""
    try:
        return device.target.groups and device.target.name != "python"
    except DeviceError:  # it runs none
        return False


class DeviceName(str):
    """The canonical name of a device. Other spellings of it are equal; as a key of a dict it is its
    canonical one.

    >>> DeviceName("CPU") == "cpu", DeviceName("CPU:1") == "cpu:0"
    (True, False)
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if self is other:  # nearly always: there is one object for a name
            return True
        if not isinstance(other, str):
            return NotImplemented
        return str.__eq__(self, other) or str.__eq__(self, _spelt(other))

    def __ne__(self, other: object) -> bool:
        return self is not other and not self == other

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (str(self),)

    @property
    def type(self) -> DeviceName:
        """The kind, without a number."""
        return named(self.partition(":")[0])

    @property
    def index(self) -> Any:
        """Which of its kind, as in its name; None where that has no number."""
        return int(number) if (number := self.partition(":")[2]) else None


def _spelt(name: str) -> str:
    """The canonical spelling of a name, of a device that may not be there."""
    match = _NAME.fullmatch(name)
    if match is None:
        return name
    kind, number = match[1].upper(), int(match[2] or 0)
    kind = "NULL" if kind == "META" else kind  # PyTorch's name
    return f"{kind}:{number}" if number else kind


def named(name: str) -> DeviceName:
    """The one object for this canonical name."""
    if type(name) is DeviceName:
        return name
    known = _named.get(name)
    return _named.setdefault(name, DeviceName(name)) if known is None else known


class Devices:
    """Every device that there is: `Device["CPU:1"]` opens it, once, when it is first asked for."""

    def __init__(self) -> None:
        self._lock = recursive_lock()
        self._open: dict[str, DeviceBase] = {}
        self._names: dict[str, str] = {}  # as they were spelt, to canonical
        self._factories: dict[str, Factory] = {
            kind: _opening(partial(_own, place)) for kind, place in _OWN.items()
        }
        self._looked_outside = False

    @property
    def DEFAULT(self) -> str:
        """The device of tensors that name none: the setting DEVICE."""
        return self.canonicalize(settings.text("DEVICE"))

    def register(self, kind: str, factory: Factory) -> None:
        """Make `KIND` and `KIND:N` known; `factory` opens one, given its canonical name."""
        if not _NAME.fullmatch(kind) or ":" in kind:
            raise DeviceError(f"a kind of device is called by letters, not {kind!r}")
        with self._lock:
            self._factories[kind.upper()] = factory

    def kinds(self) -> tuple[str, ...]:
        """Every kind that is known, whether or not this machine has one."""
        self._look_outside()
        return tuple(self._factories)

    def why_not(self, kind: str) -> str:
        """Why a kind that is known cannot be opened here, in one line; empty if it can."""
        try:
            self[kind]
        except Exception as error:  # whatever a driver or somebody else's package raises
            return (str(error).splitlines() or [""])[0] or type(error).__name__
        return ""

    def canonicalize(self, name: str | Sequence[str] | None) -> str:
        """The one spelling of a device's name: `cpu` and `CPU:0` are `CPU`; None is the default.

        Several names (of a tensor over several devices) are joined by `|`.
        """
        if name is None:
            return self.DEFAULT
        if type(name) is DeviceName:
            return name
        if not isinstance(name, str):
            if not isinstance(name, Iterable):
                raise DeviceError(f"a device is named by a string, not {name!r}")
            return JOINT.join(self.canonicalize(one) for one in name)
        if JOINT in name:
            return self.canonicalize(name.split(JOINT))
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = named(self._canonical(name))
        return known

    def __getitem__(self, name: str) -> DeviceBase:
        canonical = self.canonicalize(name)
        device = self._open.get(canonical)
        if device is not None:
            return device
        with self._lock:
            device = self._open.get(canonical)
            if device is None:
                device = self._factories[canonical.partition(":")[0]](canonical)
                self._open[canonical] = device
            return device

    def opened(self) -> Iterator[DeviceBase]:
        """The devices that have been opened so far."""
        return iter(tuple(self._open.values()))

    def _canonical(self, name: str) -> str:
        match = _NAME.fullmatch(name) if isinstance(name, str) else None
        kind = _spelt(str(name)).partition(":")[0].upper()
        if match is None or (kind not in self._factories and kind not in self.kinds()):
            import difflib

            present = [one for one in self.kinds() if not self.why_not(one)]
            near = difflib.get_close_matches(kind, self.kinds(), 1, NEAR)
            if not near and kind in GRAPHICS:
                near = [one for one in present if _is_graphics(self[one])]
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise DeviceError(
                f"unknown device {name!r}{hint} (a name is KIND or KIND:N; this machine has "
                f"{', '.join(present)})"
            )
        return _spelt(name)

    def _look_outside(self) -> None:
        with self._lock:
            if self._looked_outside:
                return
            from importlib.metadata import entry_points  # slow to import, and rarely needed

            self._looked_outside = True
            for point in entry_points(group=ENTRY_POINTS):
                self._factories.setdefault(point.name.upper(), _opening(point.load))


Device: Final = Devices()
