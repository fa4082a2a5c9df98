"""Work on kernels that a second process shares: what rules make of them, and their programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from torpor.base import settings
from torpor.base.collecting import uncollected
from torpor.ir.trace import listener
from torpor.pipeline.journal import help_another, journal, recording

BULK: Final = "torpor.device.bulk"  # not imported before a process is started
_COMMAND: Final = "from torpor.pipeline.beside import serve; serve()"
# Nodes of a graph from which the other process is started while it is planned. Such a graph becomes
# some ten kernels, of 0.05 s each; a start takes 0.3 s. A choice.
LARGE: Final = 128


def is_heard() -> bool:
    """Whether somebody listens to what this process does, which then does everything itself."""
    return bool(settings.number("DEBUG")) or listener() is not None


def expect(nodes: int) -> None:
    """Start the other process where the kernels of so large a graph will be compiled soon."""
    if nodes >= LARGE and not is_heard():
        from torpor.device import bulk  # it imports `subprocess`

        bulk.wake(_COMMAND)


def beside(
    function: Callable[..., Any], wanted: Sequence[tuple[Any, ...]],
    there: Callable[..., Any] | None = None, starts: bool = True,
) -> list[Any]:  # fmt: skip
    """What a function gives for each of these arguments, in order, the first ones begun first.

    there:  a function that the other process calls instead; both are found by their names.
    starts: whether that is worth to start one.
    """
    if len(wanted) == 1 or is_heard():
        return [function(*one) for one in wanted]
    from torpor.device import bulk

    now = dict(settings.snapshot())
    requests = [(now, there or function, *one) for one in wanted]
    return bulk.make_all(requests, lambda n: function(*wanted[n]), _COMMAND, _from_there, starts)


def begin(function: Callable[..., Any], *wanted: Any) -> None:
    """Have the other process, if it runs, do what leaves something on the disk, which others will
    look for there later.
    """
    if settings.number("CACHE") and not is_heard() and (bulk := sys.modules.get(BULK)) is not None:
        bulk.begin(_COMMAND, (dict(settings.snapshot()), function, *wanted))


def _from_there(answer: tuple[Any, str]) -> Any:
    """What another process has made; its lines are written down as they come, since it numbers
    nodes through all of them.
    """
    made, lines = answer
    if lines:
        journal().take_over(lines)
    return made


def serve() -> None:
    """What the other process does."""
    import torpor.kernel.lower
    import torpor.source  # noqa: F401
    from torpor.device import bulk

    help_another()
    bulk.serve(_done_there)


@uncollected()
def _done_there(request: tuple[Any, ...]) -> tuple[Any, str]:
    """What is made of a request, and what was written down meanwhile."""
    now, function, *wanted = request
    with settings.Context(**now):
        made = function(*wanted)
        return made, journal().handed_over() if recording() else ""
