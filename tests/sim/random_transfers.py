"""Random programs of streams, transfers, functions, `prefetch` and kernels, and an independent model of their order.

    python -m tests.sim.random_transfers [FIRST COUNT]      prints the programs about which simulator and model differ

The model knows the page on semantics alone: it numbers the accesses of a program, keeps for the host, for each stream
and for each event the set of those that come before, and calls a program racy if two accesses to the same bytes, one of
them a write, are in neither order. Where xferlib may wait for more than it promises, there are two models: *strict*
orders what is promised, *lax* what a run may order beside. A program between the two may be reported or not.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import xferlib as xl
from xferlib import sim

SIDE = 4
"""Of the matrices that all arrays are."""
ELSEWHERE = 3
"""The first stream, and the first array, of the second device; those before are of the first."""
BLOCKING, DEFAULT = 2, 4
"""The stream that runs in order with the legacy default stream, and that stream, both of the first device."""
STREAMS, ARRAYS, HOSTS = 5, 5, 4
"""Half of the arrays of the host are pinned."""

Step = tuple[Any, ...]
PARTS: dict[str, Any] = {
    "all": np.s_[:, :], "reversed": np.s_[::-1, :], "top": np.s_[:2], "bottom": np.s_[2:], "row": np.s_[1:2],
    "even": np.s_[:, ::2], "odd": np.s_[:, 1::2],
}  # fmt: skip
"""The views that a call takes."""
_ELEMENTS = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
CELLS = {name: frozenset(_ELEMENTS[part].ravel().tolist()) for name, part in PARTS.items()}
ALIKE = {
    name: [each for each in PARTS if _ELEMENTS[PARTS[each]].shape == _ELEMENTS[PARTS[name]].shape] for name in PARTS
}


def is_flat(part: str) -> bool:
    """Whether a view has no gaps and is in C order."""
    return bool(_ELEMENTS[PARTS[part]].flags.c_contiguous)


@xl.elementwise
def _shifted(x: Any, by: Any) -> Any:
    return x * 2.0 + by


def draw(seed: int) -> list[Step]:
    """A program, as steps: the name of a call, then its numbers."""
    chance = random.Random(seed)
    steps: list[Step] = []
    transfers = events = batches = 0
    dropped: set[int] = set()
    for number in range(chance.randint(3, 12)):
        array, other = chance.randrange(ARRAYS), chance.randrange(ARRAYS)
        stream, host = _stream(array, chance), chance.randrange(HOSTS)
        by_argument = chance.random() < 0.5
        part = chance.choice([*PARTS, "all", "all", "top", "bottom"])
        there = part if chance.random() < 0.5 else chance.choice(ALIKE[part])
        kind = chance.choices(
            ["kernel", "upload", "download", "upload_async", "download_async", "result", "wait_transfer", "record",
             "wait_event", "wait_stream", "synchronize", "synchronize_event", "synchronize_device", "host_read",
             "host_write", "renew", "prefetch", "call", "copy", "drop", "replace"],
            [5, 4, 1, 4, 4, 4, 3, 2, 2, 3, 2, 1, 1, 3, 4, 1, 1, 4, 2, 1, 1],
        )[0]  # fmt: skip
        if kind == "kernel":
            other = other % ELSEWHERE if array < ELSEWHERE else ELSEWHERE + other % (ARRAYS - ELSEWHERE)
            if array == other and CELLS[part] & CELLS[there]:  # a kernel takes no operands that overlap in part
                there = part
            steps.append((kind, stream, array, other, part, there, number))
        elif kind in ("upload", "upload_async", "download", "download_async"):
            steps.append((kind, stream, by_argument, host, array, part, there))
            transfers += kind.endswith("async")
        elif kind == "copy":
            steps.append((kind, stream, _stream(other, chance), by_argument, array, other, part, there))
        elif kind in ("result", "wait_transfer", "drop") and transfers > len(dropped):
            chosen = chance.choice([each for each in range(transfers) if each not in dropped])
            steps.append((kind, chosen, chance.randrange(STREAMS)))
            if kind == "drop":
                dropped.add(chosen)
        elif kind == "record":
            steps.append((kind, stream))
            events += 1
        elif kind in ("wait_event", "synchronize_event") and events:
            steps.append((kind, chance.randrange(events), stream))
        elif kind == "wait_stream":
            steps.append((kind, stream, chance.randrange(STREAMS)))
        elif kind in ("synchronize", "renew"):
            steps.append((kind, stream, array, number))
        elif kind == "replace":
            steps.append((kind, stream, by_argument, host, array))
        elif kind == "synchronize_device":
            steps.append((kind, chance.random() < 0.5))
        elif kind in ("host_read", "host_write"):
            steps.append((kind, host, part, number))
        elif kind == "call":
            steps.append((kind, stream, host, part, chance.random() < 0.5, chance.random() < 0.7, number))
        elif kind == "prefetch" and not batches:
            batches += 1
            stream = chance.randrange(BLOCKING)
            items = tuple(chance.randrange(HOSTS) for _ in range(chance.randint(1, 4)))
            steps.append((kind, stream, items, chance.choice((1, 2, 3))))
            for item in items:
                steps.append(("next", stream, item))
                for _ in range(chance.randint(0, 2)):
                    made = chance.choice(("use", "host_write", "wait_stream"))
                    if made == "use":
                        steps.append((made, chance.randrange(ELSEWHERE), chance.randrange(ELSEWHERE), number))
                    elif made == "host_write":
                        steps.append((made, chance.randrange(HOSTS), chance.choice(list(PARTS)), 100 + len(steps)))
                    else:
                        steps.append((made, chance.randrange(STREAMS), stream))
            steps.append(("leave",))
    return steps


def _stream(array: int, chance: random.Random) -> int:
    """A stream of an array's device."""
    return ELSEWHERE if array >= ELSEWHERE else chance.choice((0, 0, 1, 1, BLOCKING, DEFAULT))


def is_of_first(stream: int) -> bool:
    return stream != ELSEWHERE


# --- the model


@dataclass
class Access:
    """Bytes that a step reads or writes, and which accesses come before."""

    memory: tuple[Any, ...] | str
    part: str
    is_write: bool
    before: int


@dataclass
class Model:
    """Sets of accesses are the bits of a number."""

    is_lax: bool
    made: list[Access] = field(default_factory=list)
    host: int = 0
    """Accesses that the host knows to be over."""
    streams: list[int] = field(default_factory=lambda: [0] * STREAMS)
    """Accesses before later work of each stream."""
    awaited: int = 0
    """Accesses that the legacy default stream has been told to wait for, which its next work comes after."""
    events: list[int] = field(default_factory=list)
    transfers: list[tuple[int, int, int | None, bool, bool]] = field(default_factory=list)
    """Of each: what is over when the copy is, what when the source is free, its stream, whether it is an upload, and
    whether it is one of the first device."""
    own: dict[tuple[bool, bool], int] = field(default_factory=dict)
    """Accesses before later copies on the library's own streams, by device and by whether they are uploads."""
    ages: dict[int, int] = field(default_factory=dict)
    """How often an array was made anew."""
    waiting: list[tuple[int, int]] = field(default_factory=list)
    """The items of `prefetch` that are not handed out: the array of the host, and the access."""
    batch: int = 0

    def access(self, memory: tuple[Any, ...], part: str, before: int, *, is_write: bool) -> int:
        """Make an access; returns what comes before whatever waits for it."""
        self.made.append(Access(memory, part, is_write, before))
        return before | 1 << (len(self.made) - 1)

    def array(self, number: int) -> tuple[str, int, int]:
        return "array", number, self.ages.get(number, 0)

    def is_racy(self) -> bool:
        for number, one in enumerate(self.made):
            for other_number, other in enumerate(self.made[:number]):
                touches = one.memory == other.memory and CELLS[one.part] & CELLS[other.part]
                is_ordered = one.before >> other_number & 1 or other.before >> number & 1
                if touches and (one.is_write or other.is_write) and not is_ordered:
                    return True
        return False

    def run(self, steps: list[Step]) -> Model:
        for step in steps:
            getattr(self, step[0])(*step[1:])
        return self

    def order(self, stream: int) -> int:
        """The accesses before the next work of a stream, by the rules of the legacy default stream too."""
        before = self.streams[stream] | self.host
        if stream == DEFAULT:
            before |= self.streams[BLOCKING] | self.awaited
        elif stream == BLOCKING:
            before |= self.streams[DEFAULT]
        return before

    def kernel(self, stream: int, array: int, other: int, part: str, there: str, _: int) -> None:
        done = self.access(self.array(array), part, self.order(stream), is_write=False)
        self.streams[stream] = self.access(self.array(other), there, done, is_write=True)

    def call(self, stream: int, host: int, part: str, is_write: bool, is_declared: bool, _: int) -> None:
        self._settle(stream)
        memory = ("host", host) if is_declared or not self.is_lax else ("unknown", len(self.made))
        self.streams[stream] = self.access(memory, part, self.order(stream), is_write=is_write)

    def copy(self, stream: int, other: int, by_argument: bool, array: int, target: int, part: str, there: str) -> None:
        before = self.order(stream) | (self.order(other) if self.is_lax else 0)
        if (array < ELSEWHERE) == (target < ELSEWHERE):
            # of one device: the stream that is current there, or the one given
            stream, before = other, self.order(other)
            if by_argument:  # the copy comes after the current stream's work, too, which is the default stream's
                before |= self.order(DEFAULT if is_of_first(other) else other)
        read = self.access(self.array(array), part, before, is_write=False)
        done = self.access(self.array(target), there, read | self.order(other), is_write=True)
        self.streams[other] = done
        if not by_argument:
            self.streams[stream] |= done
        elif self.is_lax and not is_flat(part):  # gathered there before it is sent
            self.streams[stream] |= read

    def replace(self, stream: int, by_argument: bool, host: int, array: int) -> None:
        self.ages[array] = self.ages.get(array, 0) + 1
        self.upload(stream, by_argument, host, array, "all", "all")

    def upload(self, stream: int, by_argument: bool, host: int, array: int, part: str, there: str) -> None:
        order = self.order(stream)
        self._read_at_once(host, part)
        if self._is_direct(host, part):
            done = self.access(("host", host), part, order, is_write=False)
            if not by_argument:
                self.host |= done if self.is_lax else 1 << (len(self.made) - 1)
        else:
            self._wait_for_slab()
            self.host = self.access(("host", host), part, self.host, is_write=False)
            done = order | self.host
        self.streams[stream] = self.access(self.array(array), there, done, is_write=True)
        if self.is_lax and not (by_argument and self._is_direct(host, part)):
            self.host |= self.streams[stream]

    def _is_direct(self, host: int, part: str) -> bool:
        """Whether a device may read memory of the host by itself; what has gaps the host gathers, as it happens."""
        return is_pinned(host) and (is_flat(part) or not self.is_lax)

    def _wait_for_slab(self) -> None:
        """The slab of the thread may have been used by an earlier transfer, whose stream has gone on."""
        if self.is_lax and self.transfers:
            for each in self.streams:
                self.host |= each

    def _read_at_once(self, host: int, part: str) -> None:
        """The host may read a small array in the call, a pinned one too."""
        if is_pinned(host) and not self.is_lax:
            self.host = self.access(("host", host), part, self.host, is_write=False)

    def download(self, stream: int, _: bool, host: int, array: int, part: str, there: str) -> None:
        done = self.access(self.array(array), there, self.order(stream), is_write=False)
        self.streams[stream] = self.host = self.access(("host", host), part, done, is_write=True)

    def upload_async(self, stream: int, by_argument: bool, host: int, array: int, part: str, there: str) -> None:
        order = self._order(stream, by_argument, is_upload=True)
        is_direct = self._is_direct(host, part)
        early = 0
        if is_direct and not self.is_lax:  # a thread may read it from now on until the copy is complete
            early = self.access(("host", host), part, self.host, is_write=False)
        before = order | early if is_direct else self.host
        read = self.access(("host", host), part, before, is_write=False)
        copied = self.access(self.array(array), there, order | read, is_write=True)
        its = stream if by_argument else None
        self.transfers.append((copied, copied if is_direct else read, its, True, is_of_first(stream)))
        self._enqueued(copied, stream, by_argument, is_direct or not is_flat(there), is_upload=True)
        if self.is_lax and not is_flat(there):
            self.host |= read

    def _order(self, stream: int, by_argument: bool, *, is_upload: bool) -> int:
        order = self.order(stream)
        if self.is_lax and not by_argument:  # the library's own stream has come after other streams before
            own = (is_of_first(stream), is_upload)
            order |= self.own.get(own, 0)
            self.own[own] = order
        return order

    def _enqueued(self, done: int, stream: int, by_argument: bool, at_once: bool, *, is_upload: bool) -> None:
        """Copies of pinned memory are enqueued at once, which is more than is promised."""
        if self.is_lax and at_once:
            if by_argument:
                self.streams[stream] |= done
            else:
                own = (is_of_first(stream), is_upload)
                self.own[own] = self.own.get(own, 0) | done

    def download_async(self, stream: int, by_argument: bool, host: int, array: int, part: str, there: str) -> None:
        order = self._order(stream, by_argument, is_upload=False)
        copied = self.access(self.array(array), there, order, is_write=False)
        stored = self.access(("host", host), part, copied, is_write=True)
        self.transfers.append((stored, copied, stream if by_argument else None, False, is_of_first(stream)))
        at_once = is_pinned(host) and is_flat(part)
        self._enqueued(stored if at_once else copied, stream, by_argument, at_once or not is_flat(there),
                       is_upload=False)  # fmt: skip

    def result(self, transfer: int, stream: int) -> None:
        done, free, _, is_upload, is_first = self.transfers[transfer]
        if is_upload:
            if is_of_first(stream) is is_first:
                self._wait(stream, done)
            elif is_first:  # the current stream of the transfer's device
                self._wait(DEFAULT, done)
            if self.is_lax:
                self.host |= done
            elif free != done:  # of ordinary memory, which has been read
                self.host |= free
        else:
            self.host |= done

    def drop(self, transfer: int, _: int) -> None:
        """Dropping a handle orders nothing."""

    def wait_transfer(self, transfer: int, stream: int) -> None:
        done, *_ = self.transfers[transfer]
        self._wait(stream, done)
        if self.is_lax:
            self.host |= done

    def _wait(self, stream: int, done: int) -> None:
        if stream == DEFAULT and not self.is_lax:  # it orders no blocking stream by itself
            self.awaited |= done
        else:
            self.streams[stream] |= done

    def record(self, stream: int) -> None:
        self._settle(stream)
        self.events.append(self._recorded(stream))

    def _recorded(self, stream: int) -> int:
        return self.order(stream) if self.is_lax else self.streams[stream] | self.host

    def _settle(self, stream: int) -> None:
        """Transfers onto a stream are enqueued before its next event."""
        for done, _free, its, *_ in self.transfers:
            if self.is_lax and its == stream:
                self.streams[stream] |= done
                self.host |= done

    def wait_event(self, event: int, stream: int) -> None:
        self._wait(stream, self.events[event])

    def wait_stream(self, stream: int, other: int) -> None:
        self._settle(other)
        self._wait(stream, self._recorded(other))

    def synchronize(self, stream: int, *_: int) -> None:
        self.host |= self.order(stream) if stream == DEFAULT else self._recorded(stream)
        for done, _free, its, *_rest in self.transfers:
            if its == stream or (self.is_lax and its is None):
                self.host |= done

    def synchronize_event(self, event: int, _: int) -> None:
        self.host |= self.events[event]

    def synchronize_device(self, is_first: bool) -> None:
        for number, each in enumerate(self.streams):
            if is_of_first(number) is is_first:
                self.host |= each
        self.host |= self.awaited if is_first else 0
        for done, *_, its in self.transfers:
            self.host |= done if its is is_first else 0

    def host_read(self, host: int, part: str, _: int) -> None:
        self.host = self.access(("host", host), part, self.host, is_write=False)

    def host_write(self, host: int, part: str, _: int) -> None:
        self.host = self.access(("host", host), part, self.host, is_write=True)

    def renew(self, stream: int, array: int, _: int) -> None:
        self.ages[array] = self.ages.get(array, 0) + 1
        self.streams[stream] = self.access(self.array(array), "all", self.order(stream), is_write=True)

    def prefetch(self, stream: int, items: tuple[int, ...], depth: int) -> None:
        self.waiting = [(item, self.access(("host", item), "all", self.host, is_write=False)) for item in items]

    def next(self, stream: int, item: int) -> None:
        _, read = self.waiting.pop(0)
        if self.is_lax:  # it may have been read no sooner than now, pinned memory behind the work of the stream
            self.made[read.bit_length() - 1].before = self.host | (self.streams[stream] if is_pinned(item) else 0)
        if self.is_lax or not is_pinned(item):  # a copy from pinned memory may still be in flight
            self.host |= read
        self.batch += 1
        self.streams[stream] = self.access(("batch", self.batch), "all", self.order(stream) | read, is_write=True)

    def use(self, stream: int, array: int, _: int) -> None:
        done = self.access(("batch", self.batch), "all", self.order(stream), is_write=False)
        self.streams[stream] = self.access(self.array(array), "all", done, is_write=True)

    def leave(self) -> None:
        for _, read in self.waiting:
            self.host |= read
            if self.is_lax:  # it may not have been read
                self.made[read.bit_length() - 1].memory = "nothing"


def is_pinned(host: int) -> bool:
    return host < HOSTS // 2


# --- the program itself


class Run:
    """One execution: its values, and what the simulator reports."""

    def __init__(self, steps: list[Step], schedule: str = "lazy", seed: int = 0) -> None:
        with xl.use_backend("sim"):
            first, second = devices = ("sim:sim:0", "sim:sim:1")
            self.streams = [
                xl.Stream(first), xl.Stream(first), xl.Stream(first, non_blocking=False), xl.Stream(second),
                xl.current_stream(first),
            ]  # fmt: skip
            self.arrays = [xl.zeros((SIDE, SIDE), device=self._place(number)) for number in range(ARRAYS)]
            self.hosts = [
                xl.pinned_empty((SIDE, SIDE)) if is_pinned(number) else np.empty((SIDE, SIDE))
                for number in range(HOSTS)
            ]
            for number, each in enumerate(self.hosts):
                each.fill(number + 1.0)
            for device in devices:
                xl.synchronize(device)
            self.seen: list[list[float]] = []
            self.transfers: list[Any] = []
            self.events: list[Any] = []
            self.batches: Iterator[Any] = iter(())
            self.batch: Any = None
            with sim.check("log", schedule=schedule, seed=seed) as checked:
                for step in steps:
                    getattr(self, step[0])(*step[1:])
                for each in self.transfers:
                    if each is not None:
                        each.result()
                for device in devices:
                    xl.synchronize(device)
            self.races = checked.races
            self.values = [xl.to_host(each).tolist() for each in self.arrays] + [each.tolist() for each in self.hosts]
            self.values += sorted(self.seen)

    @staticmethod
    def _place(array: int) -> str:
        return "sim:sim:1" if array >= ELSEWHERE else "sim:sim:0"

    def kernel(self, stream: int, array: int, other: int, part: str, there: str, number: int) -> None:
        with self.streams[stream]:
            _shifted(self.arrays[array][PARTS[part]], float(number), out=self.arrays[other][PARTS[there]])

    def call(self, stream: int, host: int, part: str, is_write: bool, is_declared: bool, number: int) -> None:
        view = self.hosts[host][PARTS[part]]

        def touch() -> None:
            if is_declared:
                (sim.writes if is_write else sim.reads)(view)
            if is_write:
                view[...] = 2000.0 + number
            else:
                self.seen.append([number, *view.ravel().tolist()])

        self.streams[stream].call(touch)

    def copy(self, stream: int, other: int, by_argument: bool, array: int, target: int, part: str, there: str) -> None:
        x, out = self.arrays[array][PARTS[part]], self.arrays[target][PARTS[there]]
        is_one = (array < ELSEWHERE) == (target < ELSEWHERE)
        with contextlib.ExitStack() as current:
            if not is_one:
                current.enter_context(self.streams[stream])
            if by_argument:
                xl.to_device(x, out=out, stream=self.streams[other])
            else:
                current.enter_context(self.streams[other])
                xl.to_device(x, out=out)

    def _order(self, stream: int, by_argument: bool) -> dict[str, Any]:
        return {"stream": self.streams[stream]} if by_argument else {}

    def replace(self, stream: int, by_argument: bool, host: int, array: int) -> None:
        x, device = self.hosts[host], self._place(array)
        if by_argument:
            self.arrays[array] = xl.to_device(x, device=device, stream=self.streams[stream])
        else:
            with self.streams[stream]:
                self.arrays[array] = xl.to_device(x, device=device)

    def upload(self, stream: int, by_argument: bool, host: int, array: int, part: str, there: str) -> None:
        x, out = self.hosts[host][PARTS[part]], self.arrays[array][PARTS[there]]
        if by_argument:
            xl.to_device(x, out=out, stream=self.streams[stream])
        else:
            with self.streams[stream]:
                xl.to_device(x, out=out)

    def download(self, stream: int, by_argument: bool, host: int, array: int, part: str, there: str) -> None:
        out, x = self.hosts[host][PARTS[part]], self.arrays[array][PARTS[there]]
        if by_argument:
            xl.to_host(x, out=out, stream=self.streams[stream])
        else:
            with self.streams[stream]:
                xl.to_host(x, out=out)

    def upload_async(self, stream: int, by_argument: bool, host: int, array: int, part: str, there: str) -> None:
        x, out = self.hosts[host][PARTS[part]], self.arrays[array][PARTS[there]]
        with self.streams[stream]:
            self.transfers.append(xl.to_device_async(x, out=out, **self._order(stream, by_argument)))

    def download_async(self, stream: int, by_argument: bool, host: int, array: int, part: str, there: str) -> None:
        out, x = self.hosts[host][PARTS[part]], self.arrays[array][PARTS[there]]
        with self.streams[stream]:
            self.transfers.append(xl.to_host_async(x, out=out, **self._order(stream, by_argument)))

    def result(self, transfer: int, stream: int) -> None:
        with self.streams[stream]:
            self.transfers[transfer].result()

    def drop(self, transfer: int, _: int) -> None:
        self.transfers[transfer] = None

    def wait_transfer(self, transfer: int, stream: int) -> None:
        self.streams[stream].wait(self.transfers[transfer])

    def record(self, stream: int) -> None:
        self.events.append(self.streams[stream].record())

    def wait_event(self, event: int, stream: int) -> None:
        self.streams[stream].wait(self.events[event])

    def wait_stream(self, stream: int, other: int) -> None:
        self.streams[stream].wait(self.streams[other])

    def synchronize(self, stream: int, *_: int) -> None:
        self.streams[stream].synchronize()

    def synchronize_event(self, event: int, _: int) -> None:
        self.events[event].synchronize()

    def synchronize_device(self, is_first: bool) -> None:
        xl.synchronize("sim:sim:0" if is_first else "sim:sim:1")

    def host_read(self, host: int, part: str, number: int) -> None:
        view = self.hosts[host][PARTS[part]]
        sim.reads(view)
        self.seen.append([number, *view.ravel().tolist()])

    def host_write(self, host: int, part: str, number: int) -> None:
        view = self.hosts[host][PARTS[part]]
        sim.writes(view)
        view[...] = 1000.0 + number

    def renew(self, stream: int, array: int, _: int) -> None:
        with self.streams[stream]:
            self.arrays[array] = xl.zeros((SIDE, SIDE), device=self._place(array))

    def prefetch(self, stream: int, items: tuple[int, ...], depth: int) -> None:
        with self.streams[stream]:
            self.batches = xl.prefetch([self.hosts[item] for item in items], depth=depth)

    def next(self, stream: int, item: int) -> None:
        with self.streams[stream]:
            self.batch = next(self.batches)

    def use(self, stream: int, array: int, number: int) -> None:
        with self.streams[stream]:
            _shifted(self.batch, float(number), out=self.arrays[array])

    def leave(self) -> None:
        self.batches.close()  # type: ignore[attr-defined]
        self.batch = None


class InOrder:
    """The values of a program whose steps are done at once, one after the other, with NumPy."""

    def __init__(self, steps: list[Step]) -> None:
        arrays: Any = [np.zeros((SIDE, SIDE)) for _ in range(ARRAYS)]
        hosts: Any = [np.full((SIDE, SIDE), number + 1.0) for number in range(HOSTS)]
        seen: list[list[float]] = []
        batch: Any = None
        for name, *given in steps:
            if name == "kernel":
                _, array, other, part, there, number = given
                arrays[other][PARTS[there]] = arrays[array][PARTS[part]] * 2.0 + number
            elif name.startswith("upload"):
                *_, host, array, part, there = given
                arrays[array][PARTS[there]] = hosts[host][PARTS[part]]
            elif name.startswith("download"):
                *_, host, array, part, there = given
                hosts[host][PARTS[part]] = arrays[array][PARTS[there]]
            elif name == "copy":
                *_, array, other, part, there = given
                arrays[other][PARTS[there]] = arrays[array][PARTS[part]].copy()
            elif name == "replace":
                *_, host, array = given
                arrays[array][:] = hosts[host]
            elif name == "host_write":
                host, part, number = given
                hosts[host][PARTS[part]] = 1000.0 + number
            elif name == "host_read":
                host, part, number = given
                seen.append([number, *hosts[host][PARTS[part]].ravel().tolist()])
            elif name == "call":
                _, host, part, is_write, _, number = given
                if is_write:
                    hosts[host][PARTS[part]] = 2000.0 + number
                else:
                    seen.append([number, *hosts[host][PARTS[part]].ravel().tolist()])
            elif name == "renew":
                arrays[given[1]][:] = 0.0
            elif name == "next":
                batch = hosts[given[1]].copy()
            elif name == "use":
                _, array, number = given
                arrays[array][:] = batch * 2.0 + number
        self.values = [each.tolist() for each in (*arrays, *hosts)] + sorted(seen)


def verdict(seed: int) -> tuple[str, list[Step], list[Any]]:
    """The fault of simulator or model about a program, empty for none; its steps, and the reports."""
    steps = draw(seed)
    strict, lax = (Model(is_lax).run(steps).is_racy() for is_lax in (False, True))
    run = Run(steps)
    if run.races and not strict:
        return "reported without reason", steps, run.races
    if lax and not run.races:
        return "missed", steps, []
    if not strict:
        expected = InOrder(steps).values
        for schedule in ("lazy", "lifo", "random", "eager"):
            other = run if schedule == "lazy" else Run(steps, schedule, seed)
            if other.races:
                return f"reported without reason, {schedule}", steps, other.races
            if other.values != expected:
                return f"wrong values, {schedule}", steps, []
    return "", steps, []


def main() -> None:
    first, count = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (0, 1000)
    logging.getLogger("xferlib.sim").disabled = True
    wrong = 0
    for seed in range(first, first + count):
        try:
            what, steps, races = verdict(seed)
        except Exception as error:
            what, steps, races = f"{type(error).__name__}: {error}", draw(seed), []
        if what:
            wrong += 1
            print(seed, what, *(f"\n    {step}" for step in steps), *(f"\n  {race}" for race in races), flush=True)
    print(f"{count} programs, {wrong} differ")


if __name__ == "__main__":
    main()
