"""Snippets over float16 on both engines: what NumPy's float16 gives, operation by operation."""

import numpy as np
import pytest

from tests.kernels.bits import same_bits, specials
from tests.kernels.emulated import as_cuda
from xferlib.kernels import elementwise

X, Y = (np.ascontiguousarray(each.ravel()) for each in np.meshgrid(specials("float16"), specials("float16")))
ONE, TENTH = np.float16(1), np.float16(0.1)
PROGRAMS = {
    "a product and a sum": ("z = x * y + x", lambda: X * Y + X),
    "compound": ("T t = x; t *= y; t -= (T)0.1; z = t / 3", lambda: (X * Y - TENTH) / np.float16(3)),
    "a float": ("z = x * 0.1f + y", lambda: (X.astype("f4") * np.float32(0.1) + Y).astype("f2")),
    "a double": ("z = x * 0.1 + y", lambda: (X.astype("f8") * 0.1 + Y).astype("f2")),
    "an int": ("z = x * (int)1000 - y", lambda: X * np.float16(1000) - Y),
    "a long": ("z = (T)(i * 4099LL) + x", lambda: (np.arange(X.size) * 4099).astype("f2") + X),
    "a loop": ("T s = 0; for (int k = 1; k < 4; ++k) s += x / (T)k; z = s",
               lambda: ((np.float16(0) + X / ONE) + X / np.float16(2)) + X / np.float16(3)),
    "a choice": ("z = x < y ? x : !y ? (T)-1 : -y", lambda: np.where(X < Y, X, np.where(Y == 0, -ONE, -Y))),
    "steps": ("T t = x; ++t; t--; z = t--", lambda: (X + ONE) - ONE),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_operation_is_rounded(name):
    text, compute = PROGRAMS[name]
    expected = compute()
    kernel = elementwise("T x, T y", "T z", text)
    assert same_bits(kernel(X, Y), expected)
    found = np.zeros_like(X)
    as_cuda(kernel, X, Y, found)
    assert same_bits(found, expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_quotient_rounded_down_is_numpys():
    numbers = np.random.default_rng(5)
    x, y = (numbers.integers(0, 1 << 16, 100_000, dtype=np.uint16).view(np.float16) for _ in range(2))
    x[:2], y[:2] = (100, -100), (0.05237, 0.05237)  # 1909.6, which a float16 rounds up to 1910
    kernel = elementwise(lambda x, y: x // y)
    assert kernel(x, y)[:2].tolist() == [1909, -1910]
    for one, two in ((x, y), (X, Y)):
        assert same_bits(kernel(one, two), one // two)
    found = np.zeros_like(X)
    as_cuda(kernel, X, Y, found)
    assert same_bits(found, X // Y)
