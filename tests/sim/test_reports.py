"""Reports say what the program says: its lines, its names of streams, the functions that it called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib import sim

N = 1 << 15


pytestmark = pytest.mark.usefixtures("on_sim")


SOURCE: Any = None
DOUBLED = xl.elementwise("T x", "T y", "y = x * 2", name="doubled")


def race_of(program: Callable[[], Any]) -> sim.Race:
    with pytest.raises(sim.RaceError) as raised, sim.check():
        program()
    return raised.value.race


def test_streams_of_variables_are_called_by_their_names() -> None:
    def program() -> None:
        copies, work = xl.Stream(), xl.Stream()
        x = xl.to_device(xl.pinned_zeros(N), stream=copies)
        with work:
            x += 1.0

    race = race_of(program)
    assert race.missing == "nothing makes work wait for copies"
    assert race.remedy.startswith("work.wait(copies) before ")
    assert race.first.by.startswith("copies, non-blocking stream ")
    assert race.second.by.startswith("work, non-blocking stream ")


def test_streams_in_containers_and_attributes_have_names_too() -> None:
    def in_a_list() -> None:
        streams = [xl.Stream() for _ in range(2)]
        x = xl.to_device(xl.pinned_zeros(N), stream=streams[0])
        with streams[1]:
            x += 1.0

    def in_a_dict() -> None:
        named = {"up": xl.Stream(), 7: xl.Stream()}
        x = xl.to_device(xl.pinned_zeros(N), stream=named["up"])
        with named[7]:
            x += 1.0

    class Pipeline:
        def __init__(self) -> None:
            self.copies, self.work = xl.Stream(), xl.Stream()

        def run(self) -> None:
            x = xl.to_device(xl.pinned_zeros(N), stream=self.copies)
            with self.work:
                x += 1.0

    assert race_of(in_a_list).remedy.startswith("streams[1].wait(streams[0]) before ")
    assert race_of(in_a_dict).remedy.startswith("named[7].wait(named['up']) before ")
    assert race_of(lambda: Pipeline().run()).remedy.startswith("self.work.wait(self.copies) before ")


def test_streams_without_a_name_at_the_line_are_told_apart_by_number() -> None:
    def add(x: Any, on: list[xl.Stream]) -> None:
        with on.pop():
            x += 1.0

    def program() -> None:
        one, two = xl.Stream(), xl.Stream()
        add(xl.to_device(xl.pinned_zeros(N), stream=one), [two])

    race = race_of(program)
    found = race.missing.removeprefix("nothing makes ").split(" wait for ")
    assert len(set(found)) == 2
    assert all("made at test_reports.py:" in each for each in found)
    assert race.remedy.startswith("xferlib.current_stream().wait(a) before ")


@pytest.mark.parametrize("name", ["a", "b", "t", "first", "second"])
def test_a_name_of_the_programs_is_not_taken_for_a_letter_of_the_report(name: str) -> None:
    program = f"""
def run(xl, zeros):
    {name} = xl.Stream()
    with {name}:
        x = xl.zeros({N})
    x += 1.0
"""
    scope: dict[str, Any] = {}
    exec(program, scope)
    race = race_of(lambda: scope["run"](xl, None))
    call, _, where = race.remedy.partition(", where ")
    assert call.startswith(f"xferlib.current_stream().wait({name}) before ")
    assert where.startswith(f"{name} is stream ")


def test_a_report_begins_with_the_programs_own_line() -> None:
    def program() -> None:
        copies = xl.Stream()
        x = xl.to_device(xl.pinned_zeros(N), stream=copies)
        x -= 3.0

    race = race_of(program)
    first, second, *_ = str(race).splitlines()
    assert first == f"read of what is still being written, at {race.second.site}"
    assert second == "    x -= 3.0"


@pytest.mark.parametrize(
    ("make", "called", "what"),
    [
        (lambda: xl.ones(N), "ones", "strided copy"),
        (lambda: xl.full(N, 3.0), "full", "strided copy"),
        (lambda: xl.to_device(np.zeros(N)), "to_device", "copy host to device"),
        (lambda: xl.asarray([1.0, 2.0]), "asarray", "copy host to device"),
        (lambda: SOURCE.astype("float32"), "astype", "conversion"),
        (lambda: SOURCE + 1.0, "", "add"),
        (lambda: 1.0 - SOURCE, "", "subtract"),
        (lambda: xl.get_array_module(SOURCE).sqrt(SOURCE), "", "sqrt"),
        (lambda: DOUBLED(SOURCE), "", "doubled"),
    ],
)
def test_operations_are_named_as_the_program_called_them(make: Callable[[], Any], called: str, what: str) -> None:
    global SOURCE
    SOURCE = xl.to_device(np.ones(N))
    stream, found = xl.Stream(), []

    def program() -> None:
        xl.synchronize()
        found.append(make())
        with stream:
            found[0] += 1

    with sim.check("log") as checked:
        program()
        races = [race for race in checked.races if race.hazard is not sim.Hazard.UNINITIALISED]
    assert (races[0].first.call, races[0].first.what) == (called, what)
    assert (f"{called} ({what})" if called else what) in str(races[0].first)


def test_assignments_and_indexing_are_named_as_such() -> None:
    def assigned() -> None:
        stream = xl.Stream()
        x = xl.zeros((N, 2))
        xl.synchronize()
        x[:, 1] = 3.0
        with stream:
            x += 1.0

    assert race_of(assigned).first.call == "assignment to elements"


def test_the_advice_for_a_source_in_use_waits_until_it_may_change() -> None:
    def program() -> None:
        source = xl.pinned_zeros(N)
        transfer = xl.to_device_async(source)
        sim.writes(source)
        transfer.result()

    assert race_of(program).remedy.startswith("t.release() before ")

    def mended() -> None:
        source = xl.pinned_zeros(N)
        transfer = xl.to_device_async(source)
        transfer.release()
        sim.writes(source)
        source[:] = 1
        assert xl.to_host(transfer.result()).max() == 0

    with sim.check():
        mended()


def test_a_batch_that_changes_while_it_is_read_ahead_is_not_told_to_wait() -> None:
    batches = [xl.pinned_zeros(N) for _ in range(4)]

    def program() -> None:
        for number, _ in enumerate(xl.prefetch(batches)):
            sim.writes(batches[min(number + 2, 3)])

    race = race_of(program)
    assert race.remedy.startswith("leave what is read ahead unchanged")


def test_the_default_stream_is_named_as_a_program_reaches_it() -> None:
    def program() -> None:
        work = xl.Stream()
        x = xl.ones(N)
        with work:
            DOUBLED(x)

    race = race_of(program)
    assert race.remedy.startswith("work.wait(xferlib.Stream.from_any(0)) before ")


def test_what_a_function_touches_is_ordered_at_the_line_that_gives_it_to_a_stream() -> None:
    def program() -> None:
        out, d = np.zeros(N), xl.ones(N)
        work = xl.Stream()
        arriving = xl.to_host_async(d, out=out)
        work.call(lambda: sim.reads(out))
        work.synchronize()
        arriving.result()

    race = race_of(program)
    given = race.second.site.line
    assert given == race.first.site.line + 1
    assert f".wait(t) before {__file__}:{given}, where " in race.remedy


def _races_on_the_device() -> None:
    copies, work = xl.Stream(), xl.Stream()
    x = xl.to_device(xl.pinned_zeros(N), stream=copies)
    with work:
        x += 1.0


def _races_with_the_host() -> None:
    out = xl.pinned_zeros(N)
    xl.to_host_async(xl.zeros(N), out=out)
    sim.reads(out)


def _changes_a_source() -> None:
    x = xl.pinned_zeros(N)
    copies = xl.Stream()
    xl.to_device(x, stream=copies)
    x += 1.0
    copies.synchronize()


def _frees_too_early() -> None:
    work = xl.Stream()
    x = xl.zeros(N)
    work.wait(xl.current_stream())
    with work:
        x += 1.0
    del x
    xl.synchronize()


def _changes_a_batch() -> None:
    batches = [np.zeros(N), np.zeros(N)]
    for _ in xl.prefetch(batches, depth=2):
        batches[1] += 1.0


@pytest.mark.parametrize(
    "program", [_races_on_the_device, _races_with_the_host, _changes_a_source, _frees_too_early, _changes_a_batch]
)
def test_a_fault_is_raised_each_time_that_it_occurs_and_listed_once(program: Callable[[], None]) -> None:
    with sim.check("raise") as checked:
        for _ in range(3):
            with pytest.raises(sim.RaceError):
                program()
    assert len(checked.races) == 1
