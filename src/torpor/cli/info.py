"""`torpor info`: the machine, the devices, the compiler and the caches."""

from __future__ import annotations

import argparse
import json
import platform
from importlib import metadata
from typing import Any

from rich.table import Table

from torpor.base import settings
from torpor.base.target import Fragment
from torpor.cli.screen import screen
from torpor.device import Device
from torpor.device.machine import cores, processor_name
from torpor.pipeline import disk
from torpor.pipeline import tuning_database as database


def device_state(kind: str) -> str:
    """Whether a kind of device can be opened here."""
    fault = Device.why_not(kind)
    return f"not available: {fault}" if fault else "ready"


def matrices(one: Fragment) -> str:
    """What an instruction multiplies: formats and sizes, of its words the terms."""
    return f"{one.left} {one.rows}x{one.depth} by {one.right} {one.depth}x{one.columns}"


def facts() -> dict[str, Any]:
    """Everything that `torpor info` shows."""
    target = Device["CPU"].target
    caches = target.first_bytes, target.cache_bytes, target.last_bytes
    return {
        "torpor": metadata.version("torpor"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor_name(),
        "cores": cores(),
        "threads": settings.number("THREADS") or cores(),
        "llvmlite": metadata.version("llvmlite"),
        "llvm target": target.arch,
        "vector width": f"{target.vector_bytes * 8} bits",
        "vector registers": target.registers,
        "matrix products": ", ".join(matrices(one) for one in target.fragments) or "none",
        "caches": ", ".join(f"{size // 1024} KiB" for size in caches),
        "devices": {kind: device_state(kind) for kind in Device.kinds()},
        "default device": Device.DEFAULT,
        "kernel cache": str(disk.folder()),
        "kernels kept": len(disk.entries()),
        "search results": str(database.path()),
        "kernels searched": len(database.read()),
    }


def run_info(arguments: argparse.Namespace) -> int:
    """Print the facts; the exit status."""
    known = facts()
    if arguments.json:
        print(json.dumps(known))
        return 0
    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in known.items():
        if isinstance(value, dict):
            for inner, state in value.items():
                table.add_row(f"{name[:-1]} {inner}", str(state))
        else:
            table.add_row(name, str(value))
    screen().print(table, soft_wrap=False)
    return 0
