"""`xferlib bench sweep`: its cases are what they say, repeatable, and checked before they are timed."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.console import main
from xferlib._cli.bench.sweep import figures, kinds, peers, show, timing, trial
from xferlib._cli.bench.sweep.kernel import cases as kernel_cases
from xferlib._cli.bench.sweep.kernel import expressions
from xferlib._cli.bench.sweep.kernel import trials as kernel_trials
from xferlib._cli.bench.sweep.reduction import cases as reduction_cases
from xferlib._cli.bench.sweep.reduction import trials as reduction_trials
from xferlib._cli.bench.sweep.transfer import array_cases, networks, trials, ways
from xferlib.testing import assert_same_bits


@functools.cache
def here() -> peers.Peers:
    return peers.present(compiles=False)


@pytest.mark.parametrize(
    ("network", "tensors", "numbers"),
    [("ResNet-50", 161, 25_557_032), ("BERT-base", 197, 108_891_648), ("decoder of 1.1 billion", 201, 1_100_048_384)],
)
def test_networks_have_their_published_sizes(network: str, tensors: int, numbers: int) -> None:
    shapes = networks.NETWORKS[network]()
    assert (len(shapes), sum(map(math.prod, shapes))) == (tensors, numbers)


@pytest.mark.parametrize("number", range(60))
def test_a_case_is_the_same_at_each_draw_and_has_the_layout_that_it_names(number: int) -> None:
    case = array_cases.drawn(3, number, ("numpy", "torch"), 1 << 20)
    assert case == array_cases.drawn(3, number, ("numpy", "torch"), 1 << 20)
    assert case == kinds.named(case.name, ("numpy", "torch"), 1 << 20)
    array = case.host_array()
    assert array.shape == case.shape
    assert array.dtype == np.dtype(case.given).newbyteorder("S" if case.layout == "swapped" else "=")
    assert_same_bits(array, case.host_array())
    is_plain = case.layout in ("contiguous", "swapped")
    assert array.flags.c_contiguous == is_plain or case.layout == "permuted" or 2 in case.shape
    assert 2 << 10 <= case.nbytes <= 4 << 20


def test_a_sweep_checks_and_times_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.json"
    arguments = ["bench", "sweep", "--seconds", "3", "--without-compile", "--seed", "11", "--largest", "64KiB"]
    assert main([*arguments, "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "WRONG" not in out
    assert "behind by over 10 %" in out
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert found["machine"]["seed"] == 11
    assert found["absent"].keys() == {"libraries", "cases"}
    assert {(each["kind"], each["regime"]) for each in found["summaries"]} == set(
        itertools.product(kinds.KINDS, ("hot", "cold"))
    )
    assert {each["kind"] for each in found["cases"]} == set(kinds.KINDS)
    for each in found["cases"]:
        assert each["problem"] == ""
        for regime in ("hot", "cold"):
            assert any(name.startswith("xferlib") for name in each["seconds"][regime])
            assert not all(name.startswith("xferlib") for name in each["seconds"][regime])


def test_one_case_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sweep", "--case", "transfer:11:4", "--largest", "64KiB"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("transfer:11:4: ")
    assert "GB/s" in out
    assert main(["bench", "sweep", "--case", "reduction:11:2", "--largest", "64KiB"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("reduction:11:2: ")
    assert "hot   numpy, " in out
    assert main(["bench", "sweep", "--case", "everything"]) == 2
    assert "transfer:7:12" in capsys.readouterr().err


def test_wrong_bits_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = xl.to_device
    monkeypatch.setattr(xl, "to_device", lambda x, **options: own(np.zeros(x.shape, x.dtype), **options))
    status = main(["bench", "sweep", "--seconds", "0.5", "--seed", "11", "--largest", "8KiB", "--kind", "transfer"])
    assert status == 1
    assert "WRONG: the bits differ" in capsys.readouterr().out


class FakeClock:
    """A clock that ways and other work move; nothing else takes time."""

    def __init__(self) -> None:
        self.now_s, self.worked_s = 0.0, [0.0]
        self.calls: list[str] = []
        self.changes = 0

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

    @property
    def timing(self) -> timing.Timing:
        return timing.Timing(self.change, self.work, np.random.default_rng(1), self)


OWN, PEER, SLOW = (timing.Key(library, "way") for library in ("xferlib (cupy)", "cupy", "torch"))


def test_both_regimes_give_medians_and_change_the_data_before_each_call() -> None:
    clock = FakeClock()
    runs = {OWN: clock.way("own", 0.001), PEER: clock.way("peer", 0.0019, 0.002, 0.002, 0.002, 0.0021)}
    assert clock.timing.hot(runs) == pytest.approx({OWN: 0.001, PEER: 0.002})
    assert clock.timing.cold(runs) == pytest.approx({OWN: 0.001, PEER: 0.002})
    assert clock.changes == len(clock.calls)


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


@pytest.mark.parametrize("number", range(40))
def test_every_way_to_copy_gives_the_same_numbers(number: int) -> None:
    case = array_cases.drawn(5, number, ("numpy",), 1 << 16)
    source, out = trials.memory(case)
    expected = np.empty(case.shape, case.wanted)
    np.copyto(expected, source, casting="unsafe")
    for library in (ways.XferlibWays("numpy"), *map(ways.of, here().libraries.values())):
        made = library.up(case, source) if case.is_upload else library.down(case, source, out)
        assert made
        for name, way in made.items():
            result = way.run()
            if result is not None:
                assert np.array_equal(np.asarray(result), expected), (library.name, name)
            elif out is not None:
                assert np.array_equal(out, expected), (library.name, name)


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


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_cases_are_drawn_alike_each_time_and_can_be_built(kind: str) -> None:
    draw, make = kinds.KINDS[kind]
    backends = here().backends
    seen = set()
    for number in range(300):
        case = draw(9, number, backends, 1 << 12)
        assert case == draw(9, number, backends, 1 << 12) == kinds.named(case.name, backends, 1 << 12)
        assert case.library == backends[number % len(backends)]
        assert case.nbytes > 0
        built = make(case, here())
        assert built.subject in built.ways, (case.name, built.absent)
        assert len(built.ways) > 1, (case.name, built.absent)
        seen.add(str(case))
    assert len(seen) > 100
    assert draw(8, 0, backends, 1 << 12) != draw(9, 0, backends, 1 << 12)


@pytest.mark.parametrize("number", range(60))
def test_every_way_to_evaluate_gives_the_same_numbers(number: int) -> None:
    case = kernel_cases.drawn(4, number, here().backends, 1 << 14)
    host = [each.cut().of(each.memory()) for each in case.inputs]
    built = kernel_trials.of_kernel(case, here())
    for library, made in built.ways.items():
        for name, way in made.items():
            arrived = np.asarray(way.run())
            problem = kernel_trials.number_difference(case, host, arrived)
            assert not problem, (library, name, problem)
            assert library != built.subject or not built.problem(arrived)


@pytest.mark.parametrize("number", range(60))
def test_every_way_to_reduce_gives_the_same_numbers(number: int) -> None:
    case = reduction_cases.drawn(4, number, here().backends, 1 << 16)
    host = case.cut().of(case.memory())
    built = reduction_trials.of_reduction(case, here())
    for library, made in built.ways.items():
        for name, way in made.items():
            arrived = np.asarray(way.run())
            problem = reduction_trials.number_difference(case, host, arrived)
            assert not problem, (library, name, problem)
            assert library != built.subject or not built.problem(arrived)


def test_a_wrong_kernel_or_reduction_is_seen() -> None:
    kernel = kernel_trials.of_kernel(kernel_cases.drawn(4, 0, ("numpy",), 1 << 14), here())
    (way,) = kernel.ways[kernel.subject].values()
    wrong = np.array(way.run())
    wrong[(-1,) * wrong.ndim] += 1
    assert kernel.problem(wrong) == "the bits differ from the CPU's"
    case = reduction_cases.drawn(4, 0, ("numpy",), 1 << 14)
    host = case.cut().of(case.memory())
    right = np.asarray(getattr(np, case.operation)(host, axis=case.axis))
    assert not reduction_trials.number_difference(case, host, right)
    assert reduction_trials.number_difference(case, host, right + right.dtype.type(1))


def test_an_expression_is_written_for_each_library() -> None:
    expression = ("maximum", ("multiply", "x", 0.5), ("exp", ("negative", ("abs", "y"))))
    assert (
        expressions.text(expression, out="out") == "m.maximum(m.multiply(x, 0.5), m.exp(m.negative(m.abs(y))), out=out)"
    )
    half = "((float)(((float)x) * ((float)0.5)))"
    below = "exp((-abs(((float)y))))"
    assert expressions.c_text(expression, "float") == f"({half} > {below} ? {half} : {below})"
    assert expressions.numexpr_text(expression) == ("where((x * c0_5) > exp((-abs(y))), (x * c0_5), exp((-abs(y))))")
    assert expressions.numbers(expression) == {0.5}
    assert expressions.functions(expression) == {"maximum", "multiply", "exp", "negative", "abs"}


def test_numexpr_evaluates_what_it_has_dtypes_for() -> None:
    pytest.importorskip("numexpr")
    found = [
        kernel_trials.of_kernel(kernel_cases.drawn(4, number, ("numpy",), 1 << 12), here()).ways.get("numexpr")
        for number in range(20)
    ]
    assert None in found
    assert any(found)
