"""Repeated calls: the last kind of call is recognised at once, and everything that makes another kind is noticed."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.bits import FLOATS, same_bits
from xferlib.errors import KernelTypeError, LayoutError
from xferlib.kernels import arguments, elementwise, plans, reduction
from xferlib.kernels import calls as caller

add = elementwise(lambda x, y: x + y, name="add")


def warm(kernel, *arrays):
    for _ in range(3):
        kernel(*arrays)


VARIANTS = {
    "another shape": lambda x: x.reshape(4, 6),
    "another dtype": lambda x: x.astype(np.float64),
    "other values": lambda x: x + 1,
    "a longer array": lambda x: np.concatenate([x, x]),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_arrays_after_a_repeated_call(variant, target):
    x = np.arange(24, dtype=np.float32)
    d = target.put(x)
    warm(add, d, d)
    other = VARIANTS[variant](x)
    there = target.put(other)
    assert same_bits(target.get(add(there, there)), other + other)


def test_strides_count(target):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    d = target.put(x)
    warm(add, d[:, :3], d[:, :3])
    assert same_bits(target.get(add(d[:, ::2], d[:, ::2])), x[:, ::2] + x[:, ::2])
    assert same_bits(target.get(add(d[:, 3:], d[:, 3:])), x[:, 3:] + x[:, 3:])


scale = elementwise(lambda x, y: x * y, name="scale")
total = reduction("T x", "T y", map_expr="x", reduce_expr="a + b", name="total")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([0, 0, 0, 1, 2, 4]),
            st.sampled_from([100, 100, 5000]),
            st.sampled_from([2.0, 2.0, -0.0, 1e30, 3, True, np.float32(1.5)]),
        ),
        min_size=3,
        max_size=8,
    )
)
def test_calls_in_turn_are_those_of_their_own_arguments(steps, target):
    """Alignment, length and number change from call to call; what repeats one must notice each."""
    x = np.arange(-2500, 2504, dtype=np.float32)
    d = target.put(x)
    for start, count, number in steps:
        part, there = x[start : start + count], d[start : start + count]
        assert same_bits(target.get(scale(there, number)), part * np.float32(number))
        assert same_bits(target.get(add(there, there)), part + part)
        assert same_bits(target.get(total(there)), total(part))


def test_a_call_on_another_stream_is_ordered_there(target):
    if target.name == "numpy":
        return
    x = np.arange(1 << 16, dtype=np.int32)
    d = target.put(x)
    warm(scale, d, 3)
    warm(total, d)
    stream = xl.Stream(device=xl.device_of(d))
    with stream:
        found = [target.get(total(scale(d, 3))) for _ in range(3)]
    assert all(same_bits(each, total(x * 3)) for each in found)
    assert same_bits(target.get(total(scale(d, 3))), total(x * 3))


def test_arguments_of_another_type(target):
    x = np.arange(24, dtype=np.float32)
    d = target.put(x)
    warm(add, d, d)
    assert same_bits(target.get(add(d, 1)), x + 1)
    with pytest.raises(KernelTypeError):
        add(d, "one")
    with pytest.raises(KernelTypeError):
        add(d, None)
    assert same_bits(add(x, x), x + x)


def test_a_kernel_keeps_no_array_alive(target):
    x = target.put(np.ones(8, np.float32))
    warm(add, x, x)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_many_threads_share_a_kernel(target):
    def run(number):
        x = np.full(1000, number, np.float32)
        d, out = target.put(x), target.put(x)
        return all(same_bits(target.get(add(d, d)), x + x) and add(d, d, out=out) is out for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(8)))


@pytest.mark.parametrize("is_private", [True, False])
def test_torch_tensors_are_told_apart_either_way(is_private, monkeypatch):
    torch = pytest.importorskip("torch")
    from xferlib.backends.torch import tensors
    from xferlib.backends.torch.backend import TorchCpu

    if not is_private:
        monkeypatch.setattr(tensors, "_guards", None)
    x = torch.zeros(2, 3)
    matches = TorchCpu().matcher([x, x])
    assert matches(x, torch.ones(2, 3))
    for other in (x.T, x[0], x.double(), torch.zeros(2, 3, requires_grad=True), torch._neg_view(x)):
        assert not matches(x, other)


SCALARS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.floats(),
    st.sampled_from(
        [0.0, -0.0, 65504.0, 65520.0, 65519.99, 3.4028235677973366e38, 2.0**128, 2**53 + 1, 2**63, -(2**63)]
    ),
    st.booleans(),
)


@given(SCALARS, st.sampled_from(["int8", "uint8", "int64", "uint64", *FLOATS]))
def test_a_scalar_of_a_repeated_call_converts_as_in_a_first_one(value, dtype):
    """By the short way and by the long one: the same bits, or the same error."""

    def outcome(convert):
        try:
            return convert()
        except KernelTypeError as error:
            return str(error)

    dtype = np.dtype(dtype)
    short = caller.scalar_converter("k", type(value), dtype, "x")
    found = outcome(lambda: short(value))
    expected = outcome(lambda: np.array(arguments.convert_scalar("k", value, dtype, "x")))
    assert found == expected if isinstance(expected, str) else same_bits(found, expected)


def test_scalars_of_a_repeated_call(target):
    kernel = elementwise(lambda x, y, z: x * y + z)
    x = np.arange(6, dtype=np.float32)
    d = target.put(x)
    for y, z in ((2.0, 1), (3.0, 2), (2, 1.0), (2.0, 3), (True, 1.5), (2.0, d), (2.0, 4)):
        host = x if z is d else z
        for _ in range(3):
            assert same_bits(target.get(kernel(d, y, z)), x * np.float32(y) + np.float32(host))
    small = elementwise(lambda x, y: x + y)
    e = target.put(np.arange(3, dtype=np.int8))
    for _ in range(3):
        assert same_bits(target.get(small(e, 100)), np.arange(100, 103, dtype=np.int8))
        with pytest.raises(KernelTypeError, match="out of range for int8"):
            small(e, 300)
        with pytest.raises(KernelTypeError, match="lacks argument 'y'"):
            small(e)


# --- many shapes in turn

MANY = plans.MOST_PLANS + 100


def test_a_full_table_drops_one_call_at_a_time():
    table: plans.Plans[object] = plans.Plans(100)
    hits = 0
    for turn in range(10):
        for key in range(200):
            if key in table:
                hits += turn > 0
            else:
                table.keep(key, key)
            assert len(table) <= 100
    assert hits > 9 * 200 * 0.3  # the oldest first, or all, would leave none
    for _ in range(20):
        table.keep("new", 1)
    assert "new" in table


KERNELS = {
    "snippet": (elementwise("T x, T y", "T z", "z = x * y + 1"), lambda x, y: x * y + 1),
    "function": (elementwise(lambda x, y: np.where(x > y, x - y, x * 3)), lambda x, y: np.where(x > y, x - y, x * 3)),
    "two outputs": (elementwise("T x, T y", "T s, T d", "s = x + y; d = x - y"), lambda x, y: (x + y, x - y)),
    "copy": (elementwise("T x, T y", "T z", "z = y"), lambda x, y: y),
    "index": (elementwise("T x, T y", "T z", "z = x + i + n"), lambda x, y:
        x + np.arange(x.size).reshape(x.shape) + x.size),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_more_shapes_than_are_kept(name):
    kernel, expected = KERNELS[name]
    rng = np.random.default_rng(0)
    shapes = [(n,) for n in range(1, MANY + 1)]
    operands = [(rng.integers(0, 9, shape) * 1.5, rng.integers(0, 9, shape) * 0.5) for shape in shapes]
    for x, y in operands * 2:
        np.testing.assert_array_equal(kernel(x, y), expected(x, y))
    x, y = operands[MANY - 1]
    for shape in ((2, 3, 4), (), (0,), (1, 1), (20_000,)):
        x, y = np.full(shape, 2.0), np.full(shape, 0.5)
        np.testing.assert_array_equal(kernel(x, y), expected(x, y))
    x, y = np.arange(24.0).reshape(4, 6)[:, ::2], np.ones(3)
    if name != "copy":
        np.testing.assert_array_equal(kernel(x, y), expected(*np.broadcast_arrays(x, y)))
    if name != "copy":
        x = np.arange(5, dtype=np.float32)
        np.testing.assert_array_equal(kernel(x, np.float32(2)), expected(x, np.float32(2)))


def test_more_shapes_than_are_kept_with_outputs():
    kernel = elementwise("T x, T y", "T z", "z = x * 2 + y")
    for n in range(1, MANY + 1):
        x, y, z = np.arange(n * 1.0), np.ones(n), np.empty(n)
        assert kernel(x, y, out=z) is z
        np.testing.assert_array_equal(z, np.arange(n) * 2.0 + 1)
        assert kernel(x, y, x) is x
        np.testing.assert_array_equal(x, z)
    both = np.zeros(MANY + 10)
    for n in range(2, 40):
        with pytest.raises(KernelTypeError, match="overlaps"):
            kernel(both[:n], both[1 : n + 1], out=both[2 : n + 2])
        fixed = np.ones(MANY + n)
        fixed.flags.writeable = False
        with pytest.raises(LayoutError):
            kernel(np.ones(MANY + n), np.ones(MANY + n), out=fixed)
        with pytest.raises(LayoutError):
            kernel(np.ones(MANY + n), np.ones(MANY + n), out=np.ones(n))


def test_more_shapes_than_are_kept_in_a_reduction():
    total = reduction("T x", "T y", map_expr="x * x + i", reduce_expr="a + b", post_map_expr="y = a", identity="0")
    for _ in range(2):
        for n in range(1, MANY):
            assert total(np.ones(n)) == n + n * (n - 1) / 2
