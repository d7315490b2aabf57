"""Pinned memory: bins, registrations in place against a model, and the pool under events that come late."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

import xferlib as xl
from xferlib._memory import pinned as registration
from xferlib.errors import PinnedMemoryError
from xferlib.testing import configured
from xferlib.testing.tools import in_threads

PAGE = mmap.PAGESIZE
U8 = np.dtype(np.uint8)


@pytest.mark.parametrize("shape", [(0,), (1, 0, 2), (3, 0)])
def test_an_array_without_elements_has_the_strides_of_numpys(backend: str, shape: Any) -> None:
    found = xl.pinned_empty(shape)
    assert found.shape == shape
    assert found.strides == np.empty(shape).strides


# --- bins


class _Sized:
    """A backend whose blocks have a size and no memory behind it."""

    pinned_domain = "sized"
    pointer = 64
    nbytes = 0

    def pinned_alloc(self, nbytes: int) -> Any:
        self.nbytes = nbytes
        return self

    def event_done(self, event: Any) -> bool:
        raise AssertionError("no copy uses these blocks")


def bin_nbytes(nbytes: int) -> int:
    """The size of the block that a pool allocates for an array, which nothing may touch."""
    sized = _Sized()
    pool = xl.PinnedPool(sized, max_bytes=1 << 50)  # type: ignore[arg-type]
    x = pool.empty((nbytes,), U8)
    assert pool.stats().in_use_nbytes == sized.nbytes
    assert x.nbytes == nbytes
    return sized.nbytes


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 1 << 40))
def test_bins_hold_what_they_are_for_and_waste_at_most_an_eighth(nbytes: int) -> None:
    size = bin_nbytes(nbytes)
    assert size >= max(nbytes, 1)
    assert nbytes <= 512 or size - nbytes <= nbytes / 8
    assert bin_nbytes(size) == size


def test_bins_are_few_and_grow_with_the_size() -> None:
    sizes = [bin_nbytes(nbytes) for nbytes in range(1 << 16)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 8 * 7 + 1  # eight between each two powers of two from 512 on
    above = bin_nbytes((64 << 20) + 1)
    assert above == (64 << 20) + PAGE


# --- memory pinned in place, against a model


class _Driver:
    """A driver's rules: refuses to register a page twice, and to release what it does not hold."""

    pinned_domain = "model"

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        self.refused: set[int] = set()

    def pages(self) -> set[int]:
        return {page for start, nbytes in self.held.items() for page in range(start // PAGE, (start + nbytes) // PAGE)}

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        assert pointer % PAGE == 0
        assert nbytes % PAGE == 0
        assert nbytes > 0
        wanted = set(range(pointer // PAGE, (pointer + nbytes) // PAGE))
        assert not wanted & self.pages()
        if wanted & self.refused:
            raise PinnedMemoryError("the system refuses these pages; pin fewer")
        self.held[pointer] = nbytes

    def pinned_unregister(self, pointer: int) -> None:
        del self.held[pointer]


_RANGES = st.tuples(st.integers(0, 20 * PAGE), st.integers(1, 6 * PAGE))


class RegistrationsModel(RuleBasedStateMachine):
    """Ranges come and go in any order; a page is pinned while a range that touches it is held.

    The driver releases only what it registered in one call, so that a page may stay pinned for a
    neighbour's sake; never longer than any range that shares its registration.
    """

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.driver = _Driver()
        self.registrations = registration.Registrations(self.driver)  # type: ignore[arg-type]
        self.ranges: list[tuple[int, int]] = []

    def pages(self, pointer: int, nbytes: int) -> set[int]:
        return set(range(pointer // PAGE, -(-(pointer + nbytes) // PAGE)))

    def wanted(self) -> set[int]:
        return {page for each in self.ranges for page in self.pages(*each)}

    @rule(target=held, wanted=_RANGES)
    def add(self, wanted: tuple[int, int]) -> Any:
        segments = self.registrations.add(*wanted)
        self.ranges.append(wanted)
        return (wanted, segments)

    @rule(each=consumes(held))
    def remove(self, each: Any) -> None:
        wanted, segments = each
        self.registrations.remove(segments)
        self.ranges.remove(wanted)

    @rule(wanted=_RANGES, bad=st.integers(0, 26))
    def add_what_the_system_refuses(self, wanted: tuple[int, int], bad: int) -> None:
        if bad in self.driver.pages() or bad not in self.pages(*wanted):
            return
        before = dict(self.driver.held)
        self.driver.refused = {bad}
        with pytest.raises(PinnedMemoryError):
            self.registrations.add(*wanted)
        self.driver.refused = set()
        assert self.driver.held == before

    @rule(asked=_RANGES)
    def look(self, asked: tuple[int, int]) -> None:
        spans = self.registrations.spans(*asked)
        if not self.pages(*asked) <= self.driver.pages():
            assert spans is None
            return
        assert spans is not None
        position = asked[0]
        for pointer, nbytes in spans:
            assert pointer == position
            assert nbytes > 0
            assert any(
                start <= pointer and pointer + nbytes <= start + size for start, size in self.driver.held.items()
            )
            position += nbytes
        assert position == sum(asked)

    @invariant()
    def what_is_wanted_is_pinned_and_what_is_pinned_is_wanted_by_someone(self) -> None:
        assert self.driver.pages() >= self.wanted()
        for start, nbytes in self.driver.held.items():
            assert self.pages(start, nbytes) & self.wanted()


RegistrationsModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, derandomize=True, database=None
)
TestRegistrations = RegistrationsModel.TestCase


# --- the pool under events that come late


class _Late:
    """A backend whose events pass when the test says so."""

    pinned_domain = "late"

    def __init__(self) -> None:
        self.passed: set[Any] = set()
        self.waited: list[Any] = []
        self.allocated = 0

    def pinned_alloc(self, nbytes: int) -> Any:
        from xferlib.backends.host import HostBlock

        self.allocated += nbytes
        return HostBlock(nbytes)

    def event_done(self, event: Any) -> bool:
        return event in self.passed

    def event_synchronize(self, event: Any) -> None:
        self.waited.append(event)
        self.passed.add(event)


@pytest.fixture(params=["on", "off"])
def late(request: pytest.FixtureRequest) -> Iterator[_Late]:
    """With leases in C, and in Python."""
    with configured(native=request.param):
        yield _Late()


def _dropped_under(pool: xl.PinnedPool, nbytes: int, *events: str) -> int:
    """A block whose array has died under copies; returns its address."""
    x = pool.empty((nbytes,), U8)
    lease = pool.find(x.ctypes.data)
    assert lease is not None
    for event in events:
        lease.hold(event)
    return int(x.ctypes.data)


def test_a_block_is_reused_only_after_its_last_event(late: _Late) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]
    first = _dropped_under(pool, 5000, "one", "two")
    late.passed.add("one")
    second = pool.empty((5000,), U8)
    assert second.ctypes.data != first
    assert pool.stats().draining_nbytes == bin_nbytes(5000)
    late.passed.add("two")
    assert pool.empty((5000,), U8).ctypes.data == first


def test_a_block_that_no_copy_uses_is_free_at_once(late: _Late) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]
    x = pool.empty((5000,), U8)
    address, view = x.ctypes.data, x[100:200]
    del x
    assert pool.find(address) is not None  # the view keeps it
    other = pool.empty((5000,), U8)
    assert other.ctypes.data != address
    del view
    assert pool.find(address) is None
    assert pool.stats().free_nbytes == bin_nbytes(5000)
    again = pool.empty((5000,), U8)
    assert again.ctypes.data == address
    assert pool.find(address) is not None
    stats = pool.stats()
    assert (stats.allocations, stats.reuses, stats.free_nbytes) == (2, 1, 0)
    assert pool.trim() == 0
    del again
    assert pool.trim() == bin_nbytes(5000)
    assert pool.stats().total_nbytes == bin_nbytes(5000)


def test_an_error_on_its_way_outlives_the_release_of_a_block(late: _Late) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]

    def fail() -> None:
        x = pool.empty((5000,), U8)
        raise KeyError(x.ctypes.data)

    with pytest.raises(KeyError) as raised:
        fail()
    address = raised.value.args[0]
    del raised
    assert pool.empty((5000,), U8).ctypes.data == address


def test_threads_that_take_and_drop_blocks_have_each_its_own(late: _Late) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]

    def work(number: int) -> None:
        for turn in range(300):
            x = pool.empty((700 + 64 * (turn % 3),), U8)
            x[:] = number
            y = pool.empty((700,), U8)
            y[:] = number + 100
            assert (x == number).all()
            assert (y == number + 100).all()

    in_threads(work, range(4))
    stats = pool.stats()
    assert stats.in_use_nbytes == stats.draining_nbytes == 0
    assert pool.trim() == stats.free_nbytes


def test_trim_leaves_blocks_that_copies_still_use(late: _Late) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]
    _dropped_under(pool, 5000, "one")
    assert pool.trim() == 0
    assert pool.stats().draining_nbytes == bin_nbytes(5000)
    late.passed.add("one")
    assert pool.trim() == bin_nbytes(5000)


def test_a_full_pool_that_blocks_waits_for_the_oldest_copy_only(late: _Late) -> None:
    pool = xl.PinnedPool(late, max_bytes=2 * bin_nbytes(5000), when_full="block")  # type: ignore[arg-type]
    first = _dropped_under(pool, 5000, "one")
    _dropped_under(pool, 5000, "two")
    reuses = pool.stats().reuses
    assert pool.empty((5000,), U8).ctypes.data == first
    assert pool.stats().reuses == reuses + 1
    assert late.waited == ["one"]


def test_a_full_pool_that_blocks_makes_room_for_a_larger_block(late: _Late) -> None:
    pool = xl.PinnedPool(late, max_bytes=bin_nbytes(9000), when_full="block")  # type: ignore[arg-type]
    _dropped_under(pool, 3000, "one")
    _dropped_under(pool, 3000, "two")
    assert pool.empty((9000,), U8).nbytes == 9000
    assert late.waited == ["one", "two"]


def test_a_full_pool_that_raises_or_stages_does_not_wait(late: _Late) -> None:
    for policy in ("raise", "stage"):
        pool = xl.PinnedPool(late, max_bytes=bin_nbytes(5000), when_full=policy)  # type: ignore[arg-type]
        _dropped_under(pool, 5000, "never")
        if policy == "raise":
            with pytest.raises(PinnedMemoryError, match="release pinned"):
                pool.empty((5000,), U8)
        else:
            assert pool.find(pool.empty((5000,), U8).ctypes.data) is None
    assert not late.waited


def test_an_allocation_that_fails_is_not_counted(late: _Late, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]

    def refuse(nbytes: int) -> Any:
        raise PinnedMemoryError("page-locking failed; release pinned arrays")

    with monkeypatch.context() as patched:
        patched.setattr(late, "pinned_alloc", refuse)
        with pytest.raises(PinnedMemoryError):
            pool.empty((5000,), U8)
    stats = pool.stats()
    assert (stats.total_nbytes, stats.allocations) == (0, 0)


def test_addresses_are_found_inside_blocks_and_nowhere_else(late: _Late) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]
    arrays = [pool.empty((5000,), U8) for _ in range(20)]
    for x in arrays:
        lease = pool.find(x.ctypes.data + 4999)
        assert lease is not None
        assert lease.block.pointer == x.ctypes.data
    assert pool.find(1) is None
    pointer = arrays[7].ctypes.data
    del arrays[7], x
    assert pool.find(pointer) is None or pool.find(pointer).block.pointer != pointer  # type: ignore[union-attr]


def test_file_backed_maps_are_told_from_anonymous_ones(tmp_path: Any) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(1 << 16))
    mapped = np.memmap(path, np.uint8, "r")
    with path.open("r+b") as file:
        plain = np.frombuffer(mmap.mmap(file.fileno(), 1 << 16), np.uint8)
    for x in (mapped, mapped[5:], np.asarray(mapped), plain, plain[7:].view(np.int8), memoryview_of(plain)):
        assert registration.is_file_backed(x)
    for x in (np.zeros(5), np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8), np.frombuffer(bytearray(99), np.uint8)):
        assert not registration.is_file_backed(x)


def memoryview_of(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(memoryview(x))  # type: ignore[arg-type]


def test_a_block_released_while_events_are_asked_is_handed_out_once(
    late: _Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]
    others = [pool.empty((5000,), U8)]
    _dropped_under(pool, 5000, "one")
    late.passed.add("one")
    done = late.event_done

    def releasing(event: Any) -> bool:
        others.clear()  # as garbage collection might, just here
        return done(event)

    with monkeypatch.context() as patched:
        patched.setattr(late, "event_done", releasing)
        pool.stats()
    assert pool.stats().free_nbytes == 2 * bin_nbytes(5000)
    made = [pool.empty((5000,), U8) for _ in range(3)]
    assert len({x.ctypes.data for x in made}) == 3
    del made
    assert pool.stats().draining_nbytes == 0
    assert pool.stats().free_nbytes == 3 * bin_nbytes(5000)


def test_an_array_may_die_whatever_any_thread_holds(late: _Late) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]
    kept = [pool.empty((5000,), U8)]
    asking, go = threading.Event(), threading.Event()
    done = late.event_done

    def slow(event: Any) -> bool:
        asking.set()  # the pool's lock is held here, and a simulated device's is wanted
        return go.wait(60) and done(event)

    _dropped_under(pool, 5000, "one")
    late.event_done = slow  # type: ignore[method-assign]
    asker = threading.Thread(target=pool.stats)
    asker.start()
    assert asking.wait(60)
    finalizer = threading.Thread(target=kept.clear)  # what garbage collection does, in a thread that holds that one
    finalizer.start()
    finalizer.join(60)
    is_stuck = finalizer.is_alive()
    go.set()
    asker.join()
    finalizer.join()
    assert not is_stuck
    late.passed.add("one")
    assert pool.stats().free_nbytes == 2 * bin_nbytes(5000)
    assert pool.stats().in_use_nbytes == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50)), max_size=60))
def test_a_block_keeps_the_events_that_have_not_passed_and_few_others(steps: list[tuple[bool, int]]) -> None:
    late = _Late()
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]
    x = pool.empty((5000,), U8)
    lease = pool.find(x.ctypes.data)
    assert lease is not None
    made: list[str] = []
    for is_new, number in steps:
        if is_new:
            made.append(f"event {len(made)}")
            lease.hold(made[-1])
        elif made:
            late.passed.add(made[number % len(made)])
        pending = [each for each in made if each not in late.passed]
        assert [each for each in lease.events if each in pending] == pending
    late.passed.update(made)
    for number in range(2 * len(made) + 3):
        lease.hold(f"last {number}")
        late.passed.add(f"last {number}")
    assert len(lease.events) <= 2


def test_an_event_that_comes_while_others_are_asked_is_kept(late: _Late, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = xl.PinnedPool(late)  # type: ignore[arg-type]
    x = pool.empty((5000,), U8)
    holders = [pool.find(x.ctypes.data)]
    assert holders[0] is not None
    holders[0].hold("one")
    late.passed.add("one")
    done, more = late.event_done, ["three"]

    def asked(event: Any) -> bool:
        while more:
            holders[0].hold(more.pop())  # type: ignore[union-attr]
        return done(event)

    with monkeypatch.context() as patched:
        patched.setattr(late, "event_done", asked)
        holders[0].hold("two")
    assert set(holders[0].events) >= {"two", "three"}
    holders.clear()
    del x
    late.passed.add("two")
    assert pool.stats().draining_nbytes == bin_nbytes(5000)
    late.passed.add("three")
    assert pool.stats().free_nbytes == bin_nbytes(5000)


@pytest.mark.parametrize("name", ["numpy", "torch", "sim"])
def test_memory_that_does_not_exist_is_an_error_of_xferlib_that_names_the_bytes(name: str) -> None:
    if not xl.available_backends()[name].is_available:
        pytest.skip(f"{name} is not installed")
    with pytest.raises(PinnedMemoryError, match=f"{1 << 50} bytes of pinned memory .* free arrays"):
        xl.pinned_empty(1 << 50, "uint8", backend=name)
    with (
        configured(pinned_limit="64 MiB"),
        pytest.raises(PinnedMemoryError, match=f"{1 << 50} bytes"),
    ):  # ordinary memory
        xl.pinned_empty(1 << 50, "uint8", backend=name)
    with pytest.raises(xl.errors.DeviceMemoryError, match=f"^{1 << 50} bytes .* free arrays"):
        xl.empty(1 << 47, backend=name, device=f"{name}:cpu" if name != "sim" else None)
    assert xl.pinned_pool(name).stats().in_use_nbytes < 1 << 50
