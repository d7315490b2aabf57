"""The public blocks: what `check`, `faults` and `timeline` promise, through xferlib's own calls."""

from __future__ import annotations

import gc
import inspect
import io
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib import sim
from xferlib.errors import ArgumentError, DeviceLostError, DeviceMemoryError, PinnedMemoryError, TransferError
from xferlib.sim.machine import machine
from xferlib.testing import pending_count

N = 1 << 15


pytestmark = pytest.mark.usefixtures("on_sim")


def racy() -> None:
    one, two = xl.Stream(), xl.Stream()
    x = xl.to_device(xl.pinned_zeros(N), stream=one)
    with two:
        x += 1.0


# --- check


def test_a_report_names_both_lines_both_streams_and_the_call_that_mends_it() -> None:
    with pytest.raises(sim.RaceError) as raised, sim.check():
        racy()
    race = raised.value.race
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert race.hazard is sim.Hazard.READ_AFTER_WRITE
    assert race.first.site.file == race.second.site.file == __file__
    assert "xl.to_device(xl.pinned_zeros(N), stream=one)" in lines[race.first.site.line - 1]
    assert "x += 1.0" in lines[race.second.site.line - 1]
    assert race.first.what == "copy host to device"
    assert race.second.what == "add"
    assert race.remedy.startswith(f"two.wait(one) before {__file__}:{race.second.site.line}, where two is stream ")
    assert f"made at test_control.py:{race.first.site.line - 1})" in race.remedy
    assert f"bytes 0 to {8 * N} of" in race.memory
    assert all(part in str(raised.value) for part in (race.missing, race.remedy, race.first.by, race.second.by))


def test_the_fault_that_ends_a_block_is_raised_and_not_one_that_follows_from_it() -> None:
    target = np.zeros(8)
    with pytest.raises(sim.RaceError) as raised, sim.check("raise"):
        xl.to_host_async(xl.ones(8), out=target)
        xl.to_host(xl.ones(8), out=target)  # the transfer will find its target changed
    assert raised.value.race.hazard is sim.Hazard.HOST_WRITE


def test_log_mode_collects_each_fault_once_and_goes_on() -> None:
    written = logging.StreamHandler(io.StringIO())
    logger = logging.getLogger("xferlib.sim")
    logger.addHandler(written)
    try:
        with sim.check("log") as checked:
            for _ in range(3):
                racy()
    finally:
        logger.removeHandler(written)
    assert [race.hazard for race in checked.races if race.second.what == "add"] == [sim.Hazard.READ_AFTER_WRITE]
    assert written.stream.getvalue().count("missing:") == len(checked.races)


def test_off_mode_says_nothing() -> None:
    with sim.check("off") as checked:
        racy()
    assert checked.races == []


def test_after_an_error_the_next_block_starts_clean() -> None:
    with pytest.raises(sim.RaceError), sim.check():
        racy()
    with sim.check() as checked:
        assert (xl.to_host(xl.to_device(np.ones(N))) == 1).all()
    assert checked.races == []


def test_a_random_schedule_prints_its_seed_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError) as raised, sim.check(schedule="random"):
        raise ZeroDivisionError
    (note,) = raised.value.__notes__
    assert note.startswith("to repeat: XFERLIB_SIM_SCHEDULE=random XFERLIB_SIM_SEED=")


def test_the_same_seed_repeats_the_same_order() -> None:
    def order(seed: int) -> list[float]:
        gc.collect()  # what dies by itself inside the block would draw from the seed's numbers
        with sim.check("off", schedule="random", seed=seed):
            x = xl.zeros(1)
            xl.synchronize()
            for stream, value in [(xl.Stream(), float(n)) for n in range(6)]:
                with stream:
                    x *= 10.0
                    x += value
            xl.synchronize()
            return [float(xl.to_host(x)[0])]

    orders = [order(seed) for seed in range(8)]
    assert orders == [order(seed) for seed in range(8)]
    assert len({each[0] for each in orders}) > 1


# --- host memory


@pytest.mark.parametrize("out", [np.zeros(N), np.zeros((N, 2))[:, 1], np.zeros(N)[::-1]], ids=["plain", "gaps", "back"])
def test_an_ordinary_target_read_too_early_shows_nan_and_one_written_too_early_is_found(out: np.ndarray) -> None:
    d = xl.ones(N)
    with sim.check():
        transfer = xl.to_host_async(d, out=out)
        assert np.isnan(out).all()
        assert transfer.result() is out
        assert (out == 1).all()
    with pytest.raises(sim.RaceError) as raised, sim.check():
        transfer = xl.to_host_async(d, out=out)
        out[7] = 3.0
        transfer.result()
    assert raised.value.race.hazard is sim.Hazard.TARGET_CHANGED


def test_transfers_without_a_wait_do_not_pile_up() -> None:
    with sim.check():
        for _ in range(100):
            xl.to_device_async(np.zeros(N))

        assert pending_count() < 50


def test_dropping_every_handle_at_once_is_safe() -> None:
    with sim.check() as checked:
        for _ in range(5):
            xl.to_device_async(np.ones(N))
            xl.to_host_async(xl.ones(N))
            xl.to_device(xl.pinned_zeros(N), stream=xl.Stream())
    assert checked.races == []


# --- faults


def test_out_of_memory_strikes_at_the_allocation_of_that_number() -> None:
    with sim.faults("out of memory", at=2) as plan:
        xl.empty(3)
        xl.empty(3)
        with pytest.raises(DeviceMemoryError, match="injected"):
            xl.empty(3)
        xl.empty(3)
    assert [(number, fault) for number, _, fault in plan.struck] == [(2, sim.Fault.OUT_OF_MEMORY)]


def test_a_lost_device_stays_lost_until_the_block_ends_and_the_other_one_works() -> None:
    with sim.faults("lost device", at=0):
        for _ in range(2):
            with pytest.raises(DeviceLostError, match="was lost"):
                xl.empty(3, device="sim:0")
        xl.empty(3, device="sim:1")
    xl.empty(3, device="sim:0")


def test_the_same_seed_strikes_the_same_points() -> None:
    def struck(seed: int) -> list[int]:
        with sim.faults("out of memory", rate=0.3, seed=seed) as plan:
            for _ in range(40):
                try:
                    xl.empty(3)
                except DeviceMemoryError:
                    continue
        return [number for number, _, _ in plan.struck]

    assert struck(1) == struck(1) != struck(2)
    assert 3 < len(struck(1)) < 25


def pinned_round_trip(stream: xl.Stream) -> np.ndarray:
    return xl.to_host(xl.to_device(xl.pinned_array(np.arange(float(N))), stream=stream), stream=stream)


ROUND_TRIPS = {
    "small": lambda: xl.to_host(xl.to_device(np.arange(10.0))),
    "staged": lambda: xl.to_host(xl.to_device(np.arange(float(N))[::2])),
    "pinned": lambda: pinned_round_trip(xl.Stream()),
    "asynchronous": lambda: xl.to_host_async(xl.to_device_async(np.arange(float(N))).result()).result(),
    "devices": lambda: xl.to_host(xl.to_device(xl.to_device(np.arange(float(N)), device="sim:0"), device="sim:1")),
    "strided": lambda: xl.to_host(xl.to_device(np.arange(float(N)).reshape(-1, 8)).T),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
@pytest.mark.parametrize("kind", ["out of memory", "out of pinned memory", "lost device", "interrupt"])
def test_wherever_a_fault_strikes_a_transfer_it_is_a_typed_error_and_the_next_transfer_is_right(
    name: str, kind: str
) -> None:
    transfer = ROUND_TRIPS[name]
    expected = transfer()
    xl.trim()
    number = 0
    while True:
        with sim.check():
            with sim.faults(kind, at=number) as plan:
                try:
                    transfer()
                except (DeviceMemoryError, PinnedMemoryError, DeviceLostError, TransferError, KeyboardInterrupt):
                    pass
            np.testing.assert_array_equal(transfer(), expected)
        if not plan.struck:
            break
        number += 1
    assert number or kind == "out of pinned memory"


# --- the clock


def test_a_copy_takes_what_the_profile_says() -> None:
    source, stream = xl.pinned_zeros(1 << 20), xl.Stream()
    with sim.timeline("h200") as timeline:
        kept = xl.to_device(source, stream=stream)
    (copy,) = timeline
    assert copy.lane is sim.Lane.H2D
    assert copy.nbytes == 8 << 20
    assert copy.end_s - copy.start_s == pytest.approx((8 << 20) / sim.H200.h2d + sim.H200.latency_s)
    del kept


def test_copies_overlap_with_kernels_of_another_stream_and_not_of_their_own() -> None:
    x = xl.ones(1 << 22)
    source = xl.pinned_zeros(1 << 18)
    xl.synchronize()

    def overlap(copies: xl.Stream, kernels: xl.Stream) -> float:
        with sim.timeline("h200") as timeline:
            kept = []
            for _ in range(4):
                kept.append(xl.to_device(source, stream=copies))
                with kernels:
                    kept.append(x + 1.0)
        copies.synchronize()
        kernels.synchronize()
        return timeline.overlap()

    one = xl.Stream()
    assert overlap(one, one) == 0
    assert overlap(one, xl.Stream()) > 0.5


def test_pageable_memory_is_staged_at_the_profile_s_speed_and_each_piece_sent_when_it_is() -> None:
    data = np.ones(1 << 22)
    with sim.timeline("h200") as timeline:
        kept = xl.to_device(data)
        xl.synchronize()
    staging, copying = timeline.busy_s(sim.Lane.STAGING), timeline.busy_s(sim.Lane.H2D)
    assert staging == pytest.approx(data.nbytes / sim.H200.staging)
    assert copying > data.nbytes / sim.H200.h2d
    assert timeline.duration_s < 1.2 * (staging + copying)
    staged = sorted(each.end_s for each in timeline if each.lane is sim.Lane.STAGING)
    sent = sorted(each.start_s for each in timeline if each.lane is sim.Lane.H2D)
    assert all(before <= after for before, after in zip(staged, sent, strict=True))
    del kept


def test_a_profile_takes_the_link_from_a_calibration_and_the_rest_from_a_machine_like_it() -> None:
    measured = xl.Calibration(
        pinned_up_gb_per_s=20.0, pinned_down_gb_per_s=10.0, staged_up_gb_per_s=8.0, staged_down_gb_per_s=7.0,
        latency_up_us=9.0, latency_down_us=9.0,
    )  # fmt: skip
    mine = sim.LAPTOP.calibrate(measured, name="mine")
    assert (mine.h2d, mine.d2h, mine.staging, mine.memory) == (20e9, 10e9, 8e9, sim.LAPTOP.memory)
    assert sim.LAPTOP.calibrate(replace(measured, memory_gb_per_s=100.0)).memory == 100e9
    source, stream = xl.pinned_zeros(1 << 17), xl.Stream()
    with sim.timeline(mine) as timeline:
        kept = xl.to_device(source, stream=stream)
    assert timeline.busy_s(sim.Lane.H2D) == pytest.approx((1 << 20) / 20e9 + mine.latency_s)
    del kept


def test_elapsed_time_between_events_is_virtual_time() -> None:
    stream = xl.Stream()
    start = stream.record()
    with stream:
        x = xl.ones(1 << 20)
        x += 1.0
    end = stream.record()
    assert end.elapsed_ms(start) > 2 * (8 << 20) / sim.H200.memory * 1e3


def test_a_slow_stream_takes_longer_on_the_clock() -> None:
    def duration(*kinds: str) -> float:
        with sim.timeline("laptop") as timeline, sim.faults(*kinds, at=0):
            xl.ones(1 << 20)
            xl.synchronize()
        return timeline.duration_s

    assert duration("slow stream") > 2 * duration("out of pinned memory")


def test_a_slow_stream_is_as_fast_as_before_at_the_end_of_its_block() -> None:
    def duration() -> float:
        before = timeline.duration_s
        xl.ones(1 << 20)
        xl.synchronize()
        return timeline.duration_s - before

    with sim.timeline("laptop") as timeline:
        xl.synchronize()
        usual = [duration() for _ in range(3)][-1]
        with sim.faults("slow stream", at=0):
            assert duration() > 2 * usual
        assert duration() == pytest.approx(usual)


@pytest.mark.parametrize("line", ["return self._plan", "streams.settle_all()"])
def test_an_interrupt_as_a_block_of_faults_begins_leaves_no_plan(line: str) -> None:
    function = sim.faults.__enter__
    number = next(at for at, text in enumerate(inspect.getsourcelines(function)[0]) if line in text)
    place = function.__code__.co_firstlineno + number

    def strike(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code is function.__code__ and event == "line" and frame.f_lineno == place:
            raise KeyboardInterrupt
        return strike

    sys.settrace(strike)
    try:
        with pytest.raises(KeyboardInterrupt), sim.faults("slow stream"):
            pass
    finally:
        sys.settrace(None)
    assert machine().faults.plan is None


def test_schedules_and_profiles_that_do_not_exist_are_argument_errors() -> None:
    for call in (
        lambda: sim.check(schedule="lasy"),
        lambda: sim.check(schedule=""),
        lambda: sim.check(schedule=3),  # type: ignore[arg-type]
        lambda: sim.timeline(True),  # type: ignore[arg-type]
    ):
        with pytest.raises(ArgumentError, match="schedule|profile"):
            call()


@pytest.mark.parametrize("block", [sim.check, sim.faults, sim.timeline])
def test_leaving_a_block_that_was_not_entered_is_an_error_and_entering_one_twice_is_not(
    block: Callable[[], Any],
) -> None:
    one = block()
    before = _in_force()
    for _ in range(2):
        with pytest.raises(sim.SimError, match="was not entered"):
            one.__exit__(None, None, None)
        with one, one:
            pass
        assert _in_force() == before


def _in_force() -> tuple[object, ...]:
    simulated = machine()
    return simulated.detector, simulated.engine.schedule, simulated.faults.plan, simulated.timeline, simulated.guard
