"""The NumPy engine: blocks change no bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bits import DTYPES, FLOATS, random_bits, same_bits
from xferlib.kernels import elementwise, reduction, reductions

SIZES = (16_384, 16_385, 65_536, 65_537, 131_072, 200_003)


@elementwise
def several(x, y, *, alpha=1.5):
    z = x * y + alpha
    return np.where(x > y, z, -z), z - x, x


@pytest.mark.parametrize("size", SIZES)
def test_blocks_change_no_bit(size):
    x, y = random_bits("float32", size, seed=1), random_bits("float32", size, seed=2)
    parts = [several(x[start : start + 1000], y[start : start + 1000]) for start in range(0, size, 1000)]
    for found, pieces in zip(several(x, y), zip(*parts, strict=True), strict=True):
        assert same_bits(found, np.concatenate(pieces))


@pytest.mark.parametrize("layout", ["strided", "transposed", "broadcast", "reversed"])
def test_blocks_of_every_layout(layout):
    base = random_bits("float64", 400 * 400).reshape(400, 400)
    x = {"strided": base[:, ::2], "transposed": base.T, "broadcast": base[:1], "reversed": base[::-1, ::-1]}[layout]
    y = np.ascontiguousarray(base[:, : x.shape[1]])
    for found, expected in zip(several(x, y), several(np.broadcast_to(x, y.shape).copy(), y), strict=True):
        assert same_bits(found, expected)


def test_index_and_raw_parameters_in_blocks():
    kernel = elementwise("raw T x, T y", "T z, int64 k", "z = x[n - 1 - i] + y; k = i")
    x = np.arange(200_003, dtype=np.float64)
    z, k = kernel(x, x)
    assert np.array_equal(k, np.arange(x.size))
    assert np.array_equal(z, x[::-1] + x)


def test_a_kernel_that_many_threads_call_at_once():
    kernel = elementwise(lambda x, y: (x + y) * (x - y) + x)
    fold = reduction("T x", "T y", map_expr="x * x", reduce_expr="a + b", post_map_expr="y = a", identity="0")
    arrays = [np.arange(start, start + 500, dtype=np.float64) for start in range(8)]
    expected = [(kernel(x, x[::-1]), fold(x), reductions.max(x)) for x in arrays]

    def work(number):
        x = arrays[number % 8]
        found = kernel(x, x[::-1]), fold(x), reductions.max(x)
        return all(same_bits(*pair) for pair in zip(found, expected[number % 8], strict=True))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(600)))


# --- selection

choose = elementwise(lambda c, x, y: np.where(c, x, y))


@given(
    st.sampled_from(DTYPES),
    st.sampled_from([1, 1000, 1023, 1024, 1025, 5000]),
    st.sampled_from([0, 0.001, 0.02, 0.05, 0.5, 0.95, 0.98, 1]),
    st.sampled_from(["whole", "strided", "scalar x", "scalar y", "row"]),
)
def test_selection_copies_every_bit(dtype, size, share, layout):
    rng = np.random.default_rng(size)
    c = rng.random((2, size)) < share
    x, y = (random_bits(dtype, 2 * size, seed=seed).reshape(2, size) for seed in (1, 2))
    if layout == "strided":
        c, x, y = c[:, ::2], x[:, ::2], y[:, ::-2][:, : c[:, ::2].shape[1]]
        c, x = c[:, : y.shape[1]], x[:, : y.shape[1]]
    elif layout == "scalar x":
        x = x[0, 0]
    elif layout == "scalar y":
        y = y[0, 0]
    elif layout == "row":
        c = c[:1]
    found = choose(c, np.asarray(x), np.asarray(y))
    expected = np.where(c, x, y).astype(dtype)
    assert found.tobytes() == expected.tobytes()  # payloads of NaN and signs of zeros too


@pytest.mark.parametrize("dtype", FLOATS)
def test_selection_in_place(dtype):
    x, y, c = random_bits(dtype, 5000, seed=1), random_bits(dtype, 5000, seed=2), random_bits("bool", 5000)
    expected = np.where(c, x, y)
    choose(c, x, y, out=y)
    assert y.tobytes() == expected.tobytes()
