"""Captured streams: their operations are noted, and each launch of the graph gives them to the machine anew.

So the detector checks every launch as if the program had made the calls there. A stream that waited for the captured
one has a stream of the graph's own in its place, ordered by the same events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib.sim.model.captured_work import CapturedWork

if TYPE_CHECKING:
    from xferlib.sim.model.streams import SimEvent, SimStream

_numbers = itertools.count()


class CapturedEvent:
    """An event of captured work: its number among those of a launch, and the operations before it."""

    __slots__ = ("known", "number", "recorded")

    def __init__(self, recorded: CapturedWork, known: dict[Any, int]) -> None:
        self.number = next(_numbers)
        self.recorded = recorded
        self.known = known


def note(stream: SimStream, again: Callable[[SimStream], object]) -> None:
    """Note an operation."""
    assert stream.recorded is not None

    def repeat(on: SimStream, _: dict[int, Any]) -> None:
        again(on)

    stream.recorded.add(stream, repeat)
    stream.recorded.count(stream)


def record(stream: SimStream, again: Callable[[SimStream], SimEvent]) -> Any:
    """Note the record of an event."""
    assert stream.recorded is not None
    event = CapturedEvent(stream.recorded, {**stream.recorded.known(stream)})

    def repeat(on: SimStream, events: dict[int, Any]) -> None:
        events[event.number] = again(on)

    stream.recorded.add(stream, repeat)
    return event


def wait(stream: SimStream, event: CapturedEvent, again: Callable[[SimStream, SimEvent], None]) -> None:
    """Note a wait; the stream belongs to the capture from now on."""
    stream.recorded = event.recorded
    event.recorded.learn(stream, event.known)
    event.recorded.add(stream, lambda on, events: again(on, events[event.number]))
