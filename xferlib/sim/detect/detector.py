"""The race detector: compares every access with the earlier accesses to the same bytes.

Running a program under many schedules and comparing results would miss most races: the bad order is rare, and often
leaves the result unchanged. So the detector never looks at what was carried out first. An access is ordered behind an
earlier one if its participant's clock has reached the other's tick; if not, some legal schedule swaps the two, and
that is the fault, even if this run was right.

The obvious bookkeeping, a list of accesses for each byte, costs too much. As in FastTrack, the last write stands for
those ordered before it, and a read for the reads ordered before it; most bytes have one write and one read. They are
kept for ranges (`xferlib.sim.model.intervals`), and for non-contiguous accesses beside them
(`xferlib.sim.model.history`), because a column would cut a map of ranges at every row. Every check consults both.

A call that conflicts with several accesses is one fault to its reader. Each fault is listed and logged once, but raised
each time that it occurs: in a loop or a retry the values are wrong again. A fault found where nothing can be raised,
such as in a finalizer, waits for the next call into the simulator.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from xferlib._runtime.callsite import Site, site_of
from xferlib.sim.detect.reports import Hazard, Race, RaceError, race_between, uninitialised
from xferlib.sim.model import ranges
from xferlib.sim.model.blocks import FRESH, UNTOUCHED, Block, Shadow, Span, Spans
from xferlib.sim.model.clocks import Clock, Joined
from xferlib.sim.model.history import History
from xferlib.sim.model.hosts import HostThread
from xferlib.sim.model.operations import Action

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self.is_on = mode is not Mode.OFF
        self.races: list[Race] = []
        self._occurrences: Counter[tuple[object, ...]] = Counter()
        self.postponed: list[Race] = []
        self._found: list[tuple[Hazard, Action]] = []
        self._apart: list[tuple[Span, bool]] = []
        """The current operation's accesses that go into histories, and whether they are writes."""

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
        found = self._found
        found.clear()  # what an error has left there is no fault of this access
        self._apart.clear()
        where: Span | None = None
        unwritten: Span | None = None
        race: Race | None = None
        if uses_values:
            for span in reads:
                if span.block.has_void and unwritten is None:
                    unwritten = _unwritten(span)
        if reads:
            change = self._reading(action, clock)
            for span in reads:
                if span not in writes:  # a span both read and written is checked once, below
                    block, start, stop, form = span
                    if form is None and block.history is None:
                        block.shadow.update(start, stop, change)
                    else:
                        self._check_apart(span, action, clock, change)
                    if found and where is None:
                        where = span
        for span in writes:
            hazard = Hazard.READ_AFTER_WRITE if span in reads else Hazard.WRITE_AFTER_WRITE
            change = self._writing(action, clock, hazard)
            block, start, stop, form = span
            if form is None and block.history is None:
                block.shadow.update(start, stop, change)
            else:
                self._check_apart(span, action, clock, change, hazard)
                if form is not None and block.has_void:
                    block.note_written(span)
            if found and where is None:
                where = span
        if where is not None:
            # One call is one fault to its reader: other conflicts are reported once this one is fixed.
            hazard, first = found[0]
            found.clear()
            last_owner = where.block.last_owner
            if last_owner is not None and first in last_owner.users:
                memory = f"{where}, which an array freed at {site_of(last_owner.location)} had before"
                race = race_between(Hazard.MEMORY_REUSED, first, action, memory)
            else:
                race = race_between(hazard, first, action, str(where))
        elif unwritten is not None:
            race = uninitialised(action, unwritten)
        if race is not None:
            apart, self._apart = self._apart, []
            self.report(race)
            self._apart = apart
        if self._apart:
            self._note_apart(action)

    def _note_apart(self, action: Action) -> None:
        for span, is_write in self._apart:
            history = span.block.history
            if history is None:
                history = span.block.history = History()
                span.block.shadow.is_cut = True  # the history has states too
            history.note(span, action, is_write=is_write)
        self._apart.clear()

    def _check_apart(
        self,
        span: Span,
        action: Action,
        clock: Clock | Joined,
        change: Callable[[Shadow], Shadow],
        hazard: Hazard | None = None,
    ) -> None:
        """Check an access of which it or an earlier one is not contiguous.

        Args:
            span, action, clock: The access.
            change: The new shadow of the bytes that it touches.
            hazard: The fault of a write that conflicts with another write; None for a read.
        """
        block, is_write = span.block, hazard is not None
        if span.form is None:
            block.shadow.update(span.start, span.stop, change)
        else:
            self._check_shadow(span, change)
            self._apart.append((span, is_write))
        if block.history is not None:
            met = block.history.met(span, action, clock, is_write=is_write)
            if met is not None:
                other = hazard if met[1] and hazard is not None else Hazard.WRITE_AFTER_READ
                kind = _writing_hazard(action, other) if is_write else _reading_hazard(action)
                self._found.append((kind, met[0]))
            if is_write and span.form is None and span.stop - span.start >= block.nbytes:
                block.history = None  # as the shadow forgets what is overwritten

    def _check_shadow(self, span: Span, change: Callable[[Shadow], Shadow]) -> None:
        """Check the shadow of the bytes of a non-contiguous access, without changing it."""
        found = self._found
        harmless: set[int] = set()
        for start, stop, state in span.block.shadow.within(span.start, span.stop):
            if id(state) not in harmless:
                before = len(found)
                change(state)
                if len(found) == before:
                    harmless.add(id(state))
                elif ranges.meet(span, Span(span.block, start, stop)):
                    return
                else:
                    del found[before:]

    def check_free(self, action: Action, clock: Clock | Joined, block: Block) -> Race | None:
        """Check the end of a block, as a write of all of it; returns the report for the caller to raise or postpone."""
        self._found.clear()
        self._apart.clear()
        change = self._writing(action, clock)
        if block.history is None:
            block.shadow.update(0, block.shadow.nbytes, change)
        else:
            self._check_apart(block.whole(), action, clock, change, Hazard.WRITE_AFTER_WRITE)
        if not self._found:
            return None
        first = self._found[0][1]
        self._found.clear()
        return race_between(Hazard.USE_AFTER_FREE, first, action, block.where)

    def _reading(self, action: Action, clock: Clock) -> Callable[[Shadow], Shadow]:
        get, own = clock.get, action.participant
        alone = (action,)

        def change(shadow: Shadow) -> Shadow:
            write, reads = shadow
            if write is not None:
                writer = write.participant
                if writer is not own and get(writer.key, 0) < write.tick and not writer.is_retired:
                    self._found.append((_reading_hazard(action), write))
            if not reads or (len(reads) == 1 and reads[0].participant is own):
                return write, alone
            # A read ordered behind another one implies it.
            return write, (*[each for each in reads if get(each.participant.key, 0) < each.tick], action)

        return change

    def _writing(
        self, action: Action, clock: Clock | Joined, hazard: Hazard = Hazard.WRITE_AFTER_WRITE
    ) -> Callable[[Shadow], Shadow]:
        get, own = clock.get, action.participant
        after = (action, ())

        def change(shadow: Shadow) -> Shadow:
            write, reads = shadow
            if write is not None:
                writer = write.participant
                if writer is not own and get(writer.key, 0) < write.tick and not writer.is_retired:
                    self._found.append((_writing_hazard(action, hazard), write))
            for read in reads:
                reader = read.participant
                if reader is not own and get(reader.key, 0) < read.tick and not reader.is_retired:
                    self._found.append((_writing_hazard(action, Hazard.WRITE_AFTER_READ), read))
            return after

        return change

    def prune(self, block: Block, known: Callable[[Action], bool]) -> None:
        """Forget accesses that everything still to come is ordered behind."""

        def change(shadow: Shadow) -> Shadow:
            write, reads = shadow
            reads = tuple([each for each in reads if not known(each)])
            if write is not None and known(write):
                write = FRESH[0] if write.is_void else None
            if reads or (write is not None and write is not FRESH[0]):
                return write, reads
            return UNTOUCHED if write is None else FRESH

        block.shadow.rewrite(change)
        if block.history is not None:
            if block.history.forget(known):
                block.shadow.is_cut = True
            else:
                block.history = None

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


def _unwritten(span: Span) -> Span | None:
    """The first bytes without a value, or the whole span if it is not contiguous; None if all have one."""
    block = span.block
    void = block.void(span)
    if void is None:
        if span.form is None and span.stop - span.start == block.nbytes:
            block.has_void = False  # until a copy of such bytes
        return None
    if span.form is not None:
        return span
    start, stop = ranges.runs(void)[0]
    return Span(block, span.start + start, span.start + stop)


def _reading_hazard(action: Action) -> Hazard:
    return Hazard.HOST_READ if isinstance(action.participant, HostThread) else Hazard.READ_AFTER_WRITE


def _writing_hazard(action: Action, otherwise: Hazard) -> Hazard:
    return Hazard.HOST_WRITE if isinstance(action.participant, HostThread) else otherwise
