"""The page as files that any file server can serve, with no Python: the pages that compute are left
out.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from torpor.explore import content
from torpor.explore.answers import page_files
from torpor.explore.trace import Trace

_COMPUTING: Final = ("views.html", "views.js", "expr.html", "expr.js")


def export(trace: Trace, path: Any) -> Path:
    """Write the page and the trace's data into a folder, which is made; gives the page's path."""
    folder = Path(path)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for name, file in page_files().items():
        if name not in _COMPUTING:
            shutil.copyfile(file, folder / name)
    _write(folder / "data" / "index.json", content.index(trace) | {"static": True})
    _write(folder / "data" / "scheduling.json", content.scheduling(trace))
    for one in trace.kernels:
        _write(folder / "data" / f"kernel-{one.number}.json", content.kernel(trace, one))
    return folder / "index.html"


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
