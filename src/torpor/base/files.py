"""Files that are written whole or not at all, and such as are checked when they are read."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

_DIGEST: Final = 32  # bytes of SHA-256 in front of what is checked: of its name and what follows


Source = str | os.PathLike[str] | IO[bytes]


@contextmanager
def opened(source: Source) -> Iterator[IO[bytes]]:
    """The file to read from, at its start: that of a path, or what an open one still holds."""
    if isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            yield file
    else:
        yield io.BytesIO(source.read())


def named(source: Source) -> str:
    """The path, as errors show it."""
    return repr(os.fspath(source)) if isinstance(source, str | os.PathLike) else "the open file"


@contextmanager
def written(target: Source) -> Iterator[IO[bytes]]:
    """The file to write to: as `replacing` for a path, or one that is open."""
    if isinstance(target, str | os.PathLike):
        with replacing(Path(target)) as file:
            yield file
    else:
        yield target


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


def write_checked(path: Path, body: bytes) -> None:
    """Write what `read_checked` reads, as `write_whole` does."""
    write_whole(path, digest_of(path.name, body) + body)


def read_checked(path: Path) -> bytes | None:
    """What was written; None if it is missing, damaged, or stood under another name."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, body = data[:_DIGEST], data[_DIGEST:]
    return body if digest_of(path.name, body) == digest else None


def digest_of(name: str, body: bytes) -> bytes:
    """What stands in front of an entry: a file under another name is damaged, too."""
    return hashlib.sha256(name.encode() + body).digest()
