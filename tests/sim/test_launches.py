"""Calls that come again: the compiled way to the machine gives the reports, values and times of the general way."""

from __future__ import annotations

import functools
import gc
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.sizes import IS_LONG
from xferlib import sim
from xferlib.kernels import plans
from xferlib.sim import launches
from xferlib.sim.arrays import SimArray
from xferlib.sim.machine import Allocation, machine
from xferlib.sim.memory import Block
from xferlib.sim.model import Operation

SEEDS = range(400) if IS_LONG else (*range(8), 15, 28)  # the last two use again what a call that failed had taken
N = 6

scale = xl.elementwise("T x, T by", "T y", "y = x * by", name="scale")
raise_in_place = xl.elementwise("T x", "T y", "y += x", name="raise_in_place")


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with xl.use_backend("sim"):
        yield


class Program:
    """A random program of three streams on two devices: operators, functions, kernels, views, waits, dead arrays.

    A step that finds a fault is left out and the next one runs, as in a program that catches the error.
    """

    def __init__(self, seed: int, *, has_indices: bool) -> None:
        self._chance = random.Random(seed)
        self._has_indices = has_indices

    def run(self) -> tuple[list[str], list[Any], float]:
        """The reports, the values of what is alive at the end, and the time on the virtual clock."""
        reports: list[str] = []
        try:
            return reports, *self._run(reports)
        except sim.RaceError as error:  # of an array that died last
            return [*reports, _plain(str(error))], [], 0.0

    def _run(self, reports: list[str]) -> tuple[list[Any], float]:
        chance = self._chance
        with sim.check("raise", schedule=chance.choice(("lazy", "lazy", "lifo", "eager"))):
            devices = xl.get_device("sim:0"), xl.get_device("sim:1")
            streams = [xl.Stream(devices[0]), xl.Stream(devices[0], non_blocking=chance.random() < 0.7),
                       xl.Stream(devices[1])]  # fmt: skip
            arrays = [xl.ones((N, 4), dtype="float32", device=devices[each % 4 == 3]) for each in range(6)]
            rows = [[chance.randrange(-N, N) for _ in range(N)] for _ in range(3)]
            self._rows = {each: [xl.asarray(row, device=each) for row in rows] for each in devices}
            events = [stream.record() for stream in streams]
            for each in devices:
                xl.synchronize(each)
            with sim.timeline() as timed:  # without the copies: their time depends on the pinned memory that is free
                for _ in range(60):
                    try:
                        self._step(streams, arrays, events)
                    except sim.RaceError as error:
                        reports.append(_plain(str(error)))
                    except (sim.SimError, xl.errors.XferError) as error:
                        reports.append(type(error).__name__)
            with sim.check("off", schedule="eager"):
                values = [xl.to_host(each) for each in arrays]
            return values, timed.duration_s

    def _step(self, streams: list[Any], arrays: list[Any], events: list[Any]) -> None:
        chance = self._chance
        number, into = chance.randrange(len(arrays)), chance.randrange(len(arrays))
        x = arrays[number]
        own = [stream for stream in streams if stream.device is x.device]
        others = [each for each in arrays if each.device is x.device]
        y, stream = chance.choice(others), chance.choice(own)
        xp = xl.get_array_module(x)
        made: Any = None
        action = chance.randrange(25 if self._has_indices else 21)
        with stream:
            if action < 3:
                made = (x + y, x - y, x * y)[action]
            elif action < 6:
                made = (x * 2, 0.5 - x, x + np.float32(1))[action - 3]
            elif action == 6:
                made = xp.where(x < y, x, y)
            elif action == 7:
                made = xp.broadcast_to(xp.sum(x, axis=1, keepdims=True), (N, 4)) * 1.0
            elif action == 8:
                made = xp.exp(-xp.abs(x))
            elif action == 9:
                x += y
            elif action == 10:
                x[1:3] *= 2.0
            elif action == 11:
                made = scale(x, 0.5)
            elif action == 12:
                raise_in_place(y, x)
            elif action == 13:
                streams[streams.index(stream)].wait(chance.choice(events))
            elif action == 14:
                events[streams.index(stream)] = stream.record()
            elif action == 16:
                x[1:3] = y[chance.choice((slice(2, 4), slice(1, 3)))]
            elif action == 17:
                x[:, chance.randrange(2)] = y[:, 2]
            elif action == 18:
                x[chance.randrange(2), 1:] = chance.choice((0.5, 2, y[0, :1]))
            elif action == 19:
                made = x[::-1] + y[chance.randrange(2)]
            elif action == 20:
                made = xp.reshape(x.T, (N, 4)) * y[:, :1]
            elif action == 21:
                made = xp.concat(chance.choice(([x[:2], y[2:]], (x[:3], x[3:]))))
            elif action == 22:
                made = xp.reshape(xp.stack([x[:3], y[:3]]), (N, 4))
            elif action == 23:
                made = xp.astype(xp.astype(x, chance.choice(("float64", np.float64, np.dtype("f8")))), x.dtype)
            elif action == 24:
                x[4:] = x[:2] if chance.random() < 0.5 else x[3:5]
            elif action == 25:
                made = xp.zeros((N, 4), dtype="float32", device=x.device) + xl.zeros((N, 4), "float32", device=x.device)
            elif action == 26:
                made = x[chance.choice(self._rows[x.device])]
            elif action == 27:
                x[chance.choice(self._rows[x.device])[:2]] = chance.choice((0.5, 2, y[:1], y[2:4]))
            elif action == 28:
                x[x < y] = 0.5
            elif action == 29:
                rows = chance.choice(self._rows[x.device])
                x[rows, 2] = chance.choice((0.5, x[rows, xp.abs(rows) % 4]))
            elif action == 30:
                chosen = x[y[:, 0] > chance.choice((-1e9, 1, 1e9))]
                made = xp.broadcast_to(xp.sum(chosen, axis=0), (N, 4)) * 1.0
            elif chance.random() < 0.3:
                stream.synchronize()
            else:
                made = xp.empty((N, 4), dtype="float32", device=x.device)
        if made is not None and made.device is arrays[into].device:
            arrays[into] = made


def _plain(report: str) -> str:
    """A report without numbers of streams, which grow in a process."""
    return re.sub(r"stream \d+", "stream", report)


def run_as(seed: int, *, has_indices: bool, is_direct: bool) -> tuple[list[str], list[Any], float]:
    """A program by the compiled calls and what they have come to before, or by the general way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine(), "is_direct", is_direct)
        if not is_direct:
            _forget_calls(patch)
        Program(seed, has_indices=has_indices).run()  # a first call prepares, and that makes operations of its own
        return Program(seed, has_indices=has_indices).run()


@pytest.mark.parametrize("has_indices", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_compiled_way_gives_what_the_general_way_gives(seed: int, has_indices: bool) -> None:
    expected, others, expected_s = run_as(seed, has_indices=has_indices, is_direct=False)
    reports, values, end_s = run_as(seed, has_indices=has_indices, is_direct=True)
    assert reports == expected
    if not has_indices:  # the general way to elements makes its result before it reads the indices, which may fail
        assert round(end_s * 1e12) == round(expected_s * 1e12)  # a difference of times since the process began
    for found, other in zip(values, others, strict=True):
        np.testing.assert_array_equal(found, other)


def test_programs_have_faults_of_several_kinds() -> None:
    kinds = {report.partition(",")[0] for seed in range(12) for report in Program(seed, has_indices=False).run()[0]}
    assert len(kinds) >= 4, kinds


ARRAYS = st.sampled_from([(), (3,), (2, 3), (3, 1), (0, 3)])
DTYPES = st.sampled_from(["float32", "float64", "int8", "int64", "uint8", "bool"])
NUMBERS = st.sampled_from([0, 1, 2, -1, 300, 2**40, 0.0, -0.0, 0.5, True, np.float32(3), np.int8(-2)])
FUNCTIONS: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda xp, a, b: a + b, lambda xp, a, b: a - b, lambda xp, a, b: b * a, lambda xp, a, b: a < b,
    lambda xp, a, b: a == b, lambda xp, a, b: xp.maximum(a, b), lambda xp, a, b: a**b, lambda xp, a, b: a // b,
    lambda xp, a, b: xp.logical_or(a, b), lambda xp, a, b: xp.clip(a, -5, b), lambda xp, a, b: xp.sum(a, axis=0),
    lambda xp, a, b: xp.where(a, a, a), lambda xp, a, b: xp.any(a), lambda xp, a, b: -a,
    lambda xp, a, b: a[1:] + 1, lambda xp, a, b: a[..., None], lambda xp, a, b: a[0], lambda xp, a, b: a[::-1].T,
    lambda xp, a, b: xp.reshape(a, (-1, 1)) * b, lambda xp, a, b: xp.mean(a, axis=-1, keepdims=True),
    lambda xp, a, b: _assigned(a, slice(1, None), b), lambda xp, a, b: _assigned(a, ..., b),
    lambda xp, a, b: _assigned(a, (0, slice(1, 3)), b), lambda xp, a, b: _assigned(a, 1, a[0]),
    lambda xp, a, b: _assigned(a, slice(1, None), a[:-1]), lambda xp, a, b: _assigned(a, slice(1, None), a[1:]),
    lambda xp, a, b: _raised(a, slice(1, None), b), lambda xp, a, b: a[xl.asarray([0, -1, 0])],
    lambda xp, a, b: a[xl.asarray([[0, 2], [1, 0]])], lambda xp, a, b: a[a > 1], lambda xp, a, b: a[a[..., 0] > 1],
    lambda xp, a, b: _assigned(a, xl.asarray([1, 0]), b), lambda xp, a, b: _assigned(a, a > 1, b),
    lambda xp, a, b: _assigned(a, a > 0, a[:1]), lambda xp, a, b: _assigned(a, xl.asarray([0, -1]), a[:2]),
    lambda xp, a, b: xp.take(a, xl.asarray([1, 1]), axis=0), lambda xp, a, b: a[..., xl.asarray([0, 2]), None],
    lambda xp, a, b: xp.concat([a, a]), lambda xp, a, b: xp.concat((a, b), axis=-1),
    lambda xp, a, b: xp.stack([a, b, a]), lambda xp, a, b: xp.stack((a, a), axis=-1),
    lambda xp, a, b: xp.concat([a, a, b]), lambda xp, a, b: xp.concat([a, [1.0]]),
    lambda xp, a, b: xp.astype(a, b), lambda xp, a, b: xp.astype(a, np.int16),
    lambda xp, a, b: xp.astype(a, np.dtype("f8")), lambda xp, a, b: xp.astype(a, "float64", copy=False),
    lambda xp, a, b: xp.astype(a, np.dtype("longlong")), lambda xp, a, b: xp.astype(a, np.dtype("long")),
    lambda xp, a, b: xp.zeros_like(a), lambda xp, a, b: xp.full_like(a, b),
    lambda xp, a, b: a[xl.asarray([0, 1]), xl.asarray([1, 0])], lambda xp, a, b: a[xl.asarray([0, 1]), 1:],
    lambda xp, a, b: a[1, xl.asarray([0, 1])], lambda xp, a, b: _assigned(a, (xl.asarray([0, 1]), 1), b),
    lambda xp, a, b: _assigned(a, (xl.asarray([0, 1]), xl.asarray([0, 1])), b), lambda xp, a, b: xp.meshgrid(a, a)[0],
)  # fmt: skip


def _assigned(a: Any, key: Any, value: Any) -> Any:
    a[key] = value
    return a


def _raised(a: Any, key: Any, value: Any) -> Any:
    a[key] += value
    return a


@functools.cache
def _list_tables() -> list[Any]:
    """Of every function of the namespace."""
    return [each._known for each in gc.get_objects() if type(each) is launches.KnownCalls]


def _forget_calls(patch: pytest.MonkeyPatch) -> None:
    """Let no call be known, of those before and after."""
    patch.setattr(launches.KnownCalls, "_remember", lambda *_: None)
    for table in _list_tables():
        table.clear()


def _outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        found = xl.to_host(function(*args))
    except Exception as error:
        return type(error), str(error)
    return found.dtype.char, found.shape, found.tobytes()


@given(st.sampled_from(FUNCTIONS), st.lists(st.tuples(DTYPES, ARRAYS, NUMBERS | DTYPES), min_size=2, max_size=5))
def test_a_function_gives_the_same_the_first_time_and_later(
    function: Callable[..., Any], calls: list[tuple[str, tuple[int, ...], Any]]
) -> None:
    """Each call is made three times, among calls of other layouts and numbers; a new namespace knows none of them."""
    with sim.check("raise"):
        xp = xl.get_array_module(xl.zeros(1))

        def make(dtype: str, shape: tuple[int, ...], other: Any) -> tuple[Any, Any]:
            x = xl.to_device(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype))
            return x, xl.ones(shape, dtype=other) if isinstance(other, str) else other

        with pytest.MonkeyPatch.context() as patch:
            _forget_calls(patch)
            expected = [_outcome(function, xp, *make(*each)) for each in calls]
        for _ in range(3):
            assert [_outcome(function, xp, *make(*each)) for each in calls] == expected


def test_an_argument_that_is_given_twice_is_not_taken_for_another() -> None:
    xp = xl.get_array_module(xl.zeros(1))
    x, y = xl.to_device(np.array([1, 2], "f4")), xl.to_device(np.array([4, 8], "f4"))
    for _ in range(3):
        xp.where(x > 0, x, x)
        x.__rsub__(x)
    assert xl.to_host(xp.where(x > 100, x, y)).tolist() == [4, 8]
    assert xl.to_host(x.__rsub__(y)).tolist() == [3, 6]


def test_new_memory_is_on_the_device_that_is_current() -> None:
    """And a list of arrays is told from a tuple of them, and from these arrays by themselves."""
    xp = xl.get_array_module(xl.zeros(1))
    for _ in range(2):
        for each in ("sim:0", "sim:1"):
            with xl.get_device(each):
                made = [xp.zeros(3), xp.ones(3), xp.empty(3), xp.arange(3), xl.zeros(3), xl.full(3, 2.0)]
                assert {one.device for one in made} == {xl.get_device(each)}
                assert xl.to_host(xp.concat([made[0], made[1]])).tolist() == [0, 0, 0, 1, 1, 1]
                assert xl.to_host(xp.concat((made[1], made[0]), axis=0)).tolist() == [1, 1, 1, 0, 0, 0]
                with pytest.raises(xl.errors.XferError):
                    xp.concat(made[0], made[1])  # type: ignore[arg-type]
    parts = [xl.ones(2), xl.zeros(1)]
    for count in (2, 3, 4):
        parts += [xl.ones(1)] * (count > 2)
        assert xl.to_host(xp.concat(parts)).tolist() == [1, 1, 0] + [1] * (count - 2)


def test_reports_name_the_line_and_the_operator_of_a_repeated_call() -> None:
    with sim.check("raise"):
        one, two = xl.Stream(), xl.Stream()
        x = xl.ones(4)
        xl.synchronize()
        for _ in range(3):
            with one:
                y = x + x
                y = x + y
        with two, pytest.raises(sim.RaceError) as caught:
            line = sys._getframe().f_lineno + 1
            y * x
        one.synchronize()
    race = caught.value.race
    assert (race.first.what, race.first.site.line) == ("add", line - 3)
    assert (race.second.what, race.second.site.line) == ("multiply", line)


def test_a_full_table_of_calls_gives_up_one_at_a_time() -> None:
    x = xl.ones(40)
    keys = [slice(start, stop) for start in range(40) for stop in range(start, 40)]
    cells = [each.cell_contents for each in sim.SimArray.__getitem__.__closure__ or ()]
    (table,) = (each._known for each in cells if type(each) is launches.KnownCalls)
    table.clear()
    sizes = []
    for key in keys:
        x[key]
        sizes.append(len(table))
    assert sizes == sorted(sizes)
    assert sizes[-1] == plans.MOST_PLANS < len(keys)


def test_memory_of_many_operations_does_not_grow() -> None:
    """On one stream without a wait, with arrays that live and arrays that die."""
    with sim.check("raise"):
        x = xl.ones(16)
        kept = [x + each for each in range(40)]

        def count(turns: int) -> int:
            for turn in range(turns):
                y = x * 2
                kept[turn % 40] = y + x
            gc.collect()
            return len(gc.get_objects())

        before = count(1000)
        used = machine().memory.used[0]  # by arrays of other tests too
        assert count(2000) - before < 200
        assert machine().memory.used[0] - used < 1 << 16


def test_an_address_is_given_when_it_is_asked_for_and_none_twice() -> None:
    x: Any = xl.ones(4)
    addresses = set()
    for _ in range(5):
        y = x + x
        assert machine().memory.find(y.info.pointer) is y.allocation.block
        addresses.add(y.info.pointer)
        z = y + x
        del z, y
    assert len(addresses) == 5
    x + x
    assert all(machine().memory.find_freed(each) is not None for each in addresses)


_VALUES = st.one_of(
    st.integers(-300, 300), st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.just(2**60 + 1),
    st.floats(width=32).map(np.float32), st.integers(-300, 300).map(np.int64), st.just(np.uint64(2**63)),
)  # fmt: skip
_KEYS = st.sampled_from([1, slice(1, 3), slice(2, 2), ..., [], [0, 2], [True, False, False, True], [False] * 4])


def _assign_anew(value: Any, dtype: str, key: Any, *, is_on_device: bool) -> Any:
    """The elements after an assignment, or the class of its error."""
    x: Any = np.zeros(4, dtype)
    if isinstance(key, list):
        key = np.array(key, bool if len(key) == len(x) else int)
    try:
        if is_on_device:
            x = xl.to_device(x)
            key = xl.to_device(key) if isinstance(key, np.ndarray) else key
        x[key] = value
    except Exception as error:
        return type(error)
    return xl.to_host(x).tobytes()


@settings(max_examples=60)
@given(
    st.sampled_from(["float16", "float32", "float64", "int8", "uint8", "int64", "uint64", "bool"]),
    _KEYS,
    st.lists(_VALUES, min_size=3, max_size=9),
)
def test_numbers_that_are_assigned_again_and_again_are_converted_or_refused_as_by_numpy(dtype, key, values):
    """To no element too; and of NumPy's own numbers, for signed integers, as of Python's, of which NumPy cuts some."""
    with np.errstate(all="ignore"):
        for value in [each for each in values for _ in range(3)]:  # a call is made in C from the third time on
            kinds = "iu" if isinstance(value, np.floating) else "i"
            plain = value.item() if isinstance(value, np.generic) and np.dtype(dtype).kind in kinds else value
            expected = _assign_anew(plain, dtype, key, is_on_device=False)
            assert _assign_anew(value, dtype, key, is_on_device=True) == expected, (value, key)


@pytest.mark.parametrize("made", [Block, Allocation, SimArray, Operation])
def test_c_fills_every_slot_of_the_objects_that_it_makes(made: type) -> None:
    """It allocates them without `__init__`: a slot that its table lacks would be missing in some objects only."""
    source = Path(launches.__file__).parents[1] / "_native" / "calls" / "simulator.c"
    own = "ARRAY" if made is SimArray else made.__name__.upper()
    named = {*re.findall(rf"\bX\({own}, (\w+)\)", source.read_text("utf-8"))}
    slots = {slot for each in made.__mro__ for slot in getattr(each, "__slots__", ())} - {"__weakref__"}
    assert slots == named, "add it to SLOTS in simulator.c, to what fills a new object there, and wherever it changes"
