"""Random streams that a traced function draws from, and what its kernels are given of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.tensor.random import state_of

if TYPE_CHECKING:
    from torpor.capture.tracer import Tracer


class Stream(NamedTuple):
    """Random numbers: the generator (None: the context's own), its state at the first draw."""

    generator: Any
    state: Any

    @property
    def name(self) -> int:
        return int(self.state.name)

    @property
    def draw(self) -> int:
        return int(self.state.draw)


class Draw(NamedTuple):
    """An integer that a stream gives at each run: its number, what of it, draws from now."""

    stream: int
    what: str
    offset: int


def draw_word(asked: Draw, states: Sequence[Any]) -> int:
    """The 32-bit word that the seed or the draw number of a stream in these states gives."""
    state = states[asked.stream]
    if asked.what == "draw":
        return int(state.draw + asked.offset) & 0xFFFFFFFF
    return int(state.seed >> (32 * asked.offset)) & 0xFFFFFFFF


def states_after(tracer: Tracer) -> tuple[list[int | None], list[tuple[Any, int, int]]]:
    """What the run did to random streams: how far each that it drew from has gone on (None: it was
    seeded anew), and (generator, seed, draw) of those that it seeded.
    """
    advances: list[int | None] = []
    seeded = dict(tracer.reseeded)
    for stream in tracer.streams.values():
        state = state_of(stream.generator)
        went_on = state.name == stream.name
        advances.append(state.draw - stream.draw if went_on else None)
        if not went_on:
            seeded[id(stream.generator)] = stream.generator
    if state_of(None).name > tracer.before:
        seeded[id(None)] = None
    states = [(generator, state_of(generator)) for generator in seeded.values()]
    return advances, [(generator, s.seed, s.draw) for generator, s in states]
