"""Loops that end with the data, ``break``, ``continue`` ``return``: against Python, and as CUDA source.

Random programs with such loops are in `test_differential`.
"""

import numpy as np
import pytest

from tests.kernels import targets
from tests.kernels.bits import same_bits
from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelError, KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction
from xferlib.testing import configured

X = np.arange(-5, 30)

pytestmark = pytest.mark.usefixtures("kernels_apart")


def _collatz(v: int) -> int:
    count = 0
    while v > 1:
        v, count = (3 * v + 1 if v % 2 else v // 2), count + 1
    return count


def _sum(v: int) -> int:
    return sum(j for j in range(min(v, 11)) if j != 3)


KERNELS = {
    "next element": ("y = 1; if (x < 4) continue; y = x;", lambda v: 1 if v < 4 else v),
    "nan": ('y = isnan(nan("0x7ff")) ? 2 : x;', lambda v: 2),
    "while": ("T v = x; T c = 0; while (v > 1) { v = v % 2 ? 3 * v + 1 : v / 2; c++; } y = c;", _collatz),
    "break": ("T s = 0; for (int j = 0; j < x; ++j) { if (j == 3) continue; if (j > 10) break; s += j; } y = s;", _sum),
    "return": ("y = 0; for (;;) { y += 3; if (y > x) return; }", lambda v: max(3, v // 3 * 3 + 3)),
    "do": ("T j = 0; do { j += 2; if (j == 4) continue; if (j == 8) break; } while (j < x); y = j;",
           lambda v: 8 if v > 6 else max(2, v + v % 2)),
    "output": ("y = 0; while (y * y < x) y++;", lambda v: next(k for k in range(9) if k * k >= v)),
    "nested": ("y = 0; for (T a = 0; a < x; a++) for (T b = a; b < x; b++) if (a + b == 7) y += b;",
               lambda v: sum(b for a in range(v) for b in range(a, v) if a + b == 7)),
    "written out": ("y = 1; for (int j = 0; j < 6; j++) { if (j > x) break; if (j == 2) continue; y += j; }",
                    lambda v: 1 + sum(j for j in range(6) if j != 2 and j <= v)),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("library", targets.ENGINES)
def test_a_loop_gives_what_python_gives(library, name):
    target = targets.target(library)
    operation, by_hand = KERNELS[name]
    kernel = elementwise("T x", "T y", operation)
    assert target.get(kernel(target.put(X))).tolist() == [by_hand(each) for each in X.tolist()]


@pytest.mark.parametrize("name", KERNELS)
def test_a_loop_in_cuda_gives_the_same(name):
    kernel = elementwise("T x", "T y", KERNELS[name][0])
    found = np.zeros_like(X)
    as_cuda(kernel, X, found)
    assert same_bits(found, kernel(X))


def test_floats_and_arrays_in_a_loop():
    kernel = elementwise(
        "T x, raw T a, raw int64 ends", "T y",
        "y = x; for (long j = i > 0 ? ends[i - 1] : 0; j < ends[i]; j++) "
        "y = y * 0.7f + sqrt(a[j] * a[j] + 1) / (y * y + 3);",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    ends = np.cumsum(rng.integers(0, 6, 100))
    x, a = rng.standard_normal(100).astype(np.float32), rng.standard_normal(int(ends[-1])).astype(np.float32)
    expected = kernel(x, a, ends)
    values = np.split(a, ends[:-1])
    assert [len(each) == 0 for each in values] == (expected == x).tolist()
    found = np.zeros_like(x)
    as_cuda(kernel, x, a, ends, found)
    assert same_bits(found, expected)


def test_large_calls_and_other_layouts_give_the_same():
    kernel = elementwise("T x, int64 k", "T y", "y = x; for (int j = 0; j < k + x % 3; j++) y = y * 3 + j;")
    x = np.arange(200_000).reshape(400, 500)
    whole = kernel(x, 4)
    np.testing.assert_array_equal(whole[::7, ::-3], kernel(x[::7, ::-3], 4))
    with configured(threads=2):
        np.testing.assert_array_equal(kernel(x.T, 4), whole.T)


def test_a_function_loops_where_it_is_called():
    preamble = "int f(int v) { while (v != 1) v = v % 2 ? 3 * v + 1 : v / 2; return v; }"
    kernel = elementwise("int32 x", "int32 y", "y = 5; if (x > 0) y = f(x);", preamble=preamble)
    assert kernel(np.array([0, 7, 1, -3], np.int32)).tolist() == [5, 1, 1, 5]  # f(0) and f(-3) never end


def test_a_loop_without_a_turn_reads_nothing():
    kernel = elementwise("T x, raw T a, int64 k", "T y", "y = x; for (int j = 0; j < x; j++) y += a[k];")
    assert kernel(np.zeros(2), np.ones(3), 99).tolist() == [0, 0]


def test_a_loop_without_end_is_an_error_on_a_cpu():
    kernel = elementwise("T x", "T y", "y = x; while (y > 0) y = x;")
    with configured(loop_turns=50), pytest.raises(KernelError, match="has made 50 turns and 2 element"):
        kernel(np.array([1.0, 0.0, 2.0]))
    assert kernel(np.zeros(3)).tolist() == [0, 0, 0]


def test_a_loop_whose_result_is_written_over_its_operand():
    kernel = elementwise("T x", "T y", "T v = x; while (v < 9) { v += 4; } y = v;")
    x = np.arange(6.0)
    assert kernel(x, x).tolist() == [12, 9, 10, 11, 12, 9]


def test_a_reduction_takes_no_loop_that_ends_with_the_data():
    preamble = "int f(int v) { while (v > 9) v /= 2; return v; }"
    with pytest.raises(KernelSyntaxError, match="which a reduction's expressions cannot run"):
        reduction(
            "int32 x", "int32 y", map_expr="f(x)", reduce_expr="a + b", post_map_expr="y = a", identity="0",
            preamble=preamble,
        )(np.ones(3, np.int32))  # fmt: skip


def test_a_loop_has_no_gradient():
    torch = pytest.importorskip("torch")
    kernel = elementwise("T x", "T y", "y = x; while (y < 9) y = y * 2;")
    with pytest.raises(KernelTypeError, match="gradients of loops"):
        kernel(torch.ones(3, requires_grad=True)).sum().backward()
