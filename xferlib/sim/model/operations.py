"""Operations of the simulated devices, each with the line of the program that requested it."""

from __future__ import annotations

import functools
import operator
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from xferlib._runtime.callsite import CodeLocation, Site, site_of

if TYPE_CHECKING:
    from xferlib.sim.model.clocks import Participant


class Around(Protocol):
    """The host memory that an operation uses, which the program may change in between."""

    def drop(self) -> None:
        """Watch no more: the operation will not be carried out."""

    def begin(self) -> None:
        """Note what the program has changed; the operation is about to be carried out, perhaps once more."""

    def end(self) -> None:
        """Note what the operation has changed."""

    def report(self) -> None:
        """Report what the program has changed."""


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
        around: What `run` does to watched host memory; None if that is nothing.
        before: The operations not yet carried out, when it was enqueued, that must come first.
        has_failed: Whether the host has been short of memory for `run` once.
    """

    __slots__ = ("_is_done", "around", "before", "has_failed", "run", "serial")

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
        self.around: Around | None = None
        self.serial = 0
        self.before: tuple[Operation, ...] = ()
        self.has_failed = False
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """Whether it has been carried out; a record or a wait is once all that comes before is."""
        if self._is_done:
            return True
        if self.run is not None:
            return False
        chain = [self]
        while chain:  # and not by recursion: a chain of records may be long
            last = chain[-1]
            for each in reversed(last.before):  # what an event marks is found sooner than the end of a chain of waits
                if not each._is_done:
                    if each.run is not None:
                        return False
                    chain.append(each)
                    break
            else:
                last.finish()
                chain.pop()
        return True

    def is_done_behind(self) -> bool:
        """`is_done`, if that was asked of everything before since anything was carried out."""
        if not self._is_done and self.run is None and all(each._is_done for each in self.before):
            self.finish()
        return self._is_done

    def carry_out(self) -> None:
        """Do the work, once."""
        assert self.run is not None
        # In one call of C: an error that struck between the two would have the work done twice, or not at all.
        _exhaust(map(_call, (self.run, functools.partial(setattr, self, "_is_done", True))))
        self.finish()

    def finish(self) -> None:
        """Note that it is done; shadows keep operations for long, but must not keep their arrays."""
        self._is_done = True
        self.run = None
        self.before = ()

    def needed(self) -> list[Operation]:
        """The operations to carry out until this one is done, in the order in which they were enqueued."""
        if all(each.is_done for each in self.before):
            return [] if self.run is None else [self]
        found, waiting = {self}, [self]
        while waiting:
            for each in waiting.pop().before:
                if each not in found and not each.is_done:
                    found.add(each)
                    waiting.append(each)
        return sorted((each for each in found if each.run is not None), key=_serial)


def _serial(operation: Operation) -> int:
    return operation.serial


_call: Callable[[Any], object] = operator.call
_exhaust: Callable[[Iterable[object]], None] = deque[object](maxlen=0).extend
