"""One generated function for a kind of call and its first trace: all of a replay in straight code.

It does what the matcher, the guards and `Trace` do one after the other, in the common case: inputs
are whole computed tensors in the host's memory, nothing random is drawn, no other thread is in the
way, and the plan is ready to run by one native call. It gives `MISS`, and has changed nothing, in
any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torpor.capture.commit import PLACE, Writer, write_commit, write_gather
from torpor.capture.match import Pattern
from torpor.capture.trace import MISS, Trace
from torpor.device.executor import split
from torpor.pipeline.report import timing, where_noted
from torpor.tensor.storage import Storage

Straight = Callable[[tuple[Any, ...], dict[str, Any]], Any]

_TEXT: Final = """
def straight(a, o):
 try:
  {match}
 except AttributeError:
  return MISS
 for locked in map(acquire, at_once):  # as `taken` does
  break
 if not locked:
  return MISS
 try:
  c = a, o
  t = a = {tensors}
  try:
   if not ({guards}): return MISS
  except (LookupError, ValueError):
   return MISS
  {numbers}
  {gather}
  e = plan.executor
  if e is None: return MISS
  if (seen is not untimed or where_noted()) and timing(): return MISS
  {takes}
  failed = e.call(e.packed({words})) if e.packed is not None else e.launch(({words}))
  if failed: plan.fail(*split(failed))
  trace.hits += 1
  {commit}
 finally:
  release()
"""


def straight_for(pattern: Pattern, trace: Trace, lock: Any) -> Straight | None:
    """The function for calls like `pattern` that replay `trace`; None where it is no such case.

    `lock` is what keeps other threads from changing what the trace changes.
    """
    special = (trace.streams, trace.draws, trace.seeded, trace.rewrites, trace.additions)
    plain = all(isinstance(source, int | Storage) for source in trace.sources)
    if any(special) or not plain or not trace.on_host:
        return None
    writer = Writer(**pattern.scope, **trace.guards.names, MISS=MISS,
                    plan=trace.plan, trace=trace, timing=timing, split=split,
                    where_noted=where_noted)  # fmt: skip
    write_gather(writer, trace, plain=True)
    gather, writer.lines = writer.lines, []
    write_commit(writer, trace)
    commit, writer.lines = writer.lines, []
    words = _write_numbers(writer, pattern, trace)
    if "table" in writer.scope or words is None:
        return None
    numbers, writer.lines = writer.lines, []
    taken = [f"r{place} = {writer.bind(take)}()" for place, take in enumerate(trace.takes)]
    for place, over in enumerate(trace.successors):
        if over is not None:
            taken[place] = f"r{place} = {writer.bind(over[1].take)}(s{over[0]}.base, 1)"
    places = map(PLACE.format, range(len(trace.sources)))
    fresh = [f"r{place}.address" for place in range(len(taken))]
    own = lock if trace.leaves else trace.lock
    untimed = None if timing() else pattern.scope["snapshot"]
    writer.scope |= {"acquire": own.acquire, "release": own.release, "untimed": untimed,
                     "map": map, "at_once": (False,)}  # fmt: skip
    source = _TEXT.format(
        match="\n  ".join(pattern.lines),
        tensors=pattern.tensors,
        guards=trace.guards.expression(),
        numbers="\n  ".join(numbers),
        gather="\n  ".join(gather),
        takes="\n  ".join(taken),
        words="".join(f"{word}, " for word in (*places, *fresh, *words)),
        commit="\n  ".join(commit),
    )
    exec(source, writer.scope)
    straight: Straight = writer.scope["straight"]
    return straight


def _write_numbers(writer: Writer, pattern: Pattern, trace: Trace) -> list[str] | None:
    """The line that finds the numbers `n` of a replay; the texts of its words. None: it cannot be
    replayed. Without numbers among the arguments they are the same each time.
    """
    if pattern.numbers != "()":
        writer.lines.append(f"found = {writer.bind(trace.numbers)}({pattern.numbers})")
        writer.lines += ["if found is None: return MISS", "w, n = found"]
        return ["*w"]
    found = trace.numbers(())
    if found is None:
        return None
    writer.lines.append(f"n = {writer.bind(found[1])}")
    return [*map(repr, found[0])]
