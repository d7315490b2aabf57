"""What the simulated device does, one operation at a time, and where in the program it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xferlib._runtime.callsite import CodeLocation, Site, site_of

if TYPE_CHECKING:
    from xferlib.sim.model.clocks import Participant


class Action:
    """Something that touched memory: ordered behind what its participant's clock held then."""

    __slots__ = ("call", "is_void", "location", "name", "participant", "tick")

    def __init__(self, name: str, participant: Participant, location: CodeLocation, call: str = "") -> None:
        self.name = name
        self.participant = participant
        self.location = location
        self.call = call
        """The function of xferlib's that the program called there."""
        self.is_void = False
        """What it wrote is no value: see `void`."""
        self.tick = participant.tick()

    @property
    def site(self) -> Site:
        return site_of(self.location)


def void(action: Action) -> Action:
    """The same write, of bytes that nothing had given a value: a copy of uninitialised memory."""
    found = object.__new__(Action)
    found.name, found.participant, found.location = action.name, action.participant, action.location
    found.call, found.tick, found.is_void = action.call, action.tick, True
    return found


class Operation(Action):
    """An action of a stream, carried out when the schedule says so.

    Attributes:
        run: Does the work; None for a record or a wait, which only order.
        before: Operations that must come first, as they were when it was enqueued.
        unmet: How many of them have not been carried out.
        followers: Operations that wait for this one.
    """

    __slots__ = ("before", "followers", "is_done", "run", "serial", "unmet")

    def __init__(
        self,
        name: str,
        participant: Participant,
        location: CodeLocation,
        run: Callable[[], object] | None,
        call: str = "",
    ) -> None:
        self.name = name
        self.call = call
        self.is_void = False
        self.participant = participant
        self.location = location
        self.tick = participant.tick()
        self.run = run
        self.serial = 0
        self.before: tuple[Operation, ...] = ()
        self.unmet = 0
        self.is_done = False
        self.followers: list[Operation] | tuple[()] = ()
