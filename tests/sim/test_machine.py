"""CUDA's rules of who waits for whom, one program a rule."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import xferlib as xl
from tests.sim.random_programs import initialise
from xferlib import sim
from xferlib.errors import DeviceMemoryError
from xferlib.sim.detector import Hazard, SimError, WrongDeviceError
from xferlib.sim.machine import Machine
from xferlib.sim.memory import POISON, Span
from xferlib.sim.model import SimStream, StreamKind
from xferlib.sim.timing import Lane

Make = Callable[..., Machine]
BLOCKING, NON_BLOCKING = StreamKind.BLOCKING, StreamKind.NON_BLOCKING


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("ERROR", logger="xferlib.sim"):
        yield


class Program:
    """One device, one word of its memory, and operations that write it on streams."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.device = machine.devices[0]
        self.legacy = machine.streams[self.device].legacy
        self.memory = machine.allocate(8, self.legacy)
        initialise(self.memory.block)
        self.log: list[str] = []

    def stream(self, kind: StreamKind = NON_BLOCKING) -> SimStream:
        return self.machine.stream(self.device, kind)

    def write(self, stream: SimStream, name: str = "write") -> None:
        whole = (self.memory.block.whole(),)
        self.machine.enqueue(stream, name, lambda: self.log.append(name), writes=whole)

    def read(self, stream: SimStream, name: str = "read") -> None:
        whole = (self.memory.block.whole(),)
        self.machine.enqueue(stream, name, lambda: self.log.append(name), reads=whole)

    @property
    def hazards(self) -> list[Hazard]:
        return [race.hazard for race in self.machine.detector.races]


@pytest.fixture
def program(make_machine: Make) -> Program:
    return Program(make_machine())


def test_two_non_blocking_streams_are_not_ordered(program: Program) -> None:
    program.write(program.stream())
    program.read(program.stream())
    assert program.hazards == [Hazard.READ_AFTER_WRITE]


def test_one_stream_is_ordered(program: Program) -> None:
    stream = program.stream()
    for _ in range(3):
        program.write(stream)
        program.read(stream)
    assert program.hazards == []


def test_reads_do_not_collide(program: Program) -> None:
    stream = program.stream()
    program.write(stream)
    program.machine.waits.synchronize_stream(stream)
    program.read(program.stream())
    program.read(program.stream())
    assert program.hazards == []


def test_a_write_behind_one_of_two_readers_collides_with_the_other(program: Program) -> None:
    one, two = program.stream(), program.stream()
    program.read(one)
    program.read(two)
    program.machine.wait(one, program.machine.record(two))
    program.write(one)
    assert program.hazards == []
    program.read(two)
    assert program.hazards == [Hazard.READ_AFTER_WRITE]


def test_the_legacy_stream_waits_for_blocking_streams_and_they_for_it(program: Program) -> None:
    one, two = program.stream(BLOCKING), program.stream(BLOCKING)
    program.write(one)
    program.write(program.legacy)
    program.write(two)
    assert program.hazards == []


def test_two_blocking_streams_are_ordered_by_work_of_the_legacy_stream_between_them_only(program: Program) -> None:
    one, two = program.stream(BLOCKING), program.stream(BLOCKING)
    program.write(one)
    program.write(two)
    assert program.hazards == [Hazard.WRITE_AFTER_WRITE]


def test_non_blocking_streams_are_exempt_from_the_legacy_rule(program: Program) -> None:
    program.write(program.stream(NON_BLOCKING))
    program.write(program.legacy)
    assert program.hazards == [Hazard.WRITE_AFTER_WRITE]


def test_the_per_thread_default_stream_is_a_blocking_one_and_every_thread_has_its_own(program: Program) -> None:
    mine = program.machine.per_thread(program.device)
    theirs: list[SimStream] = []
    thread = threading.Thread(target=lambda: theirs.append(program.machine.per_thread(program.device)))
    thread.start()
    thread.join()
    assert mine is program.machine.per_thread(program.device)
    assert theirs[0] is not mine
    program.write(mine)
    program.write(program.legacy)
    program.write(theirs[0])
    assert program.hazards == []


def test_legacy_streams_of_two_devices_do_not_order_each_other(make_machine: Make) -> None:
    machine = make_machine(devices=2)
    program = Program(machine)
    program.write(program.legacy)
    other = machine.streams[machine.devices[1]].legacy
    machine.enqueue(other, "peer copy", lambda: None, reads=(program.memory.block.whole(),), lane=Lane.PEER)
    assert program.hazards == [Hazard.READ_AFTER_WRITE]


def test_a_wait_takes_the_event_as_it_was_last_recorded(program: Program) -> None:
    one, two = program.stream(), program.stream()
    early = program.machine.record(one)
    program.write(one)
    program.machine.wait(two, early)
    program.read(two)
    (race,) = program.machine.detector.races
    assert race.hazard is Hazard.READ_AFTER_WRITE
    assert "did wait at" in race.hint
    assert "before the first access" in race.hint


def test_a_wait_for_an_event_never_recorded_does_nothing_and_the_report_says_so(program: Program) -> None:
    one, two = program.stream(), program.stream()
    program.machine.wait_unrecorded(two)
    program.write(one)
    program.read(two)
    (race,) = program.machine.detector.races
    assert "had not been recorded" in race.hint


@pytest.mark.parametrize("waiter", ["stream", "legacy", "host", "poll"])
def test_an_event_never_recorded_orders_nothing_for_any_waiter(waiter: str) -> None:
    with xl.use_backend("sim"), sim.check("log") as checked:
        x = xl.zeros(16)
        xl.synchronize()
        one, two = xl.Stream(non_blocking=False), xl.Stream(non_blocking=False)
        event = xl.Event()
        with one:
            x += 1.0
        if waiter == "host":
            event.synchronize()
        elif waiter == "poll":
            assert event.is_done
        else:
            (two if waiter == "stream" else xl.current_stream()).wait(event)
        with two:
            x += 1.0
        (race,) = checked.races
        assert race.hazard is Hazard.READ_AFTER_WRITE


def test_a_wait_orders_what_follows_it_only(program: Program) -> None:
    one, two = program.stream(), program.stream()
    program.write(one)
    program.read(two)
    program.machine.wait(two, program.machine.record(one))
    assert program.hazards == [Hazard.READ_AFTER_WRITE]


def test_waits_are_transitive(program: Program) -> None:
    one, two, three = program.stream(), program.stream(), program.stream()
    program.write(one)
    program.machine.wait(two, program.machine.record(one))
    program.machine.wait(three, program.machine.record(two))
    program.read(three)
    assert program.hazards == []


def test_a_synchronised_host_orders_all_that_follows(program: Program) -> None:
    one, two = program.stream(), program.stream()
    program.write(one)
    program.machine.waits.synchronize_stream(one)
    program.write(two)
    program.machine.waits.synchronize(program.machine.record(two))
    program.write(one)
    program.machine.waits.synchronize_device(program.device)
    program.write(two)
    assert program.hazards == []


def test_synchronising_another_stream_orders_nothing(program: Program) -> None:
    one, two = program.stream(), program.stream()
    program.write(one)
    program.machine.waits.synchronize_stream(two)
    program.write(two)
    assert program.hazards == [Hazard.WRITE_AFTER_WRITE]


@pytest.mark.parametrize("kind", [BLOCKING, StreamKind.PER_THREAD])
def test_synchronising_the_legacy_stream_waits_for_blocking_streams(program: Program, kind: StreamKind) -> None:
    """As measured on an H200: behind a kernel of a second on a blocking stream it takes that second."""
    blocking = program.stream(kind)
    program.write(blocking)
    program.machine.waits.synchronize_stream(program.legacy)
    assert program.log == ["write"]
    program.write(program.stream())
    assert program.hazards == []


def test_synchronising_the_legacy_stream_does_not_wait_for_non_blocking_streams(program: Program) -> None:
    program.write(program.stream(NON_BLOCKING))
    program.machine.waits.synchronize_stream(program.legacy)
    assert program.log == []
    program.write(program.stream())
    assert program.hazards == [Hazard.WRITE_AFTER_WRITE]


def test_synchronising_a_blocking_stream_does_not_wait_for_the_legacy_stream(program: Program) -> None:
    """Nothing was enqueued on it behind the legacy stream's work: on an H200 it takes no time."""
    blocking = program.stream(BLOCKING)
    program.write(program.legacy)
    program.machine.waits.synchronize_stream(blocking)
    assert program.log == []
    program.write(program.stream())
    assert program.hazards == [Hazard.WRITE_AFTER_WRITE]


def test_synchronising_the_legacy_stream_of_another_device_orders_nothing(make_machine: Make) -> None:
    machine = make_machine(devices=2)
    program = Program(machine)
    program.write(program.stream(BLOCKING))
    machine.waits.synchronize_stream(machine.streams[machine.devices[1]].legacy)
    assert program.log == []


def test_a_poll_of_the_legacy_stream_asks_blocking_streams_too(program: Program) -> None:
    """As measured on an H200: False while a kernel runs on a blocking stream."""
    program.write(program.stream(BLOCKING))
    assert not program.machine.waits.is_stream_done(program.legacy)
    while not program.machine.waits.is_stream_done(program.legacy):
        pass
    assert program.log == ["write"]
    program.write(program.stream())
    assert program.hazards == []


def test_a_poll_of_the_legacy_stream_does_not_ask_non_blocking_streams(program: Program) -> None:
    program.write(program.stream(NON_BLOCKING))
    assert program.machine.waits.is_stream_done(program.legacy)
    assert program.log == []


def test_a_wait_on_the_legacy_stream_does_not_order_blocking_streams(program: Program) -> None:
    """As measured on an H200."""
    event = program.machine.record(program.stream())
    program.write(program.stream(BLOCKING))
    program.machine.wait(program.legacy, event)
    program.write(program.stream(BLOCKING))
    assert program.hazards == [Hazard.WRITE_AFTER_WRITE]


def test_an_event_that_only_a_wait_of_the_legacy_stream_names_comes_not_before_blocking_streams(
    program: Program,
) -> None:
    apart = program.stream()
    program.write(apart)
    program.machine.wait(program.legacy, program.machine.record(apart))
    program.write(program.stream(BLOCKING))
    assert program.hazards == [Hazard.WRITE_AFTER_WRITE]


def test_a_record_on_the_legacy_stream_orders_blocking_streams(program: Program) -> None:
    """As measured on an H200."""
    program.write(program.stream(BLOCKING))
    program.machine.record(program.legacy)
    program.write(program.stream(BLOCKING))
    assert program.hazards == []


@pytest.mark.parametrize("then", ["work", "record", "synchronize", "poll", "free"])
def test_work_of_the_legacy_stream_comes_after_its_waits(program: Program, then: str) -> None:
    apart, machine = program.stream(), program.machine
    program.write(apart)
    machine.wait(program.legacy, machine.record(apart))
    if then == "work":
        program.write(program.legacy)
        program.write(program.stream(BLOCKING))
    elif then == "record":
        machine.record(program.legacy)
        program.write(program.stream(BLOCKING))
    elif then == "synchronize":
        machine.waits.synchronize_stream(program.legacy)
        assert program.log == ["write"]
        program.write(program.stream())
    elif then == "poll":
        while not machine.waits.is_stream_done(program.legacy):
            pass
        assert program.log == ["write"]
        program.write(program.stream())
    else:
        program.memory = None  # type: ignore[assignment]
        machine.raise_found()
    assert program.hazards == []


def test_a_poll_that_says_done_orders_the_host_and_comes_in_the_end(program: Program) -> None:
    one, two = program.stream(), program.stream()
    program.write(one)
    event = program.machine.record(one)
    assert not program.machine.waits.is_done(event)
    polls = 1
    while not program.machine.waits.is_done(event):
        polls += 1
    assert 1 < polls < 1000
    program.write(two)
    assert program.hazards == []
    assert program.log == ["write"]


def test_operations_of_disjoint_ranges_do_not_collide(program: Program) -> None:
    block = program.memory.block
    program.machine.enqueue(program.stream(), "low", lambda: None, writes=(Span(block, 0, 4),))
    program.machine.enqueue(program.stream(), "high", lambda: None, writes=(Span(block, 4, 8),))
    assert program.hazards == []
    program.machine.enqueue(program.stream(), "middle", lambda: None, reads=(Span(block, 3, 5),))
    assert program.hazards == [Hazard.READ_AFTER_WRITE]


def test_lazily_nothing_happens_until_the_host_waits(program: Program) -> None:
    stream = program.stream()
    program.write(stream)
    assert program.log == []
    program.machine.waits.synchronize_stream(stream)
    assert program.log == ["write"]


# --- memory


def test_memory_freed_while_another_stream_reads_it_is_reported(program: Program) -> None:
    owner, reader = program.stream(), program.stream()
    program.memory = program.machine.allocate(8, owner)
    program.write(owner)
    program.machine.wait(reader, program.machine.record(owner))
    program.read(reader)
    program.memory = program.machine.allocate(8, owner)
    program.machine.raise_found()
    assert program.hazards == [Hazard.USE_AFTER_FREE]


def test_a_declared_user_may_still_read_freed_memory(program: Program) -> None:
    owner, reader = program.stream(), program.stream()
    program.memory = program.machine.allocate(8, owner)
    initialise(program.memory.block)
    program.memory.users[reader.key] = reader
    program.read(reader)
    program.memory = program.machine.allocate(8, owner)
    program.machine.raise_found()
    assert program.hazards == []


def test_an_address_whose_memory_is_gone_is_reported_with_the_place_where_it_died(program: Program) -> None:
    stream = program.stream()
    pointer = program.memory.block.pointer
    program.memory = program.machine.allocate(8, stream)
    program.machine.raise_found()
    with pytest.raises(SimError):
        program.machine.span(pointer, 8, "copy", stream)
    (race,) = program.machine.detector.races
    assert race.hazard is Hazard.USE_AFTER_FREE
    assert race.first.what == "free"


def test_an_address_beyond_the_end_is_an_error(program: Program) -> None:
    machine, pointer = program.machine, program.memory.block.pointer
    with pytest.raises(SimError, match="beyond the end"):
        machine.span(pointer, 9, "copy", program.legacy)


def test_devices_have_limits_of_their_own(make_machine: Make) -> None:
    machine = make_machine(devices=2, memory_nbytes=100)
    one, two = (machine.streams[device].legacy for device in machine.devices)
    kept = [machine.allocate(60, one), machine.allocate(60, two)]
    with pytest.raises(DeviceMemoryError, match="60 of 100 bytes are in use"):
        machine.allocate(60, one)
    kept.clear()
    machine.allocate(60, one)


def test_new_memory_is_poison_and_poison_is_not_a_number_in_every_float_type(program: Program) -> None:
    data = program.machine.allocate(16, program.legacy).block.data
    assert (data.view(np.uint16) == POISON).all()
    for dtype in (np.float16, np.float32, np.float64):
        assert np.isnan(data.view(dtype)).all()


def test_a_kernel_on_a_stream_of_another_device_is_an_error(make_machine: Make) -> None:
    machine = make_machine(devices=2)
    memory = machine.allocate(8, machine.streams[machine.devices[0]].legacy)
    elsewhere = machine.stream(machine.devices[1])
    with pytest.raises(WrongDeviceError, match="use a stream of sim:sim:0"):
        machine.enqueue(elsewhere, "kernel", lambda: None, reads=(memory.block.whole(),))


# --- what must not grow


def test_memory_stays_bounded_over_many_operations_streams_and_arrays(make_machine: Make) -> None:
    machine = make_machine()
    device = machine.devices[0]
    keep = machine.allocate(1 << 20, machine.streams[device].legacy)
    block = keep.block

    def work(rounds: int) -> None:
        for number in range(rounds):
            stream = machine.stream(device)
            start = number * 37 % (1 << 19)
            machine.enqueue(stream, "k", lambda: None, reads=(Span(block, start, start + 100),))
            machine.allocate(64, stream)
            if number % 50 == 0:
                machine.waits.synchronize_device(device)
            machine.lifetimes.ended.append(stream)

    work(3000)
    machine.raise_found()
    assert machine.engine.pending <= 512
    assert len(block.shadow) <= 2048
    assert len(machine.streams[device].every) < 200
    assert len(machine.hosts.main.clock) < 200
    assert machine.memory.used[device.index] == 1 << 20
