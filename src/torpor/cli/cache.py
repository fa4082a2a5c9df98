"""`torpor cache`: what is kept on disk: compiled kernels, and what timed searches database."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from torpor.pipeline import disk
from torpor.pipeline import tuning_database as database


def run_cache(arguments: argparse.Namespace) -> int:
    """Do what the options ask for, and say what was done or what there is; the exit status."""
    kernels = disk.entries()
    facts: dict[str, str | int] = {
        "folder": str(disk.folder()),
        "kernels": len(kernels),
        "bytes": sum(path.stat().st_size for path in kernels),
        "removed": disk.clear() if arguments.clear else 0,
        "imported": database.import_from(Path(arguments.source)) if arguments.source else 0,
        "searched": len(database.read()),
        "exported": database.export(Path(arguments.export)) if arguments.export else 0,
        "forgotten": database.clear() if arguments.clear_search else 0,
    }
    print(json.dumps(facts) if arguments.json else "\n".join(lines(facts, arguments)))
    return 0


def lines(facts: dict[str, str | int], arguments: argparse.Namespace) -> list[str]:
    """What was done, in words; where nothing was, what there is."""
    done = []
    if arguments.source:
        done.append(f"learnt of {facts['imported']} kernels from {arguments.source}")
    if arguments.export:
        done.append(f"wrote what is known on {facts['exported']} kernels to {arguments.export}")
    if arguments.clear:
        done.append(f"removed {facts['removed']} kernels from {facts['folder']}")
    if arguments.clear_search:
        done.append(f"forgot what was known on {facts['forgotten']} kernels")
    megabytes = int(facts["bytes"]) / 1e6
    return done or [
        f"{facts['kernels']} kernels, {megabytes:.1f} MB in {facts['folder']}",
        f"searches for {facts['searched']} kernels in {database.path()}",
    ]
