"""The generated CUDA source itself, run on the CPU: arrays not aligned to their elements' size, and random numbers.

A GPU refuses an access that is not aligned, and its context is of no use afterwards.
"""

import ctypes
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.fake import FakeArray, FakeBackend
from tests.kernels import targets
from tests.kernels.bits import same_bits
from tests.kernels.emulated import Emulator, as_cuda, info_of, run_on_cuda
from tests.sizes import crossed
from xferlib.backends.base import RawStream
from xferlib.kernels import elementwise, reductions
from xferlib.kernels import random as distributions
from xferlib.kernels import random as normal
from xferlib.kernels.cuda_reduction import CudaReduction
from xferlib.kernels.ir import CallLayout, broadcast_strides
from xferlib.kernels.random import Draw, draw_definition
from xferlib.testing import assert_same_bits, fresh_registry, load_backend, strategies

pytestmark = pytest.mark.usefixtures("kernels_apart")

DTYPES = ("complex128", "complex64", "float64", "int16")


@st.composite
def views(draw, dtype, shape):
    """An array in the middle of a buffer, at an address and with strides that are multiples of a power of two."""
    itemsize = np.dtype(dtype).itemsize
    unit = draw(st.sampled_from([each for each in (1, 2, 4, 8, 16) if each <= itemsize]))
    order = draw(st.permutations(range(len(shape))))
    strides, step = [0] * len(shape), itemsize
    for axis in order:
        step += draw(st.sampled_from([0, 0, unit]))
        strides[axis] = step
        step *= max(shape[axis], 1)
    memory = np.zeros(step + 64, np.uint8)
    start = -memory.ctypes.data % 16 + unit
    view = np.ndarray(shape, dtype, memory, start, strides)
    view[...] = np.arange(view.size).reshape(shape)
    return view


def _both(dtype, shape):
    return st.tuples(st.just(dtype), views(dtype, shape), views(dtype, shape))


_PAIRS = st.tuples(st.sampled_from(DTYPES), st.sampled_from([(5,), (3, 4), (0, 3), ()])).flatmap(lambda it: _both(*it))


@given(_PAIRS)
@settings(max_examples=8)
def test_element_by_element(pair):
    _, source, target = pair
    target[...] = 0
    assert not as_cuda(elementwise("T x", "T z", "z = x"), source, target)
    assert same_bits(np.array(target), np.array(source))


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=5)
def test_indexed(dtype, data):
    source, target = data.draw(views(dtype, (4,))), data.draw(views(dtype, (4,)))
    assert not as_cuda(elementwise("raw T x", "raw T z", "z[i] = x[3 - i]"), source, target)
    assert same_bits(np.array(target), np.array(source)[::-1])


def _aligned(shape, dtype, unit):
    """A view like those of `views`, with gaps, of one alignment."""
    itemsize = np.dtype(dtype).itemsize
    row = shape[1] * itemsize + unit
    memory = np.zeros(shape[0] * row + 64, np.uint8)
    view = np.ndarray(shape, dtype, memory, -memory.ctypes.data % 16 + unit, (row, itemsize))
    view[...] = np.arange(view.size).reshape(shape)
    return view


@pytest.mark.parametrize(
    ("case", "elements"),
    crossed(
        2,
        [("rows", (3, 5), 1), ("rows", (2, 50_000), 1), ("columns", (40, 34), 0), ("columns", (5000, 3), 0)],
        [("complex128", 8), ("complex128", 16), ("complex64", 4), ("float64", 2)],
    ),
)
def test_reductions(case, elements):
    (kernel, shape, axis), (dtype, unit) = case, elements
    source, target = _aligned(shape, dtype, unit), _aligned((shape[1 - axis], 1), dtype, unit)[:, 0]
    emulator: Any = Emulator()
    emulator.operands = lambda arrays: [each.ctypes.data for each in arrays]
    spec = reductions.sum.definition.specialize((np.dtype(dtype),), frozenset())
    kept = CallLayout((shape[1 - axis],), ((source.strides[1 - axis],), target.strides))
    reduced = CallLayout((shape[axis],), ((source.strides[axis],), (0,)))
    plan = CudaReduction(emulator, None, spec, kept, reduced, [info_of(source), info_of(target)])
    plan.run([source.ctypes.data, target.ctypes.data], [], RawStream(0, None))
    assert f"xf_{kernel}(" in plan.source
    assert not emulator.misaligned
    assert same_bits(np.array(target), reductions.sum(np.array(source), axis=axis))


class EmulatedArray(FakeArray):
    """An array of `Emulated`."""


class Emulated(FakeBackend):
    """The fake accelerator, whose kernels are CUDA source."""

    name = "emulated"
    pinned_domain = "emulated"
    array_class = EmulatedArray
    array_types = (f"{__name__}.EmulatedArray",)

    def __init__(self):
        super().__init__()
        self.emulator: Any = _OnMachine()
        self.emulator.machine = self.machine
        vars(self).update({name: getattr(self.emulator, name) for name in ("compile", "load", "launch")})


class _OnMachine(Emulator):
    """The emulator, given addresses of the simulated machine's memory."""

    machine: Any

    def launch(self, kernel, grid, block, params, **_):
        ends = (ctypes.POINTER(ctypes.c_uint64) * 2).from_address(params)  # target and source of a copy
        given = [each[0] for each in ends]
        for each, pointer in zip(ends, given, strict=True):
            each[0] = self.machine.real(pointer)
        super().launch(kernel, grid, block, params)
        for each, pointer in zip(ends, given, strict=True):
            each[0] = pointer


@pytest.fixture(scope="module")
def emulated():
    with fresh_registry(emulated=Emulated):
        yield load_backend("emulated")


def _on_device(backend, layout):
    """A device array of that layout, and its memory as NumPy sees it."""
    slab: Any = xl.zeros(layout.nbytes, "uint8", device="emulated:sim:0")
    backend.machine.finish()
    memory = (ctypes.c_char * layout.nbytes).from_address(backend.machine.real(slab.pointer))
    place = slab.info._replace(
        pointer=slab.pointer + layout.offset, shape=layout.shape, strides=layout.strides, dtype=layout.dtype
    )
    array = EmulatedArray(slab.allocation, place)
    return array, layout.over(memory)


def _copied_on_device(backend, source, target, values):
    """Copy between two layouts; returns the target's memory."""
    backend.emulator.misaligned = 0
    (src, given_), (dst, found) = _on_device(backend, source), _on_device(backend, target)
    given_[...] = values
    xl.to_device(src, out=dst)
    backend.machine.finish()
    assert not backend.emulator.misaligned
    assert same_bits(found.copy(), given_.copy())


def _layout_of(view):
    """The layout of a view of `views`, in memory aligned to 16 bytes."""
    nbytes = view.base.nbytes
    return strategies.Layout(view.shape, view.dtype, view.strides, view.ctypes.data % 16, nbytes)


@given(_PAIRS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_copies_between_layouts(emulated, pair):
    _, source, target = pair
    _copied_on_device(emulated, _layout_of(source), _layout_of(target), np.array(source))


def test_the_emulator_sees_a_misaligned_access():
    emulator = Emulator()
    source = 'extern "C" __global__ void k(char* p0) { *(double*)p0 = 1; }'
    kernel = emulator.load(emulator.compile(source, device=None).cubin, name="k", device=None)
    memory = np.zeros(4)
    address = ctypes.c_uint64(memory.ctypes.data + 4)
    params = (ctypes.c_void_p * 1)(ctypes.addressof(address))
    emulator.launch(kernel, (1, 1, 1), (1, 1, 1), ctypes.addressof(params))
    assert emulator.misaligned


def test_broadcast_strides_are_no_reason_to_split():
    assert broadcast_strides((3, 4), (1, 4), (7, 8)) == (0, 8)


@pytest.mark.parametrize("dtype", ["float16", "int16", "float32", "complex128"])
@pytest.mark.parametrize("count", [1, 5, 300])
def test_elements_at_odd_addresses_on_a_gpu(dtype, count):
    """The machine code, which the emulator has not. An assembler once stored a half's low byte wrongly."""
    target = targets.target("cupy")
    cupy = pytest.importorskip("cupy")
    values = (np.arange(count) % 7 + 3).astype(dtype)
    memory = cupy.zeros(values.nbytes + 1, np.uint8)
    odd = cupy.ndarray(values.shape, dtype, memory.data + 1)
    for kernel, expected in (
        (elementwise("T x", "T z", "z = x + x"), values + values),
        (elementwise("T x", "raw T z", "z[n - 1 - i] = x"), values[::-1]),
    ):
        kernel(target.put(values), odd)
        assert memory.get()[1:].tobytes() == expected.tobytes()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), shape=strategies.shapes(max_side=9))
def test_copies_of_axes_in_any_order_reach_the_same_elements(emulated, data, shape):
    source = data.draw(strategies.layouts(dtype="int16", shape=shape, native=True, distinct=True))
    target = data.draw(strategies.layouts(dtype="int16", shape=shape, native=True, distinct=True))
    _copied_on_device(emulated, source, target, np.arange(math.prod(shape)).reshape(shape))


def test_axes_that_advance_together_are_one(emulated):
    """Or an array of more axes than a kernel takes could not be copied."""
    shape = (2,) * 18
    values = np.arange(1 << 18, dtype=np.int16).reshape(shape)
    strides = values.strides
    plain = strategies.Layout(shape, values.dtype, strides, 0, values.nbytes)
    gaps = strategies.Layout(shape, values.dtype, tuple(2 * stride for stride in strides), 0, 2 * values.nbytes)
    _copied_on_device(emulated, gaps, plain, values)
    _copied_on_device(emulated, plain, gaps, values)


# --- the source of random numbers gives the same bits as the NumPy engine


F32, F64, U32, U64, I8, I64 = map(np.dtype, ("float32", "float64", "uint32", "uint64", "int8", "int64"))
DISTRIBUTIONS = [
    (distributions.random, (F32,), ()), (distributions.random, (F64,), ()),
    (distributions.uniform, (F32,), (-1.5, 3.25)),
    (distributions.uniform, (F64,), (1e-3, 1e6)),
    (distributions.integers_by_shift, (U32, 32), (7, 3)),
    (distributions.integers_by_shift, (I8, 32), (2**64 - 128, 24)),
    (distributions.integers_by_shift, (U64, 64), (0, 0)),
    (distributions.integers_by_shift, (I64, 64), (2**64 - 5, 20)),
    (distributions.integers_by_product, (I8, 64), (2**64 - 100, 201)),
    (distributions.integers_by_product, (I64, 64), (3, 2**32 - 1)),
    (distributions.integers_by_product, (I64, 128), (2**63, 2**64 - 1)),
    (normal.normal, (F32,), (0.5, 2.0)), (normal.normal, (F64,), (-0.5, 1e-3)),
]  # fmt: skip
COUNTER = (0xFFFFFF00, 0x85A308D3, 0x13198A2E, 0x03707344)
KEY = 0x299F31D0A4093822
BLOCKS = 200


@pytest.mark.parametrize(("make", "args", "numbers"), DISTRIBUTIONS)
def test_the_source_for_cuda_gives_the_same_bits(make, args, numbers):
    distribution = make(*args)
    per_block = distribution.per_block
    expected, got = (np.empty(BLOCKS * per_block, distribution.dtype) for _ in range(2))
    draw = Draw(make, *args, numbers=numbers)
    draw.fill(expected, sum(word << 32 * number for number, word in enumerate(COUNTER)), KEY)
    scalars = [*COUNTER, KEY % 2**32, KEY >> 32, *numbers]
    special = draw_definition(distribution).specialize((int,) * len(scalars), frozenset(range(len(scalars))))
    params = special.program.params
    views = [got[number::per_block] for number in range(per_block)]
    converted = [param.dtype.type(value) for param, value in zip(params, scalars, strict=False)]
    run_on_cuda(special.program, (BLOCKS,), dict(enumerate(views, len(scalars))), converted)
    assert_same_bits(got, expected)


@given(data=st.data())
@settings(max_examples=15)
def test_operands_that_lie_across_each_other_on_a_gpu(data):
    """Tiles whose rows are any axis, behind any number of others, with and without the number of an element."""
    rank = data.draw(st.integers(2, 4))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 9, 17, 70]), min_size=rank, max_size=rank)))
    dtypes = [data.draw(st.sampled_from(["f4", "f2", "f8", "i1", "c16"])) for _ in range(2)]
    arrays = []
    for dtype in dtypes:
        order = data.draw(st.permutations(range(rank)))
        x = (np.arange(math.prod(shape)) % 2039).astype(dtype).reshape([shape[each] for each in order])
        arrays.append(x.transpose(np.argsort(order)))
    expression = data.draw(st.sampled_from(["z = x; w = y", "z = x; w = y + (U)(i & 1)"]))
    order = data.draw(st.permutations(range(rank)))
    results = [np.zeros([shape[each] for each in order], each).transpose(np.argsort(order)) for each in dtypes]
    assert not as_cuda(elementwise("T x, U y", "T z, U w", expression), *arrays, *results)
    count = np.arange(math.prod(shape)).reshape(shape) & 1 if "i" in expression[5:] else 0
    assert np.array_equal(results[0], arrays[0])
    assert np.array_equal(results[1], (arrays[1] + np.asarray(count).astype(dtypes[1])).astype(dtypes[1]))
