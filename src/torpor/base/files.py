"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` at the end of the block. Whoever reads
    `path` meanwhile sees nothing of this, or all; so they do where the block fails.
    """
    final = Path(os.path.realpath(path))  # what a link leads to is replaced, not the link
    if final.exists() and not final.is_file():
        raise FileExistsError(f"{path} is there already and no ordinary file")
    temporary = final.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(final)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            error.filename = os.fspath(path)  # nobody knows the other one
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a file as `replacing` does, and its folder where there is none. A disk that cannot be
    written to is not an error.
    """
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(data)
