"""Trees of a form that is known, in one call of C for a library of CUDA's kind: bits, streams, failures."""

from __future__ import annotations

import concurrent.futures
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.conftest import refuse_violations
from tests.direct import TILE, DirectBackend
from tests.kernels.targets import need_nvrtc
from tests.sizes import crossed
from xferlib.errors import PinnedMemoryError, TransferError
from xferlib.testing import (
    THRESHOLDS,
    assert_same_bits,
    configured,
    fresh_registry,
    fresh_staging,
    in_flight_count,
    lent_chunks,
    native,
    staging_stats,
)
from xferlib.testing.strategies import bits_of
from xferlib.testing.tools import load_backend

HERE = "delayed:cuda:0"
pytestmark = pytest.mark.skipif(not native().is_on, reason=native().why_no_staging or "native=off")
DTYPES = ("float32", "float64", "uint8", "bool", "int16", "complex128", "float16", "int64")


@pytest.fixture(scope="module", autouse=True)
def backend() -> Iterator[Any]:
    with fresh_registry(delayed=DirectBackend):
        yield load_backend("delayed")


@pytest.fixture(autouse=True)
def _is_clean(backend: Any) -> Iterator[None]:
    backend.calls.clear()
    yield
    backend.failing_calls.clear()
    refuse_violations(backend.machine)
    assert lent_chunks() == 0


@pytest.fixture
def _is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No simulator listens, if an earlier test has used it."""
    for name in ("_runtime.happens_before", "_core.observe"):
        monkeypatch.setattr(f"xferlib.{name}.listener", None)


@pytest.fixture
def _is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in flight, whatever earlier tests have left there."""
    monkeypatch.setattr("xferlib._memory.lifetimes.in_flight._held", {})


@st.composite
def forms(draw: st.DrawFn) -> list[tuple[tuple[int, ...], str, bool]]:
    """Shapes and dtypes of leaves, and whether each is pinned: few or many, of some bytes up to some hundred KiB."""
    largest = draw(st.sampled_from((4, 300, 20_000, 400_000)))
    shape = st.one_of(
        st.tuples(st.integers(0, largest)),
        st.just(()),
        st.tuples(st.integers(1, 7), st.integers(1, max(largest // 7, 1))),
    )
    return draw(st.lists(st.tuples(shape, st.sampled_from(DTYPES), st.booleans()), min_size=2, max_size=12))


def make_tree(form: list[tuple[tuple[int, ...], str, bool]], seed: int) -> list[Any]:
    """Leaves of that form with bits of their own, and one that is no array."""
    leaves: list[Any] = []
    for number, (shape, dtype, is_pinned) in enumerate(form):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        leaf = np.asarray(bits_of(nbytes, np.dtype(dtype), seed=seed + number)).reshape(shape)
        leaves.append(xl.pinned_array(leaf, backend="delayed") if is_pinned else leaf)
    return [*leaves, "text"]


def stay(backend: Any, stream: str) -> Any:
    return contextlib.nullcontext() if stream == "default" else xl.Stream(HERE)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(form=forms(), stream=st.sampled_from(("default", "current")), is_pinned=st.booleans(), tied=st.booleans())
def test_bits_of_trees_of_one_form(backend: Any, form: Any, stream: str, is_pinned: bool, tied: bool) -> None:
    with stay(backend, stream):
        for seed in (1, 1000, 2000):
            tree = make_tree(form, seed)
            expected = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in tree]
            if tied:
                tree, expected = [*tree, tree[0]], [*expected, expected[0]]
            there = xl.tree.to_device(tree, device=HERE)
            for leaf in tree:  # they have been read
                if isinstance(leaf, np.ndarray):
                    leaf.reshape(-1).view(np.uint8)[:] = 77
            found = xl.tree.to_host(there, pinned=is_pinned)
            assert found[len(form)] == "text"
            assert not tied or found[-1] is found[0]
            for one, other in zip(found, expected, strict=True):
                assert isinstance(one, str) or (one.shape == other.shape and one.dtype == other.dtype)
                assert isinstance(one, str) or one.tobytes() == other.tobytes()


SIZES = ((3, 5), (40_000, 9), (300, 200_000, 17), (5,) * 40, (70_000,) * 30, (9, 600_000, 7, 700_000), (200_000,) * 6)
"""Of the leaves of some trees, in elements of float32."""


def make_floats(sizes: tuple[int, ...]) -> dict[str, np.ndarray[Any, Any]]:
    return {str(number): np.arange(size, dtype=np.float32) + number for number, size in enumerate(sizes)}


@pytest.mark.usefixtures("_is_idle")
@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_tree_beside_a_simulator_leaves_nothing_in_flight(sizes: tuple[int, ...], is_pinned: bool) -> None:
    """A simulator sees every step, so that none of them is left to C."""
    xl.zeros(1, device="sim:0")
    tree = make_floats(sizes)
    for _ in range(2):
        found = xl.tree.to_host(xl.tree.to_device(tree, device=HERE), pinned=is_pinned)
        for name, leaf in tree.items():
            assert_same_bits(found[name], leaf)
    assert in_flight_count() == 0


@pytest.mark.usefixtures("_is_alone", "_is_idle")
def test_arrays_of_the_host_come_with_those_of_the_device() -> None:
    """A library is not asked where arrays of another one lie."""
    x, y = np.arange(12, dtype=np.float32), np.arange(6).reshape(2, 3)
    for here in (y, y.T):
        tree = {"one": xl.to_device(x, device=HERE), "here": here, "two": xl.to_device(x + 1, device=HERE)}
        for _ in range(3):
            found = xl.tree.to_host(tree)
            for name, expected in {"one": x, "here": here, "two": x + 1}.items():
                assert_same_bits(found[name], expected)


@pytest.mark.usefixtures("_is_alone", "_is_idle")
@pytest.mark.parametrize(("sizes", "is_pinned", "call"), crossed(
    2, SIZES, [False, True], ["batch", "enqueue", "send", "fetch", "fetch_later", "launch", "wait", "query"]
))  # fmt: skip
def test_a_call_of_the_driver_that_fails_gives_the_same_bits_or_an_error(
    backend: Any, sizes: tuple[int, ...], is_pinned: bool, call: str
) -> None:
    """In a thread of its own: behind a wait that failed, pinned memory of the thread may be in use for ever."""
    tree, reached = make_floats(sizes), list[str]()

    def send_and_fetch() -> None:
        for _ in range(2):
            there = xl.tree.to_device(tree, device=HERE)
            xl.tree.to_host(there, pinned=is_pinned)
        backend.failing_calls.add(call)
        backend.calls.clear()
        again = xl.tree.to_device(tree, device=HERE)
        found = xl.tree.to_host(again, pinned=is_pinned)
        backend.failing_calls.clear()
        reached.extend(backend.calls)
        for name, leaf in tree.items():
            assert_same_bits(found[name], leaf)
        assert_same_bits(xl.tree.to_host(again)["0"], tree["0"])
        xl.synchronize(HERE)
        assert in_flight_count() == 0

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(send_and_fetch).result()
    is_in_steps = 4 * sum(sizes) > 2 << 20 and not is_pinned
    assert call == "launch" or not is_in_steps or reached.count("launch") >= 4


@pytest.mark.usefixtures("_is_alone", "_is_idle")
def test_a_chunk_that_a_failed_step_may_still_write_is_used_no_more(backend: Any, monkeypatch: Any) -> None:
    tree, made, allocate = make_floats((200_000,) * 6), [], backend.pinned_alloc

    def pinned_alloc(nbytes: int) -> Any:
        made.append(nbytes)
        return allocate(nbytes)

    def fetch() -> None:
        there = xl.tree.to_device(tree, device=HERE)
        for _ in range(2):
            xl.tree.to_host(there)
        before = staging_stats("delayed").nbytes
        monkeypatch.setattr(backend, "pinned_alloc", pinned_alloc)
        backend.failing_calls |= {"launch", "wait"}
        with contextlib.suppress(TransferError):
            xl.tree.to_host(there)
        backend.failing_calls.clear()
        new = made.count(THRESHOLDS.chunk_nbytes)  # Python goes on, and may make another in the place of the lost one
        assert staging_stats("delayed") == (before + (new - 1) * THRESHOLDS.chunk_nbytes, 0, 0)
        for name, leaf in xl.tree.to_host(there).items():
            assert_same_bits(leaf, tree[name])

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(fetch).result()


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("largest", [20_000, 300_000])
@pytest.mark.usefixtures("_is_alone")
def test_a_known_form_is_sent_and_fetched_by_c_alone(backend: Any, largest: int, is_pinned: bool) -> None:
    tree: dict[str, np.ndarray[Any, Any]] = {
        "a": np.arange(100, dtype=np.float32), "b": np.arange(largest), "c": np.ones(7), "d": np.zeros(5)
    }  # fmt: skip
    is_large = tree["b"].nbytes > 2 << 20  # which has memory of its own, and is copied to pinned memory as it lies
    for _ in range(2):
        backend.calls.clear()
        there = xl.tree.to_device(tree, device=HERE)
        sent = list(backend.calls)
        backend.calls.clear()
        found = xl.tree.to_host(there, pinned=is_pinned)
        fetched = list(backend.calls)
    assert is_large or sent.count("enqueue") == 1
    assert fetched.count("launch") == (4 if is_large and not is_pinned else 1)
    assert fetched.count("fetch_later") == (is_large and is_pinned)
    assert (found["b"].base is found["a"].base) is (is_pinned or not is_large)
    for name, leaf in tree.items():
        assert_same_bits(found[name], leaf)


@pytest.mark.usefixtures("_is_alone")
def test_a_row_of_some_mib_is_copied_on_in_steps(backend: Any) -> None:
    for size in (900_000, 200_000, 90_001, 87_400, 87_300):  # the last have little more, and less, than 2 MiB in all
        tree = make_floats((size,) * 6)
        there = xl.tree.to_device(tree, device=HERE)
        for number in range(3):
            backend.calls.clear()
            found = xl.tree.to_host(there)
            steps = 5 if size == 900_000 else 4 if size > 87_382 else 1
            assert not number or backend.calls.count("launch") == steps
            for name, leaf in tree.items():
                assert_same_bits(found[name], leaf)


@pytest.mark.usefixtures("_is_alone")
@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("sizes", [(20_000,) * 6, (200_000,) * 6])
def test_a_chunk_is_left_to_what_runs_between_steps_where_no_more_can_be_made(
    backend: Any, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], chunks: int
) -> None:
    """A transfer of the same thread would wait for one for ever, as the steps do for it."""
    tree, allocate, gather, left = make_floats(sizes), backend.pinned_alloc, backend._enqueue_gather, list[int]()
    there = xl.tree.to_device(tree, device=HERE)
    for _ in range(2):
        xl.tree.to_host(there)

    def allocate_some(nbytes: int) -> Any:
        if nbytes == THRESHOLDS.chunk_nbytes and staging_stats("delayed").nbytes >= chunks * nbytes:
            raise PinnedMemoryError("no more")
        return allocate(nbytes)

    def look(*call: Any) -> None:
        stats = staging_stats("delayed")
        left.append(stats.nbytes // THRESHOLDS.chunk_nbytes - stats.lent_up - stats.lent_down)
        gather(*call)

    with fresh_staging(), configured():  # in which C asks for chunks anew
        monkeypatch.setattr(backend, "pinned_alloc", allocate_some)
        monkeypatch.setattr(backend, "_enqueue_gather", look)
        for _ in range(2):
            backend.calls.clear()
            for name, leaf in xl.tree.to_host(there).items():
                assert_same_bits(leaf, tree[name])
        assert ("launch" in backend.calls) is (chunks > 1)
        assert "launch" not in backend.calls or min(left) >= 1
    xl.trim()


@pytest.mark.usefixtures("_is_alone")
def test_a_known_form_is_fetched_by_c_directly_behind_a_trim(backend: Any) -> None:
    tree = make_floats((20_000,) * 6)
    there = xl.tree.to_device(tree, device=HERE)
    for _ in range(3):
        xl.tree.to_host(there)
    assert xl.trim() >= 2 * THRESHOLDS.chunk_nbytes
    backend.calls.clear()
    for name, leaf in xl.tree.to_host(there).items():
        assert_same_bits(leaf, tree[name])
    assert "launch" in backend.calls
    assert staging_stats("delayed").nbytes == 2 * THRESHOLDS.chunk_nbytes


@pytest.mark.usefixtures("_is_alone")
def test_a_row_comes_behind_an_upload_that_reads_the_same_chunk_on_another_stream(backend: Any) -> None:
    tree, x = make_floats((200_000,) * 3), np.arange(4_000_000)  # whose blocks fill the chunks
    there = xl.tree.to_device(tree, device=HERE)
    xl.synchronize(HERE)  # the streams below do not wait for the current one
    streams = xl.Stream(HERE), xl.Stream(HERE)
    for _ in range(3):
        with streams[0]:
            sent = xl.to_device(x, device=HERE)
        with streams[1]:
            found = xl.tree.to_host(there)
        xl.synchronize(HERE)
        assert_same_bits(xl.to_host(sent), x)
        for name, leaf in tree.items():
            assert_same_bits(found[name], leaf)


@pytest.mark.usefixtures("_is_alone")
@pytest.mark.parametrize("is_pinned", [False, True])
def test_arrays_that_are_all_large_come_to_pinned_memory_as_they_lie(backend: Any, is_pinned: bool) -> None:
    there = [xl.to_device(np.arange(300_000 + number), device=HERE) for number in range(4)]
    for _ in range(2):
        backend.calls.clear()
        found = xl.tree.to_host(there, pinned=is_pinned)
    assert ("launch" in backend.calls) is not is_pinned
    for number, leaf in enumerate(found):
        assert_same_bits(leaf, np.arange(300_000 + number))


@pytest.mark.usefixtures("_is_alone")
@pytest.mark.parametrize("sizes", [(40_000, 30_000), (5, 100_000, 3, 60_000, 30_000), (200_000,) * 6, (7, 600_000)])
def test_in_a_loop_threads_that_spin_copy_the_same_bits(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To pinned memory, and from it."""
    crew = sys.modules["xferlib._runtime.threads"].crew()._replace(each_way=1, both_ways=3, fillers=2)
    monkeypatch.setattr("xferlib._runtime.threads.crew", lambda: crew)
    xl.trim()  # and with it what was known of threads
    tree = make_floats(sizes)
    for number in range(20):  # some will come within a millisecond of the one before
        for leaf in tree.values():
            leaf += number
        expected = {name: leaf.copy() for name, leaf in tree.items()}
        there = xl.tree.to_device(tree, device=HERE)
        for leaf in tree.values():  # they have been read
            leaf[:] = 77
        found = xl.tree.to_host(there)
        for name, leaf in expected.items():
            assert_same_bits(found[name], leaf)
            tree[name][:] = leaf
    trees = [{name: leaf + number for name, leaf in tree.items()} for number in range(30)]
    copies = []
    for each in trees:  # one directly behind the other, on a stream that is idle each time
        copies.append(xl.tree.to_device(each, device=HERE))
        xl.synchronize(HERE)
    for each, copy in zip(trees, copies, strict=True):
        for name, leaf in xl.tree.to_host(copy).items():
            assert_same_bits(leaf, each[name])
    xl.trim()


@pytest.mark.usefixtures("_is_alone")
@pytest.mark.parametrize("stream", ["default", "current"])
def test_pinned_arrays_of_a_known_form_travel_in_one_call_of_the_driver(backend: Any, stream: str) -> None:
    """On the default stream, which takes no batch, the first one goes by itself."""
    tree = [xl.pinned_array(np.arange(40_000) + number, backend="delayed") for number in range(5)]
    with stay(backend, stream):
        large = [xl.to_device(np.arange(300_000) + number, device=HERE) for number in range(4)]
        for _ in range(2):
            backend.calls.clear()
            there = xl.tree.to_device(tree, device=HERE)
            sent = list(backend.calls)
            backend.calls.clear()
            found = xl.tree.to_host(large, pinned=True)
            fetched = list(backend.calls)
        alone = stream == "default"
        assert [sent.count(name) for name in ("batch", "enqueue")] == [1, alone]
        assert [fetched.count(name) for name in ("batch", "fetch_later")] == [1, alone]
        for one, other in zip([*there, *found], [*tree, *large], strict=True):
            assert_same_bits(xl.to_host(one), xl.to_host(other))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    pieces=st.lists(
        st.tuples(st.one_of(st.integers(1, 90), st.integers(1, 50_000)), st.integers(0, 17)), min_size=1, max_size=300
    ).filter(lambda some: sum(nbytes for nbytes, _ in some) < 600_000),
    gap=st.sampled_from((1, 4, 64)), seed=st.integers(0, 99), share=st.integers(1, 8),
)  # fmt: skip
def test_the_kernel_puts_pieces_of_any_size_in_a_row(
    backend: Any, pieces: list[tuple[int, int]], gap: int, seed: int, share: int
) -> None:
    """Run the kernel's source on a CPU, in two steps: pieces at any address, placed at multiples of ``gap``."""
    need_nvrtc()
    there = xl.tree.to_device([np.zeros(3), np.zeros(4)], device=HERE)
    xl.tree.to_host(there)
    (source,) = {each for each in backend.sources if "gather_tiles" in each}
    memory = np.asarray(bits_of(sum(nbytes + shift for nbytes, shift in pieces), np.dtype("uint8"), seed=seed))
    rows, place, start, expected = [], 0, memory.ctypes.data, {}
    for nbytes, shift in pieces:
        start += shift
        rows.append((start, place, nbytes, 0))
        expected[place] = memory[start - memory.ctypes.data :][:nbytes]
        start, place = start + nbytes, -(-(place + nbytes) // gap) * gap
    ends = [offset + nbytes for _, offset, nbytes, _ in rows]
    tiles = -(-ends[-1] // TILE)
    starts = [*np.searchsorted(ends, np.arange(tiles) * TILE, "right").tolist(), len(rows) - 1]
    dst = np.full(ends[-1], 7, np.uint8)
    kernel = xl.raw_module(source).get_function("gather_tiles")
    table, firsts = np.array(rows, np.int64), np.array(starts, np.int64)
    middle = tiles * share // 8
    for first, last in ((0, middle), (middle, tiles)):
        if first < last:
            kernel((last - first,), (256,), (dst.view(np.int8), table.ctypes.data, firsts, np.int64(first)))
    for offset, piece in expected.items():
        assert_same_bits(dst[offset : offset + len(piece)], piece)
