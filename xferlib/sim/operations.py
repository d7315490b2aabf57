"""What the simulated device does, one operation at a time, and where in the program it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from xferlib._site import Place, Site, site_of

if TYPE_CHECKING:
    from xferlib.sim.clocks import Participant
    from xferlib.sim.memory import Block
    from xferlib.sim.ranges import Form


class Span(NamedTuple):
    """Bytes of one block, from ``start`` to before ``stop``: all of them, or those that ``form`` says."""

    block: Block
    start: int
    stop: int
    form: Form = None

    def __str__(self) -> str:
        of = "bytes" if self.form is None else "some of bytes"
        return f"{of} {self.start} to {self.stop} of {self.block.where}"


Spans = tuple[Span, ...]


class Action:
    """Something that touched memory: ordered behind what its participant's clock held then."""

    __slots__ = ("name", "participant", "place", "tick")

    def __init__(self, name: str, participant: Participant, place: Place) -> None:
        self.name = name
        self.participant = participant
        self.place = place
        self.tick = participant.tick()

    @property
    def site(self) -> Site:
        return site_of(self.place)


class Operation(Action):
    """An action of a stream, carried out when the schedule says so.

    Attributes:
        run: Does the work; None for a record or a wait, which only order.
        before: Operations that must come first, as they were when it was enqueued.
        unmet: How many of them have not been carried out.
        followers: Operations that wait for this one.
    """

    __slots__ = ("before", "followers", "is_done", "reads", "run", "serial", "unmet", "writes")

    def __init__(
        self, name: str, participant: Participant, place: Place, reads: Spans, writes: Spans,
        run: Callable[[], object] | None,
    ) -> None:  # fmt: skip
        self.name = name
        self.participant = participant
        self.place = place
        self.tick = participant.tick()
        self.reads = reads
        self.writes = writes
        self.run = run
        self.serial = 0
        self.before: tuple[Operation, ...] = ()
        self.unmet = 0
        self.is_done = False
        self.followers: list[Operation] | tuple[()] = ()
