"""Captured streams: their operations are noted, and each launch of the graph gives them to the machine anew.

So the detector checks every launch as if the program had made the calls there. A stream that waited for the captured
one has a stream of the graph's own in its place, ordered by the same events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib._core.ordering.capture import RecordedWork

if TYPE_CHECKING:
    from xferlib.sim.model.streams import SimEvent, SimStream

_numbers = itertools.count()


class CapturedEvent:
    """An event of captured work: its number among those of a launch."""

    __slots__ = ("number", "recorded")

    def __init__(self, recorded: RecordedWork) -> None:
        self.number = next(_numbers)
        self.recorded = recorded


def note(stream: SimStream, again: Callable[[SimStream], object]) -> None:
    """Note an operation."""
    assert stream.recorded is not None

    def repeat(on: SimStream, _: dict[int, Any]) -> None:
        again(on)

    stream.recorded.add(stream, repeat)


def record(stream: SimStream, again: Callable[[SimStream], SimEvent]) -> Any:
    """Note the record of an event."""
    assert stream.recorded is not None
    event = CapturedEvent(stream.recorded)

    def repeat(on: SimStream, events: dict[int, Any]) -> None:
        events[event.number] = again(on)

    stream.recorded.add(stream, repeat)
    return event


def wait(stream: SimStream, event: CapturedEvent, again: Callable[[SimStream, SimEvent], None]) -> None:
    """Note a wait; the stream belongs to the capture from now on."""
    stream.recorded = event.recorded
    event.recorded.add(stream, lambda on, events: again(on, events[event.number]))
