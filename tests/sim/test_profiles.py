"""Machines of the virtual clock from measured figures, and what the clock decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import xferlib as xl
from xferlib import sim
from xferlib.errors import ConfigError

pytestmark = pytest.mark.usefixtures("on_sim")


# --- profiles from a benchmark

FIGURES = Path(__file__).parents[2] / "docs" / "benchmarks" / "h200" / "transfer.json"


def test_a_profile_is_made_of_what_the_benchmark_wrote() -> None:
    profile = sim.Profile.from_bench(FIGURES)
    assert profile.name == "NVIDIA H200"
    assert profile.h2d == pytest.approx(55.4e9, rel=0.01)
    assert profile.d2h == pytest.approx(55.3e9, rel=0.01)
    assert profile.memory == sim.H200.memory
    assert sim.Profile.from_bench(FIGURES, nbytes=64 << 20).staging < profile.staging
    source = xl.pinned_zeros(1 << 20, "uint8")
    stream = xl.Stream()
    with sim.timeline(profile) as timeline:
        xl.to_device(source, stream=stream)
    assert timeline.busy_s(sim.Lane.H2D) == pytest.approx((1 << 20) / profile.h2d + profile.latency_s)


def test_the_bandwidth_of_memory_comes_from_the_benchmark_of_kernels() -> None:
    kernels = {"results": [{"case": "add", "nbytes": 3 << 30, "seconds": {"xferlib exact": 1e-3, "cupy": 1e-9}},
                           {"case": "call", "nbytes": 0, "seconds": {"xferlib exact": 1e-9}}]}  # fmt: skip
    assert sim.Profile.from_bench(FIGURES, kernels, like=sim.LAPTOP).memory == 3 * 2**30 * 1e3
    assert sim.Profile.from_bench(FIGURES, like=sim.LAPTOP).peer == sim.LAPTOP.peer


def test_figures_of_a_machine_without_a_gpu_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="xferlib bench transfer --json FILE"):
        sim.Profile.from_bench({"results": [{"case": "transposed", "nbytes": 1, "seconds": {"numpy": 1.0}}]})
    file = tmp_path / "other.json"
    file.write_text("not JSON")
    with pytest.raises(ConfigError, match="is not what"):
        sim.Profile.from_bench(file)


# --- polls


def test_a_poll_under_the_eager_schedule_asks_the_virtual_clock() -> None:
    """So that a program that polls behaves in time as it would on the machine of the profile."""
    source = xl.pinned_zeros(64 << 20, "uint8")
    stream, event = xl.Stream(), xl.Event(timing=False)
    with sim.check("raise", schedule="eager"), sim.timeline("h200") as timeline:
        backend = xl.get_backend()
        xl.to_device(source, stream=stream)
        stream.record(event)
        polls = 0
        while not event.is_done:
            polls += 1
        assert polls > 10
        assert backend.host_s() - timeline.start_s == pytest.approx(timeline.duration_s, rel=0.05)


# --- kernels of xferlib's and arrays of other streams


def test_a_kernel_keeps_the_arrays_of_other_streams_alive_as_on_cuda_and_the_librarys_own_operators_do_not() -> None:
    add_one = xl.elementwise(lambda x: x + 1.0, name="add_one")

    def program(operate: Callable[[Any], Any]) -> list[Any]:
        owner, reader = xl.Stream(), xl.Stream()
        with sim.check("log") as checked:
            x = xl.to_device(xl.pinned_zeros(1 << 14), stream=owner)
            reader.wait(owner)
            with reader:
                y = operate(x)
            del x
            xl.to_host(y, stream=reader)
        return checked.races

    assert program(add_one) == []
    assert [race.hazard for race in program(lambda x: x + 1.0)] == [sim.Hazard.USE_AFTER_FREE]
