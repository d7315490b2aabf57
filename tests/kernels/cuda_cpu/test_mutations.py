"""Checked runs find each mistake that is put into correct kernels, and nothing in the kernels themselves."""

from __future__ import annotations

import pytest

from tests.kernels.cuda_cpu.mutants import SCHEDULES, Batch, Mutant, judge, mutate
from tests.kernels.cuda_cpu.mutated_programs import PROGRAMS
from tests.kernels.cuda_cpu.running import needs_cc, needs_nvrtc
from tests.sizes import IS_LONG, some

pytestmark = [needs_cc, needs_nvrtc]

SAMPLE = 1 if IS_LONG else 12
"""One mutant of this number is run."""

_OWN_REGISTER = "what it passes is a variable of the thread's own"
_OWN_WORDS = "between the two barriers that are left each thread uses words of its own alone"
_SAME_VALUE = "all threads write the same value"
_NOT_READ = "its value is only used where it has been set"

EQUIVALENT = {
    "block_sum:12 barrier moved up `__syncthreads();`": _OWN_WORDS,
    "block_sum:14 guard deleted `if (threadIdx.x == 0)`": _SAME_VALUE,
    "scan_two_buffers:12 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "scan_up_and_down:9 barrier moved down `__syncthreads();`": _OWN_WORDS,
    "scan_up_and_down:18 barrier moved up `__syncthreads();`": _OWN_REGISTER,
    "scan_up_and_down:18 barrier moved down `__syncthreads();`": _OWN_WORDS,
    "scan_up_and_down:25 barrier deleted `__syncthreads();`": _OWN_WORDS,
    "scan_up_and_down:25 barrier moved up `__syncthreads();`": _OWN_WORDS,
    "scan_up_and_down:25 barrier moved down `__syncthreads();`": _OWN_WORDS,
    "transpose:8 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "histogram:6 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "last_block:14 fence moved down `__threadfence();`": _OWN_REGISTER,
    "stencil:11 barrier moved up `__syncthreads();`": "the thread that writes the last word reads it alone",
    "stencil_plane:10 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "warp_synchronous:11 barrier moved up `__syncwarp();`": _OWN_WORDS,
    "warp_synchronous:13 guard deleted `if (lane == 0)`": _SAME_VALUE,
    "warp_volatile:7 barrier moved down `__syncwarp();`": _OWN_WORDS,
    "tiles:12 barrier moved up `block.sync();`": "it passes shuffles alone",
    "tiles:16 guard deleted `if (threadIdx.x == 0)`": _SAME_VALUE,
    "compaction:5 guard deleted `if (threadIdx.x == 0)`": _SAME_VALUE,
    "compaction:7 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "compaction:10 initialisation deleted `int place = 0;`": _NOT_READ,
    "compaction_of_warps:7 initialisation deleted `int begin = 0;`": _NOT_READ,
    "breadth_first_in_a_block:9 guard deleted `if (node == 0)`": _SAME_VALUE,
    "breadth_first_in_a_block:13 guard's part deleted `if (node < n && own == depth) {`": "the rest has no depth",
    "maximum_early_exit:6 guard deleted `if (x[i] <= *most)`": "it only saves the atomic",
    "bitonic_sort:8 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "template_maximum:20 guard deleted `if (threadIdx.x == 0) {`": _SAME_VALUE,
    "plain_behind_flag:7 guard deleted `if (threadIdx.x == 0)`": _SAME_VALUE,
    "plain_behind_flag:10 guard deleted `if (threadIdx.x == 0) {`": "each thread waits for the flag itself",
    "look_back:3 guard deleted `if (threadIdx.x == 0) {`": "each thread computes the same states",
    "until_stable:6 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "until_stable:20 barrier moved up `__syncthreads();`": "the barriers before and behind are left",
    "aggregated_atomics:10 initialisation deleted `int begin = 0;`": _NOT_READ,
    "scan_of_a_block:6 initialisation deleted `long long value = 0;`": _NOT_READ,
    "transpose_padded:9 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "product_of_two_buffers:10 guard deleted `if (row < 4)`": "the second buffer is filled later",
    "product_of_two_buffers:14 barrier moved down `__syncthreads();`": "a buffer is filled once",
    "product_of_two_buffers:15 guard deleted `if (part == 0) {`": "the first buffer is not used again",
    "last_block_of_warps:11 guard deleted `if (threadIdx.x % 32 == 0)`": _SAME_VALUE,
    "last_block_of_warps:22 guard deleted `if (threadIdx.x == 0) {`": _SAME_VALUE,
    "last_block_of_warps:23 fence moved down `__threadfence();`": _OWN_REGISTER,
    "look_back_by_flags:21 initialisation deleted `int flag = 0;`": _NOT_READ,
    "bitonic_sort_of_pairs:13 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "ring_queue:6 guard deleted `if (threadIdx.x == 0) {`": _SAME_VALUE,
    "mean_of_the_grid:5 guard deleted `if (threadIdx.x == 0)`": _SAME_VALUE,
    "mean_of_the_grid:8 atomic narrowed `atomicAdd(&sums[blockIdx.x], x[i]);`": "each block has a sum of its own",
    "mean_of_the_grid:9 barrier moved down `grid.sync();`": _OWN_REGISTER,
    "mean_of_the_grid:14 barrier moved up `grid.sync();`": _OWN_WORDS,
    "mean_of_the_grid:15 guard deleted `if (threadIdx.x == 0)`": _SAME_VALUE,
    "bits_of_floats:5 guard deleted `if (threadIdx.x == 0)`": _SAME_VALUE,
    "bits_of_floats:7 barrier moved down `__syncthreads();`": _OWN_REGISTER,
    "bits_of_floats:10 guard deleted `if (threadIdx.x < n)`": "the compiler reads where the value is used",
    "bits_of_floats:18 guard deleted `if (threadIdx.x == 0)`": _SAME_VALUE,
}
"""Mutants that mean the same."""

VALUES = {
    "warp_shuffles:13 guard deleted `if (threadIdx.x == 0) {`",
    "scan_of_warps:9 guard deleted `if (lane >= step)`",
    "spin_lock:3 guard deleted `if (threadIdx.x == 0) {`",
    "breadth_first_step:6 guard deleted `if (before[node] != depth)`",
    "breadth_first_step:10 guard deleted `if (level[next] < 0) {`",
    "bitonic_sort:14 guard deleted `if ((a > b) == is_up) {`",
    "local_arrays:13 guard deleted `if (firsts[value] < 0)`",
    "plain_behind_flag:3 guard deleted `if (blockIdx.x == 0) {`",
    "look_back:13 guard deleted `if (state >> 32 == 2)`",
    "scan_of_a_block:11 guard deleted `if (lane >= step)`",
    "scan_of_a_block:21 guard deleted `if (t >= step)`",
    "look_back_by_flags:30 index widened `totals[other]`",
    "bitonic_sort_of_pairs:16 guard deleted `if ((own[at] > own[at + stride]) == is_up) {`",
}
"""Guards, and an index of a way that few runs take, that decide what is computed: without them the result is another
one, by accesses that are all in order."""


@pytest.fixture(scope="module")
def originals() -> Batch:
    programs = list(PROGRAMS.values())
    return Batch([each.source for each in programs], programs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_correct_kernel_runs_without_a_report_under_every_schedule(originals: Batch, name: str) -> None:
    number = list(PROGRAMS).index(name)
    for schedule in some(SCHEDULES, 3, name):
        error, different = originals.run(number, schedule)
        assert error is None, f"{schedule}: {error}"
        assert not different, f"{schedule}: {different}"


def _list_mutants() -> list[Mutant]:
    everything = [mutant for program in PROGRAMS.values() for mutant in mutate(program)]
    return everything[::SAMPLE]


def test_each_mutant_is_reported_or_argued_to_mean_the_same() -> None:
    missed, alarms = [], []
    for mutant, outcome in judge(_list_mutants()).items():
        is_equivalent = str(mutant) in EQUIVALENT
        if outcome.reported:
            alarms += [f"{mutant}: {outcome.first}"] if is_equivalent else []
            continue
        # A widened index may name another element that may be read: only the result shows it, in every run.
        is_value = str(mutant) in VALUES or (mutant.kind == "index widened" and outcome.wrong == outcome.runs)
        if outcome.wrong if is_equivalent else not (is_value and outcome.wrong):
            missed.append(f"{mutant}: {outcome.wrong} of {outcome.runs} results are wrong, none is reported")
    assert not missed
    assert not alarms


def test_what_is_argued_is_a_mutant() -> None:
    names = [str(mutant) for program in PROGRAMS.values() for mutant in mutate(program)]
    assert EQUIVALENT.keys() | VALUES <= set(names)
    assert len(names) > 500
    assert len(PROGRAMS) >= 30
