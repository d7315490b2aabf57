"""Operations of the simulated devices, each with the line of the program that requested it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xferlib._runtime.callsite import CodeLocation, Site, site_of

if TYPE_CHECKING:
    from xferlib.sim.model.clocks import Participant


class Action:
    """An access to memory, ordered behind all that its participant's clock held then."""

    __slots__ = ("call", "is_void", "location", "name", "participant", "tick")

    def __init__(self, name: str, participant: Participant, location: CodeLocation, call: str = "") -> None:
        self.name = name
        self.participant = participant
        self.location = location
        self.call = call
        """The function of xferlib that the program called there."""
        self.is_void = False
        """Whether it wrote bytes without a value: see `void`."""
        self.tick = participant.tick()

    @property
    def site(self) -> Site:
        return site_of(self.location)


def void(action: Action) -> Action:
    """The same write marked as void: a copy of uninitialised memory."""
    found = object.__new__(Action)
    found.name, found.participant, found.location = action.name, action.participant, action.location
    found.call, found.tick, found.is_void = action.call, action.tick, True
    return found


def at_operation(name: str, operation: Action, location: CodeLocation, call: str) -> Action:
    """An access in the course of an operation that was enqueued before."""
    found = object.__new__(Action)
    found.name, found.participant, found.location = name, operation.participant, location
    found.call, found.tick, found.is_void = call, operation.tick, False
    return found


class Operation(Action):
    """An action of a stream, carried out at a moment that the schedule chooses.

    Attributes:
        run: Does the work; None for a record or a wait, which only order.
        before: The operations not yet carried out, when it was enqueued, that must come first.
        unmet: The number of them that have not been carried out yet.
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
