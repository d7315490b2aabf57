"""`xferlib bench`: its cases are what they say, repeatable, checked before they are timed, and timed fairly."""

from __future__ import annotations

import itertools
import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.console import main
from xferlib._cli import bench
from xferlib.testing import assert_same_bits, dtypes

HostArray = np.ndarray[Any, Any]
OWN, PEER, SLOW = (bench.Key(library, "way") for library in ("xferlib (cupy)", "cupy", "torch"))


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Other tests run beside these: nothing waits until they do not, and other work takes hardly any time of theirs."""
    if "other_threads" not in request.node.name:
        monkeypatch.setattr(bench, "await_quiet", lambda: None)
    work = bench.OtherWork.__call__
    monkeypatch.setattr(bench.OtherWork, "__call__", lambda self, seconds: work(self, min(seconds, 1e-5)))


LAYOUTS: dict[str, Callable[[HostArray], bool]] = {
    "contiguous": lambda x: x.flags.c_contiguous and x.dtype.isnative,
    "swapped": lambda x: x.flags.c_contiguous and x.dtype.isnative == (x.itemsize == 1),  # a single byte knows nothing
    "transposed": lambda x: x.ndim == 2 and x.T.flags.c_contiguous and not x.flags.c_contiguous,
    "permuted": lambda x: x.ndim >= 3 and x.transpose(np.argsort(x.strides)[::-1]).flags.c_contiguous,
    "every second row": lambda x: x.ndim >= 2 and x[0].flags.c_contiguous and x.strides[0] == 2 * x[0].nbytes,
    "cropped": lambda x: (
        x.ndim >= 2
        and x.strides[-1] == x.itemsize
        and all(outer > n * inner for outer, n, inner in zip(x.strides, x.shape[1:], x.strides[1:], strict=False))
    ),
    "reversed": lambda x: x.strides[0] < 0 and x[::-1].flags.c_contiguous,
}
"""Whether an array whose extents are all above 1 has exactly the layout of that name."""


def test_a_case_is_the_same_at_each_draw_and_has_the_layout_that_it_names() -> None:
    layouts: dict[bool, set[str]] = {True: set(), False: set()}
    for number in range(60):
        case, again = (bench.TransferCase.draw(3, number, ("numpy",), 1 << 20) for _ in range(2))
        assert again == case
        assert bench.TransferCase.draw(4, number, ("numpy",), 1 << 20) != case
        host = case.host_array(of_target=not case.is_upload)
        assert_same_bits(again.host_array(of_target=not case.is_upload), host)
        assert host.shape == case.shape
        assert min(host.shape) > 1
        assert host.dtype.newbyteorder("=") == np.dtype(case.given if case.is_upload else case.wanted)
        assert 2 << 10 <= case.nbytes <= 4 << 20
        assert case.is_upload or not case.is_new or case.layout == "contiguous"
        assert LAYOUTS[case.layout](host), (number, host.shape, host.strides)
        assert (xl.pinned_pool().find(host.ctypes.data) is not None) == case.is_pinned, number
        layouts[case.is_upload].add(case.layout)
    assert layouts[True] == set(LAYOUTS)
    assert layouts[False] >= {"contiguous", "transposed", "permuted", "cropped"}


KINDS = {"transfer", "kernel", "reduction", "prefetch", "tree"}


def test_a_sweep_checks_and_times_cases_that_a_seed_repeats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.json"
    arguments = ["bench", "sweep", "--seconds", "0.05", "--seed", "11", "--largest", "64KiB", "--without-compile"]
    assert main([*arguments, "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "WRONG" not in out
    assert "behind by over 10 %" in out
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert found["machine"]["seed"] == 11
    assert {each["kind"] for each in found["cases"]} - {"namespace"} == KINDS  # that one with PyCUDA alone
    kinds = KINDS | {each["kind"] for each in found["cases"]}
    assert {(each["kind"], each["regime"]) for each in found["summaries"]} == set(
        itertools.product(kinds, ("hot", "cold"))
    )
    for each in found["cases"]:
        assert each["problem"] == ""
        for regime in ("hot", "cold"):
            assert {name.partition(" ")[0] for name in each["seconds"][regime]} > {"xferlib"}
    name, text = found["cases"][-1]["name"], found["cases"][-1]["text"]
    assert main(["bench", "sweep", "--case", name, "--largest", "64KiB", "--without-compile"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{name}: {text}")
    assert "GB/s" in out
    assert main(["bench", "sweep", "--case", "everything"]) == 2
    assert "transfer:7:12" in capsys.readouterr().err


def test_the_usual_transfers_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "transfer.json"
    assert main(["bench", "transfer", "--backend", "numpy", "--largest", "1KiB", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"pageable to new device array +1 KiB +[\d.]+ us", out)
    found = {each["case"]: each for each in json.loads(file.read_text())["results"]}
    assert "float64 to float32, of source" in found
    for each in found.values():
        assert each["seconds"].keys() == each["first_seconds"].keys() >= {"xferlib (numpy)"}
        assert each["nbytes"] in (512, 1024), each["case"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_wrong_bits_are_told(kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    send, fetch, define, ahead, send_tree = xl.to_device, xl.to_host, xl.elementwise, xl.prefetch, xl.tree.to_device

    def wrong(*args: Any, **options: Any) -> Any:
        kernel = define(*args, **options)

        def run(*given: Any, **more: Any) -> Any:
            found = kernel(*given, **more)
            found[(-1,) * found.ndim] = found[(-1,) * found.ndim] == 0  # another number, whatever its dtype is
            return found

        return run

    if kind == "reduction":
        monkeypatch.setattr(xl, "to_host", lambda x: fetch(x) == 0)
    elif kind == "transfer":
        monkeypatch.setattr(xl, "to_device", lambda x, **options: send(np.zeros(x.shape, x.dtype), **options))
    elif kind == "prefetch":
        monkeypatch.setattr(xl, "prefetch", lambda x, **options: ahead([each - 1 for each in x], **options))
    elif kind == "tree":
        less = lambda tree: {name: leaf - 1 for name, leaf in tree.items()}
        monkeypatch.setattr(xl.tree, "to_device", lambda tree, **options: send_tree(less(tree), **options))
    else:
        monkeypatch.setattr(xl, "elementwise", wrong)
    arguments = ["--kind", kind, "--seconds", "0.01", "--seed", "4", "--largest", "8KiB", "--without-compile"]
    assert main(["bench", "sweep", *arguments]) == 1
    assert "WRONG: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "dtype", sorted({"float32", "float64", "float16", "int32", "uint8", "bool", "complex64", "bfloat16", "float8_e5m2"})
)
def test_each_expression_is_computed_alike_by_numpy_and_by_a_kernel(dtype: str) -> None:
    drawn = {case.expression: case for case in (bench.KernelCase.draw(3, n, ("numpy",), 1 << 12) for n in range(400))
             if case.dtype == dtype}  # fmt: skip
    peers = bench.Peers(libraries={"numpy": bench.Numpy()}, is_gpu=False, absent={})
    assert len(drawn) >= 3
    for case in drawn.values():
        trial = bench.try_kernel(case, peers)
        assert not trial.absent
        own = [run for key, run in trial.ways.items() if key.library == trial.subject]
        assert own
        assert all(trial.find_problem(run()) == "" for run in own), str(case)


@pytest.mark.parametrize("kind", ["transfer", "kernel"])
def test_a_sweep_draws_small_floats_which_torch_has_too(kind: str) -> None:
    pytest.importorskip("ml_dtypes")
    draw, attempt = bench._KINDS[kind]
    peers = bench.find_peers("torch", on_gpu=False)
    found: Counter[str] = Counter()
    for number in range(120):
        case = draw(7, number, tuple(peers.libraries), 1 << 14)
        small = [each for each in (getattr(case, "given", ""), getattr(case, "wanted", ""), getattr(case, "dtype", ""))
                 if each in dtypes.SMALL_FLOATS]  # fmt: skip
        if not small or found[small[0]] > 5:
            continue
        found.update(small)
        trial = attempt(case, peers)
        ways = {key.library: run for key, run in trial.ways.items()}
        if all(each.layout != "reversed" for each in getattr(case, "inputs", [case])):  # a tensor has no such strides
            assert ways.keys() >= {trial.subject, *peers.libraries}, trial.absent
        assert not trial.find_problem(ways[trial.subject]()), case
    assert found.keys() == {"bfloat16", "float8_e4m3fn", "float8_e5m2"}


def test_a_sweep_without_ml_dtypes_draws_dtypes_of_the_same_size(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ml_dtypes")
    drawn = [bench.TransferCase.draw(7, number, ("numpy",)) for number in range(100)]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for case in drawn:
        other = bench.TransferCase.draw(7, int(case.name.split(":")[2]), ("numpy",))
        assert other.shape == case.shape
        assert {other.given, other.wanted}.isdisjoint(dtypes.SMALL_FLOATS)
        assert other.given in (case.given, "float16", "uint8")


def test_each_reduction_is_computed_by_all_libraries() -> None:
    drawn = {
        case.reduction: case
        for case in (bench.ReductionCase.draw(3, n, ("numpy",), 1 << 12) for n in range(400))
        if case.inputs[0].layout != "reversed"
    }  # which no tensor is
    peers = bench.Peers(libraries={"numpy": bench.Numpy(), "torch": bench.Torch("cpu")}, is_gpu=False, absent={})
    assert set(drawn) == set(bench._REDUCTIONS)
    for case in drawn.values():
        trial = bench.try_reduction(case, peers)
        assert case.reduction == "prod" or not trial.absent, str(case)  # torch's is along one axis, or all
        results = {key.library: run() for key, run in trial.ways.items()}
        assert trial.find_problem(results[trial.subject]) == "", str(case)
        found, *others = [np.asarray(results[name]) for name in (trial.subject, *peers.libraries) if name in results]
        assert all(np.allclose(found, each, rtol=1e-2, equal_nan=True) for each in others), str(case)


def test_a_part_of_many_results_is_reduced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_RECOMPUTED", 100)
    given = bench.DrawnArray(shape=(40, 30), dtype="float32", variant=3)
    case = bench.ReductionCase(name="reduction:0:0", library="numpy", reduction="sum", inputs=(given,), axes=(1,))
    trial = bench.try_reduction(case, bench.Peers(libraries={"numpy": bench.Numpy()}, is_gpu=False, absent={}))
    right = next(run for key, run in trial.ways.items() if key.library == trial.subject)()
    wrong = right.copy()
    wrong[1] += 1
    assert (trial.find_problem(right), trial.find_problem(wrong)) == ("", "the bits differ from the CPU's")
    assert "float32 (40, 1)" in trial.find_problem(right[:, None])


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
    def timing(self) -> bench.Timing:
        return bench.Timing(self.change, self.work, np.random.default_rng(1), self, self.settle)


def test_both_regimes_give_medians_and_change_the_data_before_each_call() -> None:
    clock = FakeClock()
    runs = {OWN: clock.way("own", 0.001), PEER: clock.way("peer", 0.0019, 0.002, 0.002, 0.002, 0.0021)}
    assert clock.timing.hot(runs) == pytest.approx({OWN: 0.001, PEER: 0.002})
    assert clock.timing.cold(runs) == pytest.approx({OWN: 0.001, PEER: 0.002})
    assert clock.changes == len(clock.calls)


def test_the_wait_for_other_threads_ends_though_they_run_on() -> None:
    over = threading.Event()
    busy = threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(over.is_set, True)], daemon=True)
    busy.start()
    bench.await_quiet()
    assert busy.is_alive()
    over.set()
    busy.join()


def test_a_cold_call_follows_other_work_and_ways_take_turns() -> None:
    clock = FakeClock()
    clock.timing.cold({OWN: clock.way("own", 0.001), PEER: clock.way("peer", 0.001)})
    assert clock.worked_s[1:4] == [0.02, 0.005, 0.005]
    assert [sorted(clock.calls[at : at + 2]) for at in (0, 2, 4, 6)] == [["own", "peer"]] * 4
    assert clock.settled == 0


def test_kinds_share_the_seconds_evenly() -> None:
    clock = FakeClock()
    taken: list[str] = []
    for kind in bench.share_seconds(["transfer", "tree"], 12.0, clock):
        taken.append(kind)
        clock.now_s += 4.0 if kind == "tree" else 1.0
    assert Counter(taken) == {"transfer": 6, "tree": 2}


@pytest.mark.parametrize("kind", ["transfer", "kernel", "reduction"])
def test_cases_are_those_of_the_seed_with_an_array_of_the_dtype(kind: str) -> None:
    every = list(itertools.islice(bench.draw_cases(kind, 5, ("numpy",), 1 << 14), 200))
    assert [case.name for case in every] == [f"{kind}:5:{number}" for number in range(200)]
    wanted = [case for case in every if "int32" in case.dtypes]
    assert len(wanted) > 5
    assert list(itertools.islice(bench.draw_cases(kind, 5, ("numpy",), 1 << 14, "int32"), len(wanted))) == wanted


def test_a_dtype_that_no_case_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sweep", "--kind", "tree", "--dtype", "int32"]) == 2
    assert "'int32': no tree case has an array of it" in capsys.readouterr().err


def test_large_arrays_are_called_seldom_and_each_loop_waits_until_no_other_thread_runs() -> None:
    clock = FakeClock()
    runs = {OWN: clock.way("own", 0.3), PEER: clock.way("peer", 0.4), SLOW: clock.way("slow", 2.0)}
    assert clock.timing.hot(runs) == pytest.approx({OWN: 0.3, PEER: 0.4, SLOW: 2.0})
    assert [clock.calls.count(name) for name in ("own", "peer", "slow")] == [4, 4, 4]
    assert clock.settled == 2 * 3


def test_a_peer_that_fails_is_left_out_with_its_reason() -> None:
    def fail() -> Any:
        raise NotImplementedError("no such dtype\nand more")

    made = bench.Trial(subject="xferlib (cupy)", find_problem=lambda _: "")
    made.add("xferlib (cupy)", lambda: {"to_device": lambda: 1})
    made.add("cupy", fail)
    made.add("torch", lambda: {"to": lambda: 2, "other": fail})
    reason = "NotImplementedError: no such dtype"
    assert made.absent == {"cupy": reason, "torch, other": reason}
    assert [*made.ways] == [("xferlib (cupy)", "to_device"), ("torch", "to")]


@pytest.mark.parametrize("draw", [bench.TransferCase.draw, bench.KernelCase.draw])
def test_every_way_awaits_the_device_once_and_by_the_same_call(
    draw: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    waits: list[str] = []
    monkeypatch.setattr(bench, "wait_for", lambda device: lambda: waits.append(device.kind))
    here = "cuda" if torch.cuda.is_available() else "cpu"
    peers = bench.Peers(libraries={"torch": bench.Torch(here)}, is_gpu=here == "cuda", absent={})
    uploads = 0
    for number in range(12):
        case = draw(5, number, ("torch",), 1 << 14)
        made = (
            bench.try_transfer(case, peers) if isinstance(case, bench.TransferCase) else bench.try_kernel(case, peers)
        )
        assert {key.library for key in made.ways} == {"torch", "xferlib (torch)"}, made.absent
        is_complete = isinstance(case, bench.TransferCase) and not case.is_upload
        for run in made.ways.values():
            waits.clear()
            run()
            assert waits == ([] if is_complete else [here])
            uploads += len(waits)
    assert uploads


def test_a_cpu_needs_no_wait_and_the_simulator_gets_one() -> None:
    def run() -> int:
        return 3

    assert bench.Numpy().wait_after(run) is run
    stream = xl.Stream("sim")

    def enqueue() -> xl.Event:
        xl.to_device(xl.pinned_empty(1 << 22, "float32", backend="sim"), stream=stream)
        return stream.record()

    assert not enqueue().is_done
    assert bench.Xferlib("sim").wait_after(enqueue)().is_done


def test_libraries_on_a_gpu_are_awaited_by_the_driver_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = ModuleType("driver")
    statuses = [0, 700]
    driver.context_synchronize = lambda: statuses.pop(0)
    monkeypatch.setitem(sys.modules, "xferlib.backends.cuda.driver", driver)
    device: Any = SimpleNamespace(kind="cuda")
    wait = bench.wait_for(device)
    assert wait is not None
    wait()
    with pytest.raises(xl.errors.TransferError, match="error 700; an earlier call has failed"):
        wait()
    assert not statuses


@pytest.mark.parametrize(("program", "dtype", "shape"), [
    ("scan", "float64", (289_198,)), ("scan", "float32", (3, 70_000)), ("scan", "int32", (5000,)),
    ("sort", "float64", (9, 40)), ("norm", "float32", (30_000,)), ("centre", "float32", (50, 7)),
    ("softplus", "float64", (300,)),
])  # fmt: skip
def test_right_results_of_a_program_are_taken_for_right_and_wrong_ones_are_not(
    program: str, dtype: str, shape: tuple[int, ...]
) -> None:
    case = bench.NamespaceCase(
        name="namespace:0:0", library="sim", program=program, shapes=(shape,), dtype=dtype, variant=2_106_212_365
    )
    trial = bench.try_namespace(case, bench.find_peers(on_gpu=False))
    (result,) = (run() for key, run in trial.ways.items() if key.library == trial.subject)
    assert trial.find_problem(result) == ""
    host = xl.to_host(result).copy()
    host.reshape(-1)[-1] += 1 + abs(host.max())
    assert trial.find_problem(xl.to_device(host, backend="sim"))
