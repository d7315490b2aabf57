"""The detector's reports: both accesses, the missing ordering, and the one call that adds it.

Two actions whose clocks are not ordered say nothing to the reader of a program. A report names the two lines, where the
memory was allocated, and a call that orders them, to be pasted: in the program's own names for its streams, which exist
only while the function that made the fault runs. Where xferlib made a stream itself, the program has no name for it,
and the remedy waits for the device or for the transfer instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from xferlib._runtime.callsite import Site, is_of_runner, site_of, user_site
from xferlib.errors import DeviceError, XferError
from xferlib.sim.detect.program_names import called, is_current, source_line, stream_names
from xferlib.sim.model.blocks import Span
from xferlib.sim.model.clocks import Participant
from xferlib.sim.model.hosts import HostThread, Stager, TransferCopies
from xferlib.sim.model.operations import Action
from xferlib.sim.model.streams import SimStream, StreamKind

Names = Mapping[Participant, str]
"""The program's names of streams."""


class Hazard(StrEnum):
    """The kinds of fault that the detector distinguishes."""

    READ_AFTER_WRITE = "read of what is still being written"
    WRITE_AFTER_READ = "write of what is still being read"
    WRITE_AFTER_WRITE = "two unordered writes"
    HOST_READ = "host read before synchronisation"
    HOST_WRITE = "host write while a device uses the memory"
    USE_AFTER_FREE = "use after free"
    MEMORY_REUSED = "memory used again while its former array is still in use"
    SOURCE_CHANGED = "source changed while its copy was in flight"
    TARGET_CHANGED = "target written while a copy into it was in flight"
    UNINITIALISED = "read of what nothing has written"
    WRONG_DEVICE = "stream used on the wrong device"


_FOUND_LATER = (Hazard.SOURCE_CHANGED, Hazard.TARGET_CHANGED)
"""The second access was somewhere before the line at which it was found."""


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a hazard: the operation, and the line that requested it."""

    what: str
    by: str
    site: Site
    call: str = ""
    """The function that the program called there, where that is another name."""

    def __str__(self) -> str:
        what = f"{self.call} ({self.what})" if self.call else self.what
        by = "" if what.endswith(f"by {self.by}") else f" on {self.by}"
        where = "as the program's function returned" if is_of_runner(self.site) else self.site
        return f"{what}{by}\n              {where}"

    @classmethod
    def of(cls, action: Action, names: Names | None = None) -> Access:
        participant, what = action.participant, _KERNELS.get(action.name, action.name)
        name = (names or {}).get(_stream_of(participant))
        by = f"{name}, {participant.label}" if name is not None else participant.label
        call = called(action.call)
        return cls(what, by, action.site, call if call != what else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A missing synchronisation that the detector found."""

    hazard: Hazard
    first: Access
    second: Access
    memory: str
    """The bytes and their allocation."""
    missing: str
    """The ordering that the program lacks."""
    remedy: str
    """The call that adds it."""
    hint: str = ""
    """A call in the program that seems meant to order the two."""

    def __str__(self) -> str:
        at = self.first.site if is_of_runner(self.second.site) else self.second.site
        text = "" if self.hazard in _FOUND_LATER else source_line(at)
        lines = [
            f"{self.hazard.value}, at {at}",
            *([f"    {text}"] if text else []),
            f"  first:      {self.first}",
            f"  second:     {self.second}",
            f"  memory:     {self.memory}",
            f"  missing:    {self.missing}",
            f"  remedy:     {self.remedy}",
        ]
        return "\n".join([*lines, f"  note:       {self.hint}"] if self.hint else lines)

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of a fault: equal when it is found again."""
        return (self.hazard, self.first.site, self.first.what, self.second.site, self.second.what)


class SimError(XferError, RuntimeError):
    """The simulated accelerator found a fault in the program."""

    __module__ = "xferlib.sim"  # tracebacks show the name that a program can use


class RaceError(SimError):
    """Two accesses to the same memory are not ordered; ``race`` has the details."""

    __module__ = "xferlib.sim"

    def __init__(self, race: Race) -> None:
        super().__init__(str(race))
        self.race = race


class WrongDeviceError(SimError, DeviceError, ValueError):
    """An operation was given memory of one device and a stream of another."""

    __module__ = "xferlib.sim"


def race_between(hazard: Hazard, first: Action, second: Action, memory: str) -> Race:
    """The report of two accesses that are not ordered."""
    one, two = first.participant, second.participant
    names = stream_names(second.location)
    return Race(
        hazard=hazard,
        first=Access.of(first, names),
        second=Access.of(second, names),
        memory=memory,
        missing=f"nothing makes {_named(two, names)} wait for {_named(one, names)}",
        remedy=_remedy(hazard, first, second, names),
        hint=_hint(first, two),
    )


def _stream_of(participant: Participant) -> Participant:
    """The stream that carries a participant's copies; the participant itself if it has none."""
    return participant.stream if isinstance(participant, TransferCopies) else participant


def _named(participant: Participant, names: Names) -> str:
    """A stream by the program's name for it, and otherwise by its number and the line that made it."""
    return names.get(participant) or _short(participant)


def _short(participant: Participant) -> str:
    """A stream by its number and the line that made it."""
    if isinstance(participant, TransferCopies):
        return "the transfer"
    if not isinstance(participant, SimStream):
        return participant.label
    if participant.is_own:
        return f"a stream of xferlib's own on {participant.device}"
    if participant.kind in (StreamKind.LEGACY, StreamKind.PER_THREAD):
        return f"the {participant.kind.value} stream of {participant.device}"
    return f"stream {participant.key} (made at {Path(participant.site.file).name}:{participant.site.line})"


def _line(site: Site) -> str:
    return f"{site.file}:{site.line}"


def _remedy(hazard: Hazard, first: Action, second: Action, names: Names) -> str:
    """The call that orders the two, in the program's names, and the line before which it belongs."""
    one, two = first.participant, second.participant
    before = f"before {_line(second.site)}"
    if isinstance(two, HostThread):
        return waits_of_host(first, before, names)
    if isinstance(one, HostThread) and not isinstance(one, Stager):
        return f"let the thread of {_line(first.site)} finish {before}"
    a, b = _letters(one, two, names)
    if hazard is Hazard.USE_AFTER_FREE:
        where = _where((a, one), (b, two))
        return f"{b}.wait({a}) before the array dies{where}; or keep the array until {a} is synchronised"
    if _is_transfer(first):
        return f"{b}.wait(t) {before}{_where((b, two), ('t', first.site))}"
    if _is_own(one):
        return f"xferlib.synchronize() {before}"
    return f"{b}.wait({a}) {before}{_where((b, two), (a, one))}"


def _letters(one: Participant, two: Participant, names: Names) -> tuple[str, str]:
    """Two streams in a call: as the program can write them, and as a and b where it has no name for them."""
    a, b = _written(one, names), _written(two, names)
    return a or ("a" if b != "a" else "first"), b or ("b" if a not in ("b", "t") else "second")


def _written(participant: Participant, names: Names) -> str:
    """A stream as the program can write it at the line that runs now: by its name, or by a call; empty if neither."""
    stream = _stream_of(participant)
    if (name := names.get(stream)) is not None or not isinstance(stream, SimStream):
        return name or ""
    device = f"'{stream.device}'" if stream.device.index else ""
    if stream.is_own or is_current(stream):  # xferlib's own wait for the current one
        return f"xferlib.current_stream({device})"
    default = stream.kind in (StreamKind.LEGACY, StreamKind.PER_THREAD)
    return f"xferlib.Stream.from_any({stream.handle}{', ' if device else ''}{device})" if default else ""


def _where(*named: tuple[str, Participant | Site]) -> str:
    """The explanation of the names in a call; a call explains itself."""
    told = [
        f"{name} is {f'the transfer of {_line(each)}' if isinstance(each, Site) else _short(_stream_of(each))}"
        for name, each in named
        if not name.endswith(")")
    ]
    return f", where {' and '.join(told)}" if told else ""


def waits_of_host(first: Action, where: str, names: Names) -> str:
    """The call by which the host waits for an access; ``where`` says at which line."""
    one = first.participant
    if _is_transfer(first):
        # The result of an upload is a device array: the host has it while the copy still reads the source.
        call = "t.result()" if first.call == TO_HOST else "t.release()"
        return f"{call} {where}, where t is the transfer of {_line(first.site)}"
    if first.call.startswith(_READ_AHEAD) or isinstance(one, Stager):
        return "leave what is read ahead unchanged until it is handed out, or give a generator that copies it"
    if isinstance(one, SimStream) and not one.is_own:
        a = _written(one, names) or "a"
        return f"{a}.synchronize() {where}{_where((a, one))}"
    if isinstance(one, HostThread):
        return f"let the thread of {_line(first.site)} finish {where}"
    return f"xferlib.synchronize() {where}"


def uninitialised(reader: Action, span: Span) -> Race:
    """The report of a read of uninitialised bytes."""
    made = site_of(span.block.location)
    return Race(
        hazard=Hazard.UNINITIALISED,
        first=Access("allocation", str(span.block.device), made),
        second=Access.of(reader),
        memory=str(span),
        missing="nothing has written these bytes since they were allocated",
        remedy=f"a write of them before {_line(reader.site)}, or zeros() instead of empty() at {_line(made)}",
    )


def change_between(hazard: Hazard, first: Action, memory: str) -> Race:
    """The report of host memory that the program has changed between a call and the copy that uses it."""
    now, names = user_site(), stream_names(first.location)
    return Race(
        hazard=hazard,
        first=Access.of(first, names),
        second=Access("a write by the host", "the host", Site(now.file, now.line, f"{now.function}, or before it")),
        memory=memory,
        missing=f"the host did not wait for the copy of {first.site} before it wrote",
        remedy=waits_of_host(first, f"after {_line(first.site)} and before the write", names),
    )


def _is_transfer(action: Action) -> bool:
    """Whether the program has a `Transfer` for the action."""
    return action.call in TRANSFERS


def _is_own(participant: Participant) -> bool:
    return isinstance(participant, SimStream) and participant.is_own


def _hint(first: Action, waiter: Participant) -> str:
    if not isinstance(waiter, SimStream):
        return ""
    waited = waiter.waited.get(first.participant.key)
    if waited is not None and waited.event is not None:
        return (
            f"{_short(waiter)} did wait at {_line(waited.site)}, but for an event recorded at "
            f"{_line(waited.event.site)}, before the first access was enqueued: that wait does not cover it"
        )
    empty = waiter.waited.get(UNRECORDED)
    if empty is not None:
        return f"{_short(waiter)} waited at {_line(empty.site)} for an event that had not been recorded: no wait at all"
    return ""


TO_HOST = "to_host_async"
TRANSFERS = (TO_HOST, "to_device_async")
"""Functions that return a `Transfer`."""
_READ_AHEAD = ("Prefetcher.", "_Iteration.", "prefetch")
OWN_STREAMS = (*_READ_AHEAD, "stream_map")
"""Prefixes of the names of functions that make streams without the program's knowledge."""

_KERNELS = {"xferlib_cast": "conversion"}
"""Kernels of the library's own, in words."""

UNRECORDED = -1
"""The key in `SimStream.waited` of waits for events that were never recorded."""
