"""The CUDA source of reductions, run on the CPU: the bits are those of the CPU's engines."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.bits import same_bits
from tests.kernels.emulated import Emulator, info_of, reachable
from tests.sizes import crossed, some
from xferlib.backends.base import RawStream
from xferlib.kernels import cuda_reduction, reductions
from xferlib.kernels.cuda_reduction import CudaReduction, ReductionWriter, divisor
from xferlib.kernels.ir import ReductionSpec
from xferlib.kernels.reduction import ReductionCall

pytestmark = pytest.mark.usefixtures("kernels_apart")


def spec_of(name: str, dtype: str) -> ReductionSpec:
    if name == "var":
        reductions.var(np.ones(1))
        kernel = reductions._spreads[0]
    else:
        kernel = getattr(reductions, name)
    return kernel.definition.specialize((np.dtype(dtype),), frozenset())


def reduce_on_cuda(name: str, x: np.ndarray[Any, Any], axes: tuple[int, ...]) -> tuple[Any, CudaReduction]:
    """The result of the CUDA source, and its plan."""
    return run_on_cuda(spec_of(name, x.dtype.name), [x], axes)


def run_on_cuda(spec: ReductionSpec, arrays: list[Any], axes: tuple[int, ...]) -> tuple[Any, CudaReduction]:
    emulator, infos = Emulator(), [info_of(x) for x in arrays]
    library: Any = SimpleNamespace(at=lambda device: None)
    names = [f"x{number}" for number in range(len(arrays))]
    call = ReductionCall(
        "r", library, library, spec, arrays[0].shape, axes, dict(enumerate(infos)), names, keepdims=False
    )
    out = np.zeros(call.result_shape, spec.output_dtypes[0])
    kept, reduced = call.layouts([*infos, info_of(out)])
    memory = emulator.memory = [reachable(each) for each in (*arrays, out)]

    def allow(scratch: Any) -> Any:
        memory.append(reachable(scratch))
        return scratch

    vars(emulator).update(
        operands=lambda arrays: [each.ctypes.data for each in arrays],
        empty=lambda shape, dtype, **_: allow(np.zeros(shape, dtype)),
        zeros_for=lambda *given: allow(Emulator.zeros_for(emulator, *given)),
    )
    inputs = [infos[source] for source in spec.sources]
    plan = CudaReduction(emulator, None, spec, kept, reduced, [*inputs, info_of(out)])
    plan.run([each.ctypes.data for each in (*arrays, out)], [], RawStream(0, None))
    assert not emulator.misaligned
    return out, plan


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], tuple[int, ...]]:
    """An array of some layout, and the axes to reduce; extents of 1 are frequent."""
    rank = draw(st.integers(1, 3))
    extents = st.sampled_from((1, 1, 2, 3, 7, 17, 40, 300))
    shape = draw(st.lists(extents, min_size=rank, max_size=rank).filter(lambda found: math.prod(found) < 5000))
    order, axes = draw(st.permutations(range(rank))), draw(st.sets(st.integers(0, rank - 1), min_size=1))
    gap, start = draw(st.integers(0, 2)), draw(st.integers(0, 3))
    memory = [shape[axis] for axis in order]
    memory[-1] += gap
    numbers = np.random.default_rng(draw(st.integers(0, 99))).normal(size=math.prod(memory) + start) * 9
    dtype = draw(st.sampled_from(("float32", "float16", "int8", "float64")))
    view = numbers.astype(dtype)[start:].reshape(memory)[..., : memory[-1] - gap]
    return view.transpose(np.argsort(order)), tuple(sorted(axes))


@given(st.sampled_from(("var", "var", "sum", "argmax", "max")), arrays(), st.sampled_from((0, 1, 4096)), st.booleans())
@settings(max_examples=12, deadline=None)
def test_random_reductions(
    name: str, drawn: tuple[np.ndarray[Any, Any], tuple[int, ...]], warps: int, is_large: bool
) -> None:
    """Whether few warps take much each, as of a large array, or many take little; and in groups, as of a large one."""
    x, axes = drawn
    if name == "argmax" and len(axes) < x.ndim:
        axes = axes[:1]
    if x.dtype.kind == "i" and name == "var":
        x = x.astype("float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_reduction, "_LEAST_WARPS", warps)
        if is_large:
            patch.setattr(cuda_reduction, "_FULL", 64)
            patch.setattr(cuda_reduction, "_LEAST_STRETCH", 31 * cuda_reduction.GROUP)
        found, _ = reduce_on_cuda(name, x, axes)
    axis = None if len(axes) == x.ndim else axes if len(axes) > 1 else axes[0]
    assert same_bits(found, np.asarray(getattr(reductions, name)(x, axis=axis)))


@pytest.mark.parametrize("name", ["sum", "mean", "argmax", "var", "any", "norm"])
def test_results_of_one_element_each_are_an_element_wise_kernel(name: str) -> None:
    x = np.array([[[0.5, -0.0, np.nan]], [[np.inf, 1e30, -3]]], "float32")
    found, plan = reduce_on_cuda(name, x, (1,))
    assert not hasattr(plan, "source")  # of a kernel of reductions
    with np.errstate(all="ignore"):
        assert same_bits(found, np.asarray(getattr(reductions, name)(x, axis=1)))


@pytest.mark.parametrize(("shape", "axes"), [((16, 2000), (1,)), ((300, 64), (0,))])
def test_a_variance_reads_several_elements_at_a_time(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.ones(shape, "float32")
    plan = reduce_on_cuda("var", x, axes)[1]
    assert "(const uint4*)" in plan.source or "(const uint2*)" in plan.source


def test_only_what_is_the_same_constant_for_each_element_counts() -> None:
    def counted(spec: ReductionSpec) -> set[int]:
        return set(ReductionWriter(spec, replace_kind()).counting)

    def replace_kind() -> Any:
        return type("Kind", (), {"same": (False, True), "is_short": True})()

    assert counted(spec_of("var", "float32")) == {0}
    assert counted(spec_of("sum", "float32")) == set()
    ones = xl.reduction("T x", "T y", map_expr="1", reduce_expr="a * b", identity="1")
    assert counted(ones.definition.specialize((np.dtype("float32"),), frozenset())) == set()
    twos = xl.reduction("T x", "T y", map_expr="2", reduce_expr="a + b", identity="0")
    assert counted(twos.definition.specialize((np.dtype("float32"),), frozenset())) == set()


@pytest.mark.parametrize(("shape", "steps", "are_whole"), [((5, 2500), 8, False), ((70, 300), 8, True)])
@pytest.mark.parametrize("name", ["sum", "argmax", "max"])
def test_a_warp_takes_several_tiles_or_several_results(
    name: str, shape: tuple[int, int], steps: int, are_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_reduction, "_LEAST_WARPS", 0)
    kinds, find = [], CudaReduction._shape

    def note(*given: Any) -> Any:
        kinds.append(find(*given))
        return kinds[-1]

    monkeypatch.setattr(CudaReduction, "_shape", note)
    x = np.random.default_rng(5).integers(-40, 40, shape).astype("float32") / 7
    found, _ = reduce_on_cuda(name, x, (1,))
    assert [(each.kernel, each.steps, each.are_whole, each.sections) for each in kinds] == [
        ("rows", steps, are_whole, 1)
    ]
    assert same_bits(found, np.asarray(getattr(reductions, name)(x, axis=1)))


def test_places_of_elements_take_32_bits_where_they_suffice() -> None:
    x = np.arange(6000, dtype="float32").reshape(2, 3000) % 991
    found, plan = reduce_on_cuda("argmax", x, (1,))
    assert "int v1;" in plan.source
    assert found.dtype == np.int64
    assert np.array_equal(found, x.argmax(1))
    assert "int v0;" not in reduce_on_cuda("sum", x.astype("int64"), (1,))[1].source


def test_a_sum_in_another_order_than_the_memorys_is_one_call_of_two_launches() -> None:
    x = np.random.default_rng(6).normal(size=(70, 4000)).astype("float32").T
    found, plan = reduce_on_cuda("sum", x, (0, 1))
    assert same_bits(found, np.asarray(reductions.sum(x)))
    calls: list[Any] = []
    vars(plan._backend)["repeat_call"] = lambda *given, **options: calls.append((*given, options))
    plan.repeat([x], [x.ctypes.data, found.ctypes.data], [((), found.dtype, None)], RawStream(0, None))
    ((launches, _, _, block, outputs, options),) = calls
    (_, _, _, first), (_, _, _, second) = launches
    (_, _, _, *result), ((nodes,), _, _, *places) = outputs
    assert options["spare"] == 1
    assert plan._rest is not None
    assert nodes == plan._rest._count
    assert result[1] == second[1]
    assert places == [first[2], second[0]]
    assert len(block) >= second[-1]


@given(st.integers(17, 29), st.sampled_from(("float32", "float16", "float64")), st.integers(0, 3), st.integers(0, 2))
@settings(max_examples=6, deadline=None)
def test_short_columns_are_read_in_whole_accesses(along: int, dtype: str, start: int, gap: int) -> None:
    across = 300 + 7 * along
    numbers = np.random.default_rng(along).normal(size=2 * along * (across + gap) + start).astype(dtype)
    x = numbers[start:].reshape(2, along, across + gap)[..., :across].transpose(0, 2, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_reduction, "_FULL", 64)
        found, plan = reduce_on_cuda("sum", x, (1, 2))
    assert "*(uint4*)" in plan.source
    assert same_bits(found, np.asarray(reductions.sum(x, axis=(1, 2))))


@given(
    st.permutations(range(4)),
    st.lists(st.sampled_from((1, 2, 3, 9, 16, 41)), min_size=3, max_size=3).filter(
        lambda found: math.prod(found) < 2000
    ),
    st.sampled_from(("float32", "float16", "float64")),
    st.sampled_from(("sum", "var", "mean", "norm")),
)
@settings(max_examples=8, deadline=None)
def test_short_results_in_another_order_than_the_memorys(
    order: list[int], extents: list[int], dtype: str, name: str
) -> None:
    shape = (*extents, 37)  # of which the last is kept
    x = np.random.default_rng(8).normal(size=[shape[axis] for axis in order]).astype(dtype) * 9
    x = x.transpose(np.argsort(order))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_reduction, "_FULL", 16)
        found, _ = reduce_on_cuda(name, x, (0, 1, 2))
    assert same_bits(found, np.asarray(getattr(reductions, name)(x, axis=(0, 1, 2))))


@pytest.mark.parametrize(
    ("shape", "dtype", "name"),
    crossed(2, [(3, 1000, 5), (4, 640, 8), (2, 1777, 3)], ["float32", "float16"], ["sum", "mean"]),
)
def test_few_adjacent_elements_of_several_planes_are_read_as_they_lie(
    shape: tuple[int, int, int], dtype: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which a sum has two results, and a mean is one."""
    monkeypatch.setattr(cuda_reduction, "_FULL", 16)
    monkeypatch.setattr(cuda_reduction, "_LEAST_STRETCH", 256)
    x = np.random.default_rng(12).normal(size=(2, *shape)).astype(dtype).swapaxes(2, 3)
    found, plan = reduce_on_cuda(name, x, (1, 2, 3) if name == "sum" else (0, 1, 2, 3))
    assert "xf_groups(" in plan.source
    assert same_bits(found, np.asarray(getattr(reductions, name)(x, axis=(1, 2, 3) if name == "sum" else None)))


def test_the_last_elements_of_a_stretch_fill_no_access(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_reduction, "_FULL", 16)
    monkeypatch.setattr(cuda_reduction, "_LEAST_STRETCH", 256)
    x = np.random.default_rng(14).normal(size=(5001, 3)).astype("float32").T
    found, plan = reduce_on_cuda("sum", x, (0, 1))
    assert "found * across % 4" in plan.source
    assert same_bits(found, np.asarray(reductions.sum(x)))


@pytest.mark.parametrize(("count", "across"), some([(5, 31), (9, 20), (9, 8)], 2))
def test_many_arrays_need_not_fit_a_tile(count: int, across: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_reduction, "_FULL", 64)
    names = [f"x{number}" for number in range(count)]
    kernel = xl.reduction(
        ", ".join(f"T {each}" for each in names), "T y", map_expr=" + ".join(names), reduce_expr="a + b", identity="0"
    )
    memory = np.random.default_rng(13).normal(size=(count, 40, 3, 5, across))
    arrays = [each.transpose(2, 1, 3, 0) for each in memory]
    spec = kernel.definition.specialize((memory.dtype,) * count, frozenset())
    found, plan = run_on_cuda(spec, arrays, (0, 1, 2, 3))
    assert "xf_groups(" in plan.source
    assert same_bits(found, np.asarray(kernel(*arrays)))


def test_results_in_few_runs_of_memory_take_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_reduction, "_FULL", 16)
    x = np.random.default_rng(9).normal(size=(2, 50, 97)).astype("float32").T
    found, plan = reduce_on_cuda("mean", x, (0, 2))
    assert "xf_rows(" in plan.source
    assert plan._rest is None
    assert same_bits(found, np.asarray(reductions.mean(x, axis=(0, 2))))


@given(st.integers(1, (1 << 31) - 1), st.integers(0, (1 << 31) - 1))
def test_products_and_shifts_divide(extent: int, number: int) -> None:
    factor, shift = divisor(extent)
    assert factor < 1 << 32
    for at in (number, number // extent * extent, max(0, number // extent * extent - 1), (1 << 31) - 1):
        assert ((at * factor >> 32) + at) >> shift == at // extent


@pytest.mark.parametrize(
    ("operation", "shape"),
    crossed(
        2,
        [("max", "uint8"), ("sum", "int64"), ("any", "float32"), ("prod", "int32")],
        [(20001, 2), (4097, 1), (300, 61), (3, 2999, 5)],
    ),
)
def test_columns_whose_order_is_free_are_shared_element_by_element(
    operation: tuple[str, str], shape: tuple[int, ...]
) -> None:
    name, dtype = operation
    x = np.random.default_rng(10).integers(0, 250, (*shape[:-1], shape[-1] + 1)).astype(dtype)[..., 1:]
    axes = tuple(range(len(shape) - 1))
    found, _ = reduce_on_cuda(name, x, axes)
    assert same_bits(found, np.asarray(getattr(reductions, name)(x, axis=axes if len(axes) > 1 else 0)))


@pytest.mark.parametrize(
    ("case", "count"),
    crossed(
        3,
        [
            ("max", "uint8", 46, 8),
            ("any", "uint8", 3, 16),
            ("sum", "int32", 7, 4),
            ("min", "float16", 29, 8),
            ("prod", "int64", 9, 2),
        ],
        [16, 397, 9003],
    ),
)
def test_several_short_rows_of_columns_are_read_as_one(
    case: tuple[str, str, int, int], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, dtype, columns, lines = case
    monkeypatch.setattr(cuda_reduction, "_LEAST_STRETCH", 1)
    x = np.random.default_rng(11).integers(-3, 90, (count, columns)).astype(dtype)
    found, plan = reduce_on_cuda(name, x, (0,))
    assert f"rows = g.rows * {lines}," in plan.source
    assert same_bits(found, np.asarray(getattr(reductions, name)(x, axis=0)))


def test_a_call_of_many_results_without_parts_is_made_in_c() -> None:
    """It takes no counter for each of them: scratch memory that is kept has few."""
    x = np.arange(15000, dtype="int32").reshape(5000, 3) % 7
    found, plan = reduce_on_cuda("max", x, (1,))
    calls: list[Any] = []
    vars(plan._backend)["repeat_call"] = lambda *given, **options: calls.append(given)
    plan.repeat([x], [x.ctypes.data, found.ctypes.data], [((5000,), found.dtype, None)], RawStream(0, None))
    assert len(calls) == 1
    assert np.array_equal(found, x.max(1))


@pytest.mark.parametrize(
    ("access", "shape", "name"),
    crossed(
        3,
        [("float32", 2, 2), ("float16", 2, 4), ("uint8", 2, 8), ("int8", 4, 4)],
        [(9000,), (3, 1, 1023), (5, 16)],
        ["sum", "argmax", "max"],
    ),
)
def test_elements_that_are_apart_are_read_several_at_a_time(
    access: tuple[str, int, int], shape: tuple[int, ...], name: str
) -> None:
    dtype, step, width = access
    numbers = np.random.default_rng(7).integers(0, 99, (*shape[:-1], -(-shape[-1] // 16) * 16 * step)).astype(dtype)
    x = numbers[..., : shape[-1] * step : step]
    found, plan = reduce_on_cuda(name, x, (x.ndim - 1,))
    assert f"l0[{step * width}]" in plan.source
    assert same_bits(found, np.asarray(getattr(reductions, name)(x, axis=-1)))
