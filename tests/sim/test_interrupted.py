"""An error at any line of the simulator, as Ctrl-C or an allocation that fails, leaves it fit for use."""

from __future__ import annotations

import contextlib
import dis
import functools
import linecache
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.sizes import IS_LONG
from xferlib import sim
from xferlib.backends.base import deferred
from xferlib.errors import TransferError
from xferlib.sim.launches import is_inside
from xferlib.sim.machine import machine
from xferlib.sim.model import Operation, Stager

STRIKES = None if IS_LONG else 2
"""Of each program and error; None for two at each line: the first time that it is reached, and a later time."""
MENDED = (
    "Staging.postpone", "PostponedStaging.begin", "PostponedStaging._stage", "HostFunction.run",
    "HostFunction.note_enqueue",
)  # fmt: skip
"""Functions in which an error once left something behind: Ctrl-C strikes each of their lines in a short run, too."""
ROOT = f"{Path(sim.__file__).parent}{os.sep}"
N = 24

add = xl.elementwise("T x", "T y", "y += x", name="add")


Place = tuple[str, int, str]
"""A line of the simulator's code: the file, its number, and the function."""


COMPUTATION = frozenset({"SimCall._run", "SimCall._run_apart", "SimCall._run_in_place"})
"""The work of a kernel, at any time and in any thread: an error there is one of that work, which has no values then."""


class Strike:
    """Raises an error the n-th time, from 0 on, that the calling thread comes to a line of the simulator's code."""

    def __init__(self, place: Place | None, number: int, error: type[BaseException]) -> None:
        self.place, self.number, self.error = place, number, error
        self.passed: Counter[Place] = Counter()
        self.has_struck = False

    def run(self, program: Callable[[], Any]) -> None:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            program()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if self.place is not None and code.co_qualname != self.place[2]:  # first: this is called for every function
            return None
        if self.has_struck or not code.co_filename.startswith(ROOT) or code.co_qualname in COMPUTATION:
            return None
        return None if _is_final(frame) else self._look

    def _look(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and not self.has_struck and not _ends_block(frame) and not _does_nothing(frame):
            place = Path(frame.f_code.co_filename).name, frame.f_lineno, frame.f_code.co_qualname
            if place == self.place and self.passed[place] == self.number:
                self.has_struck = True
                raise self.error
            self.passed[place] += 1
        return self._look


def _ends_block(frame: FrameType) -> bool:
    """Whether a ``with`` block ends: if the event of that line raises, Python does not leave it, and a lock is held."""
    start = _start_of_with(frame.f_code, frame.f_lineno)
    return start is not None and frame.f_lasti > start


@functools.cache
def _start_of_with(code: CodeType, number: int) -> int | None:
    """The first instruction of a line that begins a ``with`` block; None of any other line."""
    if not linecache.getline(code.co_filename, number).lstrip().startswith("with "):
        return None
    return next(start for start, _, line in code.co_lines() if line == number)


def _does_nothing(frame: FrameType) -> bool:
    """Whether no error can be raised here, as in the line of a ``try``: Python has it outside of the blocks around."""
    return frame.f_lasti in _find_idle(frame.f_code)


@functools.cache
def _find_idle(code: CodeType) -> frozenset[int]:
    return frozenset(each.offset for each in dis.get_instructions(code) if each.opname == "NOP")


def _is_final(frame: FrameType | None) -> bool:
    """Whether Python reports and ignores what is raised: in a ``__del__`` or what it calls."""
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "died"):
            return True
        frame = frame.f_back
    return False


class State:
    """Work in flight that a program does not touch, and what it works on."""

    def __init__(self) -> None:
        self.stream, self.other = xl.Stream(), xl.Stream()
        self.one, self.kept = xl.ones(N), xl.zeros(N)
        self.pinned, self.host, self.out = xl.pinned_zeros(N), np.arange(float(N)), np.zeros(N)
        self.loaded = xl.pinned_array(np.full(N, 5.0))
        self.called: list[str] = []
        xl.synchronize()
        with self.stream:
            for _ in range(3):
                add(self.one, self.kept)
        self.sent = xl.to_device(self.loaded, stream=self.stream)
        self.stream.call(self.called.append, "before")
        self.arriving = xl.to_host_async(self.one, out=self.out)

    def is_right(self) -> bool:
        values = xl.to_host(self.kept, stream=self.stream), xl.to_host(self.sent, stream=self.stream)
        try:
            has_arrived = bool((self.arriving.result() == 1.0).all())
        except (KeyboardInterrupt, TransferError):  # it was struck itself, as part of what waits for it
            has_arrived = True
        is_called = self.called == ["before"]
        return has_arrived and is_called and bool((values[0] == 3.0).all() and (values[1] == 5.0).all())


def kernels(state: State) -> None:
    state.other.wait(state.stream)
    with state.other:
        y = xl.zeros(N)
        add(state.one, y)
        y[::2] += 1.0
        z = y * 2.0
        xl.get_array_module(z).sum(z)
    state.stream.wait(state.other)
    xl.current_stream().wait(state.other)
    del y, z


def transfers(state: State) -> None:
    d = xl.to_device(state.host)
    xl.to_device(state.host, out=d)
    xl.to_host(d)
    e = xl.to_device(state.pinned, stream=state.other)
    state.other.synchronize()
    xl.to_host_async(d[::2], out=state.host[::2]).result()
    xl.to_device_async(state.host, out=d).result()
    xl.to_host_async(d, out=state.pinned).result()
    del d, e


def events(state: State) -> None:
    event = state.stream.record()
    xl.current_stream().wait(event)
    while not event.is_done:
        pass
    state.stream.synchronize()
    xl.synchronize()


def functions(state: State) -> None:
    memory = np.zeros(N)
    state.other.call(lambda: sim.writes(memory))
    arriving = xl.to_host_async(state.one, out=memory, stream=state.other)
    sim.reads(state.host)
    arriving.result()
    state.other.synchronize()


def blocks(state: State) -> None:
    with sim.check("log", schedule="random", seed=3), sim.timeline(), state.stream:
        add(state.one, xl.zeros(N))
    with sim.faults("slow stream"):
        xl.to_host(state.one)


def copies(state: State) -> None:
    there = xl.copy_to(state.one, "sim:sim:1")
    xl.to_device(there, out=xl.zeros(N))
    xl.synchronize("sim:sim:1")


PROGRAMS = (kernels, transfers, events, functions, blocks, copies)


def _use_again() -> None:
    """Every kind of work, with values that show whether it was done in order."""
    with sim.check("raise"):
        state = State()
        for program in PROGRAMS[:4]:
            program(state)
        with xl.Stream():
            d = xl.to_device(state.host)
            for _ in range(3):
                add(d, d)
            assert np.array_equal(xl.to_host(d), state.host * 8.0)
        assert state.is_right()


@pytest.fixture(autouse=True)
def on_sim() -> Iterator[None]:
    with xl.use_backend("sim"):
        _use_again()
        yield
    machine().faults.plan = None  # Ctrl-C in the very line that ends a block leaves it to later tests
    machine().timeline.slowed.clear()


def find_fault(program: Callable[[State], None], place: Place, number: int, error: type[BaseException]) -> str:
    """The fault that an error at a line leaves behind; empty if there is none."""
    state, strike, before = State(), Strike(place, number, error), xl.current_stream()
    with contextlib.suppress(error, TransferError, xl.errors.XferError):
        strike.run(functools.partial(program, state))
    before.use()
    try:
        assert state.is_right(), "work that was in flight before has other values"
        _use_again()
    except BaseException as wrong:
        return f"{type(wrong).__name__}: {wrong}"
    return _left_behind()


def _left_behind() -> str:
    simulated = machine()
    if simulated.lock._is_owned():  # type: ignore[attr-defined]
        return "the lock is held"
    if any(isinstance(each, Stager) for each in simulated.hosts._own.values()):
        return "a stager is registered"
    if simulated.function is not None or simulated.watches._all:
        return "a function or a watch is left"
    if is_inside():
        return "the thread counts as one that computes for the namespace"
    return ""


@functools.cache
def _count_lines(program: Callable[[State], None]) -> Counter[Place]:
    """How often a program that nothing strikes comes to each line."""
    counter = Strike(None, 0, KeyboardInterrupt)
    counter.run(lambda: program(State()))
    return counter.passed


# Python reports an error of a function that was given to a stream, and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_error_at_any_line_leaves_the_simulator_fit_for_use(
    program: Callable[[State], None], error: type[BaseException]
) -> None:
    passed, chance = _count_lines(program), random.Random(1)
    strikes = [(place, 0) for place in passed]
    strikes += [(place, chance.randrange(1, count)) for place, count in passed.items() if count > 1]
    if STRIKES is not None:
        is_tried = program in (transfers, functions) and error is KeyboardInterrupt
        later = {each[0]: each for each in strikes if is_tried and each[0][2] in MENDED}
        strikes = [*chance.sample(strikes, STRIKES), *later.values()]
    faults = {strike: find_fault(program, *strike, error) for strike in strikes}
    assert {strike: fault for strike, fault in faults.items() if fault} == {}


def _strike_each_line(*functions: Callable[..., Any]) -> Iterator[Strike]:
    """A Ctrl-C at each line of functions of the simulator, the first time that it is reached."""
    for function in functions:
        code = function.__code__
        for number in sorted({line for *_, line in code.co_lines() if line is not None}):
            yield Strike((Path(code.co_filename).name, number, code.co_qualname), 0, KeyboardInterrupt)


def test_what_was_struck_as_it_ended_is_not_carried_out_again() -> None:
    """A second copy would overwrite what the program has written since; a second kernel would use newer input."""
    struck = 0
    for strike in _strike_each_line(Operation.carry_out, Operation.finish):
        with sim.check("raise", schedule="lazy"):
            source, arriving = xl.ones(N), xl.pinned_array(np.full(N, 5.0))
            xl.synchronize()
            double = source * 2.0
            transfer = xl.to_host_async(source, out=arriving)
            with contextlib.suppress(KeyboardInterrupt):
                strike.run(transfer.result)
            transfer.result()
            arriving[:] = 7.0
            source += 1.0
            assert (xl.to_host(source) == 2.0).all()
            machine().engine.drain()
            assert (arriving == 7.0).all()
            assert (xl.to_host(double) == 2.0).all()
        struck += strike.has_struck
    assert struck > 5


def test_other_threads_carry_operations_out_while_the_main_one_has_noted_ctrl_c() -> None:
    first, second = xl.Stream("sim"), xl.Stream("sim")
    x, found = np.arange(4.0), []

    def work() -> None:
        with first:
            y = xl.to_device(x, device="sim") + 1
        second.wait(first.record())
        with second:
            z = y * 2
        second.synchronize()
        found.append(xl.to_host(z))

    with pytest.raises(KeyboardInterrupt), deferred:
        os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
    assert np.array_equal(found[0], (x + 1) * 2)
