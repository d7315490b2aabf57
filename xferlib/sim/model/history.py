"""Accesses to non-contiguous bytes: columns, every second element, elements that index arrays select.

A map of byte ranges would be cut at every element of such an access. So these are kept beside the map, by participant
and region, and only the latest of each: it is ordered behind the participant's earlier ones and implies them. Keeping
an access that another one has since overwritten is harmless: an action ordered behind the second is ordered behind
the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from xferlib.sim.model import ranges
from xferlib.sim.model.operations import Action
from xferlib.sim.model.ranges import Cells, Form, HasData, Offsets, Region

if TYPE_CHECKING:
    from xferlib.sim.model.clocks import Clock, Joined

_LONG = 256


class CellLog:
    """The latest access of one participant to each of many cells of one size."""

    __slots__ = ("_actions", "_cells", "run")

    def __init__(self, run: int) -> None:
        self.run = run
        self._keep(np.empty(0, np.int64), np.empty(0, np.int64))
        self._actions: dict[int, Action] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, accesses: list[tuple[Offsets, Action]]) -> None:
        """Add later accesses, in their order."""
        ticks = [np.full(len(starts), action.tick, np.int64) for starts, action in accesses]
        self._actions.update((action.tick, action) for _, action in accesses)
        starts = np.concatenate([self._starts, *(starts for starts, _ in accesses)])[::-1]
        starts, latest = np.unique(starts, return_index=True)
        self._keep(starts, np.concatenate([self._ticks, *ticks])[::-1][latest])
        self._actions = {tick: self._actions[tick] for tick in np.unique(self._ticks).tolist()}

    def _keep(self, starts: Offsets, ticks: Offsets) -> None:
        self._cells = starts, ticks  # at once: an error between two assignments would leave arrays that do not fit

    @property
    def _starts(self) -> Offsets:
        return self._cells[0]

    @property
    def _ticks(self) -> Offsets:
        return self._cells[1]

    def forget(self, known: Callable[[Action], bool]) -> None:
        """Drop accesses that everything still to come is ordered behind."""
        self._actions = {tick: action for tick, action in self._actions.items() if not known(action)}
        kept = self._ticks >= min(self._actions, default=np.iinfo(np.int64).max)
        self._keep(self._starts[kept], self._ticks[kept])

    def met(self, span: Region[HasData], known: int) -> Action | None:
        """An access later than ``known`` to bytes of a span."""
        later = np.flatnonzero(self._ticks > known)
        if not len(later):
            return None
        index = ranges.first_met(self._starts[later], self.run, span)
        return self._actions[int(self._ticks[later[index]])] if index is not None else None


class Accesses:
    """One participant's accesses to one block, ``latest`` the last of them."""

    __slots__ = ("latest", "logs", "regions")

    def __init__(self, latest: Action) -> None:
        self.latest = latest
        self.regions: dict[tuple[int, int, Form, bool], Action] = {}
        """Accesses by first byte, end, form and whether they write; in the order of their ticks."""
        self.logs: dict[tuple[int, bool], CellLog] = {}
        """Accesses by cell size and whether they write: those moved out of a `regions` grown too long."""

    def met(self, span: Region[HasData], known: int, *, is_write: bool) -> tuple[Action, bool] | None:
        """An access later than ``known`` that collides, and whether it is a write."""
        for (start, stop, form, was_write), action in reversed(self.regions.items()):
            if action.tick <= known:
                break
            if (is_write or was_write) and ranges.meet(Region(span.block, start, stop, form), span):
                return action, was_write
        for (_, was_write), log in self.logs.items():
            if (is_write or was_write) and (found := log.met(span, known)) is not None:
                return found, was_write
        return None

    def forget(self, known: Callable[[Action], bool]) -> None:
        """Drop accesses that everything still to come is ordered behind."""
        self.regions = {region: action for region, action in self.regions.items() if not known(action)}
        for key, log in [*self.logs.items()]:
            log.forget(known)
            if not len(log):
                del self.logs[key]

    def compact(self) -> None:
        """Move accesses from regions, which hold index arrays, into logs, which have one entry an element at most."""
        additions: dict[tuple[int, bool], list[tuple[Offsets, Action]]] = {}
        for region, action in [*self.regions.items()]:
            form, is_write = region[2:]
            if isinstance(form, Cells):
                additions.setdefault((form.run, is_write), []).append((form.starts, action))
                del self.regions[region]
        for key, accesses in additions.items():
            self.logs.setdefault(key, CellLog(key[0])).add(accesses)


class History:
    """The accesses to one block's strided and scattered bytes, by participant."""

    __slots__ = ("_accesses", "_count", "_long")

    def __init__(self) -> None:
        self._accesses: dict[int, Accesses] = {}
        self._count = 0
        self._long = _LONG

    @property
    def is_long(self) -> bool:
        """Whether it is time to `forget`."""
        return self._count >= self._long

    def every(self) -> Iterator[tuple[Action, int, int, Form, bool]]:
        """The accesses to regions, the bytes of each, and whether it wrote them."""
        for accesses in self._accesses.values():
            for (start, stop, form, is_write), action in accesses.regions.items():
                yield action, start, stop, form, is_write

    def latest(self) -> list[Action]:
        """The last access of each participant."""
        return [each.latest for each in self._accesses.values()]

    def met(
        self, span: Region[HasData], action: Action, clock: Clock | Joined, *, is_write: bool
    ) -> tuple[Action, bool] | None:
        """An earlier conflicting access that no ordering puts before ``action``, and whether it is a write."""
        own = action.participant.key
        for key, accesses in self._accesses.items():
            latest = accesses.latest
            if key == own or latest.participant.is_retired:
                continue
            known = clock.get(key, 0)
            if latest.tick > known and (found := accesses.met(span, known, is_write=is_write)) is not None:
                return found
        return None

    def note(self, span: Region[HasData], action: Action, *, is_write: bool) -> None:
        """Remember an access."""
        key = action.participant.key
        accesses = self._accesses.get(key)
        if accesses is None:
            accesses = self._accesses[key] = Accesses(action)
        accesses.latest = action
        regions = accesses.regions
        if regions.pop((span.start, span.stop, span.form, is_write), None) is None:
            self._count += 1
        regions[span.start, span.stop, span.form, is_write] = action
        if is_write and regions.pop((span.start, span.stop, span.form, False), None) is not None:
            self._count -= 1  # the write stands for the read too

    def forget(self, known: Callable[[Action], bool]) -> bool:
        """Drop accesses that everything still to come is ordered behind; whether any is left."""
        for key, accesses in [*self._accesses.items()]:
            if known(accesses.latest):
                del self._accesses[key]
            else:
                accesses.forget(known)
                accesses.compact()
        self._count = sum(len(each.regions) for each in self._accesses.values())
        self._long = max(_LONG, 2 * self._count)
        return bool(self._accesses)
