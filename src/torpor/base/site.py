"""Places in the user's program: captured in a fraction of a microsecond, decoded only when asked.

A site is a code object and the offset of an instruction in it. Frames of torpor itself are skipped,
so that a site is the line that the user wrote. What torpor derives from such a line by itself, a
gradient, has the same site with a mark.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from itertools import islice
from types import CodeType, FrameType
from typing import Final, NamedTuple

# Code object, offset of the instruction in bytes, and where it is not the line's own work: a mark.
Site = tuple[CodeType, int] | tuple[CodeType, int, str]
_GRADIENT: Final = "gradient of "
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# What lies between an import and the module, or what torpor imports when it is first used; and
# between a user's line and what is made ready to be written, or a function that is decorated.
_BETWEEN: Final = (
    "<frozen importlib",
    importlib.__file__,
    contextlib.__file__,
    os.path.join(os.path.dirname(os.__file__), "pickle.py"),
)
# Programs that come along and that people read as they read their own.
_PROGRAMS: Final = (os.path.join(_PACKAGE, "cli"), os.path.join(_PACKAGE, "nn", "models.py"))


class _Inside(dict[str, bool]):
    """Whether files are torpor's own work, found out once for each."""

    def __missing__(self, name: str) -> bool:
        known = name.startswith(_PACKAGE) and not name.startswith(_PROGRAMS)
        known = known or name.startswith(_BETWEEN)
        self[name] = known
        return known


_inside: Final = _Inside()


class Place(NamedTuple):
    """A decoded site: file, line, function, and the text of the expression."""

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.text else f"{self.file}:{self.line}"


def is_inside(frame: FrameType) -> bool:
    """Whether a frame is one of torpor's own."""
    return _inside[frame.f_code.co_filename]


def here(depth: int = 1) -> Site | None:
    """The innermost place outside of torpor that is being executed; None if there is none.

    The search begins `depth` frames up, all below being torpor's.
    """
    frame = sys._getframe(depth)
    while _inside[frame.f_code.co_filename]:
        outer = frame.f_back
        if outer is None:
            return None
        frame = outer
    return frame.f_code, frame.f_lasti


def gradient_of(site: Site) -> Site:
    """The site of what is computed for the gradient of the work of a line."""
    return (site[0], site[1], _GRADIENT)


def decode(site: Site) -> Place:
    """Where `site` is. The text is the expression if it stands on one line, else its first line,
    after the mark if there is one.
    """
    import linecache  # slow to import, and rarely needed

    code, offset, *mark = site
    found = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    line, last, column, end = found
    line = line or code.co_firstlineno
    text = linecache.getline(code.co_filename, line)
    if line == last and column is not None and end is not None:
        text = text.encode()[column:end].decode(errors="replace")
    return Place(code.co_filename, line, code.co_qualname, "".join(mark) + text.strip())
