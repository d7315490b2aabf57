"""The race detector: compares every access with the earlier accesses to the same bytes.

Running a program under many schedules and comparing results would miss most races: the bad order is rare, and often
leaves the result unchanged. So the detector never looks at what was carried out first. An access is ordered behind an
earlier one if its participant's clock has reached the other's tick; if not, some legal schedule swaps the two, and
that is the fault, even if this run was right.

The obvious bookkeeping, a list of accesses for each byte, costs too much. As in FastTrack, the last access of a
participant stands for those before it: of each region of a block that it used, the last one is kept (`History`).

A call that conflicts with several accesses is one fault to its reader. Each fault is listed and logged once, but raised
each time that it occurs: in a loop or a retry the values are wrong again. A fault found where nothing can be raised,
such as in a finalizer, waits for the next call into the simulator.

`Detector.check` sees each operation as it is enqueued (`Machine.enqueue`): a blocking copy once for each block that
staging makes of it. The device's side of an asynchronous transfer it sees once and whole, when the program starts the
transfer (`PostponedStaging.ask`); the operations that staging enqueues for it later come with their host spans alone.
"""

from __future__ import annotations

import contextlib
import linecache
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from xferlib._core.streams import Stream, current_stream
from xferlib._runtime import checks
from xferlib._runtime.checks import CodeLocation, Site, is_of_runner, site_of, user_site
from xferlib.errors import DeviceError, XferError
from xferlib.sim import model
from xferlib.sim.memory import Block, Span, Spans
from xferlib.sim.model import (
    Action,
    Clock,
    HostThread,
    Joined,
    Participant,
    SimStream,
    Stager,
    StreamHandle,
    StreamKind,
    TransferCopies,
)

# The program's own names: of its streams, as the function has them that made a fault, and of what it called.

_MOST = 64
"""Most elements of a container that are looked at."""


def stream_names(location: CodeLocation) -> dict[Participant, str]:
    """The names of streams at a line that runs now: variables, elements of containers, attributes of ``self``.

    Empty where the line's function has returned, since its names mean nothing any more.
    """
    code = None if isinstance(location, Site) else location[0]
    frame = _frame_of(code) if code is not None else None
    if frame is None:
        return {}
    found: dict[Participant, str] = {}
    with contextlib.suppress(Exception):  # a container of the program's that cannot be read: streams have numbers
        for scope in (frame.f_locals, frame.f_globals):
            for name, stream in _streams(scope):
                found.setdefault(stream, name)
    return found


def _frame_of(code: CodeType) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame


def _streams(scope: Mapping[str, Any]) -> Iterator[tuple[str, SimStream]]:
    """The streams of a scope, those with a name of their own first."""
    variables = [(name, value) for name, value in scope.items() if name.isidentifier() and not name.startswith("__")]
    yield from _list_simulated(variables)
    for name, value in variables:
        yield from _list_simulated(_elements(name, value))
    attributes = getattr(scope.get("self"), "__dict__", {})
    yield from _list_simulated((f"self.{name}", value) for name, value in list(attributes.items())[:_MOST])


def _elements(name: str, value: Any) -> list[tuple[str, Any]]:
    if type(value) in (list, tuple):
        return [(f"{name}[{index}]", each) for index, each in enumerate(value[:_MOST])]
    if type(value) is dict:
        simple = [(key, each) for key, each in list(value.items())[:_MOST] if type(key) in (str, int)]
        return [(f"{name}[{key!r}]", each) for key, each in simple]
    return []


def _list_simulated(named: Any) -> Iterator[tuple[str, SimStream]]:
    for name, value in named:
        stream = checks.remedy_calls.find_stream(value)
        if type(stream) is Stream and isinstance(stream._raw, StreamHandle):
            yield name, stream._raw.stream


def is_current(stream: SimStream) -> bool:
    """Whether a stream is the current one of its device, for the calling thread."""
    raw = current_stream(stream.device)._raw
    return isinstance(raw, StreamHandle) and raw.stream is stream


_OPERATORS = {"getitem": "indexing", "setitem": "assignment to elements"}
_ITERATIONS = ("_Iteration.", "Prefetcher.")


def format_call(call: str) -> str:
    """A function of xferlib as the program called it; empty where the program called none by name."""
    if call.startswith(_ITERATIONS):
        return "prefetch"
    name = call.rpartition(".")[2]
    return _OPERATORS.get(name, name) if name.isidentifier() and name[0] != "_" and name != "call" else ""


def source_line(site: Site) -> str:
    """The program's line; empty where its text is not known."""
    return linecache.getline(site.file, site.line).strip()


# The detector's reports: both accesses, the missing ordering, and the one call that adds it.
#
# Two actions whose clocks are not ordered say nothing to the reader of a program. A report names the two lines, where
# the memory was allocated, and a call that orders them, to be pasted: in the program's own names for its streams, which
# exist only while the function that made the fault runs. Where xferlib made a stream itself, the program has no name
# for it, and the remedy waits for the device or for the transfer instead.

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
        call = format_call(action.call)
        return cls(what, by, action.site, call if call != what else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A fault that the detector found: mostly a synchronisation that is missing."""

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
        missing=f"nothing makes {_format_stream(two, names)} wait for {_format_stream(one, names)}",
        remedy=_remedy(hazard, first, second, names),
        hint=_hint(first, two),
    )


def _stream_of(participant: Participant) -> Participant:
    """The stream that carries a participant's copies; the participant itself if it has none."""
    return participant.stream if isinstance(participant, TransferCopies) else participant


def _format_stream(participant: Participant, names: Names) -> str:
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
        call = checks.remedy_calls.wait(b, a)
        return f"{call} before the array dies{where}; or keep the array until {a} is synchronised"
    if _is_transfer(first):
        return f"{b}.wait(t) {before}{_where((b, two), ('t', first.site))}"
    if isinstance(one, SimStream) and one.is_own:
        return f"{checks.remedy_calls.synchronize()} {before}"
    return f"{checks.remedy_calls.wait(b, a)} {before}{_where((b, two), (a, one))}"


def _letters(one: Participant, two: Participant, names: Names) -> tuple[str, str]:
    """Two streams in a call: as the program can write them, and as a and b where it has no name for them."""
    a, b = _format_stream_expression(one, names), _format_stream_expression(two, names)
    return a or ("a" if b != "a" else "first"), b or ("b" if a not in ("b", "t") else "second")


def _format_stream_expression(participant: Participant, names: Names) -> str:
    """A stream as the program can write it at the line that runs now: by its name, or by a call; empty if neither."""
    stream = _stream_of(participant)
    if (name := names.get(stream)) is not None or not isinstance(stream, SimStream):
        return name or ""
    device = str(stream.device) if stream.device.index else ""
    if stream.is_own or is_current(stream):  # xferlib's own wait for the current one
        return checks.remedy_calls.write_current_stream(device)
    default = stream.kind in (StreamKind.LEGACY, StreamKind.PER_THREAD)
    return checks.remedy_calls.write_default_stream(stream.handle, device) if default else ""


def _where(*named: tuple[str, Participant | Site]) -> str:
    """The explanation of the names in a call; a call of a program's explains itself, and so does an attribute."""
    told = [
        f"{name} is {f'the transfer of {_line(each)}' if isinstance(each, Site) else _short(_stream_of(each))}"
        for name, each in named
        if not name.endswith(")") and "." not in name.partition("[")[0].removeprefix("self.")
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
        a = _format_stream_expression(one, names) or "a"
        return f"{checks.remedy_calls.await_stream(a)} {where}{_where((a, one))}"
    if isinstance(one, HostThread):
        return f"let the thread of {_line(first.site)} finish {where}"
    return f"{checks.remedy_calls.synchronize()} {where}"


def report_uninitialised(reader: Action, span: Span) -> Race:
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


_logger = logging.getLogger("xferlib.sim")


class Mode(StrEnum):
    """The reaction to a fault."""

    RAISE = "raise"
    LOG = "log"
    OFF = "off"


class Detector:
    """Checks accesses, and keeps the faults that it found.

    Attributes:
        mode: Raise at the second access, write to the log ``xferlib.sim``, or do not check.
        races: The faults found, each once.
        postponed: Faults found where nothing could be raised; the next call raises them.
    """

    __slots__ = (
        "_mode", "_occurrences", "is_on", "postponed", "races",
    )  # fmt: skip

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.races: list[Race] = []
        self._occurrences: Counter[tuple[object, ...]] = Counter()
        self.postponed: list[Race] = []

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        self.is_on = mode is not Mode.OFF

    # --- accesses

    def check(self, action: Action, clock: Clock, reads: Spans, writes: Spans, *, uses_values: bool = True) -> None:
        """Note an access, and report it if it is not ordered behind an earlier one.

        Args:
            action: The access: its participant and line.
            clock: The clock of all that the access is ordered behind.
            reads, writes: The bytes.
            uses_values: Whether reading memory without a value is a fault.
        """
        first: tuple[Span, Hazard, Action] | None = None
        unwritten: Span | None = None
        alone: Spans | list[Span] = reads
        if len(writes) > 0 and len(reads) > 0:  # what is also written is checked once, as a write
            alone = [span for span in reads if span not in writes]
        if uses_values:
            for span in reads:
                if unwritten is None and span.block.has_void:
                    unwritten = _unwritten(span)
        for span in alone:
            if first is None and not span.block.is_clear(action, clock):
                first = _find_conflict(span, action, clock, None)
        for span in writes:
            if first is None and not span.block.is_clear(action, clock):
                hazard = Hazard.READ_AFTER_WRITE if span in reads else Hazard.WRITE_AFTER_WRITE
                first = _find_conflict(span, action, clock, hazard)
        if first is not None:
            # One call is one fault to its reader: other conflicts are reported once this one is fixed.
            span, hazard, other = first
            last_owner, memory = span.block.last_owner, str(span) + _name_common_byte(span, other, action)
            if last_owner is not None and other in last_owner.users:
                hazard = Hazard.MEMORY_REUSED
                memory = f"{memory}, which an array freed at {site_of(last_owner.location)} had before"
            self.report(race_between(hazard, other, action, memory))
            for span in writes:
                if span.form is None and span.block.history is not None:
                    span.block.history.overwrite(span)
        elif unwritten is not None:
            self.report(report_uninitialised(action, unwritten))
        for span in alone:
            span.block.note(span, action, is_write=False)
        for span in writes:
            span.block.note(span, action, is_write=True)

    def check_free(self, action: Action, clock: Clock | Joined, block: Block) -> Race | None:
        """Check the end of a block, as a write of all of it; returns the report for the caller to raise or postpone."""
        if block.is_clear(action, clock):
            return None
        first = _find_conflict(block.whole(), action, clock, Hazard.USE_AFTER_FREE)
        return None if first is None else race_between(Hazard.USE_AFTER_FREE, first[2], action, block.where)

    # --- reports

    def report(self, race: Race) -> None:
        """Report a fault where it can be raised."""
        self._note(race)
        if self.mode is Mode.RAISE:
            raise RaceError(race)

    def postpone(self, race: Race) -> None:
        """Report a fault found where nothing can be raised: the next call into the simulator raises it."""
        self._note(race)
        if self.mode is Mode.RAISE:
            self.postponed.append(race)

    def occurrences(self, hazard: Hazard, first: Site) -> int:
        """How often such a fault has been found of which the first access was at that line."""
        return sum(count for key, count in self._occurrences.items() if key[:2] == (hazard, first))

    def raise_postponed(self) -> None:
        if self.postponed:
            race = self.postponed[0]
            self.postponed = []
            raise RaceError(race)

    def _note(self, race: Race) -> None:
        if self.mode is Mode.OFF:
            return
        self._occurrences[race.key] += 1
        if self._occurrences[race.key] > 1:
            return
        self.races.append(race)
        if self.mode is Mode.LOG:
            _logger.warning("%s", race)


def _name_common_byte(span: Span, first: Action, second: Action) -> str:
    """Where the two meet, in the words of those that are kernels with arguments."""
    if not (first.arguments or second.arguments) or span.block.history is None:
        return ""
    common = (model.find_common(span, each) for each in span.block.history.regions_of(span.block, first))
    byte = next((each for each in common if each is not None), None)
    if byte is None:
        return ""
    names = filter(None, (each.name_byte(span.block.data, byte) for each in (first, second)))
    found = " and ".join(dict.fromkeys(names))
    return f": {found}" if found else ""


def _unwritten(span: Span) -> Span | None:
    """The first bytes without a value, or the whole span if it is not contiguous; None if all have one."""
    void = span.block.void(span)
    if void is None:
        return None
    if span.form is not None:
        return span
    start, stop = model.runs(void)[0]
    return Span(span.block, span.start + start, span.start + stop)


def _find_conflict(
    span: Span, action: Action, clock: Clock | Joined, hazard: Hazard | None
) -> tuple[Span, Hazard, Action] | None:
    """An access that nothing orders before this one, and which fault that is.

    Args:
        span, action, clock: The access.
        hazard: The fault of a write behind another write; None for a read.
    """
    history = span.block.history
    assert history is not None
    met = history.find_conflict(span, action, clock, is_write=hazard is not None)
    if met is None:
        return None
    other, was_write = met
    is_host = isinstance(action.participant, HostThread)
    if hazard is None:
        return span, Hazard.HOST_READ if is_host else Hazard.READ_AFTER_WRITE, other
    kind = hazard if was_write else Hazard.WRITE_AFTER_READ
    return span, Hazard.HOST_WRITE if is_host else kind, other
