"""The detector on views, against one that keeps every access to every byte."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import numpy as np
import pytest

import xferlib as xl
from tests.sim.random_programs import initialise
from tests.sizes import IS_LONG
from xferlib import sim
from xferlib.errors import LayoutError
from xferlib.sim import memory as blocks
from xferlib.sim import model as history
from xferlib.sim import model as ranges
from xferlib.sim.detector import Mode, RaceError
from xferlib.sim.machine import Machine
from xferlib.sim.memory import Block, Span
from xferlib.sim.model import Cells, Operation, SimStream

Make = Callable[..., Machine]
ROWS, COLS, ITEM = 6, 8, 4


pytestmark = pytest.mark.usefixtures("silence")


def _slice(chance: random.Random, extent: int) -> slice:
    start = chance.randrange(extent)
    return slice(start, chance.randint(start + 1, extent), chance.choice((1, 1, 2, 3)))


def draw_span(chance: random.Random, block: Block) -> tuple[Span, set[int]]:
    """A view or a choice of elements of a small matrix, and its bytes."""
    x = np.arange(ROWS * COLS).reshape(ROWS, COLS)
    if chance.random() < 0.25:
        chosen = np.array([chance.randrange(x.size) for _ in range(chance.randint(1, 9))])
        span = Span(block, 0, block.nbytes, Cells(ITEM, lambda: chosen * ITEM))
    else:
        rows, cols = (_slice(chance, extent) for extent in x.shape)
        part = chance.choice((x, x[rows], x[:, cols], x[rows, cols], x.T[cols], x[::-1, cols]))
        chosen = part.reshape(-1)
        start = int(part.flat[0]) * ITEM
        strides = [stride // x.itemsize * ITEM for stride in part.strides]
        (span,) = blocks.strided_spans(block, start, part.shape, strides, ITEM)
    return span, {ITEM * index + byte for index in chosen.tolist() for byte in range(ITEM)}


class Reference:
    """Every access ever made, by byte."""

    def __init__(self) -> None:
        self._accesses: list[tuple[int, int, bool, set[int]]] = []

    def unordered(self, own: int, clock: dict[int, int], touched: set[int], *, is_write: bool) -> set[int]:
        """The streams with an access that collides and that nothing orders before this one."""
        return {
            key
            for key, tick, was_write, other in self._accesses
            if key != own and clock.get(key, 0) < tick and (is_write or was_write) and touched & other
        }

    def add(self, operation: Operation, touched: set[int], *, is_write: bool) -> None:
        self._accesses.append((operation.participant.key, operation.tick, is_write, touched))


def disagreement(machine: Machine, seed: int, steps: int) -> str | None:
    """Run a random program until its first race; what the detector says other than the reference."""
    chance = random.Random(seed)
    device = machine.devices[0]
    streams = {stream.key: stream for stream in (machine.stream(device) for _ in range(3))}
    allocation = machine.allocate(ROWS * COLS * ITEM, machine.streams[device].legacy)
    initialise(allocation.block)
    reference, races = Reference(), machine.detector.races
    for step in range(steps):
        stream: SimStream = chance.choice([*streams.values()])
        if chance.random() < 0.05:
            machine.waits.synchronize_stream(stream)
            continue
        span, touched = draw_span(chance, allocation.block)
        is_write = chance.random() < 0.4
        machine.wait(stream, machine.record(stream))  # takes over what the host knows
        others = reference.unordered(stream.key, stream.clock, touched, is_write=is_write)
        if others and chance.random() < 0.95:
            for key in others:
                machine.wait(stream, machine.record(streams[key]))
            others = reference.unordered(stream.key, stream.clock, touched, is_write=is_write)
            assert not others
        spans = {"writes" if is_write else "reads": (span,)}
        operation = machine.enqueue(stream, f"operation {step}", lambda: None, **spans)  # type: ignore[arg-type]
        if bool(races) != bool(others):
            return f"step {step} of seed {seed}: {races[:1]}, expected {others}"
        if races:
            return None
        assert operation is not None
        reference.add(operation, touched, is_write=is_write)
    return None


@pytest.mark.parametrize("long", [history._LONG, 6])
def test_no_race_on_views_is_missed_and_none_is_made_up(
    make_machine: Make, monkeypatch: pytest.MonkeyPatch, long: int
) -> None:
    monkeypatch.setattr(history, "_LONG", long)  # 6: what is kept is pruned and merged all the time
    found = [disagreement(make_machine(devices=1), seed, 60) for seed in range(150 if IS_LONG else 40)]
    assert [each for each in found if each] == []


def test_the_study_notices_a_detector_that_takes_hulls(make_machine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "meet", lambda one, two: one.start < two.stop and two.start < one.stop)
    assert any(disagreement(make_machine(devices=1), seed, 60) for seed in range(60))


def test_the_study_notices_a_detector_that_forgets_views(make_machine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    find = history.Accesses.find_conflict
    monkeypatch.setattr(
        history.Accesses,
        "find_conflict",
        lambda self, span, known, *, is_write: (
            find(self, span, known, is_write=is_write) if span.form is None else None
        ),
    )
    assert any(disagreement(make_machine(devices=1), seed, 60) for seed in range(60))


def test_the_record_of_index_arrays_does_not_outgrow_the_elements(make_machine: Make) -> None:
    machine = make_machine()
    stream = machine.stream(machine.devices[0])
    allocation = machine.allocate(8 * 1000, machine.streams[machine.devices[0]].legacy)
    chance = np.random.default_rng(0)
    for _ in range(4 * history._LONG):
        chosen = chance.integers(0, 1000, 50) * 8
        cells = Span(allocation.block, 0, 8000, Cells(8, lambda chosen=chosen: chosen))
        machine.enqueue(stream, "gather", lambda: None, reads=(cells,))
    kept = allocation.block.history
    assert kept is not None
    (accesses,) = kept._accesses.values()
    assert len(accesses.regions) <= history._LONG
    assert sum(len(log) for log in accesses.logs.values()) <= 1000


def test_an_array_written_as_a_whole_is_simple_again(make_machine: Make) -> None:
    machine = make_machine()
    stream = machine.stream(machine.devices[0])
    block = machine.allocate(64, stream).block
    for start in (0, 8):
        machine.enqueue(stream, "column", lambda: None, writes=blocks.strided_spans(block, start, (4,), (16,), 8))
    machine.enqueue(stream, "all", lambda: None, writes=(block.whole(),))
    assert block.history is not None
    assert [action.name for action, *_ in block.history.every()] == ["all"]


def test_a_refused_write_is_refused_again_and_a_reported_one_stands_for_what_it_covers(make_machine: Make) -> None:
    for mode in (Mode.RAISE, Mode.LOG):
        machine = make_machine(mode=mode)
        one, two, three = (machine.stream(machine.devices[0]) for _ in range(3))
        span = (Span(machine.allocate(64, one).block, 0, 32),)
        machine.enqueue(one, "first", lambda: None, writes=span)
        for _ in range(2):
            with pytest.raises(RaceError) if mode is Mode.RAISE else contextlib.nullcontext():
                machine.enqueue(two, "second", lambda: None, writes=span)
        machine.wait(three, machine.record(two))
        with pytest.raises(RaceError) if mode is Mode.RAISE else contextlib.nullcontext():
            machine.enqueue(three, "third", lambda: None, writes=span)
        assert [race.first.what for race in machine.detector.races] == ["first"] * (2 if mode is Mode.RAISE else 1)


# --- through the front door


def _beside(
    one: Callable[[xl.DeviceArray], object], two: Callable[[xl.DeviceArray], object], shape: tuple[int, ...]
) -> int:
    """How many races there are between two things done to an array on two streams."""
    with xl.use_backend("sim"), sim.check("log") as checked:
        x = xl.zeros(shape)
        streams = xl.Stream(), xl.Stream()
        for stream, use in zip(streams, (one, two), strict=True):
            stream.wait(xl.current_stream())
            with stream:
                use(x)
        xl.synchronize()
        return len(checked.races)


def _add(key: object) -> Callable[[xl.DeviceArray], object]:
    def add(x: xl.DeviceArray) -> None:
        part = x[key]
        part += 1.0

    return add


MANY = 10_000


@pytest.mark.parametrize(
    ("shape", "one", "two"),
    [
        ((MANY, 4), (slice(None), 0), (slice(None), 1)),
        ((2 * MANY,), slice(0, None, 2), slice(1, None, 2)),
        ((100, 100, 4), (slice(None), slice(None, None, 2), 1), (slice(None), slice(1, None, 2), 1)),
    ],
    ids=["columns", "even and odd", "planes"],
)
def test_disjoint_views_of_many_runs_do_not_collide(shape: tuple[int, ...], one: object, two: object) -> None:
    assert _beside(_add(one), _add(two), shape) == 0
    assert _beside(_add(one), _add(one), shape) == 1
    assert _beside(_add(one), _add(...), shape) == 1


def _chosen(*indices: int) -> xl.DeviceArray:
    return xl.to_device(np.array(indices))


def _mask(*indices: int) -> xl.DeviceArray:
    mask = np.zeros(12, bool)
    mask[list(indices)] = True
    return xl.to_device(mask)


def _gather(key: Callable[[], object]) -> Callable[[xl.DeviceArray], object]:
    return lambda x: x[key()] + 0.0


def _scatter(key: Callable[[], object]) -> Callable[[xl.DeviceArray], object]:
    def scatter(x: xl.DeviceArray) -> None:
        x[key()] = 1.0

    return scatter


@pytest.mark.parametrize("kind", [_chosen, _mask])
@pytest.mark.parametrize("other", [_gather, _scatter])
def test_index_arrays_touch_the_elements_that_they_select(
    kind: Callable[..., xl.DeviceArray], other: Callable[..., Callable[[xl.DeviceArray], object]]
) -> None:
    odd, even = (lambda: kind(1, 3, 7)), (lambda: kind(0, 4, 6, 8))
    assert _beside(_scatter(odd), other(even), (12,)) == 0
    assert _beside(_scatter(odd), other(lambda: kind(2, 7)), (12,)) == 1
    assert _beside(_scatter(odd), _add(slice(0, None, 2)), (12,)) == 0
    assert _beside(_scatter(odd), _add(slice(1, None, 2)), (12,)) == 1
    assert _beside(_add(slice(0, 3, 2)), other(odd), (12,)) == 0
    assert _beside(_add(slice(0, 3)), other(odd), (12,)) == 1


@pytest.mark.parametrize(
    ("shape", "one", "two", "three"),
    [
        ((5, 3), lambda: _chosen(0, 2), lambda: _chosen(1, -1), lambda: _chosen(-3)),
        ((4, 5, 3), lambda: (slice(None), _chosen(0, 2)), lambda: (1, _chosen(1, 4)), lambda: (3, _chosen(2), 1)),
        ((5, 4), lambda: (_chosen(0, 1), _chosen(2, 3)), lambda: (_chosen(0, 1), _chosen(3, 2)), lambda: (..., 2)),
        ((12, 2), lambda: (_mask(3, 4), 0), lambda: (_mask(3, 4), 1), lambda: (slice(4, 5), None, _chosen(0))),
    ],
    ids=["rows", "of an inner axis", "points", "mask and index"],
)
def test_index_arrays_beside_other_indices(
    shape: tuple[int, ...], one: Callable[[], object], two: Callable[[], object], three: Callable[[], object]
) -> None:
    """The first two are disjoint, the third meets the first."""
    assert _beside(_scatter(one), _gather(two), shape) == 0
    assert _beside(_gather(two), _scatter(one), shape) == 0
    assert _beside(_scatter(one), _gather(three), shape) == 1
    assert _beside(_gather(three), _scatter(one), shape) == 1


def _take(*indices: int) -> Callable[[xl.DeviceArray], object]:
    return lambda x: xl.get_array_module(x).take(x, _chosen(*indices), axis=0)


def _take_along(index: int) -> Callable[[xl.DeviceArray], object]:
    chosen = np.full((1, 3), index)
    return lambda x: xl.get_array_module(x).take_along_axis(x, xl.to_device(chosen), axis=0)


@pytest.mark.parametrize("take", [_take, _take_along])
def test_taking_touches_the_elements_that_are_taken(take: Callable[[int], Callable[[xl.DeviceArray], object]]) -> None:
    assert _beside(_add(2), take(1), (5, 3)) == 0
    assert _beside(_add(2), take(2), (5, 3)) == 1


def test_an_index_out_of_range_is_an_error_at_the_call() -> None:
    with xl.use_backend("sim"), sim.check("raise"):
        x = xl.zeros(5)
        with pytest.raises(IndexError):
            x[_chosen(5)]
        with pytest.raises(IndexError):
            x[_chosen(-6)] = 1.0
        with pytest.raises(LayoutError, match="does not fit"):
            x[_chosen(1, 2)] = xl.zeros(3)


def test_the_host_touches_the_elements_of_a_view_and_no_others() -> None:
    with xl.use_backend("sim"), sim.check("log") as checked:
        pinned = xl.pinned_zeros((4, 1 << 15))
        stream = xl.Stream()
        device = xl.zeros(1 << 15)
        stream.wait(xl.current_stream())
        xl.to_host_async(device, out=pinned[1], stream=stream)
        sim.writes(pinned[::2])
        assert checked.races == []
        sim.reads(pinned[:, 3])
        assert len(checked.races) == 1
        stream.synchronize()
