"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, and its folder where there is none. Whoever reads it meanwhile sees nothing of
    this, or all. A disk that cannot be written to is not an error.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
        except OSError:  # full; or, on Windows, another process reads the file
            Path(temporary).unlink(missing_ok=True)
    except OSError:
        return
