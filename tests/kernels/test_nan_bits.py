"""The bits of a NaN, read as an integer: CUDA's for one that is computed, its own for one that an array held."""

import numpy as np
import pytest

from xferlib.kernels import elementwise, reduction

FLOAT, DOUBLE = 0x7FFFFFFF, 0xFFF8000000000000 - 2**64
ZERO = "float z = x * 0; "
COMPUTED = {
    "quotient": "y = __float_as_int(z / z)",
    "constants": "y = __float_as_int(0.f / 0.f)",
    "constant": "y = __float_as_int(NAN)",
    "root": "y = __float_as_uint(sqrtf(z - 1))",
    "negated": "y = __float_as_int(-(z / z))",
    "absolute": "y = __float_as_int(fabsf(p))",
    "payload and a sum": "y = __float_as_int(p + 1)",
    "function": "y = __float_as_int(logf(z - 1))",
    "by a double": "double d = z / z; y = __float_as_int((float)d)",
    "by a condition": "float v = p; if (x > 0) v = z / z; y = x > 0 ? __float_as_int(v) : 0x7fffffff",
    "by a loop": "float v = 1; for (int j = 0; j < (int)(x + 2); j++) v = v * z / z; y = __float_as_int(v)",
    "within a loop": "float v = 1; for (int j = 0; j < 3 + (int)x; j++) { v = v * z / z; y = __float_as_int(v); }",
    "by memory": "w[i] = z / z; y = __float_as_int(w[i])",
    "by a function": "y = bits(z / z)",
    "by a struct": "Pair q; q.a = z / z; y = __float_as_int(q.a)",
}
PREAMBLE = "struct Pair { float a; float b; }; __device__ int bits(float v) { return __float_as_int(v); }"


@pytest.mark.parametrize("name", COMPUTED)
def test_a_computed_nan_has_cudas_bits(engine, name):
    outputs = "int y, raw float w" if "w[" in COMPUTED[name] else "int y"
    kernel = elementwise("float x, float p", outputs, ZERO + COMPUTED[name], preamble=PREAMBLE)
    x, payload = np.array([0, 1, 2], np.float32), np.array([0xFFC12345] * 3, np.uint32).view(np.float32)
    y = engine.put(np.zeros(3, np.int32))
    kernel(engine.put(x), engine.put(payload), y, *[engine.put(x)] * ("w[" in COMPUTED[name]))
    assert engine.get(y).tolist() == [FLOAT] * 3


def test_a_computed_double_has_cudas_bits():
    kernel = elementwise("double x", "int64 y", "y = __double_as_longlong(x / x)")
    assert kernel(np.array([0.0, np.inf, 1])).tolist() == [DOUBLE, DOUBLE, 1023 << 52]


@pytest.mark.parametrize(
    "operation",
    [
        "y = __float_as_int(x)",
        "y = __float_as_int(__int_as_float(__float_as_int(x)))",
        "float v = x; y = __float_as_int(v)",
        "float v = 1; if (i >= 0) v = x; y = __float_as_int(v)",
        "w[i] = x; y = __float_as_int(w[i])",
        "float v = 1; for (int j = 0; j < 1 + i % 2; j++) v = x; y = __float_as_int(v)",
        "float v = x; for (int j = 0; j < 2 + i % 2; j++) { y = __float_as_int(v); v = __int_as_float(y); }",
    ],
)
def test_integers_that_floats_carry_are_kept(operation):
    packed = np.array([-1, -4194304, 0x7FC00001, -(2**31), 5], np.int32)
    kernel = elementwise("float x", "int y, raw float w" if "w[" in operation else "int y", operation)
    y = np.zeros(5, np.int32)
    kernel(packed.view(np.float32), y, *[np.zeros(5, np.float32)] * ("w[" in operation))
    assert y.tolist() == packed.tolist()


def test_a_reductions_nan():
    kernel = reduction(
        "float x", "int y", map_expr="x / x", reduce_expr="a + b", post_map_expr="y = __float_as_int(a)",
        identity="0", dtype="float",
    )  # fmt: skip
    assert int(kernel(np.zeros(100, np.float32))) == FLOAT
    assert int(kernel(np.zeros(1, np.float32))) == FLOAT
