"""`torpor cache`: what is kept on disk."""

from __future__ import annotations

import json

from torpor.pipeline import disk


def run_cache(clear: bool, as_json: bool) -> int:
    """Show, or clear, the kept kernels; the exit status."""
    found = disk.entries()
    facts = {
        "folder": str(disk.folder()),
        "kernels": len(found),
        "bytes": sum(path.stat().st_size for path in found),
        "removed": disk.clear() if clear else 0,
    }
    if as_json:
        print(json.dumps(facts))
    elif clear:
        print(f"removed {facts['removed']} kernels from {facts['folder']}")
    else:
        megabytes = int(str(facts["bytes"])) / 1e6
        print(f"{facts['kernels']} kernels, {megabytes:.1f} MB in {facts['folder']}")
    return 0
