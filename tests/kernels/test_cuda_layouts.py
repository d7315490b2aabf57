"""How the CUDA source of kernels reads and writes arrays of other layouts than C order, run on the CPU."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.emulated import Emulator, as_cuda, info_of
from xferlib.kernels import cuda_engine, elementwise
from xferlib.kernels.calls import CudaCall
from xferlib.kernels.cuda_source import SHIFTED, CallKind, step_pieces, write_digits
from xferlib.kernels.ir import layout_of_call

pytestmark = pytest.mark.usefixtures("kernels_apart")

ADD = elementwise("T x, T y", "T z", "z = x + y")
ADD_BYTES = elementwise("T x, signed char y", "T z", "z = x + (T)y")


class Placed:
    """An array in the middle of memory, and a copy of the memory as it was."""

    def __init__(
        self, shape: tuple[int, ...], dtype: str, order: tuple[int, ...], gap: int, start: int, step: int = 1
    ) -> None:
        extents = [shape[axis] for axis in order]
        extents[-1] = (extents[-1] - 1) * abs(step) + 1 + gap
        self.memory = (np.arange(math.prod(extents) + start + 8) % 50).astype(dtype)
        inner = self.memory[start : start + math.prod(extents)].reshape(extents)[..., : extents[-1] - gap][..., ::step]
        self.array = inner.transpose(np.argsort(order))
        self.before = self.memory.copy()

    def has_kept_the_rest(self) -> bool:
        """Whether what lies between and around the elements is as it was; forgets the elements."""
        self.array[...] = 0
        found = self.memory.copy()
        self.memory[...] = self.before
        self.array[...] = 0
        return np.array_equal(found, self.memory)


@st.composite
def operands(draw: st.DrawFn) -> tuple[Any, Placed, Placed, Placed]:
    rank = draw(st.integers(1, 4))
    extents = st.sampled_from((1, 2, 3, 5, 9, 17, 33, 70, 130, 400))
    shape = tuple(draw(st.lists(extents, min_size=rank, max_size=rank).filter(lambda s: 20 < math.prod(s) < 20_000)))
    dtype = draw(st.sampled_from(("int8", "int8", "float16", "int16", "float32", "float64")))
    kernel = draw(st.sampled_from((ADD, ADD, ADD_BYTES)))
    orders = st.one_of(st.just(tuple(range(rank))), st.permutations(range(rank)).map(tuple))

    def place(of: str, without: set[int] | None = None) -> Placed:
        own = tuple(1 if axis in (without or ()) else extent for axis, extent in enumerate(shape))
        step = draw(st.sampled_from((1, 1, 1, 2, 3, -1, -2)))
        found = Placed(own, of, draw(orders), draw(st.integers(0, 2)), draw(st.integers(0, 4)), step)
        found.array = np.broadcast_to(found.array, shape) if without else found.array
        return found

    same = st.one_of(st.just(set[int]()), st.sets(st.integers(0, rank - 1), max_size=2))
    return kernel, place(dtype, draw(same)), place("int8" if kernel is ADD_BYTES else dtype, draw(same)), place(dtype)


@given(operands())
@settings(max_examples=8, deadline=None)
def test_random_layouts(drawn: tuple[Any, Placed, Placed, Placed]) -> None:
    kernel, x, y, z = drawn
    expected = x.array + y.array.astype(x.array.dtype)
    assert not as_cuda(kernel, x.array, y.array, z.array)
    assert np.array_equal(z.array, expected)
    assert z.has_kept_the_rest()


def aligned(shape: tuple[int, ...], dtype: str, start: int = 0) -> np.ndarray[Any, Any]:
    """Small numbers in C order, whose memory begins ``start`` elements behind an aligned address."""
    count, size = math.prod(shape), np.dtype(dtype).itemsize
    memory = np.zeros(count * size + 64, np.uint8)
    at = -memory.ctypes.data % 16 + start * size
    array = memory[at : at + count * size].view(dtype).reshape(shape)
    array[...] = (np.arange(count) % 47).reshape(shape)
    return array


def _beside_a_row(rows: int, columns: int, dtype: str, step: int) -> tuple[Any, ...]:
    x, row = aligned((columns, rows), dtype).T, aligned((columns,), dtype, 1)
    return ADD, x, np.broadcast_to(row, x.shape), aligned((rows, abs(step) * columns), dtype)[:, ::step]


def _in_four_axes(dtype: str) -> tuple[Any, ...]:
    x, y = aligned((9, 33, 3, 11), dtype)[..., :9], aligned((33, 9, 3, 9), dtype).transpose(3, 0, 2, 1)
    return ADD, x, y, aligned((9, 33, 3, 9), dtype)


def _beside_bytes() -> tuple[Any, ...]:
    x, y = np.broadcast_to(aligned((130, 1), "complex64"), (130, 400)), aligned((130, 400), "int8")
    return ADD_BYTES, x, y, aligned((400, 132), "complex64")[:, 129::-1].T


@pytest.mark.parametrize(
    "given",
    [
        pytest.param((_beside_a_row, 2048, 130, "float32", 2), id="every second column"),
        pytest.param((_beside_a_row, 1024, 130, "int8", 2), id="bytes"),
        pytest.param((_beside_a_row, 512, 600, "float64", 2), id="doubles"),
        pytest.param((_beside_a_row, 512, 130, "float32", -1), id="reversed"),
        pytest.param((_in_four_axes, "float64"), id="four axes"),
        pytest.param((_in_four_axes, "complex64"), id="four axes, complex"),
        pytest.param((_beside_bytes,), id="less in a box than before it"),
    ],
)
def test_boxes_whose_vectors_would_begin_at_aligned_memory_have_every_element(given: tuple[Any, ...]) -> None:
    make, *arguments = given
    kernel, x, y, z = make(*arguments)
    expected = x + y.astype(x.dtype)
    assert not as_cuda(kernel, x, y, z)
    assert np.array_equal(z, expected)


def kind_of(*arrays: np.ndarray[Any, Any]) -> CallKind:
    """How a kernel of two inputs takes these."""
    program = ADD.definition.specialize(tuple(each.dtype for each in arrays), frozenset()).program
    infos = {number: info_of(each)._replace(pointer=0) for number, each in enumerate(arrays)}
    layout = layout_of_call(program, arrays[-1].shape, infos).with_axes()
    return cuda_engine._kind(layout, program, [], (), infos, is_aliased=False, threads=256)


@given(st.sampled_from((2, 4, 8, 16)), st.sampled_from((-3, -2, -1, 1, 2, 3, 4)), st.sampled_from((1, 2, 4, 8)))
def test_pieces_of_a_stepped_vector_have_all_its_elements_and_nothing_beyond(width: int, step: int, size: int) -> None:
    pieces, span = step_pieces(width, step, size), ((width - 1) * abs(step) + 1) * size
    assert {end - start for start, end in pieces} <= {*SHIFTED, span}
    assert all(start >= 0 and end <= span for start, end in pieces)
    starts = [number * abs(step) * size for number in range(width)]
    assert all(any(start <= at and at + size <= end for start, end in pieces) for at in starts)
    assert cuda_engine._find_step(step * size, width, size) == (step if 2 * len(pieces) < width else 0)


def test_elements_that_are_far_apart_are_planned_as_fast_as_neighbours() -> None:
    """Their parts are not listed, which are more than memory has room for."""
    assert cuda_engine._find_step(1 << 60, 16, 4) == 0


def test_what_is_reversed_or_every_second_one_is_read_in_words() -> None:
    plain = np.empty(5000, "int8")
    assert [each.kind for each in kind_of(plain[::-1], np.empty(10_000, "int8")[::2], plain).accesses] == [
        "stepped", "stepped", "vector"
    ]  # fmt: skip
    assert kind_of(np.empty(5000)[::-1], np.empty(5000), np.empty(5000)).accesses[0].kind == "strided"


def test_there_are_boxes_for_all_of_a_gpu() -> None:
    shape = (282, 323, 8)
    tile = kind_of(permuted(shape, 0, 1, 2), permuted(shape, 1, 2, 0), permuted(shape, 0, 1, 2)).tile
    assert tile is not None
    assert math.prod(shape) / math.prod(tile.sides) > 264


def permuted(shape: tuple[int, ...], *order: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.empty([shape[axis] for axis in order], dtype).transpose(np.argsort(order))


def test_rows_at_odd_addresses_are_written_in_whole_words() -> None:
    cropped, plain = np.empty((100, 1003), "int8")[:, :999], np.empty((100, 999), "int8")
    kind = kind_of(cropped, plain, plain)
    assert (kind.leader, kind.width, [each.kind for each in kind.accesses]) == (2, 16, ["shifted", "vector", "vector"])
    assert kind_of(plain, plain, plain).leader is None  # one row of memory


def test_each_operand_moves_through_a_box_in_the_order_of_its_memory() -> None:
    shape = (33, 1181, 342)
    tile = kind_of(permuted(shape, 0, 2, 1), permuted(shape, 1, 2, 0), permuted(shape, 0, 1, 2)).tile
    assert tile is not None
    assert (tile.runs, tile.others) == (((1,), (0,), ()), ((2, 0), (2, 1), ()))
    assert all(side >= 8 for side in tile.sides)


def test_short_axes_are_in_a_box_as_a_whole() -> None:
    shape = (62, 3387, 46, 6)
    tile = kind_of(permuted(shape, 0, 1, 2, 3), permuted(shape, 3, 2, 0, 1), permuted(shape, 0, 1, 2, 3)).tile
    assert tile is not None
    assert tile.sides[-1] == 6
    assert math.prod(tile.sides[1:]) * 4 >= 128  # one run of the result, of a whole line of memory


def test_what_is_the_same_along_an_axis_is_in_a_box_once() -> None:
    x, y, z = (np.zeros((100, 40, 16), "float32") for _ in range(3))
    y = np.broadcast_to(np.arange(1600, dtype="float32").reshape(16, 100).T[:, None], x.shape)
    tile = kind_of(x, y, z).tile
    assert tile is not None
    assert (tile.runs[1], tile.others[1]) == ((0,), (2,))
    assert not as_cuda(ADD, x, y, z)
    assert np.array_equal(z, x + y)


def test_an_operand_of_few_elements_does_not_size_a_box() -> None:
    x = np.zeros((5, 320, 15, 21), "int16").T
    y = np.zeros((320, 5), "int16")
    z = np.zeros((320, 5, 21, 15), "int16").transpose(2, 3, 0, 1)
    tile = kind_of(x, np.broadcast_to(y, x.shape), z).tile
    assert tile is not None
    boxes = math.prod(-(-extent // side) for extent, side in zip(x.shape, tile.sides, strict=True))
    assert boxes >= cuda_engine._LEAST_BOXES  # enough for all of a GPU


def test_accesses_are_aligned_in_each_box() -> None:
    y = (np.arange(600_000) % 50).astype("int8").reshape(300, 5, 400).T
    x, z = np.ones(y.shape, "int8"), np.zeros(y.shape, "int8")
    tile = kind_of(x, y, z).tile
    assert tile is not None
    assert tile.sides[0] % tile.widths[1] == 0
    assert not as_cuda(ADD, x, y, z)
    assert np.array_equal(z, x + y)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
def test_vectors_of_a_box_begin_at_aligned_memory_and_are_whole(dtype: str) -> None:
    y = (np.arange(333 * 271) % 50).astype(dtype).reshape(271, 333).T
    x, z = np.ones(y.shape, dtype), np.zeros(y.shape, dtype)
    kind, size = kind_of(x, y, z), np.dtype(dtype).itemsize
    assert kind.tile is not None
    assert (kind.leader, kind.width * size) == (2, 16)
    assert kind.tile.before >= kind.width - 1  # of each row the box has what its first vector may begin with
    assert kind.tile.row % kind.width == 0
    assert not as_cuda(ADD, x, y, z)
    assert np.array_equal(z, x + y)


@given(
    st.sampled_from((64, 256)),
    st.lists(st.sampled_from((1, 2, 3, 4, 7, 8, 16, 60, 64)), min_size=1, max_size=4),
    st.data(),
)
def test_digits_of_the_units_of_a_box(threads: int, radices: list[int], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, math.prod(radices) - 1))
    it, thread = divmod(number, threads)
    for text, radix in zip(write_digits(threads, radices), radices, strict=True):
        python = (
            re.sub(r"(\d)u", r"\1", text).replace("(int)", "").replace("/", "//").replace("threadIdx.x", str(thread))
        )
        assert eval(python, {"it": it}) == number % radix
        number //= radix


def test_axes_that_a_box_has_as_a_whole_are_read_as_one_run() -> None:
    pixels, planes = permuted((3, 300, 400), 1, 2, 0, dtype="uint8"), np.empty((3, 300, 400), "uint8")
    tile = kind_of(pixels, pixels, planes).tile
    assert tile is not None
    assert tile.runs[:2] == ((0, 1), (0, 1))  # the rows and columns of an image are one axis here
    assert tile.widths[:2] == (16, 16)


@pytest.mark.parametrize(("extent", "least", "side"), [(6, 64, 6), (70, 64, 72), (33, 32, 40), (5000, 64, 64)])
def test_sides_leave_little_beyond_an_axis(extent: int, least: int, side: int) -> None:
    assert cuda_engine._side(extent, least, 8) == side


class Allocator(Emulator):
    """A backend each of whose new arrays lies where the last one did, as in a loop that drops its results."""

    has_made_streams, handle = False, 0

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[Any, np.ndarray[Any, Any]] = {}
        self.whole: list[Any] = []
        vars(self).update(
            stream_current=lambda device: self,
            stream_handle=lambda device: 0,
            operands=lambda arrays: [each.ctypes.data for each in arrays],
            view=info_of,
        )

    def empty(self, shape: tuple[int, ...], dtype: Any, **_: Any) -> np.ndarray[Any, Any]:
        return self.made.setdefault(shape, np.empty(shape, dtype))

    def empty_permuted(self, shape: tuple[int, ...], order: tuple[int, ...], dtype: Any, **_: Any) -> Any:
        return self.empty(tuple(shape[axis] for axis in order), dtype).transpose(np.argsort(order))

    def repeat_call(self, *args: Any, **options: Any) -> Any:
        self.whole.append(args[-1])
        return lambda given, out: NotImplemented


@pytest.mark.parametrize("order", [None, (1, 0)])
def test_the_second_call_is_whole_in_c_where_results_lie_as_before(order: tuple[int, ...] | None) -> None:
    x = np.ones((5, 7), "float32") if order is None else np.ones((7, 5), "float32").T
    special, backend = ADD.definition.specialize((x.dtype, x.dtype, None), frozenset()), Allocator()
    call = CudaCall("add", backend, None, special, x.shape, frozenset(), {0: info_of(x), 1: info_of(x)})
    for number in range(3):
        found = call.run_again([x, x], backend.operands([x, x]))  # type: ignore[attr-defined]
        assert np.array_equal(found, x + x)
        assert found.strides == x.strides
        assert len(backend.whole) == min(number, 1)
    assert call.direct is not None
    assert backend.whole[0][0][:3] == ((5, 7), x.dtype, order)
