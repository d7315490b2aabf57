"""What the detector says: both accesses, what ordering was missing, and the one call that adds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from xferlib._site import Site
from xferlib.errors import DeviceError, XferError
from xferlib.sim.clocks import Participant
from xferlib.sim.hosts import HostThread
from xferlib.sim.operations import Action
from xferlib.sim.streams import SimStream, StreamKind


class Hazard(StrEnum):
    """The kinds of fault that the detector tells apart."""

    READ_AFTER_WRITE = "read of what is still being written"
    WRITE_AFTER_READ = "write of what is still being read"
    WRITE_AFTER_WRITE = "two unordered writes"
    HOST_READ = "host read before synchronisation"
    HOST_WRITE = "host write while a device uses the memory"
    USE_AFTER_FREE = "use after free"
    MEMORY_REUSED = "memory used again while its former array is still in use"
    SOURCE_CHANGED = "source changed while its copy was in flight"
    TARGET_CHANGED = "target written while a copy into it was in flight"
    WRONG_DEVICE = "stream used on the wrong device"


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a hazard: what it was, and where it was asked for."""

    what: str
    by: str
    site: Site

    def __str__(self) -> str:
        return f"{self.what} on {self.by}\n              {self.site}"

    @classmethod
    def of(cls, action: Action) -> Access:
        return cls(action.name, action.participant.label, action.site)


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A missing synchronisation, found."""

    hazard: Hazard
    first: Access
    second: Access
    memory: str
    """Which bytes of which allocation."""
    missing: str
    """The ordering that nothing in the program makes."""
    remedy: str
    """The call that makes it."""
    hint: str = ""
    """What in the program looks as if it had been meant to order the two."""

    def __str__(self) -> str:
        lines = [
            f"{self.hazard.value}: {self.memory}",
            f"  first:      {self.first}",
            f"  second:     {self.second}",
            f"  missing:    {self.missing}",
            f"  add:        {self.remedy}",
        ]
        return "\n".join([*lines, f"  note:       {self.hint}"] if self.hint else lines)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same fault met again."""
        return (self.hazard, self.first.site, self.first.what, self.second.site, self.second.what)


class SimError(XferError, RuntimeError):
    """The simulated accelerator found a fault in the program."""


class RaceError(SimError):
    """Two accesses to the same memory that nothing orders; ``race`` has the particulars."""

    def __init__(self, race: Race) -> None:
        super().__init__(str(race))
        self.race = race


class WrongDeviceError(SimError, DeviceError, ValueError):
    """An operation was given memory of one device and a stream of another."""


def race_between(hazard: Hazard, first: Action, second: Action, memory: str) -> Race:
    """The report of two accesses that nothing orders."""
    one, two = first.participant, second.participant
    return Race(
        hazard=hazard,
        first=Access.of(first),
        second=Access.of(second),
        memory=memory,
        missing=f"nothing makes {_short(two)} wait for {_short(one)}",
        remedy=_remedy(hazard, first, second),
        hint=_hint(first, two),
    )


def _short(participant: Participant) -> str:
    """A stream by where it was made: its number means nothing to the program's author."""
    if not isinstance(participant, SimStream):
        return participant.label
    if participant.kind in (StreamKind.LEGACY, StreamKind.PER_THREAD):
        return f"the {participant.kind.value} stream of {participant.device}"
    return f"stream {participant.key} (made at {Path(participant.site.file).name}:{participant.site.line})"


def _line(site: Site) -> str:
    return f"{site.file}:{site.line}"


def _remedy(hazard: Hazard, first: Action, second: Action) -> str:
    one, two = first.participant, second.participant
    if isinstance(one, HostThread):
        return f"let the thread of {_line(first.site)} finish before {_line(second.site)}"
    if isinstance(two, HostThread):
        return f"a.synchronize(), or the transfer's result(), before {_line(second.site)}, where a is {_short(one)}"
    if hazard is Hazard.USE_AFTER_FREE:
        return (
            f"b.wait(a) before the array dies, where a is {_short(one)} and b {_short(two)}; or keep the array until a "
            "is synchronised"
        )
    where = f"between {_line(first.site)} and {_line(second.site)}"
    return f"b.wait(a) {where}, where a is {_short(one)} and b {_short(two)}"


def _hint(first: Action, waiter: Participant) -> str:
    if not isinstance(waiter, SimStream):
        return ""
    waited = waiter.waited.get(first.participant.key)
    if waited is not None and waited.event is not None:
        return (
            f"{_short(waiter)} did wait at {_line(waited.site)}, but for an event recorded at "
            f"{_line(waited.event.site)}, before the first access: record it after {_line(first.site)}"
        )
    empty = waiter.waited.get(UNRECORDED)
    if empty is not None:
        return (
            f"{_short(waiter)} waited at {_line(empty.site)} for an event that had not been recorded, which does "
            "nothing: record it first, then wait"
        )
    return ""


UNRECORDED = -1
"""The key in `SimStream.waited` of waits for events that were never recorded."""
