"""Random small programs for the simulated machine, and everything that can happen when one runs."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from xferlib.sim import schedules
from xferlib.sim.detector import Mode, Race
from xferlib.sim.machine import Machine
from xferlib.sim.memory import Block, Span, pages
from xferlib.sim.model import SimEvent, StreamKind
from xferlib.sim.schedules import Settings
from xferlib.sim.timing import Lane

KINDS = (StreamKind.NON_BLOCKING, StreamKind.NON_BLOCKING, StreamKind.BLOCKING)
WORDS = 2
"""Words of a buffer: an operation touches one or both, so that ranges overlap in part."""


def initialise(block: Block) -> None:
    """Note that every byte has a value, and that none is in use."""
    block.accesses, block.has_void = None, False


@dataclass(frozen=True)
class Step:
    """One call: what it is, on which stream (-1: the legacy one), with which numbers."""

    call: str
    stream: int = 0
    other: int = 0
    word: int = 0
    words: int = WORDS


def draw(seed: int) -> list[Step]:
    """A program: kernels and copies on up to three streams and the legacy one, and synchronisation."""
    chance = random.Random(seed)
    streams = range(-1, chance.choice((2, 2, 3)))
    calls = ["kernel", "copy", "record", "wait", "stream_wait", "synchronize", "synchronize_event", "read", "write"]
    calls, weights = [*calls, "free"], [6, 3, 2, 3, 4, 2, 1, 2, 1, 2]
    steps = []
    for _ in range(chance.randint(4, 10)):
        words = chance.choice((1, WORDS))
        steps.append(
            Step(
                chance.choices(calls, weights)[0],
                chance.choice(streams) if chance.random() < 0.85 else -1,
                chance.choice(streams[1:]),
                chance.randrange(WORDS - words + 1),
                words,
            )
        )
    return steps


class Run:
    """One execution; ``trace`` is every value that an operation or the host saw, and what remains."""

    def __init__(self, steps: list[Step], schedule: schedules.Schedule, mode: Mode) -> None:
        self.machine = Machine(Settings(devices=1, mode=mode), schedule)
        device = self.machine.devices[0]
        state = self.machine.streams[device]
        self._streams = {-1: state.legacy, **{n: self.machine.stream(device, kind) for n, kind in enumerate(KINDS)}}
        self._allocations = {n: self.machine.allocate(8 * WORDS, self._streams[n - 1]) for n in range(2)}
        self._host = self.machine.memory.track(pages(8 * WORDS), self._allocations[0].block.location)
        self._blocks = [*(each.block for each in self._allocations.values()), self._host]
        for block in self._blocks:
            block.data[:] = 0
            initialise(block)
        self._events: dict[int, SimEvent] = {}
        self.seen: dict[int, object] = {}
        for number, step in enumerate(steps):
            getattr(self, f"_{step.call}")(number, step)
        self.machine.waits.quiesce()
        self.remains = tuple(self._values(block, 0, WORDS) for block in self._blocks)
        self.trace = (tuple(sorted(self.seen.items())), self.remains)

    @staticmethod
    def _values(block: object, word: int, words: int) -> tuple[int, ...]:
        return tuple(block.data.view(np.int64)[word : word + words].tolist())  # type: ignore[attr-defined]

    def _span(self, index: int, step: Step) -> Span:
        return Span(self._blocks[index], 8 * step.word, 8 * (step.word + step.words))

    def _operate(self, number: int, step: Step, source: int, target: int) -> None:
        read, write = self._span(source, step), self._span(target, step)

        def run() -> None:
            values = self._values(read.block, step.word, step.words)
            self.seen[number] = values
            into = write.block.data.view(np.int64)
            for at, value in enumerate(values):
                into[step.word + at] = (value * 31 + number + 7) % (1 << 61)

        self.machine.enqueue(
            self._streams[step.stream], step.call, run, reads=(read,), writes=(write,), lane=Lane.KERNELS
        )

    def _kernel(self, number: int, step: Step) -> None:
        self._operate(number, step, step.other % 2, number % 2)

    def _copy(self, number: int, step: Step) -> None:
        source, target = ((2, step.other % 2), (step.other % 2, 2))[number % 2]
        self._operate(number, step, source, target)

    def _record(self, number: int, step: Step) -> None:
        self._events[step.other] = self.machine.record(self._streams[step.stream])

    def _wait(self, number: int, step: Step) -> None:
        if step.other in self._events:
            self.machine.wait(self._streams[step.stream], self._events[step.other])

    def _stream_wait(self, number: int, step: Step) -> None:
        self.machine.wait(self._streams[step.stream], self.machine.record(self._streams[step.other]))

    def _synchronize(self, number: int, step: Step) -> None:
        self.machine.waits.synchronize_stream(self._streams[step.stream])

    def _synchronize_event(self, number: int, step: Step) -> None:
        if step.other in self._events:
            self.machine.waits.synchronize(self._events[step.other])

    def _free(self, number: int, step: Step) -> None:
        """An array dies, and the pool of its stream gives its memory to the next one.

        That is set to a value, on the stream of its memory or on another one.
        """
        index = step.other % 2
        old = self._allocations.pop(index).block
        owner = old.stream
        assert owner is not None
        data = old.data
        self.machine.raise_faults()
        fresh = self._allocations[index] = self.machine.allocate(8 * WORDS, owner)
        fresh.block.data = data
        self._blocks[index] = fresh.block
        on = self._streams[step.stream] if _is_set_elsewhere(number, step) else owner
        whole = (fresh.block.whole(),)
        self.machine.enqueue(on, "set", lambda: data.view(np.int64).fill(2000 + number), writes=whole)

    def _read(self, number: int, step: Step) -> None:
        data = self._host.data[8 * step.word : 8 * (step.word + step.words)]
        self.machine.host_access(data, is_write=False)
        self.seen[number] = self._values(self._host, step.word, step.words)

    def _write(self, number: int, step: Step) -> None:
        data = self._host.data[8 * step.word : 8 * (step.word + step.words)]
        self.machine.host_access(data, is_write=True)
        self._host.data.view(np.int64)[step.word : step.word + step.words] = 1000 + number


def _is_set_elsewhere(number: int, step: Step) -> bool:
    """Whether the array that comes after one that has died is first used on another stream than its memory's."""
    return step.call == "free" and number % 2 == 0 and step.stream != step.other % 2 - 1


def sets_elsewhere(steps: list[Step]) -> bool:
    """Whether any array of a program is."""
    return any(_is_set_elsewhere(number, step) for number, step in enumerate(steps))


def sets_again(steps: list[Step]) -> bool:
    """Whether memory that a program writes is set by the next array in it, and by one more."""
    for index in range(2):
        written = [
            number
            for number, step in enumerate(steps)
            if (step.call == "kernel" and number % 2 == index)
            or (step.call == "copy" and not number % 2 and step.other % 2 == index)
        ]
        frees = [number for number, step in enumerate(steps) if step.call == "free" and step.other % 2 == index]
        if written and sum(number > written[0] for number in frees) > 1:
            return True
    return False


def outcomes(steps: list[Step], most: int) -> set[object] | None:
    """Every trace that a legal schedule gives; None if there are more than ``most`` schedules."""
    found: set[object] = set()
    for number, trace in enumerate(
        schedules.explore(lambda schedule: Run(steps, schedule, Mode.OFF).trace, most=most + 1)
    ):
        if number == most:
            return None
        found.add(trace)
    return found


def races(steps: list[Step]) -> list[Race]:
    """The detector's reports of one run, in program order."""
    return list(Run(steps, schedules.Eager(), Mode.LOG).machine.detector.races)
