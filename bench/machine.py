"""What the machine is, for the record."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from torpor.device import Device
from torpor.device.machine import cores, processor_name

PACKAGES = ("torpor", "llvmlite", "numpy", "torch", "jax", "onnxruntime", "tinygrad")


def version_of(package: str) -> str:
    """Its installed version; "-" where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "-"


def load() -> float:
    """How many processes wanted a processor in the last minute, where the system says."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def facts() -> dict[str, Any]:
    """Processor, vectors, caches, system, versions, and how busy the machine is."""
    target = Device["CPU"].target
    return {
        "processor": processor_name(),
        "cores": cores(),
        "architecture": target.arch,
        "vector bits": target.vector_bytes * 8,
        "cache near a core, KiB": target.cache_bytes // 1024,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in PACKAGES},
        "load": load(),
    }
