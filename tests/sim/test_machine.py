"""CUDA's rules of who waits for whom, one program a rule."""

from __future__ import annotations

import ctypes
import functools
import signal
import threading
from collections.abc import Callable
from types import FrameType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from tests.sim.random_programs import initialise
from xferlib import sim
from xferlib.errors import DeviceMemoryError
from xferlib.sim.detector import Hazard, Mode, SimError, WrongDeviceError
from xferlib.sim.machine import Machine
from xferlib.sim.machine import machine as global_machine
from xferlib.sim.memory import POISON, Span
from xferlib.sim.model import SimStream, StreamKind
from xferlib.sim.schedules import Lazy, Settings
from xferlib.sim.timing import Lane

Make = Callable[..., Machine]
BLOCKING, NON_BLOCKING = StreamKind.BLOCKING, StreamKind.NON_BLOCKING


pytestmark = pytest.mark.usefixtures("silence")


class Program:
    """One device, one word of its memory, and operations that write it on streams."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.device = machine.devices[0]
        self.legacy = machine.streams[self.device].legacy
        self.memory = machine.allocate(8, self.legacy)
        initialise(self.memory.block)
        self.log: list[str] = []
        self._streams = {"L": self.legacy}

    def stream(self, kind: StreamKind = NON_BLOCKING) -> SimStream:
        return self.machine.stream(self.device, kind)

    def write(self, stream: SimStream, name: str = "write") -> None:
        whole = (self.memory.block.whole(),)
        self.machine.enqueue(stream, name, lambda: self.log.append(name), writes=whole)

    def read(self, stream: SimStream, name: str = "read") -> None:
        whole = (self.memory.block.whole(),)
        self.machine.enqueue(stream, name, lambda: self.log.append(name), reads=whole)

    def named(self, name: str) -> SimStream:
        """The stream of a script: L is the legacy one, p the per-thread one, n1 non-blocking, b1 blocking."""
        if name not in self._streams:
            self._streams[name] = (
                self.machine.per_thread(self.device)
                if name == "p"
                else self.stream(BLOCKING if name[0] == "b" else NON_BLOCKING)
            )
        return self._streams[name]

    def do(self, what: str, *rest: str) -> None:
        """A step of a script, which has one event."""
        machine, waits = self.machine, self.machine.waits
        if what in ("write", "read"):
            getattr(self, what)(self.named(rest[0]))
        elif what == "record":
            self._event = machine.record(self.named(rest[0]))
        elif what == "sync" and rest[0] == "event":
            waits.synchronize(self._event)
        elif what == "sync" and rest[0] == "device":
            waits.synchronize_device(self.device)
        elif what == "sync":
            waits.synchronize_stream(self.named(rest[0]))
        elif what in ("busy", "idle"):
            assert waits.is_stream_done(self.named(rest[0])) is (what == "idle")
        elif what == "poll":
            assert any(waits.is_stream_done(self.named(rest[0])) for _ in range(1000))
        elif what == "ran":
            assert len(self.log) == int(rest[0])
        elif what == "free":
            del self.memory
            machine.raise_faults()
        else:
            event = self._event if rest[1] == "event" else machine.record(self.named(rest[1]))
            machine.wait(self.named(what), event)

    @property
    def hazards(self) -> list[Hazard]:
        return [race.hazard for race in self.machine.detector.races]


@pytest.fixture
def program(make_machine: Make) -> Program:
    return Program(make_machine())


RAW, WAW = Hazard.READ_AFTER_WRITE, Hazard.WRITE_AFTER_WRITE
RULES: dict[str, tuple[str, list[Hazard]]] = {
    "non-blocking streams are not ordered": ("write n1, read n2", [RAW]),
    "one stream is ordered": ("write n1, read n1, write n1, read n1", []),
    "reads do not collide": ("write n1, sync n1, read n2, read n3", []),
    "a write behind one of two readers": ("read n1, read n2, n1 < n2, write n1, read n2", [RAW]),
    "the legacy stream waits for blocking ones and they for it": ("write b1, write L, write b2", []),
    "blocking streams are ordered by the legacy one's work alone": ("write b1, write b2", [WAW]),
    "non-blocking streams are exempt from the legacy rule": ("write n1, write L", [WAW]),
    "a wait orders what follows it only": ("write n1, read n2, n2 < n1", [RAW]),
    "waits are transitive": ("write n1, n2 < n1, n3 < n2, read n3", []),
    "a synchronised host orders all that follows": (
        "write n1, sync n1, write n2, record n2, sync event, write n1, sync device, write n2", [],
    ),
    "synchronising another stream orders nothing": ("write n1, sync n2, write n2", [WAW]),
    "nothing happens until the host waits": ("write n1, ran 0, sync n1, ran 1", []),
    "a poll orders the host and comes true in the end": ("write n1, busy n1, poll n1, ran 1, write n2", []),
    # as measured on an H200: behind a kernel of a second on a blocking stream a wait for the legacy one takes that long
    "the legacy stream's end is that of blocking ones": ("write b1, sync L, ran 1, write n1", []),
    "the legacy stream's end is that of per-thread ones": ("write p, sync L, ran 1, write n1", []),
    "the legacy stream's end is not that of non-blocking ones": ("write n1, sync L, ran 0, write n2", [WAW]),
    "a blocking stream's end is not that of the legacy one": ("write L, sync b1, ran 0, write n1", [WAW]),
    "a poll of the legacy stream asks blocking ones": ("write b1, busy L, poll L, ran 1, write n1", []),
    "a poll of the legacy stream does not ask non-blocking ones": ("write n1, idle L, ran 0", []),
    "a wait on the legacy stream does not order blocking ones": (
        "record n1, write b1, L < event, write b2", [WAW],
    ),
    "what only a wait of the legacy stream names is not before blocking ones": (
        "write n1, L < n1, write b1", [WAW],
    ),
    "a record on the legacy stream orders blocking ones": ("write b1, record L, write b2", []),
    "the legacy stream's work comes after its waits": ("write n1, L < n1, write L, write b1", []),
    "a record of the legacy stream comes after its waits": ("write n1, L < n1, record L, write b1", []),
    "the legacy stream's end comes after its waits": ("write n1, L < n1, sync L, ran 1, write n2", []),
    "a poll of the legacy stream asks what it waits for": ("write n1, L < n1, poll L, ran 1, write n2", []),
    "a free in the legacy stream's order comes after its waits": ("write n1, L < n1, free", []),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_streams_events_and_the_host_are_ordered_by_cudas_rules(program: Program, rule: str) -> None:
    script, hazards = RULES[rule]
    for step in script.split(", "):
        program.do(*step.split())
    assert program.hazards == hazards


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


def test_synchronising_the_legacy_stream_of_another_device_orders_nothing(make_machine: Make) -> None:
    machine = make_machine(devices=2)
    program = Program(machine)
    program.write(program.stream(BLOCKING))
    machine.waits.synchronize_stream(machine.streams[machine.devices[1]].legacy)
    assert program.log == []


def test_operations_of_disjoint_ranges_do_not_collide(program: Program) -> None:
    block = program.memory.block
    program.machine.enqueue(program.stream(), "low", lambda: None, writes=(Span(block, 0, 4),))
    program.machine.enqueue(program.stream(), "high", lambda: None, writes=(Span(block, 4, 8),))
    assert program.hazards == []
    program.machine.enqueue(program.stream(), "middle", lambda: None, reads=(Span(block, 3, 5),))
    assert program.hazards == [Hazard.READ_AFTER_WRITE]


# --- memory


def test_memory_freed_while_another_stream_reads_it_is_reported(program: Program) -> None:
    owner, reader = program.stream(), program.stream()
    program.memory = program.machine.allocate(8, owner)
    program.write(owner)
    program.machine.wait(reader, program.machine.record(owner))
    program.read(reader)
    program.memory = program.machine.allocate(8, owner)
    program.machine.raise_faults()
    assert program.hazards == [Hazard.USE_AFTER_FREE]


def test_a_declared_user_may_still_read_freed_memory(program: Program) -> None:
    owner, reader = program.stream(), program.stream()
    program.memory = program.machine.allocate(8, owner)
    initialise(program.memory.block)
    program.memory.users[reader.key] = reader
    program.read(reader)
    program.memory = program.machine.allocate(8, owner)
    program.machine.raise_faults()
    assert program.hazards == []


def test_an_address_whose_memory_is_gone_is_reported_with_the_place_where_it_died(program: Program) -> None:
    stream = program.stream()
    pointer = program.memory.block.pointer
    program.memory = program.machine.allocate(8, stream)
    program.machine.raise_faults()
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
    machine.raise_faults()
    assert machine.engine.pending <= 512
    assert block.history is not None
    assert len([*block.history.every()]) <= 512
    assert len(machine.streams[device].every) < 200
    assert len(machine.hosts.main.clock) < 200
    assert machine.memory.used[device.index] == 1 << 20


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the system has no SIGALRM")
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_a_signal_during_an_operation_leaves_those_behind_it_to_the_next_wait(
    make_machine: Make, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handler raises before the next one begins, which would be taken for what has failed."""

    def strike(number: int, frame: FrameType | None) -> None:
        raise error

    number = signal.SIGINT if error is KeyboardInterrupt else signal.SIGALRM
    send = getattr(ctypes.CDLL(None), "raise")  # in which Python does not look for signals
    program = Program(make_machine())
    engine, before = program.machine.engine, signal.signal(number, strike)
    monkeypatch.setattr(engine, "carry_out_next", global_machine().engine.carry_out_next)
    try:
        program.write(program.legacy, "first")
        program.machine.enqueue(program.legacy, "send", functools.partial(send, int(number)))
        program.write(program.legacy, "second")
        with pytest.raises(error):
            program.machine.waits.synchronize_stream(program.legacy)
        assert program.log == ["first"]
    finally:
        signal.signal(number, before)
    program.machine.waits.synchronize_stream(program.legacy)
    assert program.log == ["first", "second"]


@given(st.lists(st.sampled_from([0, 0, 1, 255, 256, 257, 4096, 16384, 16385, 65536]), min_size=1, max_size=40))
def test_blocks_of_any_sizes_in_any_order_share_no_bytes(sizes: list[int]) -> None:
    machine = Machine(Settings(devices=1, mode=Mode.LOG), Lazy())
    blocks = [machine.allocate(nbytes, machine.streams[machine.devices[0]].legacy).block for nbytes in sizes]
    for number, block in enumerate(blocks):
        block.data[...] = number
    for number, block in enumerate(blocks):
        assert block.data.size == sizes[number]
        assert (block.data == number).all()
