"""Correct CUDA programs of the kinds that people write, one statement a line, to be mutated."""

# ruff: noqa: E501 - statements of CUDA

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass
class Program:
    """`source` defines kernel `KERNEL`, whose parameters are the arrays, then the numbers; helpers are in `SPACE`."""

    name: str
    source: str
    arrays: dict[str, Array]
    expected: dict[str, Array]
    grid: int = 1
    block: int = 64
    numbers: tuple[Any, ...] = ()
    dynamic: int = 0
    is_cooperative: bool = False
    const: tuple[str, ...] = ()
    extents: tuple[int, int] = field(default=(1, 1))  # y of the grid and of the block
    sorts: bool = False  # the outputs are right in any order


PROGRAMS: dict[str, Program] = {}
RANDOM = np.random.default_rng(5)
X = RANDOM.integers(1, 50, 256).astype(np.int32)
I32 = np.int32


def program(name: str, source: str, arrays: dict[str, Array], expected: dict[str, Array], **more: Any) -> None:
    PROGRAMS[name] = Program(name, source.strip("\n"), arrays, expected, **more)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, I32)


def fold(rows: Array, step: Callable[[Array], Array], times: int) -> Array:
    for _ in range(times):
        rows = step(rows)
    return rows


program("block_sum", """
__global__ void KERNEL(const int *x, int *out, int n)
{
    __shared__ int part[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    part[threadIdx.x] = 0;
    if (i < n)
        part[threadIdx.x] = x[i];
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (threadIdx.x < step)
            part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}
""", {"x": X[:250], "out": zeros(4)}, {"out": np.append(X[:250], zeros(6)).reshape(4, 64).sum(1).astype(I32)},
    grid=4, numbers=(I32(250),), const=("x",))  # fmt: skip

program("warp_shuffles", """
__global__ void KERNEL(const int *x, int *out, int n)
{
    __shared__ int part[4];
    int i = blockIdx.x * 128 + threadIdx.x;
    int sum = 0;
    if (i < n)
        sum = x[i];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int warp = 0; warp < 4; ++warp)
            total += part[warp];
        atomicAdd(out, total);
    }
}
""", {"x": X[:250], "out": zeros(1)}, {"out": X[:250].sum(keepdims=True).astype(I32)}, grid=2, block=128,
    numbers=(I32(250),), const=("x",))  # fmt: skip

program(
    "scan_two_buffers",
    """
__global__ void KERNEL(const int *x, int *out)
{
    __shared__ int buffer[2][64];
    int in = 0;
    buffer[0][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        int value = buffer[in][threadIdx.x];
        if (threadIdx.x >= step)
            value += buffer[in][threadIdx.x - step];
        buffer[1 - in][threadIdx.x] = value;
        __syncthreads();
        in = 1 - in;
    }
    out[threadIdx.x] = buffer[in][threadIdx.x];
}
""",
    {"x": X[:64], "out": zeros(64)},
    {"out": np.cumsum(X[:64]).astype(I32)},
    const=("x",),
)

program(
    "scan_up_and_down",
    """
__global__ void KERNEL(const int *x, int *out)
{
    __shared__ int tree[128];
    int t = threadIdx.x;
    tree[2 * t] = x[2 * t];
    tree[2 * t + 1] = x[2 * t + 1];
    int offset = 1;
    for (int d = 64; d > 0; d /= 2) {
        __syncthreads();
        if (t < d)
            tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0)
        tree[127] = 0;
    for (int d = 1; d < 128; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int left = tree[offset * (2 * t + 1) - 1];
            tree[offset * (2 * t + 1) - 1] = tree[offset * (2 * t + 2) - 1];
            tree[offset * (2 * t + 2) - 1] += left;
        }
    }
    __syncthreads();
    out[2 * t] = tree[2 * t];
    out[2 * t + 1] = tree[2 * t + 1];
}
""",
    {"x": X[:128], "out": zeros(128)},
    {"out": (np.cumsum(X[:128]) - X[:128]).astype(I32)},
    const=("x",),
)

program(
    "scan_of_warps",
    """
__global__ void KERNEL(const int *x, int *out)
{
    __shared__ int totals[4];
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    int sum = x[threadIdx.x];
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step)
            sum += other;
    }
    if (lane == 31)
        totals[warp] = sum;
    __syncthreads();
    for (int before = 0; before < warp; ++before)
        sum += totals[before];
    out[threadIdx.x] = sum;
}
""",
    {"x": X[:128], "out": zeros(128)},
    {"out": np.cumsum(X[:128]).astype(I32)},
    block=128,
    const=("x",),
)

program("transpose", """
__global__ void KERNEL(const int *x, int *out, int width, int height)
{
    __shared__ int tile[8][9];
    int column = blockIdx.x * 8 + threadIdx.x;
    int row = blockIdx.y * 8 + threadIdx.y;
    if (column < width && row < height)
        tile[threadIdx.y][threadIdx.x] = x[row * width + column];
    __syncthreads();
    column = blockIdx.y * 8 + threadIdx.x;
    row = blockIdx.x * 8 + threadIdx.y;
    if (column < height && row < width)
        out[row * height + column] = tile[threadIdx.x][threadIdx.y];
}
""", {"x": X[:12 * 20], "out": zeros(12 * 20)}, {"out": X[:12 * 20].reshape(12, 20).T.ravel()}, grid=3, block=8,
    numbers=(I32(20), I32(12)), extents=(2, 8), const=("x",))  # fmt: skip

program("matrix_product", """
__global__ void KERNEL(const int *a, const int *b, int *out, int n)
{
    __shared__ int left[4][4];
    __shared__ int right[4][4];
    int row = blockIdx.y * 4 + threadIdx.y;
    int column = blockIdx.x * 4 + threadIdx.x;
    int sum = 0;
    for (int tile = 0; tile < n; tile += 4) {
        left[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 4; ++k)
            sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    out[row * n + column] = sum;
}
""", {"a": X[:64], "b": X[64:128], "out": zeros(64)},
    {"out": (X[:64].reshape(8, 8) @ X[64:128].reshape(8, 8)).ravel().astype(I32)}, grid=2, block=4, extents=(2, 4),
    numbers=(I32(8),), const=("a", "b"))  # fmt: skip

program("histogram", """
__global__ void KERNEL(const int *x, int *bins, int n)
{
    __shared__ int own[16];
    if (threadIdx.x < 16)
        own[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n)
        atomicAdd(&own[x[i] % 16], 1);
    __syncthreads();
    if (threadIdx.x < 16)
        atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
""", {"x": X[:250], "bins": zeros(16)}, {"bins": np.bincount(X[:250] % 16, minlength=16).astype(I32)}, grid=4,
    numbers=(I32(250),), const=("x",))  # fmt: skip

program("last_block", """
__global__ void KERNEL(const int *x, int *parts, unsigned *count, int *out)
{
    __shared__ bool is_last;
    int sum = 0;
    for (int i = 0; i < 16; ++i)
        sum += x[(blockIdx.x * 32 + threadIdx.x) % 240 + i];
    parts[blockIdx.x * 32 + threadIdx.x] = sum;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        is_last = atomicAdd(count, 1u) == gridDim.x - 1;
    __syncthreads();
    if (is_last) {
        __threadfence();
        int total = 0;
        for (int block = 0; block < gridDim.x; ++block)
            total += parts[block * 32 + threadIdx.x];
        out[threadIdx.x] = total;
    }
}
""", {"x": X[:255], "parts": zeros(256), "count": np.zeros(1, np.uint32), "out": zeros(32)},
    {"out": np.add.reduce([X[(np.arange(256) % 240) + k] for k in range(16)]).reshape(8, 32).sum(0).astype(I32)},
    grid=8, block=32, const=("x",))  # fmt: skip

program("last_block_volatile", """
__global__ void KERNEL(const int *x, volatile int *parts, unsigned *count, int *out)
{
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < 16; ++i)
            sum += x[blockIdx.x * 16 + i];
        parts[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicInc(count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        int total = 0;
        for (int block = 0; block < gridDim.x; ++block)
            total += parts[block];
        out[0] = total;
        count[0] = 0;
    }
}
""", {"x": X[:128], "parts": zeros(8), "count": np.zeros(1, np.uint32), "out": zeros(1)},
    {"out": X[:128].sum(keepdims=True).astype(I32), "count": np.zeros(1, np.uint32)}, grid=8, block=32,
    const=("x",))  # fmt: skip

program("spin_lock", """
__global__ void KERNEL(const int *x, int *lock, int *best)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence();
        best[0] += x[blockIdx.x];
        best[1] += 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
""", {"x": X[:12], "lock": zeros(1), "best": zeros(2)}, {"best": np.array([X[:12].sum(), 12], I32), "lock": zeros(1)},
    grid=12, block=32, const=("x",))  # fmt: skip

program("spin_lock_volatile", """
__global__ void KERNEL(const int *x, int *lock, volatile int *sum)
{
    bool is_done = false;
    while (!is_done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            sum[0] = sum[0] + x[blockIdx.x * 4 + threadIdx.x];
            __threadfence();
            atomicExch(lock, 0);
            is_done = true;
        }
    }
}
""", {"x": X[:24], "lock": zeros(1), "sum": zeros(1)}, {"sum": X[:24].sum(keepdims=True).astype(I32)}, grid=6, block=4,
    const=("x",))  # fmt: skip

program("stencil", """
__global__ void KERNEL(const int *x, int *out, int n)
{
    __shared__ int tile[66];
    int i = blockIdx.x * 64 + threadIdx.x;
    int t = threadIdx.x + 1;
    tile[t] = i < n ? x[i] : 0;
    if (threadIdx.x == 0)
        tile[0] = i > 0 ? x[i - 1] : 0;
    if (threadIdx.x == 63)
        tile[65] = i + 1 < n ? x[i + 1] : 0;
    __syncthreads();
    if (i < n)
        out[i] = tile[t - 1] + 2 * tile[t] + tile[t + 1];
}
""", {"x": X[:250], "out": zeros(250)}, {"out": np.convolve(X[:250], [1, 2, 1], "same").astype(I32)}, grid=4,
    numbers=(I32(250),), const=("x",))  # fmt: skip


def _sum_around(x: Array) -> Array:
    return (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]).astype(I32)


program("stencil_plane", """
__global__ void KERNEL(const int *x, int *out, int n)
{
    __shared__ int tile[10][10];
    for (int k = threadIdx.y * 8 + threadIdx.x; k < 100; k += 64) {
        int row = blockIdx.y * 8 + k / 10 - 1;
        int column = blockIdx.x * 8 + k % 10 - 1;
        bool is_in = row >= 0 && row < n && column >= 0 && column < n;
        tile[k / 10][k % 10] = is_in ? x[row * n + column] : 0;
    }
    __syncthreads();
    int row = threadIdx.y + 1;
    int column = threadIdx.x + 1;
    int around = tile[row - 1][column] + tile[row + 1][column] + tile[row][column - 1] + tile[row][column + 1];
    out[(blockIdx.y * 8 + threadIdx.y) * n + blockIdx.x * 8 + threadIdx.x] = around;
}
""", {"x": X[:256], "out": zeros(256)},
    {"out": _sum_around(np.pad(X.reshape(16, 16), 1)).ravel()},
    grid=2, block=8, extents=(2, 8), numbers=(I32(16),), const=("x",))  # fmt: skip

program("double_buffer", """
__global__ void KERNEL(const int *x, int *out, int count)
{
    __shared__ int tile[2][64];
    int sum = 0;
    tile[0][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int k = 0; k < count; ++k) {
        if (k + 1 < count)
            tile[(k + 1) % 2][threadIdx.x] = x[(k + 1) * 64 + threadIdx.x];
        sum += tile[k % 2][63 - threadIdx.x] * (k + 1);
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
""", {"x": X[:256], "out": zeros(64)}, {"out": (X.reshape(4, 64)[:, ::-1] * np.arange(1, 5)[:, None]).sum(0).astype(I32)},
    numbers=(I32(4),), const=("x",))  # fmt: skip

program(
    "warp_synchronous",
    """
__global__ void KERNEL(const int *x, int *out)
{
    __shared__ int part[64];
    int lane = threadIdx.x % 32;
    int *own = part + threadIdx.x / 32 * 32;
    own[lane] = x[blockIdx.x * 64 + threadIdx.x];
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
        if (lane < step)
            own[lane] += own[lane + step];
        __syncwarp();
    }
    if (lane == 0)
        out[blockIdx.x * 2 + threadIdx.x / 32] = own[0];
}
""",
    {"x": X[:128], "out": zeros(4)},
    {"out": X[:128].reshape(4, 32).sum(1).astype(I32)},
    grid=2,
    const=("x",),
)


def _sum_behind(x: Array, step: int) -> Array:
    return (x + np.append(x, zeros(32))[step : step + 32]).astype(I32)


program("warp_volatile", """
__global__ void KERNEL(const int *x, int *out)
{
    __shared__ volatile int part[64];
    int lane = threadIdx.x;
    part[lane] = x[lane];
    part[lane + 32] = 0;
    __syncwarp();
    int sum = part[lane];
    sum += part[lane + 16];
    __syncwarp();
    part[lane] = sum;
    __syncwarp();
    sum += part[lane + 8];
    __syncwarp();
    part[lane] = sum;
    __syncwarp();
    out[lane] = sum + part[lane + 4];
}
""", {"x": X[:32], "out": zeros(32)},
    {"out": _sum_behind(_sum_behind(_sum_behind(X[:32], 16), 8), 4)},
    block=32, const=("x",))  # fmt: skip

program(
    "tiles",
    """
__global__ void KERNEL(const int *x, int *out)
{
    namespace cg = cooperative_groups;
    __shared__ int part[64];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
    part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    tile.sync();
    int sum = part[threadIdx.x / 16 * 16 + (threadIdx.x + 1) % 16];
    for (int step = 8; step > 0; step /= 2)
        sum += tile.shfl_down(sum, step);
    block.sync();
    if (tile.thread_rank() == 0)
        part[tile.meta_group_rank()] = sum;
    block.sync();
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}
""",
    {"x": X[:128], "out": zeros(2)},
    {"out": X[:128].reshape(2, 64).sum(1).astype(I32)},
    grid=2,
    const=("x",),
)

program("whole_grid", """
__global__ void KERNEL(int *x, int *y, int rounds)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    int n = grid.size();
    for (int round = 0; round < rounds; ++round) {
        y[i] = x[(i + 1) % n] + x[i];
        grid.sync();
        x[i] = y[(i + n - 1) % n];
        grid.sync();
    }
}
""", {"x": X[:96], "y": zeros(96)},
    {"x": fold(X[:96], lambda v: np.roll(np.roll(v, -1) + v, 1), 3).astype(I32)}, grid=3, block=32,
    numbers=(I32(3),), is_cooperative=True)  # fmt: skip

program("compaction", """
__global__ void KERNEL(const int *x, int *out, int *count, int n)
{
    __shared__ int found;
    __shared__ int begin;
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();
    int i = blockIdx.x * 64 + threadIdx.x;
    bool is_kept = i < n && x[i] % 3 == 0;
    int place = 0;
    if (is_kept)
        place = atomicAdd(&found, 1);
    __syncthreads();
    if (threadIdx.x == 0)
        begin = atomicAdd(count, found);
    __syncthreads();
    if (is_kept)
        out[begin + place] = x[i];
}
""", {"x": X[:250], "out": zeros(np.count_nonzero(X[:250] % 3 == 0)), "count": zeros(1)},
    {"out": np.sort(X[:250][X[:250] % 3 == 0])}, grid=4, numbers=(I32(250),), const=("x",), sorts=True)  # fmt: skip

program("compaction_of_warps", """
__global__ void KERNEL(const int *x, int *out, int *count, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    int lane = threadIdx.x % 32;
    bool is_kept = i < n && x[i] % 3 == 0;
    unsigned kept = __ballot_sync(0xffffffffu, is_kept);
    int begin = 0;
    if (lane == 0)
        begin = atomicAdd(count, __popc(kept));
    begin = __shfl_sync(0xffffffffu, begin, 0);
    if (is_kept)
        out[begin + __popc(kept & ((1u << lane) - 1))] = x[i];
}
""", {"x": X[:250], "out": zeros(np.count_nonzero(X[:250] % 3 == 0)), "count": zeros(1)},
    {"out": np.sort(X[:250][X[:250] % 3 == 0])}, grid=4, numbers=(I32(250),), const=("x",), sorts=True)  # fmt: skip

_EDGES = np.array([[i ^ 1, (i * 7 + 2) % 60] for i in range(60)], I32)
_LEVELS = np.full(60, -1, I32)
_LEVELS[0] = 0
for _depth in range(60):
    for _node in [node for node in range(60) if _LEVELS[node] == _depth]:
        for _next in _EDGES[_node]:
            if _LEVELS[_next] < 0:
                _LEVELS[_next] = _depth + 1
_START = np.where(_LEVELS <= 2, _LEVELS, -1).astype(I32)
_AFTER = np.where(_LEVELS <= 3, _LEVELS, -1).astype(I32)

program("breadth_first_step", """
__global__ void KERNEL(const int *edges, const int *before, int *level, int *has_changed, int depth, int n)
{
    int node = blockIdx.x * 32 + threadIdx.x;
    if (node >= n)
        return;
    if (before[node] != depth)
        return;
    for (int k = 0; k < 2; ++k) {
        int next = edges[node * 2 + k];
        if (level[next] < 0) {
            level[next] = depth + 1;
            has_changed[0] = 1;
        }
    }
}
""", {"edges": _EDGES.ravel(), "before": _START, "level": _START.copy(), "has_changed": zeros(1)},
    {"level": _AFTER, "has_changed": np.ones(1, I32)}, grid=2, block=32, numbers=(I32(2), I32(60)),
    const=("edges", "before"))  # fmt: skip

program(
    "breadth_first_in_a_block",
    """
__global__ void KERNEL(const int *edges, int *out, int n)
{
    __shared__ int level[64];
    __shared__ int has_changed;
    int node = threadIdx.x;
    level[node] = node == 0 ? 0 : -1;
    for (int depth = 0; ; ++depth) {
        __syncthreads();
        if (node == 0)
            has_changed = 0;
        int own = level[node];
        __syncthreads();
        if (node < n && own == depth) {
            for (int k = 0; k < 2; ++k) {
                int next = edges[node * 2 + k];
                if (level[next] < 0) {
                    level[next] = depth + 1;
                    has_changed = 1;
                }
            }
        }
        __syncthreads();
        if (!has_changed)
            break;
    }
    if (node < n)
        out[node] = level[node];
}
""",
    {"edges": _EDGES.ravel(), "out": zeros(60)},
    {"out": _LEVELS},
    numbers=(I32(60),),
    const=("edges",),
)

program(
    "maximum_early_exit",
    """
__global__ void KERNEL(const int *x, int *most, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n)
        return;
    if (x[i] <= *most)
        return;
    atomicMax(most, x[i]);
}
""",
    {"x": np.sort(X[:250]), "most": zeros(1)},
    {"most": X[:250].max(keepdims=True)},
    grid=4,
    numbers=(I32(250),),
    const=("x",),
)

program("compare_and_swap", """
__global__ void KERNEL(const float *x, float *product, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
        int *bits = (int *)product;
        int old = *bits;
        int assumed;
        do {
            assumed = old;
            old = atomicCAS(bits, assumed, __float_as_int(__int_as_float(assumed) * x[i]));
        } while (old != assumed);
    }
}
""", {"x": np.where(np.arange(120) % 2, 2, 0.5).astype(np.float32), "product": np.full(1, 3, np.float32)},
    {"product": np.full(1, 3, np.float32)}, grid=2, numbers=(I32(120),), const=("x",))  # fmt: skip

program(
    "bitonic_sort",
    """
__global__ void KERNEL(const int *x, int *out)
{
    __shared__ int keys[64];
    int t = threadIdx.x;
    keys[t] = x[t];
    for (int size = 2; size <= 64; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            int other = t ^ step;
            if (other > t) {
                int a = keys[t];
                int b = keys[other];
                bool is_up = (t & size) == 0;
                if ((a > b) == is_up) {
                    keys[t] = b;
                    keys[other] = a;
                }
            }
        }
    }
    __syncthreads();
    out[t] = keys[t];
}
""",
    {"x": X[:64], "out": zeros(64)},
    {"out": np.sort(X[:64])},
    const=("x",),
)


def _describe_rests(rows: Array) -> Array:
    """How often each number below 4 is in a row, and where first; rows are turned by their number."""
    found = []
    for i, row in enumerate(rows.tolist()):
        turned = [(k + i) % 4 for k in range(4)]
        found += [100 * row.count(value) + (row.index(value) if value in row else -1) for value in turned]
    return np.array(found, I32)


program("local_arrays", """
__global__ void KERNEL(const int *x, int *out, int n)
{
    int counts[4];
    int firsts[4];
    int i = threadIdx.x;
    for (int k = 0; k < 4; ++k) {
        counts[k] = 0;
        firsts[k] = -1;
    }
    for (int k = 0; k < n; ++k) {
        int value = x[i * n + k] % 4;
        counts[value] += 1;
        if (firsts[value] < 0)
            firsts[value] = k;
    }
    for (int k = 0; k < 4; ++k)
        out[i * 4 + k] = counts[(k + i) % 4] * 100 + firsts[(k + i) % 4];
}
""", {"x": X[:192], "out": zeros(128)},
    {"out": _describe_rests(X[:192].reshape(32, 6) % 4)},
    block=32, numbers=(I32(6),), const=("x",))  # fmt: skip

program("struct_by_value", """
namespace SPACE {
struct Plane { int rows, columns, pitch; };
__device__ int find_offset(Plane plane, int row, int column) { return row * plane.pitch + column; }
}
__global__ void KERNEL(const int *x, int *out, SPACE::Plane plane)
{
    int row = threadIdx.x / 8;
    int column = threadIdx.x % 8;
    if (row < plane.rows && column < plane.columns)
        out[SPACE::find_offset(plane, row, column)] = x[row * plane.columns + column];
}
""", {"x": X[:49], "out": zeros(69)}, {"out": np.append(np.pad(X[:49].reshape(7, 7), ((0, 0), (0, 3))).ravel(), [])[:69].astype(I32)},
    numbers=(np.array([7, 7, 10], I32),), const=("x",))  # fmt: skip

program("template_maximum", """
namespace SPACE {
template <typename T, int SIZE> __device__ T find_most(const T *x, T *part)
{
    part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int step = SIZE / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            part[threadIdx.x] = max(part[threadIdx.x], part[threadIdx.x + step]);
        __syncthreads();
    }
    return part[0];
}
}
__global__ void KERNEL(const int *x, const double *y, int *out, double *most)
{
    __shared__ int whole[64];
    __shared__ double real[64];
    int a = SPACE::find_most<int, 64>(x, whole);
    double b = SPACE::find_most<double, 64>(y, real);
    if (threadIdx.x == 0) {
        out[0] = a;
        most[0] = b;
    }
}
""", {"x": X[:64], "y": X[64:128] / 4, "out": zeros(1), "most": np.zeros(1)},
    {"out": X[:64].max(keepdims=True), "most": X[64:128].max(keepdims=True) / 4}, const=("x", "y"))  # fmt: skip

program("constant_weights", """
namespace SPACE {
__constant__ int weights[3] = {1, 5, 2};
}
__global__ void KERNEL(const int *x, int *out, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i + 2 < n) {
        int sum = 0;
        for (int k = 0; k < 3; ++k)
            sum += SPACE::weights[k] * x[i + k];
        out[i] = sum;
    }
}
""", {"x": X[:128], "out": zeros(126)}, {"out": (X[:126] + 5 * X[1:127] + 2 * X[2:128]).astype(I32)}, grid=2,
    numbers=(I32(128),), const=("x",))  # fmt: skip

program(
    "dynamic_shared",
    """
__global__ void KERNEL(const int *x, int *out, int n)
{
    extern __shared__ int memory[];
    int *keys = memory;
    int *ranks = memory + n;
    int t = threadIdx.x;
    if (t < n) {
        keys[t] = x[t] * 64 + t;
        ranks[t] = 0;
    }
    __syncthreads();
    if (t < n) {
        for (int k = 0; k < n; ++k)
            ranks[t] += keys[k] < keys[t];
    }
    if (t < n)
        out[ranks[t]] = x[t];
}
""",
    {"x": X[:50], "out": zeros(50)},
    {"out": np.sort(X[:50])},
    numbers=(I32(50),),
    dynamic=400,
    const=("x",),
)

program("volatile_flags", """
__global__ void KERNEL(const int *x, volatile int *sums, volatile int *is_ready, int *out)
{
    int block = blockIdx.x;
    if (threadIdx.x == 0) {
        int before = 0;
        if (block > 0) {
            while (is_ready[block - 1] == 0)
                ;
            __threadfence();
            before = sums[block - 1];
        }
        sums[block] = before + x[block];
        __threadfence();
        is_ready[block] = 1;
        out[block] = before;
    }
}
""", {"x": X[:8], "sums": zeros(8), "is_ready": zeros(8), "out": zeros(8)},
    {"out": (np.cumsum(X[:8]) - X[:8]).astype(I32)}, grid=8, block=32, const=("x",))  # fmt: skip

program("plain_behind_flag", """
__global__ void KERNEL(const int *x, int *values, int *flag, int *out)
{
    if (blockIdx.x == 0) {
        values[threadIdx.x] = x[threadIdx.x] * 3;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0)
            atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) {
            while (atomicAdd(flag, 0) == 0)
                ;
            __threadfence();
        }
        __syncthreads();
        out[threadIdx.x] = values[63 - threadIdx.x];
    }
}
""", {"x": X[:64], "values": zeros(64), "flag": zeros(1), "out": zeros(64)}, {"out": 3 * X[:64][::-1]}, grid=2,
    const=("x",))  # fmt: skip

program("look_back", """
__global__ void KERNEL(const int *x, volatile unsigned long long *states, int *out)
{
    if (threadIdx.x == 0) {
        int own = x[blockIdx.x];
        unsigned long long state = ((unsigned long long)1 << 32) | (unsigned)own;
        states[blockIdx.x] = state;
        int sum = own;
        for (int before = (int)blockIdx.x - 1; before >= 0; --before) {
            do {
                state = states[before];
            } while (state >> 32 == 0);
            sum += (int)(unsigned)state;
            if (state >> 32 == 2)
                break;
        }
        states[blockIdx.x] = ((unsigned long long)2 << 32) | (unsigned)sum;
        out[blockIdx.x] = sum;
    }
}
""", {"x": X[:10], "states": np.zeros(10, np.uint64), "out": zeros(10)}, {"out": np.cumsum(X[:10]).astype(I32)}, grid=10,
    block=32, const=("x",))  # fmt: skip

program(
    "until_stable",
    """
__global__ void KERNEL(int *x)
{
    __shared__ int keys[64];
    int t = threadIdx.x;
    keys[t] = x[t];
    __syncthreads();
    int has_changed = 1;
    while (has_changed) {
        has_changed = 0;
        for (int odd = 0; odd < 2; ++odd) {
            int left = 2 * t + odd;
            if (t < 32 && left + 1 < 64) {
                if (keys[left] > keys[left + 1]) {
                    int kept = keys[left];
                    keys[left] = keys[left + 1];
                    keys[left + 1] = kept;
                    has_changed = 1;
                }
            }
            __syncthreads();
        }
        has_changed = __syncthreads_or(has_changed);
    }
    x[t] = keys[t];
}
""",
    {"x": X[:64]},
    {"x": np.sort(X[:64])},
)

program("aggregated_atomics", """
__global__ void KERNEL(const int *x, int *out, int *count, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n)
        return;
    if (x[i] % 3 == 0) {
        unsigned active = __activemask();
        int leader = __ffs(active) - 1;
        int lane = threadIdx.x % 32;
        int begin = 0;
        if (lane == leader)
            begin = atomicAdd(count, __popc(active));
        begin = __shfl_sync(active, begin, leader);
        out[begin + __popc(active & ((1u << lane) - 1))] = x[i];
    }
}
""", {"x": X[:230], "out": zeros(np.count_nonzero(X[:230] % 3 == 0)), "count": zeros(1)},
    {"out": np.sort(X[:230][X[:230] % 3 == 0])}, grid=4, numbers=(I32(230),), const=("x",), sorts=True)  # fmt: skip

program("scan_of_a_block", """
__global__ void KERNEL(const long long *x, long long *out, int n)
{
    __shared__ long long sums[3];
    int t = threadIdx.x;
    int lane = t % 32;
    long long value = 0;
    if (t < n)
        value = x[t];
    for (int step = 1; step < 32; step *= 2) {
        long long other = __shfl_up_sync(0xffffffffu, value, step);
        if (lane >= step)
            value += other;
    }
    if (lane == 31)
        sums[t / 32] = value;
    __syncthreads();
    if (t < 3) {
        long long sum = sums[t];
        for (int step = 1; step < 3; step *= 2) {
            long long other = __shfl_up_sync(7u, sum, step);
            if (t >= step)
                sum += other;
        }
        sums[t] = sum;
    }
    __syncthreads();
    if (t >= 32)
        value += sums[t / 32 - 1];
    if (t < n)
        out[t] = value;
}
""", {"x": X[:90].astype(np.int64), "out": np.zeros(90, np.int64)}, {"out": np.cumsum(X[:90]).astype(np.int64)},
    block=96, numbers=(I32(90),), const=("x",))  # fmt: skip

program("histogram_of_warps", """
__global__ void KERNEL(const int *x, int *bins, int n)
{
    __shared__ int own[3][8];
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (lane < 8)
        own[warp][lane] = 0;
    __syncwarp();
    for (int i = blockIdx.x * 96 + threadIdx.x; i < n; i += 192)
        atomicAdd(&own[warp][x[i] % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8) {
        int sum = 0;
        for (int w = 0; w < 3; ++w)
            sum += own[w][threadIdx.x];
        atomicAdd(&bins[threadIdx.x], sum);
    }
}
""", {"x": X, "bins": zeros(8)}, {"bins": np.bincount(X % 8, minlength=8).astype(I32)}, grid=2, block=96,
    numbers=(I32(256),), const=("x",))  # fmt: skip

_PLANE = X[:240].reshape(15, 16)
program("transpose_padded", """
__global__ void KERNEL(const int *x, int *out, int rows, int cols)
{
    __shared__ int tile[8][9];
    int col = blockIdx.x * 8 + threadIdx.x;
    for (int row = threadIdx.y; row < 8; row += blockDim.y) {
        if (blockIdx.y * 8 + row < rows && col < cols)
            tile[row][threadIdx.x] = x[(blockIdx.y * 8 + row) * cols + col];
    }
    __syncthreads();
    int to = blockIdx.y * 8 + threadIdx.x;
    for (int row = threadIdx.y; row < 8; row += blockDim.y) {
        if (to < rows && blockIdx.x * 8 + row < cols)
            out[(blockIdx.x * 8 + row) * rows + to] = tile[threadIdx.x][row];
    }
}
""", {"x": _PLANE.ravel(), "out": zeros(240)}, {"out": np.ascontiguousarray(_PLANE.T).ravel()}, grid=2, block=8,
    extents=(2, 4), numbers=(I32(15), I32(16)), const=("x",))  # fmt: skip

_A, _B = X[:64].reshape(8, 8), X[64:192].reshape(8, 16)
program("product_of_two_buffers", """
__global__ void KERNEL(const int *a, const int *b, int *out)
{
    __shared__ int left[2][8][4];
    __shared__ int right[2][4][8];
    int row = threadIdx.y;
    int col = threadIdx.x;
    int now = 0;
    if (col < 4)
        left[0][row][col] = a[row * 8 + col];
    if (row < 4)
        right[0][row][col] = b[row * 16 + blockIdx.x * 8 + col];
    int sum = 0;
    for (int part = 0; part < 2; ++part) {
        __syncthreads();
        if (part == 0) {
            if (col < 4)
                left[1 - now][row][col] = a[row * 8 + 4 + col];
            if (row < 4)
                right[1 - now][row][col] = b[(row + 4) * 16 + blockIdx.x * 8 + col];
        }
        for (int k = 0; k < 4; ++k)
            sum += left[now][row][k] * right[now][k][col];
        now = 1 - now;
    }
    out[row * 16 + blockIdx.x * 8 + col] = sum;
}
""", {"a": _A.ravel(), "b": _B.ravel(), "out": zeros(128)}, {"out": (_A @ _B).ravel()}, grid=2, block=8,
    extents=(1, 8), const=("a", "b"))  # fmt: skip

program("last_block_of_warps", """
__global__ void KERNEL(const int *x, int *parts, unsigned *count, int *out, int n)
{
    __shared__ int sums[2];
    __shared__ bool is_last;
    int i = blockIdx.x * 64 + threadIdx.x;
    int sum = 0;
    if (i < n)
        sum = x[i];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sums[0] + sums[1];
        __threadfence();
        is_last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last)
        return;
    if (threadIdx.x == 0) {
        __threadfence();
        int total = 0;
        for (int block = 0; block < gridDim.x; ++block)
            total += parts[block];
        out[0] = total;
    }
}
""", {"x": X[:250], "parts": zeros(4), "count": np.zeros(1, np.uint32), "out": zeros(1)},
    {"out": X[:250].sum(keepdims=True).astype(I32), "count": np.zeros(1, np.uint32)}, grid=4, numbers=(I32(250),),
    const=("x",))  # fmt: skip

program("locks_of_buckets", """
__global__ void KERNEL(const int *x, int *locks, int *counts, int *sums, int n)
{
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= n)
        return;
    int bucket = x[i] % 4;
    bool is_done = false;
    while (!is_done) {
        if (atomicCAS(&locks[bucket], 0, 1) == 0) {
            __threadfence();
            counts[bucket] += 1;
            sums[bucket] += x[i];
            __threadfence();
            atomicExch(&locks[bucket], 0);
            is_done = true;
        }
    }
}
""", {"x": X[:60], "locks": zeros(4), "counts": zeros(4), "sums": zeros(4)},
    {"counts": np.bincount(X[:60] % 4, minlength=4).astype(I32),
     "sums": np.bincount(X[:60] % 4, X[:60], minlength=4).astype(I32), "locks": zeros(4)}, grid=2, block=32,
    numbers=(I32(60),), const=("x",))  # fmt: skip

program("look_back_by_flags", """
__global__ void KERNEL(const int *x, int *next, volatile int *flags, int *totals, int *before, int *out)
{
    __shared__ int tile;
    __shared__ int begin;
    __shared__ int part[32];
    int t = threadIdx.x;
    if (t == 0)
        tile = atomicAdd(next, 1);
    __syncthreads();
    part[t] = x[tile * 32 + t];
    __syncthreads();
    if (t == 0) {
        int own = 0;
        for (int k = 0; k < 32; ++k)
            own += part[k];
        totals[tile] = own;
        __threadfence();
        flags[tile] = 1;
        int sum = 0;
        for (int other = tile - 1; other >= 0; --other) {
            int flag = 0;
            do {
                flag = flags[other];
            } while (flag == 0);
            __threadfence();
            if (flag == 2) {
                sum += before[other];
                break;
            }
            sum += totals[other];
        }
        before[tile] = sum + own;
        __threadfence();
        flags[tile] = 2;
        begin = sum;
    }
    __syncthreads();
    int value = begin;
    for (int k = 0; k <= t; ++k)
        value += part[k];
    out[tile * 32 + t] = value;
}
""", {"x": X[:128], "next": zeros(1), "flags": zeros(4), "totals": zeros(4), "before": zeros(4), "out": zeros(128)},
    {"out": np.cumsum(X[:128]).astype(I32)}, grid=4, block=32, const=("x",))  # fmt: skip

_PAIRS = np.stack([X[:128].reshape(2, 64), np.arange(128).reshape(2, 64)])
_ORDER = np.argsort(_PAIRS[0] * 128 + _PAIRS[1], axis=1)
program("bitonic_sort_of_pairs", """
__global__ void KERNEL(int *keys, int *ranks)
{
    __shared__ int own[64];
    __shared__ int number[64];
    int t = threadIdx.x;
    int base = blockIdx.x * 64;
    for (int i = t; i < 64; i += 32) {
        own[i] = keys[base + i] * 128 + ranks[base + i];
        number[i] = ranks[base + i];
    }
    for (int size = 2; size <= 64; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int at = 2 * t - t % stride;
            bool is_up = (at & size) == 0;
            if ((own[at] > own[at + stride]) == is_up) {
                int key = own[at];
                int rank = number[at];
                own[at] = own[at + stride];
                number[at] = number[at + stride];
                own[at + stride] = key;
                number[at + stride] = rank;
            }
        }
    }
    __syncthreads();
    for (int i = t; i < 64; i += 32) {
        keys[base + i] = own[i] / 128;
        ranks[base + i] = number[i];
    }
}
""", {"keys": _PAIRS[0].ravel().astype(I32), "ranks": _PAIRS[1].ravel().astype(I32)},
    {"keys": np.take_along_axis(_PAIRS[0], _ORDER, 1).ravel().astype(I32),
     "ranks": np.take_along_axis(_PAIRS[1], _ORDER, 1).ravel().astype(I32)}, grid=2, block=32)  # fmt: skip

_PADDED = np.concatenate([zeros(3), X[:120], zeros(3)])
program("stencil_with_halo", """
__global__ void KERNEL(const int *x, int *out, int n)
{
    __shared__ int own[38];
    int t = threadIdx.x;
    int i = blockIdx.x * 32 + t;
    own[t + 3] = 0;
    if (i < n)
        own[t + 3] = x[i];
    if (t < 3) {
        own[t] = 0;
        if (i >= 3)
            own[t] = x[i - 3];
        own[t + 35] = 0;
        if (i + 32 < n)
            own[t + 35] = x[i + 32];
    }
    __syncthreads();
    if (i < n) {
        int sum = 0;
        for (int k = 0; k < 7; ++k)
            sum += own[t + k] * (k + 1);
        out[i] = sum;
    }
}
""", {"x": X[:120], "out": zeros(120)},
    {"out": np.sum([_PADDED[k:k + 120] * (k + 1) for k in range(7)], axis=0).astype(I32)}, grid=4, block=32, numbers=(I32(120),),
    const=("x",))  # fmt: skip

program("ring_queue", """
__global__ void KERNEL(const int *x, int *out, int n)
{
    __shared__ int slots[4];
    __shared__ volatile int head;
    __shared__ volatile int tail;
    if (threadIdx.x == 0) {
        head = 0;
        tail = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 0; i < n; ++i) {
            while (i - head >= 4)
                ;
            __threadfence_block();
            slots[i % 4] = x[blockIdx.x * n + i];
            __threadfence_block();
            tail = i + 1;
        }
    }
    if (threadIdx.x == 32) {
        for (int i = 0; i < n; ++i) {
            while (tail <= i)
                ;
            __threadfence_block();
            out[blockIdx.x * n + i] = slots[i % 4] * 2;
            __threadfence_block();
            head = i + 1;
        }
    }
}
""", {"x": X[:40], "out": zeros(40)}, {"out": X[:40] * 2}, grid=2, numbers=(I32(20),), const=("x",))  # fmt: skip


def _turn(values: Array) -> Array:
    """The next element within each warp."""
    return np.concatenate([np.roll(values[begin : begin + 32], -1) for begin in range(0, 90, 32)])


program("warps_that_leave_early", """
__global__ void KERNEL(const int *x, int *out, int n)
{
    __shared__ int own[64];
    int t = threadIdx.x;
    int i = blockIdx.x * 64 + t;
    unsigned mask = __ballot_sync(0xffffffffu, i < n);
    if (i >= n)
        return;
    int count = __popc(mask);
    own[t] = x[i];
    __syncwarp(mask);
    int next = own[t / 32 * 32 + (t + 1) % 32 % count];
    __syncwarp(mask);
    own[t] = next + x[i];
    __syncwarp(mask);
    out[i] = own[t / 32 * 32 + (t + 1) % 32 % count] + __reduce_add_sync(mask, 1);
}
""", {"x": X[:90], "out": zeros(90)},
    {"out": (_turn(_turn(X[:90]) + X[:90]) + np.array([32] * 64 + [26] * 26)).astype(I32)}, grid=2, numbers=(I32(90),),
    const=("x",))  # fmt: skip

program("mean_of_the_grid", """
__global__ void KERNEL(const int *x, int *sums, int *out)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = 0;
    __syncthreads();
    atomicAdd(&sums[blockIdx.x], x[i]);
    grid.sync();
    int total = 0;
    for (int block = 0; block < gridDim.x; ++block)
        total += sums[block];
    out[i] = x[i] - total / (int)grid.size();
    grid.sync();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = total;
}
""", {"x": X[:96], "sums": zeros(3), "out": zeros(96)},
    {"out": (X[:96] - X[:96].sum() // 96).astype(I32), "sums": np.full(3, X[:96].sum(), I32)}, grid=3, block=32,
    const=("x",), is_cooperative=True)  # fmt: skip

_F = (X[:64] - 25).astype(np.float32) / 3
program("bits_of_floats", """
namespace SPACE { union Bits { float value; int whole; struct { unsigned short low, high; }; }; }
__global__ void KERNEL(const float *x, int *most, unsigned short *high, int n)
{
    __shared__ int own;
    if (threadIdx.x == 0)
        own = 0x80000000;
    __syncthreads();
    SPACE::Bits bits;
    bits.whole = 0;
    if (threadIdx.x < n)
        bits.value = x[threadIdx.x];
    int key = bits.whole ^ (bits.whole >> 31 & 0x7fffffff);
    if (threadIdx.x < n) {
        atomicMax(&own, key);
        high[threadIdx.x] = bits.high;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        most[0] = own;
}
""", {"x": _F[:60], "most": zeros(1), "high": np.zeros(60, np.uint16)},
    {"most": _F[:60].max().reshape(1).view(I32), "high": (_F[:60].view(np.uint32) >> 16).astype(np.uint16)},
    numbers=(I32(60),), const=("x",))  # fmt: skip

program("pointers_in_a_struct", """
namespace SPACE {
struct Job { const int *x; int *out; int *count; int n; };
__device__ __noinline__ int step(Job job, int i)
{
    int value = 0;
    if (i < job.n) {
        value = job.x[i] * 3;
        job.out[i] = value;
    }
    return value;
}
}
__global__ void KERNEL(const int *x, int *out, int *count, int n)
{
    SPACE::Job job = {x, out, count, n};
    int sum = 0;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < 128; i += 64)
        sum += SPACE::step(job, i);
    atomicAdd(job.count, sum);
}
""", {"x": X[:100], "out": zeros(100), "count": zeros(1)},
    {"out": X[:100] * 3, "count": X[:100].sum(keepdims=True).astype(I32) * 3}, grid=2, block=32, numbers=(I32(100),),
    const=("x",))  # fmt: skip
