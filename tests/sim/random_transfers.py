"""Random programs of transfers, `prefetch` and kernels, and an independent model of what is ordered behind what.

    python -m tests.sim.random_transfers [FIRST COUNT]      prints the programs about which simulator and model differ

The model knows the page on semantics alone: it numbers the accesses of a program, keeps for the host, for each stream
and for each event the set of those that come before, and calls a program racy if two accesses to the same bytes, one of
them a write, are in neither order. Where xferlib may wait for more than it promises, there are two models: *strict*
orders what is promised, *lax* what a run may order beside. A program between the two may be reported or not.
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import xferlib as xl
from xferlib import sim

PART = 8
"""Elements of a part; an array has two, and a call takes one or both."""
STREAMS, ARRAYS, HOSTS = 3, 3, 4
"""Half of the arrays of the host are pinned."""

Step = tuple[Any, ...]
Parts = tuple[int, ...]
PARTS: tuple[Parts, ...] = ((0,), (1,), (0, 1))


@xl.elementwise
def _shifted(x: Any, by: Any) -> Any:
    return x * 2.0 + by


def draw(seed: int) -> list[Step]:
    """A program, as steps: the name of a call, then its numbers."""
    chance = random.Random(seed)
    steps: list[Step] = []
    transfers = events = batches = 0
    for number in range(chance.randint(3, 12)):
        stream, array, other = chance.randrange(STREAMS), chance.randrange(ARRAYS), chance.randrange(ARRAYS)
        host, parts, by_argument = chance.randrange(HOSTS), chance.choice(PARTS), chance.random() < 0.5
        kind = chance.choices(
            ["kernel", "upload", "download", "upload_async", "download_async", "result", "wait_transfer", "record",
             "wait_event", "wait_stream", "synchronize", "synchronize_event", "synchronize_device", "host_read",
             "host_write", "renew", "prefetch"],
            [5, 4, 1, 4, 4, 4, 3, 2, 2, 3, 2, 1, 1, 3, 4, 1, 1],
        )[0]  # fmt: skip
        if kind == "kernel":
            steps.append((kind, stream, array, other, parts, number))
        elif kind in ("upload", "upload_async", "download", "download_async"):
            steps.append((kind, stream, by_argument, host, array, parts))
            transfers += kind.endswith("async")
        elif kind in ("result", "wait_transfer") and transfers:
            steps.append((kind, chance.randrange(transfers), stream))
        elif kind == "record":
            steps.append((kind, stream))
            events += 1
        elif kind in ("wait_event", "synchronize_event") and events:
            steps.append((kind, chance.randrange(events), stream))
        elif kind == "wait_stream":
            steps.append((kind, stream, chance.randrange(STREAMS)))
        elif kind in ("synchronize", "renew"):
            steps.append((kind, stream, array, number))
        elif kind == "synchronize_device":
            steps.append((kind,))
        elif kind in ("host_read", "host_write"):
            steps.append((kind, host, parts, number))
        elif kind == "prefetch" and not batches:
            batches += 1
            items = tuple(chance.randrange(HOSTS) for _ in range(chance.randint(1, 4)))
            steps.append((kind, stream, items, chance.choice((1, 2, 3))))
            for item in items:
                steps.append(("next", stream, item))
                for _ in range(chance.randint(0, 2)):
                    made = chance.choice(("use", "host_write", "wait_stream"))
                    if made == "use":
                        steps.append((made, chance.randrange(STREAMS), chance.randrange(ARRAYS), number))
                    elif made == "host_write":
                        steps.append((made, chance.randrange(HOSTS), chance.choice(PARTS), 100 + len(steps)))
                    else:
                        steps.append((made, chance.randrange(STREAMS), stream))
            steps.append(("leave",))
    return steps


# --- the model


@dataclass
class Access:
    """Bytes that a step reads or writes, and which accesses come before."""

    memory: tuple[Any, ...] | str
    parts: Parts
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
    events: list[int] = field(default_factory=list)
    transfers: list[tuple[int, int, int | None]] = field(default_factory=list)
    """Of each: what is over when the copy is, what when the source is free, and its stream."""
    own: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    """Accesses before later copies on the library's own streams, by whether they are uploads."""
    ages: dict[int, int] = field(default_factory=dict)
    """How often an array was made anew."""
    waiting: list[tuple[int, int]] = field(default_factory=list)
    """The items of `prefetch` that are not handed out: the array of the host, and the access."""
    batch: int = 0

    def access(self, memory: tuple[Any, ...], parts: Parts, before: int, *, is_write: bool) -> int:
        """Make an access; returns what comes before whatever waits for it."""
        self.made.append(Access(memory, parts, is_write, before))
        return before | 1 << (len(self.made) - 1)

    def array(self, number: int) -> tuple[str, int, int]:
        return "array", number, self.ages.get(number, 0)

    def is_racy(self) -> bool:
        for number, one in enumerate(self.made):
            for other_number, other in enumerate(self.made[:number]):
                touches = one.memory == other.memory and set(one.parts) & set(other.parts)
                is_ordered = one.before >> other_number & 1 or other.before >> number & 1
                if touches and (one.is_write or other.is_write) and not is_ordered:
                    return True
        return False

    def run(self, steps: list[Step]) -> Model:
        for step in steps:
            getattr(self, step[0])(*step[1:])
        return self

    def kernel(self, stream: int, array: int, other: int, parts: Parts, _: int) -> None:
        done = self.access(self.array(array), parts, self.streams[stream] | self.host, is_write=False)
        self.streams[stream] = self.access(self.array(other), parts, done, is_write=True)

    def upload(self, stream: int, by_argument: bool, host: int, array: int, parts: Parts) -> None:
        order = self.streams[stream] | self.host
        self._read_at_once(host, parts)
        if is_pinned(host):
            done = self.access(("host", host), parts, order, is_write=False)
            if not by_argument:
                self.host |= done
        else:
            self._wait_for_slab()
            self.host = self.access(("host", host), parts, self.host, is_write=False)
            done = order | self.host
        self.streams[stream] = self.access(self.array(array), parts, done, is_write=True)
        if self.is_lax and not (by_argument and is_pinned(host)):
            self.host |= self.streams[stream]

    def _wait_for_slab(self) -> None:
        """The slab of the thread may have been used by an earlier transfer, whose stream has gone on."""
        if self.is_lax and self.transfers:
            for each in self.streams:
                self.host |= each

    def _read_at_once(self, host: int, parts: Parts) -> None:
        """The host reads small arrays in the call, pinned ones too."""
        if is_pinned(host) and not self.is_lax:
            self.access(("host", host), parts, self.host, is_write=False)

    def download(self, stream: int, _: bool, host: int, array: int, parts: Parts) -> None:
        done = self.access(self.array(array), parts, self.streams[stream] | self.host, is_write=False)
        self.streams[stream] = self.host = self.access(("host", host), parts, done, is_write=True)

    def upload_async(self, stream: int, by_argument: bool, host: int, array: int, parts: Parts) -> None:
        order = self._order(stream, by_argument, is_upload=True)
        self._read_at_once(host, parts)
        read = self.access(("host", host), parts, order if is_pinned(host) else self.host, is_write=False)
        copied = self.access(self.array(array), parts, order | read, is_write=True)
        self.transfers.append((copied, copied if is_pinned(host) else read, stream if by_argument else None))
        self._enqueued(copied, stream, by_argument, host, is_upload=True)

    def _order(self, stream: int, by_argument: bool, *, is_upload: bool) -> int:
        order = self.streams[stream] | self.host
        if self.is_lax and not by_argument:  # the library's own stream has come after other streams before
            order |= self.own[is_upload]
            self.own[is_upload] = order
        return order

    def _enqueued(self, done: int, stream: int, by_argument: bool, host: int, *, is_upload: bool) -> None:
        """Copies of pinned memory are enqueued at once, which is more than is promised."""
        if self.is_lax and is_pinned(host):
            if by_argument:
                self.streams[stream] |= done
            else:
                self.own[is_upload] |= done

    def download_async(self, stream: int, by_argument: bool, host: int, array: int, parts: Parts) -> None:
        order = self._order(stream, by_argument, is_upload=False)
        copied = self.access(self.array(array), parts, order, is_write=False)
        stored = self.access(("host", host), parts, copied, is_write=True)
        self.transfers.append((stored, copied, stream if by_argument else None))
        self._enqueued(stored, stream, by_argument, host, is_upload=False)

    def result(self, transfer: int, stream: int) -> None:
        done, free, _ = self.transfers[transfer]
        if self.is_upload(transfer):
            self.streams[stream] |= done
            if self.is_lax:
                self.host |= done
            elif free != done:  # of ordinary memory, which has been read
                self.host |= free
        else:
            self.host |= done

    def is_upload(self, transfer: int) -> bool:
        done, *_ = self.transfers[transfer]
        last = self.made[done.bit_length() - 1]
        return bool(last.memory[0] == "array")

    def wait_transfer(self, transfer: int, stream: int) -> None:
        done, *_ = self.transfers[transfer]
        self.streams[stream] |= done
        if self.is_lax:
            self.host |= done

    def record(self, stream: int) -> None:
        self._settle(stream)
        self.events.append(self.streams[stream])

    def _settle(self, stream: int) -> None:
        """Transfers onto a stream are enqueued before its next event."""
        for done, _free, its in self.transfers:
            if self.is_lax and its == stream:
                self.streams[stream] |= done
                self.host |= done

    def wait_event(self, event: int, stream: int) -> None:
        self.streams[stream] |= self.events[event]

    def wait_stream(self, stream: int, other: int) -> None:
        self._settle(other)
        self.streams[stream] |= self.streams[other]

    def synchronize(self, stream: int, *_: int) -> None:
        self.host |= self.streams[stream]
        for done, _free, its in self.transfers:
            if its == stream or (self.is_lax and its is None):
                self.host |= done

    def synchronize_event(self, event: int, _: int) -> None:
        self.host |= self.events[event]

    def synchronize_device(self) -> None:
        for each in self.streams:
            self.host |= each
        for done, *_ in self.transfers:
            self.host |= done

    def host_read(self, host: int, parts: Parts, _: int) -> None:
        self.host = self.access(("host", host), parts, self.host, is_write=False)

    def host_write(self, host: int, parts: Parts, _: int) -> None:
        self.host = self.access(("host", host), parts, self.host, is_write=True)

    def renew(self, stream: int, array: int, _: int) -> None:
        self.ages[array] = self.ages.get(array, 0) + 1
        self.streams[stream] = self.access(self.array(array), (0, 1), self.streams[stream] | self.host, is_write=True)

    def prefetch(self, stream: int, items: tuple[int, ...], depth: int) -> None:
        self.waiting = [(item, self.access(("host", item), (0, 1), self.host, is_write=False)) for item in items]

    def next(self, stream: int, item: int) -> None:
        _, read = self.waiting.pop(0)
        if self.is_lax:  # it may have been read no sooner than now, pinned memory behind the work of the stream
            self.made[read.bit_length() - 1].before = self.host | (self.streams[stream] if is_pinned(item) else 0)
        if self.is_lax or not is_pinned(item):  # a copy from pinned memory may still be in flight
            self.host |= read
        self.batch += 1
        self.streams[stream] = self.access(
            ("batch", self.batch), (0, 1), self.streams[stream] | self.host | read, is_write=True
        )

    def use(self, stream: int, array: int, _: int) -> None:
        done = self.access(("batch", self.batch), (0, 1), self.streams[stream] | self.host, is_write=False)
        self.streams[stream] = self.access(self.array(array), (0, 1), done, is_write=True)

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
            self.streams = [xl.Stream() for _ in range(STREAMS)]
            self.arrays = [xl.zeros(2 * PART) for _ in range(ARRAYS)]
            self.hosts = [
                xl.pinned_empty(2 * PART) if is_pinned(number) else np.empty(2 * PART) for number in range(HOSTS)
            ]
            for number, each in enumerate(self.hosts):
                each.fill(number + 1.0)
            xl.synchronize()
            self.transfers: list[Any] = []
            self.events: list[Any] = []
            self.batches: Iterator[Any] = iter(())
            self.batch: Any = None
            with sim.check("log", schedule=schedule, seed=seed) as checked:
                for step in steps:
                    getattr(self, step[0])(*step[1:])
                for each in self.transfers:
                    each.result()
                xl.synchronize()
            self.races = checked.races
            self.values = [xl.to_host(each).tolist() for each in self.arrays] + [each.tolist() for each in self.hosts]

    def kernel(self, stream: int, array: int, other: int, parts: Parts, number: int) -> None:
        with self.streams[stream]:
            _shifted(part(self.arrays[array], parts), float(number), out=part(self.arrays[other], parts))

    def _order(self, stream: int, by_argument: bool) -> dict[str, Any]:
        return {"stream": self.streams[stream]} if by_argument else {}

    def upload(self, stream: int, by_argument: bool, host: int, array: int, parts: Parts) -> None:
        x, out = part(self.hosts[host], parts), part(self.arrays[array], parts)
        if by_argument:
            xl.to_device(x, out=out, stream=self.streams[stream])
        else:
            with self.streams[stream]:
                xl.to_device(x, out=out)

    def download(self, stream: int, by_argument: bool, host: int, array: int, parts: Parts) -> None:
        out, x = part(self.hosts[host], parts), part(self.arrays[array], parts)
        if by_argument:
            xl.to_host(x, out=out, stream=self.streams[stream])
        else:
            with self.streams[stream]:
                xl.to_host(x, out=out)

    def upload_async(self, stream: int, by_argument: bool, host: int, array: int, parts: Parts) -> None:
        with self.streams[stream]:
            self.transfers.append(
                xl.to_device_async(
                    part(self.hosts[host], parts),
                    out=part(self.arrays[array], parts),
                    **self._order(stream, by_argument),
                )
            )

    def download_async(self, stream: int, by_argument: bool, host: int, array: int, parts: Parts) -> None:
        with self.streams[stream]:
            self.transfers.append(
                xl.to_host_async(
                    part(self.arrays[array], parts),
                    out=part(self.hosts[host], parts),
                    **self._order(stream, by_argument),
                )
            )

    def result(self, transfer: int, stream: int) -> None:
        with self.streams[stream]:
            self.transfers[transfer].result()

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

    def synchronize_device(self) -> None:
        xl.synchronize()

    def host_read(self, host: int, parts: Parts, _: int) -> None:
        sim.reads(part(self.hosts[host], parts))

    def host_write(self, host: int, parts: Parts, number: int) -> None:
        sim.writes(part(self.hosts[host], parts))
        part(self.hosts[host], parts)[:] = 1000.0 + number

    def renew(self, stream: int, array: int, _: int) -> None:
        with self.streams[stream]:
            self.arrays[array] = xl.zeros(2 * PART)

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


def part(array: Any, parts: Parts) -> Any:
    return array[parts[0] * PART : (parts[-1] + 1) * PART]


class InOrder(Run):
    """The values of a program whose steps are done at once, one after the other, with NumPy."""

    def __init__(self, steps: list[Step]) -> None:
        arrays: Any = [np.zeros(2 * PART) for _ in range(ARRAYS)]
        hosts: Any = [np.full(2 * PART, number + 1.0) for number in range(HOSTS)]
        items: list[int] = []
        batch: Any = None
        for name, *given in steps:
            if name == "kernel":
                _, array, other, parts, number = given
                part(arrays[other], parts)[:] = part(arrays[array], parts) * 2.0 + number
            elif name.startswith("upload"):
                *_, host, array, parts = given
                part(arrays[array], parts)[:] = part(hosts[host], parts)
            elif name.startswith("download"):
                *_, host, array, parts = given
                part(hosts[host], parts)[:] = part(arrays[array], parts)
            elif name == "host_write":
                host, parts, number = given
                part(hosts[host], parts)[:] = 1000.0 + number
            elif name == "renew":
                arrays[given[1]][:] = 0.0
            elif name == "next":
                items.append(given[1])
                batch = hosts[given[1]].copy()
            elif name == "use":
                _, array, number = given
                arrays[array][:] = batch * 2.0 + number
        self.values = [each.tolist() for each in (*arrays, *hosts)]


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
