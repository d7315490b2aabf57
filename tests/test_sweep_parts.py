"""The parts of `xferlib bench sweep`: how ways are timed, summed up and left out."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib._cli import bench as libraries
from xferlib._cli import bench_sweep as figures
from xferlib._cli import bench_sweep as kinds
from xferlib._cli import bench_sweep as show
from xferlib._cli import sweep_trial as timing
from xferlib._cli import sweep_trial as trial


class FakeClock:
    """A clock that ways and other work move; nothing else takes time."""

    def __init__(self) -> None:
        self.now_s, self.worked_s = 0.0, [0.0]
        self.calls: list[str] = []
        self.changes = self.settled = 0

    def __call__(self) -> float:
        return self.now_s

    def way(self, name: str, *seconds: float) -> Callable[[], None]:
        taken = itertools.cycle(seconds)

        def run() -> None:
            self.calls.append(name)
            self.now_s += next(taken)

        return run

    def work(self, seconds: float) -> None:
        self.now_s += seconds
        self.worked_s.append(seconds)

    def change(self) -> None:
        self.changes += 1

    def settle(self) -> None:
        self.settled += 1

    @property
    def timing(self) -> timing.Timing:
        return timing.Timing(self.change, self.work, np.random.default_rng(1), self, self.settle)


OWN, PEER, SLOW = (timing.Key(library, "way") for library in ("xferlib (cupy)", "cupy", "torch"))


def test_both_regimes_give_medians_and_change_the_data_before_each_call() -> None:
    clock = FakeClock()
    runs = {OWN: clock.way("own", 0.001), PEER: clock.way("peer", 0.0019, 0.002, 0.002, 0.002, 0.0021)}
    assert clock.timing.hot(runs) == pytest.approx({OWN: 0.001, PEER: 0.002})
    assert clock.timing.cold(runs) == pytest.approx({OWN: 0.001, PEER: 0.002})
    assert clock.changes == len(clock.calls)


def test_each_loop_waits_until_no_other_thread_runs() -> None:
    clock = FakeClock()
    clock.timing.hot({OWN: clock.way("own", 0.001), PEER: clock.way("peer", 0.001)})
    assert clock.settled == 2 * 2  # in two rounds, after which both medians are steady


def test_the_wait_for_other_threads_ends_though_they_run_on() -> None:
    over = threading.Event()
    busy = threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(over.is_set, True)], daemon=True)
    busy.start()
    timing.await_quiet()
    assert busy.is_alive()
    over.set()
    busy.join()


def test_a_cold_call_follows_other_work_and_ways_take_turns() -> None:
    clock = FakeClock()
    clock.timing.cold({OWN: clock.way("own", 0.001), PEER: clock.way("peer", 0.001)})
    assert clock.worked_s[1:4] == [0.02, 0.005, 0.005]
    assert len(clock.calls) == 6
    assert [sorted(clock.calls[at : at + 2]) for at in (0, 2, 4)] == [["own", "peer"]] * 3


def test_ways_are_repeated_until_their_medians_are_steady() -> None:
    steady, noisy = FakeClock(), FakeClock()
    steady.timing.cold({OWN: steady.way("own", 0.001)})
    noisy.timing.cold({OWN: noisy.way("own", 0.001, 0.004, 0.002)})
    assert (len(steady.calls), len(noisy.calls)) == (3, 5)
    assert timing.is_steady([1.0, 1.02, 1.04], 0.05)
    assert not timing.is_steady([1.0, 1.2, 1.4], 0.05)
    assert not timing.is_steady([1.0, 1.0], 0.05)


def test_large_arrays_and_hopeless_ways_are_called_seldom() -> None:
    clock = FakeClock()
    runs = {OWN: clock.way("own", 0.3), PEER: clock.way("peer", 0.4), SLOW: clock.way("slow", 2.0)}
    assert clock.timing.hot(runs) == pytest.approx({OWN: 0.3, PEER: 0.4, SLOW: 2.0})
    assert [clock.calls.count(name) for name in ("own", "peer", "slow")] == [3, 3, 2]


def test_ordinary_results_are_compared_with_ordinary_results() -> None:
    seconds = {"xferlib (cupy)": {"to_host": 4.0, "to_host(pinned=True)": 1.0}, "cupy": {"get": 6.0}}
    seconds["torch"] = {"cpu": 5.0, "non_blocking": 2.0}
    pinned = {"xferlib (cupy)": ["to_host(pinned=True)"], "torch": ["non_blocking"]}
    case = figures.CaseFigures(
        name="transfer:1:2", kind="transfer", text="", nbytes=1, group="",
        seconds={"hot": seconds, "cold": seconds}, pinned=pinned,
    )  # fmt: skip
    assert case.ratio("hot") == 2.0
    assert case.best("hot") == ("torch, non_blocking", 2.0)
    assert case.ratio("hot", is_ordinary=True) == 1.25
    assert case.best("hot", is_ordinary=True) == ("torch, cpu", 5.0)
    upload = replace(
        case, seconds={regime: {"xferlib (cupy)": {"": 2.0}, "cupy": {"": 1.0}} for regime in case.seconds}
    )
    upload.pinned = {}
    found = {(each.regime, each.is_ordinary): each for each in figures.summaries([case, upload])}
    assert [found["hot", False].count, found["hot", True].count] == [2, 1]
    assert found["cold", False].behind == 0.5
    assert found["cold", True].median == 1.25


def test_the_table_has_a_row_of_ordinary_results(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = {"xferlib (cupy)": {"to_host": 2.0, "pinned": 1.0}, "torch": {"cpu": 4.0, "non_blocking": 1.0}}
    case = figures.CaseFigures(
        name="transfer:1:2", kind="transfer", text="1 KiB", nbytes=1, group="",
        seconds={"hot": seconds, "cold": seconds}, pinned={"xferlib (cupy)": ["pinned"], "torch": ["non_blocking"]},
    )  # fmt: skip
    show.tables([case], {}, {})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["transfer", "hot", "1", "1.00", "1.00", "1.00", "1.00", "0.0", "%"] in rows
    assert ["ordinary", "results", "only", "hot", "1", "2.00", "2.00", "2.00", "2.00", "0.0", "%"] in rows
    show.one_case(case)
    assert "torch, non_blocking (pinned result): 1000.00 ms" in capsys.readouterr().out


def test_a_second_run_of_the_best_peer_shows_what_noise_comes_to(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = {"xferlib (cupy)": {"to_host": 3.0}, "torch": {"cpu": 2.0, "slow": 5.0}}
    quiet = figures.CaseFigures(
        name="transfer:1:2", kind="transfer", text="1 KiB", nbytes=1, group="",
        seconds={"hot": seconds, "cold": seconds},
        again={"hot": {"torch": {"cpu": 2.1, "slow": 9.0}}, "cold": {"torch": {"cpu": 4.0}}},
    )  # fmt: skip
    assert (quiet.floor("hot"), quiet.floor("cold")) == (pytest.approx(2 / 2.1), 0.5)
    assert quiet.ratio("hot") == 2 / 3  # which the second run does not change
    assert replace(quiet, again={}).floor("hot") is None
    found = {each.regime: each.floor for each in figures.summaries([quiet, replace(quiet, again={})])}
    assert found == {"hot": 0.0, "cold": 1.0}
    show.tables([quiet], {}, {})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["transfer", "cold", "1", *["0.67"] * 4, "100.0", "%", "100.0", "%"] in rows


def test_kinds_share_the_seconds_evenly_and_number_their_cases() -> None:
    clock = FakeClock()
    taken: list[tuple[str, int]] = []
    for kind, number in kinds.turns(["transfer", "tree"], 12.0, clock):
        taken.append((kind, number))
        clock.now_s += 4.0 if kind == "tree" else 1.0
    assert [number for kind, number in taken if kind == "transfer"] == list(range(6))
    assert [number for kind, number in taken if kind == "tree"] == [0, 1]


def test_a_peer_that_fails_is_left_out_with_its_reason() -> None:
    def fail() -> None:
        raise NotImplementedError("no such dtype\nand more")

    made = trial.Trial(subject="xferlib (cupy)", problem=lambda _: "")
    made.add("xferlib (cupy)", lambda: trial.ordinary({"to_device": lambda: 1}))
    made.add("cupy", fail)  # type: ignore[arg-type]
    made.add("torch", lambda: trial.ordinary({"to": lambda: 2, "other": fail}))
    made.try_peers()
    reason = "NotImplementedError: no such dtype"
    assert made.absent == {"cupy": reason, "torch, other": reason}
    assert {name: list(each) for name, each in made.ways.items()} == {"xferlib (cupy)": ["to_device"], "torch": ["to"]}


@pytest.mark.parametrize("kind", ["transfer", "tree", "kernel", "reduction"])
def test_every_way_awaits_the_device_once_and_by_the_same_call(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    waits: list[str] = []
    monkeypatch.setattr(libraries, "wait_for", lambda device: lambda: waits.append(device.kind))
    here = "cuda" if torch.cuda.is_available() else "cpu"
    peers: Any = SimpleNamespace(libraries={"torch": libraries.TorchLibrary(here)}, compiles=False)
    uploads = 0
    for number in range(12):
        case = kinds.KINDS[kind].draw(5, number, ("torch",), 1 << 14)
        made = kinds.KINDS[kind].make(case, peers)
        assert set(made.ways) == {"torch", "xferlib (torch)"}, made.absent
        for ways in made.ways.values():
            for name, way in ways.items():
                waits.clear()
                way.run()
                is_complete = case.group == "to the host" and "non_blocking" not in name
                assert waits == ([] if is_complete else [here])
                uploads += len(waits)
    assert uploads


def test_a_cpu_needs_no_wait_and_the_simulator_gets_one() -> None:
    def run() -> int:
        return 3

    assert libraries.NumpyLibrary().awaited(run) is run
    stream = xl.Stream("sim")

    def enqueue() -> xl.Event:
        xl.to_device(xl.pinned_empty(1 << 22, "float32", backend="sim"), stream=stream)
        return stream.record()

    assert not enqueue().is_done
    assert libraries.XferlibDevice("sim").awaited(enqueue)().is_done


def test_libraries_on_a_gpu_are_awaited_by_the_driver_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = ModuleType("driver")
    statuses = [0, 700]
    driver.context_synchronize = lambda: statuses.pop(0)
    monkeypatch.setitem(sys.modules, "xferlib.backends.cuda.driver", driver)
    device: Any = SimpleNamespace(kind="cuda")
    wait = libraries.wait_for(device)
    assert wait is not None
    wait()
    with pytest.raises(xl.errors.TransferError, match="error 700; an earlier call has failed"):
        wait()
    assert not statuses
