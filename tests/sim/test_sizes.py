"""Programs that break the contract are reported at every size alike; those that keep it are quiet at every size."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.sizes import IS_LONG, crossed
from xferlib import sim
from xferlib.testing import pending_count

SIZES = [4, 512, 64 << 10, (64 << 10) + 1, 128 << 10, 1 << 20, 9 << 20]
Array = np.ndarray[Any, Any]
Make = Callable[[int], Array]


pytestmark = pytest.mark.usefixtures("on_sim")


def pinned(nbytes: int) -> Array:
    array = xl.pinned_empty(nbytes, "uint8")
    array[:] = 1
    return array


def ordinary(nbytes: int) -> Array:
    return np.full(nbytes, 1, np.uint8)


def strided(nbytes: int) -> Array:
    return np.full(2 * nbytes, 1, np.uint8)[::2]


def strided_pinned(nbytes: int) -> Array:
    return pinned(2 * nbytes)[::2]


MEMORY: list[Make] = [pinned, ordinary, strided, strided_pinned]
ANOTHER_WAIT = "the wait for another transfer is none for this one"


# --- breaking the contract

BREAKING = {
    "out is read early": "t = xl.to_host_async(xl.to_device(host), out=host); sim.reads(host); t.result()",
    "out is written early": "t = xl.to_host_async(xl.to_device(host), out=host); sim.writes(host); t.result()",
    "out is written unsaid": "t = xl.to_host_async(xl.to_device(host), out=host); host[...] = 7; t.result()",
    "out is sent on": "t = xl.to_host_async(xl.to_device(host), out=host); xl.to_device(host); t.result()",
    "two transfers have one out": """
        d, e = xl.to_device(host), xl.to_device(host)
        for t in [xl.to_host_async(each, out=host, stream=xl.Stream()) for each in (d, e)]: t.result()
    """,
    "source is written before its release": "t = xl.to_device_async(host); sim.writes(host); t.result()",
    "source is written unsaid": "t = xl.to_device_async(host); host[...] = 7; t.result()",
    "source is filled by a transfer": """
        d = xl.to_device(host); t = xl.to_device_async(host); xl.to_host(d, out=host); t.result()
    """,
    "array is changed early": "d = xl.to_device(host); t = xl.to_host_async(d); d += 1; t.result()",
    "array is used early": "d = xl.to_device(host); t = xl.to_device_async(host, out=d); d + 1; t.result()",
    "array is used on the stream of its transfer": """
        d, stream = xl.to_device(host), xl.Stream()
        stream.wait(xl.current_stream())
        t = xl.to_device_async(host, out=d)
        with stream: d + 1
        xl.current_stream().wait(stream)
        t.result()
    """,
    ANOTHER_WAIT: """
        d, e = xl.to_device(host), xl.to_device(host)
        one, two = xl.to_host_async(d), xl.to_host_async(e)
        two.result()
        d += 1
        one.result()
    """,
}
"""By name, programs that use an array ``host``."""


def breaks(name: str) -> Callable[[Array], None]:
    code = compile(textwrap.dedent(BREAKING[name]).strip(), "program.py", "exec")
    return lambda host: exec(code, {"xl": xl, "sim": sim, "host": host})


def reported(program: Callable[[Array], None], host: Array, **options: Any) -> list[tuple[sim.Hazard, str]]:
    with sim.check("log", **options) as checked:
        program(host)
    return [(race.hazard, race.remedy.partition(" before ")[0].partition(" after ")[0]) for race in checked.races]


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("program", BREAKING)
def test_a_program_that_breaks_the_contract_is_reported_alike_at_every_size(program: str, memory: Make) -> None:
    is_large_tried = IS_LONG or ([*BREAKING].index(program) + MEMORY.index(memory)) % len(MEMORY) == 0
    sizes = SIZES if is_large_tried else SIZES[:-1]  # with one kind of memory each: all sizes run the same program
    found = {nbytes: reported(breaks(program), memory(nbytes)) for nbytes in sizes}
    assert found[SIZES[0]]
    assert all(each == found[SIZES[0]] for each in found.values()), found


@pytest.mark.parametrize("memory", [pinned])
def test_a_pinned_source_with_a_stream_stays_in_flight_at_every_size(memory: Make) -> None:
    def declared(host: Array) -> None:
        xl.to_device(host, stream=stream)
        sim.writes(host)
        stream.synchronize()

    def unsaid(host: Array) -> None:
        xl.to_device(host, stream=stream)
        host[...] = 7
        stream.synchronize()

    stream = xl.Stream()
    for nbytes in SIZES:
        assert [hazard for hazard, _ in reported(declared, memory(nbytes))] == [sim.Hazard.HOST_WRITE]
        assert [hazard for hazard, _ in reported(unsaid, memory(nbytes))] == [sim.Hazard.SOURCE_CHANGED]


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("nbytes", SIZES)
def test_an_out_that_is_read_too_early_has_no_value(memory: Make, nbytes: int) -> None:
    host = memory(nbytes)
    with sim.check("off"):
        transfer = xl.to_host_async(xl.to_device(host), out=host)
        assert not (host == 1).any()
        assert (transfer.result() == 1).all()


# --- keeping it


def transfers_are_waited_for(host: Array) -> None:
    d = xl.to_device(host)
    host[...] = 2
    sim.writes(host)
    up = xl.to_device_async(host, out=d)
    while not up.source_released:
        pass
    sim.writes(host)
    host[...] = 3
    d = up.result()
    d += 1
    down = xl.to_host_async(d, out=host)
    assert (down.result() == 3).all()
    sim.reads(host)
    sim.writes(host)
    d += 1


def streams_wait_for_transfers(host: Array) -> None:
    stream, d = xl.Stream(), xl.to_device(host)
    up = xl.to_device_async(host, out=d)
    stream.wait(up)
    with stream:
        d += 1
        down = xl.to_host_async(d, out=host)
    xl.current_stream().wait(down)
    d *= 3
    down.result()
    sim.reads(host)
    assert (host == 2).all()


def streams_are_synchronised(host: Array) -> None:
    stream, d = xl.Stream(), xl.to_device(host)
    xl.synchronize()
    with stream:
        d += 1
    xl.to_host_async(d, out=host, stream=stream)
    stream.synchronize()
    sim.reads(host)
    assert (host == 2).all()
    sim.writes(host)
    xl.to_device(host, out=d, stream=stream)
    stream.record().synchronize()
    sim.writes(host)


def polls_are_answered(host: Array) -> None:
    stream, d = xl.Stream(), xl.to_device(host)
    xl.synchronize()
    xl.to_host_async(d, out=host, stream=stream)
    while not stream.is_done:
        pass
    sim.reads(host)
    down = xl.to_host_async(d, out=host)
    while not down.done():
        pass
    sim.writes(host)
    d += 1
    stream.wait(xl.current_stream())
    up = xl.to_device_async(host, out=d, stream=stream)
    while not stream.is_done:
        pass
    sim.writes(host)
    d += 1
    up.result()


def other_memory_is_free(host: Array) -> None:
    d = xl.to_device(host)
    other = host.copy()
    down = xl.to_host_async(d, out=host)
    sim.reads(other)
    sim.writes(other)
    xl.to_device(other)
    down.result()


def halves_travel_beside_each_other(host: Array) -> None:
    half = len(host) // 2
    d = xl.to_device(host)
    transfers = [xl.to_host_async(part, out=into) for part, into in ((d[:half], host[:half]), (d[half:], host[half:]))]
    transfers[0].result()
    sim.reads(host[:half])
    transfers[1].result()
    sim.reads(host)


KEEPING = [
    transfers_are_waited_for, streams_wait_for_transfers, streams_are_synchronised, polls_are_answered,
    other_memory_is_free, halves_travel_beside_each_other,
]  # fmt: skip


@pytest.mark.parametrize(
    ("schedule", "memory", "program"), crossed(2, ["lazy", "lifo", "random", "eager"], MEMORY, KEEPING)
)
def test_a_program_that_keeps_the_contract_is_quiet_at_every_size(
    program: Callable[[Array], None], memory: Make, schedule: str
) -> None:
    for nbytes in SIZES if schedule == "lazy" else SIZES[:-1]:
        host = memory(nbytes)
        with sim.check("raise", schedule=schedule):
            program(host)


# --- a trace, a schedule and many transfers change nothing


@pytest.mark.parametrize("nbytes", [512, 1 << 20])
@pytest.mark.parametrize("memory", [pinned, ordinary])
@pytest.mark.parametrize("program", BREAKING)
def test_a_trace_switches_no_check_off(program: str, memory: Make, nbytes: int) -> None:
    plain = reported(breaks(program), memory(nbytes))
    with xl.trace():
        assert reported(breaks(program), memory(nbytes)) == plain


CONTENTS = (sim.Hazard.SOURCE_CHANGED, sim.Hazard.TARGET_CHANGED)


@pytest.mark.parametrize("schedule", ["lifo", "random", "eager"])
@pytest.mark.parametrize("program", BREAKING)
def test_a_schedule_switches_no_check_off(program: str, schedule: str) -> None:
    """But for what needs something to be in flight: under ``eager`` nothing is."""
    racy = breaks(program)
    found = [[hazard for hazard, _ in reported(racy, ordinary(512), schedule=each)] for each in ("lazy", schedule)]
    if schedule == "eager":
        found = [[hazard for hazard in each if hazard not in CONTENTS] for each in found]
        if program == ANOTHER_WAIT:
            found[0].clear()
    assert found[0] == found[1]


# --- batches ahead


def in_a_tree(nbytes: int) -> Any:
    return {"x": ordinary(nbytes), "y": np.ones(2)}


@pytest.mark.parametrize("memory", [pinned, ordinary, in_a_tree])
@pytest.mark.parametrize("nbytes", SIZES)
def test_a_list_that_is_changed_ahead_of_its_batches_is_reported_at_every_size(memory: Any, nbytes: int) -> None:
    def loop(*, changes: bool) -> list[sim.Race]:
        items = [memory(nbytes) for _ in range(4)]
        with sim.check("log") as checked:
            batches = xl.prefetch(items)
            next(batches)
            while nbytes == SIZES[-1] and memory is not pinned and not pending_count():
                time.sleep(0)  # a thread reads large arrays ahead: until it has begun with the next one
            if changes:
                (items[1]["x"] if isinstance(items[1], dict) else items[1])[...] = 9
            for number, _ in enumerate(batches, 1):
                (items[number]["y"] if isinstance(items[number], dict) else items[number][:0])[...] = 9
            xl.synchronize()
        return checked.races

    assert loop(changes=False) == []
    found = loop(changes=True)
    assert found
    for race in found:  # of pinned memory the copy's own check speaks as well
        assert race.hazard is sim.Hazard.SOURCE_CHANGED
        assert race.remedy.startswith("leave what is read ahead unchanged")
