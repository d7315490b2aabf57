"""Arrays that a snippet updates in order: atomic functions, stores in loops, reads of what was written before."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.bits import INTEGERS, same_bits
from tests.kernels.emulated import all_as_cuda, as_cuda
from xferlib.errors import KernelOrderError, KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction
from xferlib.testing import configured

pytestmark = pytest.mark.usefixtures("kernels_apart")

RNG = np.random.default_rng(7)
KEYS = RNG.integers(0, 10, 200).astype(np.int32)


def _in_order(kernel: Any, target: Any, arrays: list[Any], size: int | None = None) -> list[np.ndarray]:
    """The arguments after a call on a target."""
    given = [target.put(each) for each in arrays]
    kernel(*given, **({} if size is None else {"size": size}))
    return [target.get(each) for each in given]


SUMS = elementwise(
    "int32 key, T v", "raw T sums, raw int64 counts", "atomicAdd(&sums[key], v); atomicAdd(&counts[key], 1)"
)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_added_exactly(engine, dtype):
    values = RNG.integers(0, 120, 200).astype(dtype)
    _, _, sums, counts = _in_order(SUMS, engine, [KEYS, values, np.zeros(10, dtype), np.zeros(10, np.int64)])
    expected = np.zeros(10, dtype)
    np.add.at(expected, KEYS, values)
    assert same_bits(sums, expected)
    assert counts.tolist() == np.bincount(KEYS, minlength=10).tolist()


def test_integers_are_added_exactly_in_cuda():
    calls = [(SUMS, KEYS, (KEYS * 12).astype(dtype), np.zeros(10, dtype), np.zeros(10, "i8")) for dtype in INTEGERS]
    all_as_cuda(calls)
    for _, _, values, sums, counts in calls:
        expected = np.zeros_like(sums)
        np.add.at(expected, KEYS, values)
        assert same_bits(sums, expected)
        assert counts.tolist() == np.bincount(KEYS, minlength=10).tolist()


@pytest.mark.parametrize(
    ("name", "ufunc"),
    [
        ("Sub", np.subtract), ("Min", np.minimum), ("Max", np.maximum), ("And", np.bitwise_and),
        ("Or", np.bitwise_or), ("Xor", np.bitwise_xor),
    ],
)  # fmt: skip
def test_the_other_functions_that_commute(name, ufunc):
    dtypes = ("int8", "uint16", "int32", "uint64")
    inputs = ["int32 key", *(f"{dtype} v{dtype}" for dtype in dtypes)]
    text = "".join(f"atomic{name}(&y{dtype}[key], v{dtype}); " for dtype in dtypes)
    kernel = elementwise(", ".join(inputs), ", ".join(f"raw {dtype} y{dtype}" for dtype in dtypes), text)
    values = [RNG.integers(0, 120, 200).astype(dtype) for dtype in dtypes]
    expected, found, again = ([np.full(10, 60, dtype) for dtype in dtypes] for _ in range(3))
    for one, each in zip(expected, values, strict=True):
        ufunc.at(one, KEYS, each)
    kernel(KEYS, *values, *found)
    as_cuda(kernel, KEYS, *values, *again)
    assert all(map(same_bits, found, expected))
    assert all(map(same_bits, again, expected))


def test_floats_are_added_in_the_order_of_the_elements_where_any_order_is_taken():
    text = "int32 key, T v", "raw T y", "atomicAdd(&y[key], v)"
    values = RNG.standard_normal(200_000).astype(np.float32)
    keys = RNG.integers(0, 10, values.size).astype(np.int32)
    found = np.zeros(10, np.float32)
    with pytest.raises(KernelOrderError, match=r"'y' \(float32\) is added up in an order that differs"):
        elementwise(*text)(keys, values, found)
    kernel = elementwise(*text, math="fast")
    expected = np.zeros(10, np.float32)
    np.add.at(expected, keys, values)
    for threads in (1, 2):
        found[:] = 0
        with configured(threads=threads):
            kernel(keys, values, found)
        assert same_bits(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_added_by_cuda(dtype):
    kernel = elementwise("int32 key, T v", "raw T y", "atomicAdd(&y[key], v)", math="fast")
    values = RNG.standard_normal(200).astype(dtype)
    by_cuda, on_cpu = np.zeros(10, dtype), np.zeros(10, dtype)
    as_cuda(kernel, KEYS, values, by_cuda)
    kernel(KEYS, values, on_cpu)
    assert same_bits(by_cuda, on_cpu)


ADD = "__device__ void add(int* at, int k, int v) { if (v > 2) { atomicAdd(&at[k], v); } }"
ROWS = "int c = key % 4; for (int j = 0; j < c; ++j) { if (j == 1) continue; add(y, j, key); atomicAdd(&count[j], 1); }"


def test_updates_under_conditions_in_loops_and_functions(engine):
    kernel = elementwise("int32 key", "raw int32 y, raw int32 count", ROWS, preamble=ADD)
    expected = np.zeros((2, 4), np.int32)
    for key in KEYS.tolist():
        for j in {0, 2} & set(range(key % 4)):
            expected[:, j] += (key * (key > 2), 1)
    _, y, count = _in_order(kernel, engine, [KEYS, np.zeros(4, np.int32), np.zeros(4, np.int32)])
    assert [y.tolist(), count.tolist()] == expected.tolist()
    again = np.zeros(4, np.int32), np.zeros(4, np.int32)
    as_cuda(kernel, KEYS, *again)
    assert [each.tolist() for each in again] == expected.tolist()


def test_an_array_is_written_in_a_loop(engine):
    operation = "for (int j = starts[i]; j < starts[i + 1]; j++) y[j] = i * 100 + j;"
    kernel = elementwise("raw int32 starts", "raw T y", operation)
    starts = np.array([0, 3, 3, 7, 8], np.int32)
    expected = [row * 100 + j for row in range(4) for j in range(starts[row], starts[row + 1])]
    _, y = _in_order(kernel, engine, [starts, np.zeros(8, np.int64)], size=4)
    assert y.tolist() == expected


def test_an_array_is_written_in_a_loop_of_cuda():
    operation = "for (int j = 0; j < count; j++) { y[5 * i + j] = j; y[5 * i] = count; }"
    kernel = elementwise("int32 count", "raw T y", operation)
    count = np.array([0, 2, 4, 1], np.int32)
    by_cuda, on_cpu = np.zeros(20), np.zeros(20)
    as_cuda(kernel, count, by_cuda)
    kernel(count, on_cpu)
    assert same_bits(by_cuda, on_cpu)
    assert on_cpu.reshape(4, 5).tolist() == [[0] * 5, [2, 1, 0, 0, 0], [4, 1, 2, 3, 0], [1, 0, 0, 0, 0]]


LIVE = {
    "swap": "T* p = &a[3 * i]; T t = p[0]; p[0] = p[k % 3]; p[k % 3] = t;",
    "loop": "for (int j = 0; j < 1 + k % 2; j++) { a[3 * i + 1] += a[3 * i] + j; a[3 * i] = a[3 * i + 1] * 2; }",
    "read behind a loop": "for (int j = 0; j < k % 3; j++) a[3 * i + j] = j; a[3 * i] += a[3 * i + 1];",
    "read before a loop": "T* p = &a[3 * i]; T b = *p; for (int j = 0; j < k % 3; j++) { *p = j; b += *p; } p[2] = b;",
    "exchange": "T old = atomicExch(&a[3 * i], k); a[3 * i + 1] = old;",
    "compare": "T old = atomicCAS(&a[3 * i], k % 5, 77); if (old == k % 5) a[3 * i + 1] = -1;",
    "nested": "T* p = &a[3 * i]; for (int j = 0; j < k % 3; j++) for (int m = j; m < k % 4; m++) p[m % 3] += p[j] + m;",
    "condition of a loop": "T* p = &a[3 * i]; while (p[0] < k) { p[0] += 3; }",
    "no variables": "while (atomicAdd(&a[3 * i], 1) < k) { }",
}  # fmt: skip


def _by_element(operation: str, keys: np.ndarray, a: np.ndarray) -> list[int]:
    """The same by calls of one element each."""
    kernel = elementwise("int32 k", "raw T a", operation, math="fast")
    rows = a.reshape(-1, 3).copy()
    for key, row in zip(keys, rows, strict=True):
        kernel(key, row, size=1)
    found: list[int] = rows.reshape(-1).tolist()
    return found


@pytest.mark.parametrize("name", LIVE)
def test_reads_see_what_was_written_before(engine, name):
    keys = np.arange(20, dtype=np.int32)
    a = RNG.integers(0, 5, 60)
    with pytest.raises((KernelTypeError, KernelSyntaxError), match="math='fast'|so that one update would be lost"):
        elementwise("int32 k", "raw T a", LIVE[name])(keys, a.copy())
    kernel = elementwise("int32 k", "raw T a", LIVE[name], math="fast")
    _, found = _in_order(kernel, engine, [keys, a])
    assert found.tolist() == _by_element(LIVE[name], keys, a)


def test_reads_in_cuda_see_what_was_written_before():
    keys, a = np.arange(20, dtype=np.int32), RNG.integers(0, 5, 60)
    calls = [(elementwise("int32 k", "raw T a", each, math="fast"), keys, a.copy()) for each in LIVE.values()]
    all_as_cuda(calls)
    for (name, operation), (_, _, found) in zip(LIVE.items(), calls, strict=True):
        assert found.tolist() == _by_element(operation, keys, a), name


LOST = [
    "y[0] += x[i];", "y[i / 2] = y[i / 2] + x[i];", "y[0]++;", "y[i & 1] *= 2;", "y[i - i % 4] += x[i];",
    "y[(int)x[i]] += 1;", "T &r = y[0]; r += x[i];", "T *p = &y[0]; *p += x[i];", "T s = y[0]; s += x[i]; y[0] = s;",
    "y[0] = max(y[0], x[i]);", "if (x[i] > y[0]) y[0] = x[i];", "y[0] = x[i] > 2 ? y[0] + 1 : y[0];",
    "for (int j = 0; j < 3; j++) y[j] += x[i];", "for (int j = 0; j < (int)x[i]; j++) y[0] += x[i];",
    "atomicAdd(&y[1], x[i]); y[0] += 1;", "add(y, 0, x[i]);", "y[n - n] += x[i];", "y[k] -= x[i];",
    "T s = y[0]; for (int j = 0; j < (int)x[i]; j++) s += j; y[0] = s;",
]  # fmt: skip


@pytest.mark.parametrize("operation", LOST)
@pytest.mark.parametrize("math", ["exact", "fast"])
def test_an_update_that_would_be_lost_is_refused(operation, math):
    preamble = "__device__ void add(T* at, int k, T v) { at[k] += v; }"
    with pytest.raises((KernelSyntaxError, KernelTypeError), match="one update would be lost|order"):
        kernel = elementwise("raw T x, int32 k", "raw T y", operation, math=math, preamble=preamble)
        kernel(np.arange(1.0, 5.0), 0, np.zeros(4), size=4)


OWN = {
    "a step of blocks": "int b = i / m * m * 4 + i % m; for (int j = 1; j < 4; j++) y[b + j * m] -= y[b] / 2;",
    "rows": "int b = i * m; for (int j = 1; j < m; j++) y[b + j] += y[b + j - 1];",
    "rows by a counter": "for (int j = i * m; j < (i + 1) * m; j++) y[j] *= 2;",
    "rows by a pointer": "T *p = y + i * m, s = 0; for (int j = 0; j < m; j++) s += p[j]; p[m - 1] -= s;",
    "strides": "for (int j = i; j < 5 * n; j += n) y[j] *= 2;",
    "a helper": "set(&y[i * m], m);",
    "axes": "int r = i / m, c = i % m; y[c * (n / m) + r] += i;",
    "parts": "y[i / 32 * 64 + i % 32] += 1;",
    "parts turned around": "y[(i & ~3) | (3 - (i & 3))] *= 2;",
    "no more elements than a mask has": "if (i < 256) y[i & 255] += 1;",
    "a permutation": "y[i ^ 1] *= 2;",
    "a shift around": "y[(i + m) % n] += i;",
    "a stage of a transform": "int p = 2 * i - (i & (m - 1)); T a = y[p], b = y[p + m]; y[p] = a + b; y[p + m] -= a;",
    "a stage of a sort": "int o = i ^ m; if (o > i && y[i] < y[o]) { T t = y[i]; y[i] = y[o]; y[o] = t; }",
    "every other one": "int r = i / 4, c = i % 4; if (((r + c + 1) & 1) == m / 4) y[r * 4 + c] += y[r * 4 + c + 1];",
    "one of several": "if (i % m == 0) for (int j = 0; j < m; j++) y[i / m * m + j] += y[i];",
    "an axis's index": "y[_ind.get()[0] * m] += 1;",
    "data within a row": "y[i * 4 + (int)x[i] % 4] += 1; y[4 * i + (x[i] > 2)] *= 2;",
    "one of two rows": "y[x[i] > 2 ? i : i + n] *= 3;",
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_an_index_that_may_be_the_elements_own_is_taken(engine, name):
    preamble = "void set(T *p, int m) { for (int j = 0; j < m; j++) p[j] += j; }"
    x, y = np.arange(8.0), np.arange(64.0) * 7 % 23
    kernel = elementwise("raw T x, int32 m", "raw T y", OWN[name], preamble=preamble, math="fast")
    found, given = engine.put(y), engine.put(x)
    kernel(given, 4, found, size=8)
    one = elementwise(
        "raw T x, int32 m, int32 e", "raw T y", f"if (i == e) {{ {OWN[name]} }}", preamble=preamble, math="fast"
    )
    expected = y.copy()
    for number in range(8):
        one(x, 4, number, expected, size=8)
    assert engine.get(found).tolist() == expected.tolist() != y.tolist()


@pytest.mark.parametrize("condition", ["i == 0", "i == n - 1", "i == m", "i < 1 && x[i] < 9"])
def test_an_update_by_one_element_is_taken(condition):
    kernel = elementwise("raw T x, int32 m", "raw T y", f"if ({condition}) y[3] += m;", math="fast")
    y = np.zeros(64)
    kernel(np.arange(8.0), 4, y, size=8)
    assert y.tolist() == [0, 0, 0, 4, *[0] * 60]


SHARED = [
    "y[i % 256] += 1;", "y[i & 1023] += 1;", "y[i % 8 * 4 + i / 8 % 4] += 1;", "y[i % 1000 * m] += 1;",
    "y[i % 30 + m] += 1;", "y[i % (m * m)] += 1;", "y[i % (m * k)] += 1;", "y[i / m % k * m + i % m] += 1;",
    "y[(i & 63) * m + 1] += 1;", "y[min((int)i, 5000)] += m;", "y[i % 32 * 32 + i / 32 % 32] += 1;",
    "if (i < 300) y[i & 255] += 1;", "y[i / m] += 1;", "y[i % m] += 1;", "y[i % y.size()] += 1;",
    "y[i / m * m] += 1;", "y[i / m + i % m] += 1;", "y[i & m] += 1;",
    "if (m == 1) y[0] += 1;", "if (i < m) y[0] += 1;", "if (x[i] > 2) y[0] += 1;", "if (i > 1) y[m] += 1;",
    "int b = i / m; for (int j = 0; j < 4; j++) y[b + j] += 1;", "T *p = y + i / m; *p += 1;",
    "int b = i; b -= i; y[b] += 1;", "y[min(i, (long)m)] += 1;", "y[i > m ? i : m] += 1;", "y[abs(i - 5)] += 1;",
    "y[x[i] > 2 ? i : 0] += 1;", "int b = 0; if (x[i] > 2) b = i; y[b] += 1;", "y[max((int)x[i], (int)i)] += 1;",
    "for (int j = m; j < 9; j++) y[j] += i;", "y[(int)(i * 0.5)] += 1;", "y[i * m % 5] += 1;",
    "int b = 0; for (int j = 0; j < x[i]; j++) b = i; y[b] += 1;", "y[_ind.get()[0] / 2] += 1;",
]  # fmt: skip


@pytest.mark.parametrize("operation", SHARED)
def test_an_index_that_several_elements_share_whatever_the_numbers_is_refused(operation):
    with pytest.raises(KernelSyntaxError, match="one update would be lost"):
        kernel = elementwise("raw T x, int32 m, int32 k", "raw T y", operation, math="fast")
        kernel(np.arange(8.0), 4, 3, np.zeros(64), size=8)


@pytest.mark.parametrize("math", ["exact", "fast"])
def test_an_update_by_pycudas_notation_is_not_lost(math):
    with pytest.raises(KernelSyntaxError, match=r"update would be lost.* atomicAdd\(&y\[...\], value\)"):
        elementwise("float *x, float *y", "y[0] += x[i]", math=math)


@pytest.mark.parametrize(
    "operation", ["y[0] = x[i];", "for (int j = 0; j < 1 + (int)x[i] % 2; j++) y[0] = x[i] + y[i + 1];"]
)
def test_different_values_in_one_place_are_refused_in_any_order(operation):
    kernel = elementwise("raw T x", "raw T y", operation, math="fast")
    with pytest.raises(KernelTypeError, match="wrote different values to element 0"):
        kernel(np.arange(1.0, 5.0), np.zeros(5), size=4)


def test_an_index_that_begins_with_the_elements_own_is_taken_at_its_word():
    kernel = elementwise("raw T x", "raw T y", "y[2 * i + (int)x[i] % 2] += 1; if (!y[9]) y[9] = 1;", math="fast")
    y = np.zeros(10)
    kernel(np.arange(1.0, 5.0), y, size=4)
    assert y.tolist() == [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]


def test_values_before_an_update_are_those_of_the_order():
    operation = "if (x > 0) { found[atomicAdd(&count[0], 1)] = x; }"
    kernel = elementwise("T x", "raw int32 count, raw T found", operation, math="fast")
    x = RNG.standard_normal(50_000)
    count, found = np.zeros(1, np.int32), np.zeros(50_000)
    kernel(x, count, found)
    assert count[0] == np.count_nonzero(x > 0)
    assert same_bits(found[: count[0]], x[x > 0])


def test_an_update_of_an_elements_own_output_or_variable_needs_no_order():
    kernel = elementwise("T x", "T y", "T a = 1; y = x; T old = atomicAdd(&y, a); atomicAdd(&a, old); y += a * 10;")
    assert kernel(np.array([1.0, 2.0])).tolist() == [22.0, 33.0]


def test_strided_arrays_are_updated():
    kernel = elementwise("int32 key", "raw int64 y", "atomicAdd(&y[key], key)")
    whole = np.zeros((5, 4), np.int64)
    kernel(KEYS, whole[:, ::2])
    assert whole[:, ::2].reshape(-1).tolist() == [k * KEYS.tolist().count(k) for k in range(10)]
    assert not whole[:, 1::2].any()


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("atomicAdd(&y[k])", r"atomicAdd\(\) takes 2 argument"),
        ("atomicAdd(y[k], 1)", "this is not a pointer"),
        ("atomicAdd(&x[k], 1)", "read-only"),
        ("atomicAnd(&f[k], 1)", "not defined for float64"),
        ("y[k] = atomicAdd(&y[0], 1)", "math='fast'"),
        ("atomicAdd(&y[k], 1); atomicMax(&y[k], 1)", "math='fast'"),
        ("atomicAdd(&y[k], y[0])", "math='fast'"),
        ("y[k] = atomicExch(&y[1], 1)", "math='fast'"),
    ],
)
def test_updates_that_are_refused(operation, words):
    with pytest.raises((KernelTypeError, KernelSyntaxError), match=words):
        elementwise("int32 k, raw int64 x", "raw int64 y, raw float64 f", f"{operation}; f[k] = 1;")


def test_indices_of_updates_are_checked():
    with pytest.raises(KernelTypeError, match="'y' has 3 elements, and the kernel used index 9"):
        elementwise("int32 k", "raw int64 y", "atomicAdd(&y[k], 1)")(KEYS, np.zeros(3, np.int64))


def test_a_reduction_updates_nothing():
    with pytest.raises(KernelSyntaxError, match="read-only"):
        reduction(
            "raw int64 x, int64 k", "int64 y", map_expr="atomicAdd(&x[k], 1)", reduce_expr="a + b",
            post_map_expr="y = a", identity="0",
        )(np.ones(3, np.int64), np.zeros(3, np.int64))  # fmt: skip


def test_an_update_has_no_gradient():
    torch = pytest.importorskip("torch")
    kernel = elementwise("T x", "raw T y, T z", "atomicAdd(&y[0], x); z = x * 2", math="fast")
    with pytest.raises(KernelTypeError, match="derivative"):
        kernel(torch.ones(3, requires_grad=True), torch.zeros(3), torch.zeros(3)).sum().backward()
