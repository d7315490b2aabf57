"""The emulator's runtime in C, with kernels written by hand against kernel.h: results, and faults that it reports."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib
from tests import processes
from tests.sizes import some
from xferlib.kernels.cuda_cpu.runtime import (
    CHECKED,
    COOPERATIVE,
    FAULTS,
    FIBERS,
    LIBRARY,
    READ_ONLY,
    TRACK,
    UNWRITTEN,
    EmulatedLaunch,
    Extents,
    FaultReport,
    MemoryRegion,
    Print,
    SharedRange,
)

FOLDER = Path(xferlib.__file__).parent / "_native"
KERNELS = Path(__file__).with_name("runtime_kernels.c")
pytestmark = [
    pytest.mark.skipif(not LIBRARY.is_file(), reason="the emulator is not compiled"),
    pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler"),
]

SCHEDULES = [(0, 0), (1, 0), *((2, seed) for seed in range(20))]
"""In order, reversed, random with a seed."""


def some_schedules(name: str) -> list[tuple[int, int]]:
    """The orderly ones, and in a short run a quarter of the random ones, which is another one for each name."""
    return [*SCHEDULES[:2], *some(SCHEDULES[2:], 4, name)]


class Arguments(ctypes.Structure):
    _fields_ = (
        ("input", ctypes.c_uint64), ("output", ctypes.c_uint64), ("more", ctypes.c_uint64), ("count", ctypes.c_uint32),
        ("value", ctypes.c_uint32),
    )  # fmt: skip


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The kernels, unchecked and checked."""
    made = []
    for name, flags in (("plain", []), ("checked", ["-DCHECKED"])):
        path = tmp_path_factory.mktemp("kernels") / f"{name}.so"
        command = ["cc", "-O1", "-fno-strict-aliasing", "-w", "-fPIC", "-shared", f"-I{FOLDER / 'emulator'}", *flags]
        subprocess.run([*command, "-o", str(path), str(KERNELS)], check=True)
        made.append(ctypes.CDLL(str(path)))
    return made[0], made[1]


@pytest.fixture(scope="session")
def run_launch() -> Any:
    """The entry point of the runtime."""
    function = ctypes.CDLL(str(LIBRARY)).xf_run_launch
    function.argtypes, function.restype = (ctypes.POINTER(EmulatedLaunch), ctypes.POINTER(FaultReport)), ctypes.c_uint32
    return function


def mark(kernel: str, name: str) -> set[int]:
    """The lines of a kernel with a mark."""
    lines = KERNELS.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if re.search(rf"^(KERNEL|static .*)\b.*{kernel}\b", line))
    end = next(i for i in range(begin, len(lines)) if lines[i] == "}")
    return {i + 1 for i in range(begin, end) if f"MARK({name})" in lines[i]}


@dataclass
class Machine:
    """Runs kernels; every call has arrays of its own."""

    run_launch: Any
    kernels: tuple[Any, Any]
    is_checked: bool = False
    written: list[str] = field(default_factory=list)

    def run(
        self,
        name: str,
        *,
        grid: int = 4,
        block: int = 64,
        flags: int = FIBERS,
        schedule: tuple[int, int] = (0, 0),
        count: int | None = None,
        value: int = 0,
        shared: tuple[int, ...] | None = None,
        dynamic: int = 0,
        output_size: int | None = None,
        more_size: int | None = None,
        workers: int = 1,
        most_ticks: int = 10_000_000,
        stack: int = 65536,
        data: np.ndarray[Any, Any] | None = None,
        unwritten: tuple[str, ...] = (),
        site_count: int = 2000,
        stop: Any = None,
        input_flags: int = READ_ONLY,
    ) -> tuple[FaultReport, dict[str, np.ndarray[Any, Any]]]:
        """Run a kernel: the report, and the arrays. `shared` has the sizes of its variables, in items of 4 bytes."""
        size = grid * block
        arrays = {
            "input": np.arange(size, dtype=np.uint32) % 23 if data is None else data,
            "output": np.zeros(size if output_size is None else output_size, np.uint32),
            "more": np.zeros(size if more_size is None else more_size, np.uint32),
        }
        regions = (MemoryRegion * 3)()
        kept = []
        for region, (label, array) in zip(regions, arrays.items(), strict=True):
            region.begin, region.nbytes, region.item_nbytes = array.ctypes.data, array.nbytes, array.itemsize
            region.flags = input_flags if label == "input" else 0
            bits = [np.zeros(array.nbytes // 64 + 3, np.uint64) for _ in range(3)]
            kept.append(bits)
            if flags & TRACK:
                region.read, region.written = bits[0].ctypes.data, bits[1].ctypes.data
            if label in unwritten:
                region.flags |= UNWRITTEN
                region.initialised = bits[2].ctypes.data
        offset, variables = 1024, []
        for items in (2 * block + 1,) if shared is None else shared:
            variables.append(SharedRange(offset, 4 * items))
            offset += (4 * items + 31) // 16 * 16
        places = (ctypes.c_uint32 * site_count)(*range(site_count))
        launch, report = EmulatedLaunch(), FaultReport()
        arguments = Arguments(*(each.ctypes.data for each in arrays.values()), size if count is None else count, value)
        chosen = self.kernels[1 if self.is_checked or flags & TRACK else 0]
        launch.entry = ctypes.cast(getattr(chosen, name), ctypes.c_void_p).value
        launch.params = ctypes.addressof(arguments)
        launch.grid, launch.block = Extents(grid, 1, 1), Extents(block, 1, 1)
        launch.static_nbytes, launch.dynamic_nbytes = offset - 1024, dynamic
        launch.flags = flags | (CHECKED if self.is_checked else 0)
        launch.workers, (launch.schedule, launch.seed) = workers, schedule
        launch.stack_nbytes, launch.most_ticks = stack, most_ticks
        shared_ranges = (SharedRange * len(variables))(*variables)
        launch.regions, launch.region_count = ctypes.addressof(regions), 3
        launch.variables, launch.variable_count = ctypes.addressof(shared_ranges), len(variables)
        launch.places, launch.place_count = ctypes.addressof(places), len(places)
        if stop is not None:
            launch.stop = ctypes.addressof(stop)
        launch.print = Print(lambda _, text, nbytes: self.written.append(ctypes.string_at(text, nbytes).decode()))
        kind = self.run_launch(launch, report)
        assert kind == report.kind
        self.tracks = kept
        return report, arrays


@pytest.fixture(params=[False, True], ids=["unchecked", "checked"])
def machine(request: pytest.FixtureRequest, run_launch: Any, kernels: tuple[Any, Any]) -> Machine:
    """Runs kernels unchecked, and checked."""
    return Machine(run_launch, kernels, request.param)


@pytest.fixture
def checked(run_launch: Any, kernels: tuple[Any, Any]) -> Machine:
    """Runs kernels checked."""
    return Machine(run_launch, kernels, is_checked=True)


def show(report: FaultReport) -> str:
    """A report in words, for a failure."""
    places = [f"{list(each.tid)} of block {list(each.ctaid)} at {each.site}" for each in (report.here, report.other)]
    where = f"region {report.region} offset {report.offset} ({report.nbytes} bytes) variable {report.variable}"
    return f"{FAULTS[report.kind]}: {where}; {' and '.join(places)}; {report.text.decode()}"


def _sum_of_all(x: np.ndarray[Any, Any]) -> Any:
    return [x.sum()]


def _double_buffers(x: np.ndarray[Any, Any]) -> Any:
    rows = x.reshape(-1, 64)
    for _ in range(8):
        rows = rows + np.roll(rows, -1, 1)
    return rows.ravel()


def _grid_steps(x: np.ndarray[Any, Any]) -> Any:
    for _ in range(3):
        x = x + np.roll(x, -37)
    return x


def _tiles(x: np.ndarray[Any, Any]) -> Any:
    return (np.roll(x.reshape(-1, 8), -1, 1) + np.arange(len(x)).reshape(-1, 8) // 8 % 4).ravel()


def _produce(x: np.ndarray[Any, Any]) -> Any:
    rows = x[: len(x) // 2].reshape(-1, 32)
    return np.sum([np.roll(rows, -i, 1) * (i + 1) for i in range(6)], 0).ravel()


def _local(x: np.ndarray[Any, Any]) -> Any:
    return 8 * np.arange(len(x)) + 28 + 12


CORRECT: dict[str, tuple[Callable[[np.ndarray[Any, Any]], Any], dict[str, Any]]] = {
    "copy": (lambda x: x + 1, {}),
    "block_sum": (lambda x: x.reshape(-1, 64).sum(1), {}),
    "warp_sum": (lambda x: x.reshape(-1, 32).sum(1), {}),
    "grid_sum": (_sum_of_all, {}),
    "spin_lock": (_sum_of_all, {}),
    "double_buffer": (_double_buffers, {}),
    "early_exit": (lambda x: [1], {"count": 100}),
    "same_value": (lambda x: np.ones(len(x)), {}),
    "warp_synchronous": (lambda x: x.reshape(-1, 32).sum(1), {"shared": (64,)}),
    "tiles": (_tiles, {}),
    "grid_sync": (_grid_steps, {"flags": FIBERS | COOPERATIVE}),
    "look_back": (np.cumsum, {}),
    "producer": (_produce, {}),
    "swap_loop": (_sum_of_all, {}),
    "histogram": (lambda x: np.bincount(x % 16, minlength=16), {}),
    "heap": (lambda x: [i * (i + 1) // 2 for i in range(64)] * 4, {}),
    "local": (_local, {}),
    "halves": (lambda x: (x.view(np.uint16)[: len(x)] + 1).view(np.uint32), {}),
    "padding": (lambda x: [i ^ 1 for i in range(64)] * (len(x) // 64), {}),
    "bytes": (lambda x: (x.view(np.uint8)[: len(x)] + 1).view(np.uint32), {}),
}
"""By kernel the beginning of its output, from the input, and how it is launched."""


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_kernel_runs_under_every_schedule_without_a_report(machine: Machine, name: str) -> None:
    expected, how = CORRECT[name]
    for schedule in some_schedules(name):
        report, arrays = machine.run(name, schedule=schedule, **how)
        assert report.kind == 0, f"{schedule}: {show(report)}"
        wanted = np.asarray(expected(arrays["input"])).astype(np.uint32)
        np.testing.assert_array_equal(arrays["output"][: len(wanted)], wanted, err_msg=str(schedule))


def test_the_operations_of_a_warp_give_what_ptx_says(machine: Machine) -> None:
    for schedule in SCHEDULES:
        report, arrays = machine.run("warp_operations", grid=1, block=32, output_size=512, schedule=schedule)
        assert report.kind == 0, show(report)
        x, found = arrays["input"], arrays["output"].reshape(32, 16)
        lanes = np.arange(32)
        columns = [
            np.where(lanes >= 3, np.roll(x, 3), x), lanes >= 3, x[lanes ^ 5], x[(lanes & 24) | 2],
            np.full(32, sum(1 << i for i in lanes if x[i] & 1)), np.full(32, 3),
            [sum(1 << j for j in lanes if x[j] & 3 == x[i] & 3) for i in lanes], np.full(32, 2**32 - 1), np.ones(32),
            np.full(32, 2**32 - 28), np.repeat(x.reshape(4, 8).sum(1), 8), np.where(lanes % 2, 0xAAAAAAAA, 1),
            np.full(32, (x & 1).sum()), np.full(32, 3),
        ]  # fmt: skip
        for i, column in enumerate(columns):
            np.testing.assert_array_equal(found[:, i], np.asarray(column).astype(np.uint32), err_msg=f"{i} {schedule}")


ADD, MIN, MAX, INC, DEC, AND, OR, XOR, EXCH, CAS = range(10)
INTEGERS = {0: np.uint16, 1: np.uint32, 2: np.uint64, 3: np.int32, 4: np.int64}
FLOATS = {5: np.float16, 9: np.float32, 10: np.float64}
B128 = 11


def _step(operation: int, old: Any, x: Any, y: Any) -> Any:
    results = {
        ADD: lambda: old + x, MIN: lambda: np.fmin(old, x), MAX: lambda: np.fmax(old, x),
        INC: lambda: x * 0 if old >= x else old + 1, DEC: lambda: x if old == 0 or old > x else old - 1,
        AND: lambda: old & x, OR: lambda: old | x, XOR: lambda: old ^ x, EXCH: lambda: x,
        CAS: lambda: y if old == x else old,
    }  # fmt: skip
    return results[operation]()


def _atomics() -> list[tuple[int, int, Any]]:
    integers = [(op, number, kind) for number, kind in INTEGERS.items() for op in range(10)]
    signed = [each for each in integers if each[2] in (np.int32, np.int64) and each[0] in (INC, DEC)]
    return [each for each in integers if each not in signed] + [
        (op, number, kind) for number, kind in FLOATS.items() for op in (ADD, MIN, MAX)
    ]


@pytest.mark.parametrize(("operation", "number", "kind"), _atomics())
def test_atomics_of_every_type_compute_as_numpy_does(machine: Machine, operation: int, number: int, kind: Any) -> None:
    count, random = 200, np.random.default_rng(operation)
    slots = np.zeros((count + 1, 16 // np.dtype(kind).itemsize), kind)
    if np.issubdtype(kind, np.floating):
        slots[:, 0] = random.normal(size=count + 1).astype(kind)
        slots[3, 0], slots[50, 0], slots[60, 0] = -0.0, 0.0, np.nan if operation != ADD else 1
    else:
        slots[:, 0] = random.integers(0, 5, count + 1)
        slots[5, 0] = np.iinfo(kind).max
    report, arrays = machine.run(
        "atomic_sequence", grid=1, block=1, count=count, value=operation + 16 * number, output_size=4,
        more_size=4 * count, data=slots.view(np.uint32).ravel(),
    )  # fmt: skip
    assert report.kind == 0, show(report)
    expected, old = [], kind(0)
    with np.errstate(over="ignore"):
        for i in range(count):
            expected.append(old)
            old = kind(_step(operation, old, slots[i, 0], slots[i + 1, 0]))
    np.testing.assert_array_equal(arrays["more"].view(kind).reshape(count, -1)[:, 0], np.array(expected, kind))
    np.testing.assert_array_equal(arrays["output"].view(kind)[0], old)


def test_atomics_of_pairs_bfloat16_and_128_bits(machine: Machine) -> None:
    def run(operation: int, number: int, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        report, arrays = machine.run(
            "atomic_sequence", grid=1, block=1, count=len(rows) - 1, value=operation + 16 * number, output_size=4,
            more_size=4 * len(rows), data=rows.view(np.uint32).ravel(),
        )  # fmt: skip
        assert report.kind == 0, show(report)
        return arrays["output"]

    pairs = np.zeros((40, 8), np.float16)
    pairs[:, :2] = np.random.default_rng(1).normal(size=(40, 2))
    sums = [np.float16(0), np.float16(0)]
    for row in pairs[:-1]:
        sums = [np.float16(total + x) for total, x in zip(sums, row, strict=False)]
    np.testing.assert_array_equal(run(ADD, 6, pairs).view(np.float16)[:2], sums)
    # 1 + 2**-8 is halfway between two bfloat16: to the even one; 1 + 2**-8 + 2**-8 as well.
    halves = np.zeros((4, 8), np.uint16)
    halves[:, 0] = [0x3F80, 0x3B80, 0x3B80, 0]
    assert run(ADD, 7, halves).view(np.uint16)[0] == 0x3F80
    assert run(MAX, 7, halves).view(np.uint16)[0] == 0x3F80
    wide = np.arange(16, dtype=np.uint32).reshape(4, 4)
    np.testing.assert_array_equal(run(EXCH, B128, wide), wide[2])
    # Each row is what the next one is compared with.
    np.testing.assert_array_equal(run(CAS, B128, wide - wide[0]), wide[3] - wide[0])
    np.testing.assert_array_equal(run(CAS, B128, wide), [0, 0, 0, 0])


@pytest.mark.parametrize(("steps", "value"), [(20_000, 1), (40_000, 0)], ids=["barriers", "warps"])
def test_long_loops_of_barriers_raise_no_alarm(checked: Machine, steps: int, value: int) -> None:
    for grid, schedule in ((2, (0, 0)), (1, (2, 1))):
        report, arrays = checked.run(
            "long_double_buffer", grid=grid, block=32, count=steps, value=value, shared=(64,), schedule=schedule
        )
        assert report.kind == 0, show(report)
        assert arrays["output"][0] == steps % 32


ENDLESS = {"most_ticks": 200_000}
BUGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bug_out_of_bounds": ("out of bounds", {}),
    "bug_before_begin": ("out of bounds", {}),
    "bug_shared_bounds": ("out of bounds", {"shared": (64, 64)}),
    "bug_dynamic_bounds": ("out of bounds", {"dynamic": 256}),
    "bug_null": ("out of bounds", {}),
    "bug_misaligned": ("misaligned", {"data": np.arange(300, dtype=np.uint32)}),
    "bug_uninitialised_shared": ("uninitialised", {}),
    "bug_uninitialised_local": ("uninitialised", {}),
    "bug_uninitialised_global": ("uninitialised", {"unwritten": ("more",)}),
    "bug_uninitialised_heap": ("uninitialised", {}),
    "bug_heap_bounds": ("out of bounds", {}),
    "bug_after_free": ("out of bounds", {}),
    "bug_double_free": ("bad free", {}),
    "bug_local_bounds": ("out of bounds", {}),
    "bug_ended_local": ("out of bounds", {}),
    "bug_read_only": ("read-only", {}),
    "bug_race_block": ("race", {}),
    "bug_race_warp": ("race", {}),
    "bug_race_reduction": ("race", {}),
    "bug_race_blocks": ("race", {}),
    "bug_race_sum": ("race", {}),
    "bug_race_write_after_read": ("race", {}),
    "bug_lock_without_fence": ("race", {}),
    "bug_lock_without_fence_behind": ("race", {}),
    "bug_atomic_and_plain": ("race", {}),
    "bug_initialisation_without_barrier": ("race", {}),
    "bug_read_behind_atomics": ("race", {}),
    "bug_read_beside_atomics": ("race", {}),
    "bug_plain_wait": ("race", {"grid": 2, "block": 32, "most_ticks": 2_000_000}),
    "bug_tiles": ("race", {}),
    "bug_other_lock": ("race", {}),
    "bug_plain_flag": ("race", {}),
    "bug_fence_of_the_block": ("race", {}),
    "bug_single_buffer": ("race", {}),
    "bug_bytes": ("race", {}),
    "bug_halves": ("race", {}),
    "bug_producer_too_early": ("race", {}),
    "bug_divergent_barrier": ("divergent barrier", {}),
    "bug_deadlock": ("deadlock", {}),
    "bug_warp_deadlock": ("deadlock", {}),
    "bug_mask": ("bad mask", {}),
    "bug_endless": ("endless", ENDLESS),
    "bug_spin": ("endless", {"grid": 2, "block": 32, **ENDLESS}),
    "bug_assert": ("assertion", {}),
    "bug_trap": ("trap", {}),
}
"""By kernel the fault, and how it is launched."""
UNCHECKED = (
    "bug_double_free",
    "bug_deadlock",
    "bug_warp_deadlock",
    "bug_mask",
    "bug_endless",
    "bug_spin",
    "bug_assert",
    "bug_trap",
)
"""Those that are found without checks too."""


def _check_places(name: str, report: FaultReport) -> None:
    first, both = mark(name, "a"), mark(name, "b")
    assert first or both
    if first:
        assert report.here.site in first, show(report)
        return
    assert {report.here.site, report.other.site} <= both, show(report)
    here, other = ((*place.ctaid, *place.tid) for place in (report.here, report.other))
    assert here != other


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_reported_under_every_schedule_with_its_places(checked: Machine, name: str) -> None:
    kind, how = BUGS[name]
    for schedule in some_schedules(name):
        report, _ = checked.run(name, schedule=schedule, **how)
        assert FAULTS[report.kind] == kind, f"{schedule}: {show(report)}"
        _check_places(name, report)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", UNCHECKED)
def test_what_ends_a_launch_without_checks_has_its_place_too(
    run_launch: Any, kernels: tuple[Any, Any], name: str, workers: int
) -> None:
    kind, how = BUGS[name]
    for schedule in SCHEDULES[:4]:
        report, _ = Machine(run_launch, kernels).run(
            name, schedule=schedule, workers=workers, **{"most_ticks": 1_000_000, **how}
        )
        assert FAULTS[report.kind] == kind, show(report)
        _check_places(name, report)


def test_places_are_right_in_a_large_program_too(checked: Machine) -> None:
    for name in ("bug_race_block", "bug_bytes", "bug_atomic_and_plain"):
        report, _ = checked.run(name, site_count=100_000)
        assert FAULTS[report.kind] == "race", show(report)
        _check_places(name, report)


def test_a_missing_fence_before_the_last_block_is_found(checked: Machine) -> None:
    places = mark("last_block", "last_block_a") | mark("last_block", "last_block_b")
    for schedule in SCHEDULES:
        report, _ = checked.run("bug_no_fence", schedule=schedule)
        assert FAULTS[report.kind] == "race", show(report)
        assert {report.here.site, report.other.site} <= places, show(report)


@pytest.mark.parametrize("flags", [0, FIBERS])
@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("bug_stack", "stack overflow", 0), ("bug_wild", "segmentation fault", 0),
        ("bug_wild", "segmentation fault", 8192),
        ("bug_division", "trap", 0),
    ],
)  # fmt: skip
def test_a_fault_of_the_processor_ends_the_launch_and_not_the_process(
    machine: Machine, name: str, kind: str, value: int, flags: int
) -> None:
    if name == "bug_division" and not sys.platform.startswith("linux"):
        pytest.skip("no trap for a division by zero")
    for workers in (1, 3):
        for _ in range(5):
            report, _ = machine.run(name, value=value, flags=flags, workers=workers, block=32)
            assert FAULTS[report.kind] == kind, show(report)
            assert (list(report.here.tid), list(report.here.ctaid)) == ([5, 0, 0], [0, 0, 0])
    report, _ = machine.run("copy")
    assert report.kind == 0


def test_a_report_names_region_offset_and_variable(checked: Machine) -> None:
    report, _ = checked.run("bug_out_of_bounds", grid=2, block=32)
    assert (report.region, report.offset, report.nbytes) == (0, 256, 4)
    assert (list(report.here.tid), list(report.here.ctaid)) == ([31, 0, 0], [1, 0, 0])
    report, _ = checked.run("bug_before_begin")
    assert (report.region, report.offset) == (1, -4)
    report, _ = checked.run("bug_shared_bounds", shared=(64, 64))
    assert (report.region, report.offset, report.variable) == (-1, 1024 + 256, 0)
    report, _ = checked.run("bug_local_bounds")
    assert (report.region, report.offset) == (-2, 16)
    report, _ = checked.run("bug_assert")
    assert report.text == b"file.cu:12: kernel: assertion `x > 0` failed"
    report, _ = checked.run("bug_heap_bounds")
    assert report.text == b"memory of 16 bytes in the device's heap"


@pytest.mark.parametrize("flags", [0, FIBERS])
def test_output_comes_in_whole_lines(machine: Machine, flags: int) -> None:
    report, _ = machine.run("hello", grid=2, block=32, flags=flags, value=flags, workers=2)
    assert report.kind == 0, show(report)
    lines = "".join(machine.written).splitlines()
    assert sorted(lines) == [f"thread {i:3}: {i / 2:.2f} abc  |%|{1 << 40}" for i in range(64)]


def test_launches_with_one_seed_are_the_same(checked: Machine) -> None:
    def places(seed: int) -> tuple[Any, ...]:
        report, _ = checked.run("bug_race_sum", schedule=(2, seed))
        return (*report.here.tid, *report.here.ctaid, *report.other.tid, *report.other.ctaid)

    assert places(3) == places(3)
    assert len({places(seed) for seed in range(10)}) > 5


def test_stop_ends_a_launch_that_runs(machine: Machine) -> None:
    for flags in (0, FIBERS):
        stop = ctypes.c_int32(0)
        timer = threading.Timer(0.05, lambda: setattr(stop, "value", 1))  # noqa: B023 - joined in this turn
        timer.start()
        report, _ = machine.run("bug_endless", flags=flags, most_ticks=0, stop=ctypes.pointer(stop))
        timer.join()
        assert FAULTS[report.kind] == "stopped"


def test_launches_run_from_several_threads_at_once(run_launch: Any, kernels: tuple[Any, Any]) -> None:
    found: list[str] = []

    def run_some(number: int) -> None:
        machine = Machine(run_launch, kernels, is_checked=number % 2 == 1)
        for i in range(20):
            for name, kind in (("block_sum", ""), ("bug_wild", "segmentation fault"), ("bug_trap", "trap")):
                report, _ = machine.run(name, workers=1 + i % 3, block=32)
                if FAULTS[report.kind] != kind:
                    found.append(show(report))

    threads = [threading.Thread(target=run_some, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not found


def test_a_fault_outside_a_launch_is_still_the_process_s(kernels: tuple[Any, Any]) -> None:
    """The handlers from before are back, and called while another thread's launch runs."""
    program = f"""
import ctypes, faulthandler, os, sys, threading, time
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(FOLDER.parents[1])!r}]
import test_runtime as t
library = ctypes.CDLL({str(LIBRARY)!r}).xf_run_launch
kernels = ctypes.CDLL({kernels[0]._name!r})
for when in ("after", "meanwhile"):
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        continue
    faulthandler.enable()
    machine = t.Machine(library, (kernels, kernels))
    assert machine.run("bug_wild", block=32)[0].kind == 10
    if when == "meanwhile":
        threading.Thread(target=machine.run, args=("bug_endless",), kwargs={{"most_ticks": 0}}, daemon=True).start()
        time.sleep(0.1)
    ctypes.string_at(8)
"""
    done = processes.run("-c", program)
    assert done.stdout.split() == ["-11", "-11"], done.stderr
    assert done.stderr.count("Segmentation fault") == 2


def test_what_a_kernel_reads_and_writes_is_told_by_the_byte(run_launch: Any, kernels: tuple[Any, Any]) -> None:
    machine = Machine(run_launch, kernels)
    report, _ = machine.run("copy", count=100, flags=TRACK)
    assert report.kind == 0
    (input_read, input_written, _), (output_read, output_written, _), _ = machine.tracks
    for found in (input_read, output_written):
        assert (int(~found[0]), int(found[1])) == (0, 400)
        assert np.unpackbits(found[2:].view(np.uint8), bitorder="little")[:1024].tolist() == [1] * 400 + [0] * 624
    assert not input_written.any()
    assert not output_read.any()


def test_bytes_that_a_kernel_writes_are_written_in_the_next_launch(checked: Machine) -> None:
    report, _ = checked.run("copy", unwritten=("output",))
    assert report.kind == 0
    output = np.unpackbits(checked.tracks[1][2].view(np.uint8), bitorder="little")
    assert output[:1024].all()


@pytest.mark.parametrize("schedule", [(0, 0), (1, 0), (2, 1)], ids=str)
def test_blocks_of_several_workers_give_the_same(
    run_launch: Any, kernels: tuple[Any, Any], schedule: tuple[int, int]
) -> None:
    machine = Machine(run_launch, kernels)
    for name, (expected, how) in CORRECT.items():
        report, arrays = machine.run(name, workers=4, grid=9, schedule=schedule, **how)
        assert report.kind == 0, show(report)
        if name == "early_exit":
            continue
        wanted = np.asarray(expected(arrays["input"])).astype(np.uint32)[: 9 * 64 // 8]
        np.testing.assert_array_equal(arrays["output"][: len(wanted)], wanted, err_msg=name)
