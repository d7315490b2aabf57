"""Transfers on the fake accelerator, whose copies run as late and in as unkind an order as they may."""

from __future__ import annotations

import gc
import importlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.fake import hold_back
from tests.needed import need
from tests.sizes import IS_LONG
from xferlib.errors import (
    DeviceMemoryError,
    LayoutError,
    PinnedMemoryError,
    StreamTypeError,
    TransferError,
    TransferTimeoutError,
)
from xferlib.kernels import reductions
from xferlib.testing import (
    THRESHOLDS,
    assert_same_bits,
    forced,
    fresh_staging,
    in_flight_count,
    load_backend,
    strategies,
)
from xferlib.testing.strategies import bits_of

HERE, THERE = "fake:sim:0", "fake:sim:1"


@pytest.fixture(autouse=True)
def machine(fake: Any) -> Iterator[Any]:
    """The fake's machine, its limits and failures undone afterwards."""
    yield fake.machine
    fake.machine.limits.clear()
    fake.machine.failing = None
    fake.machine.progresses_on_query = True


# --- what is still pending


def test_a_transfer_in_flight_says_so_and_times_out(machine: Any) -> None:
    machine.progresses_on_query = False
    source = xl.pinned_array(bits_of(200_000, np.uint8, seed=1), backend="fake")
    up = xl.to_device_async(source, device=HERE)
    assert not up.done()
    assert not up.source_released
    assert up.stats.seconds == 0
    assert "in flight" in repr(up)
    down = xl.to_host_async(up.result(), out=xl.pinned_empty(200_000, "uint8", backend="fake"))
    with pytest.raises(TransferTimeoutError, match=r"200000 bytes did not finish within 0\.001 s; call result"):
        down.result(timeout=0.001)
    assert_same_bits(down.result(), source)
    assert up.done()
    assert up.source_released


def test_a_staged_source_is_released_before_the_copy_is_complete(machine: Any) -> None:
    machine.progresses_on_query = False
    source = bits_of(200_000, np.uint8, seed=2)
    transfer = xl.to_device_async(source, device=HERE)
    transfer.settle()
    assert transfer.source_released
    assert not transfer.done()


def test_the_host_does_not_wait_where_a_stream_waits_for_a_pinned_transfer(machine: Any) -> None:
    machine.progresses_on_query = False
    stream = xl.Stream(HERE)
    transfer = xl.to_device_async(xl.pinned_zeros(100_000, backend="fake"), device=HERE)
    stream.wait(transfer)
    assert not transfer.done()
    assert not stream.is_done


def test_a_pinned_source_with_a_stream_returns_with_the_copy_pending(machine: Any) -> None:
    machine.progresses_on_query = False
    stream = xl.Stream(HERE)
    xl.to_device(xl.pinned_zeros(100_000, backend="fake"), device=HERE, stream=stream)
    assert not stream.is_done


def machine_says_done(event: Any) -> bool:
    return load_backend("fake").event_done(event)


def test_blocks_drain_until_their_last_event(machine: Any) -> None:
    machine.progresses_on_query = False
    pool = xl.pinned_pool("fake")
    pool.trim()
    before = pool.stats()
    source = xl.pinned_zeros(100_000, "uint8", backend="fake")
    streams = [xl.Stream(HERE), xl.Stream(HERE)]
    kept = [xl.to_device(source, device=HERE, stream=stream) for stream in streams]
    lease = pool.find(source.ctypes.data)
    assert lease is not None
    events = list(lease.events)
    assert len(events) == 2
    del source, lease
    assert pool.stats().draining_nbytes - before.draining_nbytes >= 100_000
    for event in events:
        is_over = all(machine_says_done(each) for each in events)  # what else runs meanwhile is the schedule's choice
        assert is_over or pool.stats().draining_nbytes - before.draining_nbytes >= 100_000
        load_backend("fake").event_synchronize(event)
    after = pool.stats()
    assert after.draining_nbytes == before.draining_nbytes
    assert after.free_nbytes - before.free_nbytes >= 100_000
    assert len(kept) == 2


def test_small_copies_on_many_streams_wait_for_their_memory_before_they_take_it_again(machine: Any) -> None:
    machine.progresses_on_query = False
    streams = [xl.Stream(HERE) for _ in range(3)]
    sources = [bits_of(16 << 10, np.uint8, seed=number) for number in range(200)]
    arrived = [xl.to_device(x, device=HERE, stream=streams[number % 3]) for number, x in enumerate(sources)]
    for stream in streams:
        stream.synchronize()
    for d, source in zip(arrived, sources, strict=True):
        assert_same_bits(xl.to_host(d), source)


def test_a_source_on_the_device_outlives_its_copy_on_another_stream(machine: Any) -> None:
    machine.progresses_on_query = False
    stream = xl.Stream(HERE)
    source = bits_of(50_000, np.uint8, seed=15)
    copied = []
    for _ in range(10):
        d = xl.to_device(source, device=HERE)
        copied.append(xl.to_device(d, device=HERE, stream=stream))
        del d
        xl.to_device(np.zeros_like(source), device=HERE)
        xl.current_stream(HERE).synchronize()
    stream.synchronize()
    for each in copied:
        assert_same_bits(xl.to_host(each), source)


def test_complex_numbers_aligned_to_their_halves_are_copied_by_halves(fake: Any) -> None:
    source = bits_of(40 * 40 * 16, np.complex128, seed=16).reshape(40, 40)
    slab = xl.to_device(np.zeros(40 * 40 * 16 + 8, np.uint8), device=HERE)
    part = fake.subarray(slab, 8, (40, 40), np.dtype(np.complex128))
    xl.to_device(source, out=part)
    assert_same_bits(xl.to_host(part.transpose(1, 0)), source.T)
    assert_same_bits(xl.to_host(part[::2, ::-1]), source[::2, ::-1])


# --- threads


def test_a_thread_may_end_while_its_small_copies_are_pending(machine: Any) -> None:
    arrived: list[Any] = []
    source = np.arange(100)

    def work() -> None:
        with forced("small"), xl.Stream(HERE):
            arrived.append(xl.to_device(source, device=HERE))

    for _ in range(5):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        gc.collect()
    xl.synchronize(HERE)
    for d in arrived:
        assert_same_bits(xl.to_host(d), source)


# --- two devices, and two kinds of machine


def test_memory_pinned_for_a_block_stays_pinned_under_copies_to_another_device(machine: Any) -> None:
    machine.progresses_on_query = False
    source = bits_of(400_000, np.uint8, seed=3)
    stream = xl.Stream(THERE)
    with xl.pin(source, backend="fake"):
        d = xl.to_device(source, device=THERE, stream=stream)
        down = xl.to_host_async(d, stream=stream, out=np.zeros_like(source))
    stream.synchronize()
    assert_same_bits(xl.to_host(d), source)
    assert_same_bits(down.result(), source)


def test_copies_go_between_devices_and_keep_their_order(machine: Any) -> None:
    for layout in (np.ascontiguousarray, np.asfortranarray):
        source = layout(bits_of(30_000, np.uint8, seed=4).reshape(100, 300))
        there = xl.to_device(xl.to_device(source, device=HERE), device=THERE)
        assert xl.device_of(there) is xl.Device(THERE)
        assert_same_bits(xl.to_host(there), source)
        target: Any = xl.zeros((300, 100), "uint8", device=HERE)
        xl.to_device(there, out=target.transpose(1, 0))
        assert_same_bits(xl.to_host(target), source.T)


def test_events_and_streams_of_a_cpu_may_be_waited_for(machine: Any) -> None:
    stream, cpu = xl.Stream(HERE), xl.Stream("numpy:cpu")
    stream.wait(cpu.record())
    stream.wait(cpu)
    cpu.wait(stream.record())
    cpu.wait(stream)
    stream.synchronize()


def test_a_cpu_stream_that_waits_for_a_device_comes_after_it(machine: Any) -> None:
    machine.progresses_on_query = False
    stream = xl.Stream(HERE)
    xl.to_device(xl.pinned_zeros(100_000, backend="fake"), device=HERE, stream=stream)
    event = stream.record()
    xl.Stream("numpy:cpu").wait(event)
    assert event.is_done
    transfer = xl.to_device_async(xl.pinned_zeros(100_000, backend="fake"), device=HERE, stream=stream)
    xl.Stream("numpy:cpu").wait(transfer)
    assert transfer.done()


@pytest.mark.parametrize("other", ["sim", "cupy", "torch", "pycuda"])
def test_arrays_of_two_machines_are_copied_through_the_host(other: str, machine: Any) -> None:
    status = need(other)
    source = bits_of(1 << 20, np.uint8, seed=13).view(np.int32).reshape(512, -1)
    place = xl.Device(status.devices[0])
    for given in (source, source.T):
        there = xl.to_device(xl.to_device(given, device=HERE), device=place)
        assert xl.device_of(there) is place
        assert_same_bits(xl.to_host(there), given)
        back = xl.to_device(there, device=HERE, dtype="int64")
        assert_same_bits(xl.to_host(back), given.astype("int64"))
        out = xl.zeros_like(back)
        assert xl.to_device_async(there, out=out, dtype="int64").result() is out
        assert_same_bits(xl.to_host(out), given.astype("int64"))


# --- paths and pieces


def test_one_ring_serves_two_devices(machine: Any) -> None:
    source = bits_of(1 << 20, np.uint8, seed=17)[::2]
    with forced("staged", chunk_nbytes=64 << 10):
        for place in (HERE, THERE, HERE):
            assert_same_bits(xl.to_host(xl.to_device(source, device=place)), source)


@pytest.mark.parametrize("threads", [1, 3])
def test_many_threads_stage_one_transfer(threads: int, machine: Any) -> None:
    source = bits_of(1 << 20, np.uint16, seed=5).reshape(512, -1)
    for given in (source, source.T, source[:, ::2], source.view(">u2"), source[::-1]):
        with forced("staged", chunk_nbytes=8 << 10, helpers=threads - 1):
            d = xl.to_device(given, device=HERE)
            assert_same_bits(xl.to_host(d), given)
            assert_same_bits(xl.to_host_async(xl.to_device_async(given, device=HERE).result()).result(), given)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex64", "complex128"])
def test_every_element_size_crosses_the_device_in_tiles_and_elements(dtype: str, machine: Any) -> None:
    source = bits_of(60 * 70 * 3 * np.dtype(dtype).itemsize, dtype, seed=6).reshape(60, 70, 3)
    for order in [(0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1)]:
        d: Any = xl.to_device(source, device=HERE)
        assert_same_bits(xl.to_host(d.transpose(*order)), source.transpose(order))
        assert_same_bits(xl.to_host(d[::3, 5:, ::-1].transpose(*order)), source[::3, 5:, ::-1].transpose(order))


# --- failures in the middle


def test_a_device_without_memory_is_an_error_and_leaves_nothing_behind(machine: Any) -> None:
    source = bits_of((1 << 20) + 12345, np.uint8, seed=7)  # of a size that the pool has no memory for
    xl.synchronize(HERE)
    gc.collect()
    machine.limits["device"] = machine.held("device") + 1000
    held = machine.held("device")
    for call in (xl.to_device, xl.to_device_async):
        with pytest.raises(DeviceMemoryError, match="free arrays"):
            call(source, device=HERE)
    assert machine.held("device") == held


def test_the_host_puts_in_order_what_the_device_has_no_room_for(machine: Any) -> None:
    source = bits_of(3 << 20, np.uint8, seed=8).reshape(1024, -1).T
    gc.collect()
    xl.synchronize(HERE)
    machine.limits["device"] = machine.held("device") + source.nbytes + 4096
    d = xl.to_device(source, device=HERE)
    assert_same_bits(xl.to_host(d), source)
    source[...] = source[::-1].copy()
    assert xl.to_device(source, out=d) is d
    out = np.zeros_like(source.T).T
    assert_same_bits(xl.to_host(d, out=out), source)
    machine.limits.clear()
    assert_same_bits(xl.to_host(d), source)


def test_a_host_without_pinned_memory_goes_on_with_the_chunks_it_has(machine: Any) -> None:
    source = bits_of(3 << 20, np.uint8, seed=9)[::2]
    machine.limits["pinned"] = machine.held("pinned") + THRESHOLDS.chunk_nbytes + 4096
    with fresh_staging(), forced("staged", chunk_nbytes=64 << 10):
        assert_same_bits(xl.to_host(xl.to_device(source, device=HERE)), source)


def test_a_host_without_any_pinned_memory_is_an_error(machine: Any) -> None:
    machine.limits["pinned"] = 1
    source = bits_of(3 << 20, np.uint8, seed=10)[::2]
    with fresh_staging(), forced("staged"):
        with pytest.raises(PinnedMemoryError):
            xl.to_device(source, device=HERE)
        transfer = xl.to_device_async(source, device=HERE)
        with pytest.raises(TransferError, match="nothing of use"):
            transfer.result()
        machine.limits.clear()
        assert_same_bits(xl.to_host(xl.to_device(source, device=HERE)), source)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TransferError, MemoryError])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_an_interruption_in_the_middle_ends_the_call_and_nothing_touches_its_memory_afterwards(
    error: Any, count: int, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = load_backend("fake")
    machine.progresses_on_query = False
    source = bits_of(1 << 20, np.uint8, seed=11)
    d = xl.to_device(source, device=HERE)
    left = [count]
    copy = backend.copy

    def interrupted(*args: Any, **options: Any) -> None:
        copy(*args, **options)
        left[0] -= 1
        if left[0] < 0:
            raise error("stop")

    out = np.zeros_like(source)
    with forced("staged", chunk_nbytes=64 << 10):
        for call in (lambda: xl.to_device(source, device=HERE), lambda: xl.to_host(d, out=out)):
            left[0] = count
            with monkeypatch.context() as patched:
                patched.setattr(backend, "copy", interrupted)
                with pytest.raises(error, match="stop"):
                    call()
            xl.trim()  # nothing that a copy still uses may be given up
            partial = out.copy()
            xl.synchronize(HERE)
            assert_same_bits(out, partial)
            assert_same_bits(xl.to_host(xl.to_device(source, device=HERE)), source)


def test_a_device_that_fails_ends_every_transfer_with_its_error(machine: Any) -> None:
    source = bits_of(1 << 20, np.uint8, seed=12)
    machine.failing = TransferError("the device fell off the bus")
    with pytest.raises(TransferError, match="fell off"):
        xl.to_device(source, device=HERE)
    failed = xl.to_device_async(source, device=HERE)
    with pytest.raises(TransferError, match="fell off"):
        failed.result()
    stream = xl.Stream(HERE)
    machine.failing = None
    stream.synchronize()  # which does not wait for what has failed
    assert_same_bits(xl.to_host(xl.to_device(source, device=HERE)), source)


# --- at random


def test_many_layouts_in_flight_at_once(machine: Any) -> None:
    chance = np.random.default_rng(0)
    kept: list[tuple[Any, Any]] = []
    for number in range(1000 if IS_LONG else 300):
        rows, cols = (int(n) for n in chance.integers(1, 60, 2))
        source = bits_of(rows * cols * 8, ["uint8", "int16", "float64"][number % 3], seed=number)
        source = source.reshape(rows, -1)[:: int(chance.choice([1, 2, -1])), :: int(chance.choice([1, -1, 3]))]
        source = source.T if number % 2 else source
        with forced(chance.choice([None, "staged"])):  # type: ignore[arg-type]
            up = xl.to_device_async(source, device=HERE)
            kept.append((xl.to_host_async(up.result()) if number % 5 else up, source))
        if len(kept) > 50:
            transfer, expected = kept.pop(int(chance.integers(len(kept))))
            result = transfer.result()
            assert_same_bits(result if isinstance(result, np.ndarray) else xl.to_host(result), expected)


def test_the_strategies_draw_what_they_promise() -> None:
    seen: set[str] = set()

    from hypothesis import given, settings

    @settings(max_examples=400, database=None, derandomize=True)
    @given(strategies.host_arrays())
    def look(x: Any) -> None:
        strides = [stride for extent, stride in zip(x.shape, x.strides, strict=True) if extent > 1]
        facts = {
            "negative": any(stride < 0 for stride in strides),
            "repeated": 0 in strides,
            "misaligned": not x.flags.aligned,
            "read-only": not x.flags.writeable,
            "swapped": not x.dtype.isnative,
            "0-d": x.ndim == 0,
            "empty": x.size == 0,
            "fortran": x.flags.f_contiguous and not x.flags.c_contiguous,
            "gaps": x.size > 1 and not x.flags.forc and x.ndim == 1,
            "nan": x.dtype.kind in "fc" and bool(np.isnan(x).any()),
            "-0.0": x.dtype.kind == "f" and bool((np.signbit(x) & (x == 0)).any()),
        }
        seen.update(name for name, is_so in facts.items() if is_so)
        seen.add(x.dtype.newbyteorder("=").name)

    look()
    facts = {
        "negative",
        "repeated",
        "misaligned",
        "read-only",
        "swapped",
        "0-d",
        "empty",
        "fortran",
        "gaps",
        "nan",
        "-0.0",
    }
    assert seen == facts | set(strategies.DTYPES)


def test_a_finalizer_may_transfer_wherever_the_collector_runs_it(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = load_backend("fake")
    stream = xl.Stream(HERE)
    source = xl.pinned_array(bits_of(100_000, np.uint8, seed=14), backend="fake")
    finalized: list[Any] = []

    class Finalized:
        def __del__(self) -> None:
            finalized.append(xl.to_device(source, device=HERE, stream=stream))
            xl.pinned_empty(5000, backend="fake")
            finalized.append(xl.to_device_async(np.zeros(100_000), device=HERE, stream=stream))
            stream.record()

    def with_a_collection(name: str) -> None:
        real = getattr(backend, name)

        def collecting(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(backend, name, real)
            garbage = Finalized()
            garbage.itself = garbage  # type: ignore[attr-defined]
            del garbage
            gc.collect()
            return real(*args, **options)

        monkeypatch.setattr(backend, name, collecting)

    def work() -> None:
        for name in ("event_done", "event_record", "copy", "pinned_alloc", "event_synchronize"):
            xl.pinned_pool("fake").trim()
            with_a_collection(name)
            xl.to_device(source, device=HERE, stream=stream)
            x = xl.pinned_empty(123_457, "uint8", backend="fake")
            xl.to_device_async(x, device=HERE).result()
            xl.to_host(xl.to_device(np.ones(200_000), device=HERE))
            stream.record().synchronize()  # whatever the schedule, an event is awaited
            stream.synchronize()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "deadlock"
    assert len(finalized) == 10
    assert_same_bits(xl.to_host(finalized[0]), source)


@pytest.mark.parametrize("is_upload", [True, False])
def test_an_interrupt_behind_an_enqueued_copy_waits_for_it(
    machine: Any, fake: Any, monkeypatch: pytest.MonkeyPatch, is_upload: bool
) -> None:
    machine.progresses_on_query = False
    source = xl.pinned_array(bits_of(200_000, np.uint8, seed=9), backend="fake")
    there = xl.to_device(source, device=HERE)
    own = fake.copy

    def interrupted(*args: Any, **options: Any) -> None:
        own(*args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(fake, "copy", interrupted)
    target = xl.pinned_empty(200_000, "uint8", backend="fake")
    with pytest.raises(KeyboardInterrupt):
        if is_upload:
            xl.to_device_async(source, device=HERE)
        else:
            xl.to_host_async(there, out=target)
    for host in (source, target):
        machine.refuse_pending(host.ctypes.data, host.nbytes, "a block came free")
    assert not machine.violations


def test_an_interrupted_wait_for_a_small_copy_leaves_none_behind(
    machine: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: Any = xl.to_device(bits_of(5000, np.uint8, seed=10), device=HERE)
    own, calls = fake.stream_synchronize, []

    def interrupted(stream: Any) -> None:
        calls.append(stream)
        if len(calls) == 1:
            raise KeyboardInterrupt
        own(stream)

    monkeypatch.setattr(fake, "stream_synchronize", interrupted)
    with pytest.raises(KeyboardInterrupt), forced("small"):
        xl.to_host(there)
    machine.refuse_pending(there.pointer, 5000, "an array died")
    assert not machine.violations


@pytest.fixture
def dropped(machine: Any, fake: Any) -> Iterator[Callable[[xl.Stream], weakref.ref[Any]]]:
    """Sends an array on a stream and drops it: a reference tells whether the library keeps it, whose turn has come."""
    source = np.zeros(1000, np.uint8)

    def send(stream: xl.Stream) -> weakref.ref[Any]:
        with stream:
            return weakref.ref(xl.to_device(source, stream=stream))

    with xl.pin(source, backend="fake"), forced("pinned"):
        machine.finish()
        for _ in range(in_flight_count()):  # what other tests have left is let go
            send(xl.current_stream(HERE))
            machine.finish()
        machine.progresses_on_query = False
        yield send
        machine.finish()


def test_releasing_objects_in_flight_costs_the_same_however_many_there_are(
    dropped: Callable[[xl.Stream], weakref.ref[Any]], fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, event_done = itertools.count(), fake.event_done

    def counted(event: Any) -> bool:
        next(questions)
        return event_done(event)

    monkeypatch.setattr(fake, "event_done", counted)
    stuck, other, before = xl.Stream(HERE), xl.Stream(HERE), in_flight_count()

    def asked_by(count: int) -> int:
        start = next(questions)
        for _ in range(count):
            dropped(other)
            other.synchronize()
        return next(questions) - start

    with hold_back(fake.machine):
        first = dropped(stuck)
        few = asked_by(200)
        assert in_flight_count() - before <= 6
        kept = [dropped(stuck) for _ in range(300)]
        assert max(few, asked_by(200)) <= 6 * 200 + 1  # and not 300 for each
        assert all(each() is not None for each in (first, *kept))


def test_many_copies_that_are_all_in_flight_are_all_held(
    dropped: Callable[[xl.Stream], weakref.ref[Any]], fake: Any
) -> None:
    stream, other = xl.Stream(HERE), xl.Stream(HERE)
    with hold_back(fake.machine):
        sent = [dropped(stream) for _ in range(300)]
        assert all(each() is not None for each in sent)
        stream.synchronize()
        later = [dropped(other) for _ in range(200)]
        assert not any(each() is not None for each in sent)
        assert all(each() is not None for each in later)


def test_to_host_gives_a_numpy_array_itself_if_a_copy_is_not_asked_for() -> None:
    host = np.arange(6.0)[::2]
    assert xl.to_host(host, copy=None) is host
    assert xl.to_host(host, copy=False) is host
    assert xl.to_host(host, dtype="float64", copy=False) is host
    assert xl.to_host(host) is not host
    for options in ({"dtype": "int8"}, {"out": np.empty(3)}):
        assert xl.to_host(host, copy=None, **options).tolist() == [0, 2, 4]
        with pytest.raises(xl.errors.LayoutError, match="copy=False"):
            xl.to_host(host, copy=False, **options)
    with pytest.raises(xl.errors.LayoutError, match="pinned=True"):
        xl.to_host(host, copy=False, pinned=True)


@pytest.mark.parametrize("copy", [1, 0, "no", np.True_])
def test_a_copy_is_asked_for_by_true_false_or_none(copy: Any) -> None:
    host = np.arange(3.0)
    calls: list[Callable[[], Any]] = [
        lambda: xl.to_host(host, copy=copy), lambda: xl.to_device(host, copy=copy),
        lambda: xl.copy_to(host, "cpu", copy=copy), lambda: xl.tree.to_host([host], copy=copy),
        lambda: xl.tree.to_device([host], copy=copy),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(xl.errors.ArgumentError, match="copy="):
            call()


def test_a_refused_copy_knows_torchs_names_of_dtypes() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(xl.errors.LayoutError, match="of dtype float32"):
        xl.to_host(torch.zeros(3), dtype=torch.float32, copy=False)
    with pytest.raises(xl.errors.UnsupportedDTypeError):
        xl.to_host(torch.zeros(3), dtype="floaty", copy=False)


def test_a_wait_without_a_stream_says_what_waits_on_the_host(backend: str) -> None:
    transfer = xl.to_device_async(np.arange(3.0))
    for call in (transfer.wait, lambda: transfer.wait(3)):  # type: ignore[arg-type]
        with pytest.raises(StreamTypeError, match=r"Transfer\.wait: .* is not a Stream; for the host, write result"):
            call()
    transfer.result()


def _windows(backend: str) -> dict[str, Any]:
    """Arrays of 3 by 2 on the device whose elements share memory, by the ways of each library to make them."""
    row: Any = xl.to_device(np.zeros(16))
    if backend == "torch":
        import torch

        here = torch.zeros(4).double()
        found = {"unfold": row[:4].unfold(0, 2, 1), "rows": row[:2].expand(3, 2), "on the CPU": here.unfold(0, 2, 1)}
        return found | {"far": row.as_strided((3, 2), (3, 3))}
    make: Any
    if backend == "numpy":
        make = np.lib.stride_tricks.as_strided
    elif backend == "cupy":
        make = importlib.import_module("cupy.lib.stride_tricks").as_strided
    else:
        make = lambda x, shape, strides: load_backend(backend).strided_view(x, 0, shape, strides, x.dtype)
    return {
        name: make(row, (3, 2), strides)
        for name, strides in {"windows": (8, 8), "rows": (0, 8), "far": (24, 24)}.items()
    }


def test_no_call_fills_an_array_whose_elements_share_memory(backend: str) -> None:
    if backend == "fake":
        pytest.skip("it makes no such arrays")
    x, d = np.ones((3, 2)), xl.to_device(np.ones((3, 2)))
    kernel = xl.elementwise("T x", "T y", "y = x", name="same")
    with xl.Stream() as stream:
        calls: dict[str, Callable[[Any], Any]] = {
            "to_device": lambda out: xl.to_device(x, out=out),
            "converting": lambda out: xl.to_device(x.astype("f4"), out=out, dtype="f8"),
            "gathering": lambda out: xl.to_device(np.asfortranarray(x), out=out),
            "stream": lambda out: xl.to_device(x, out=out, stream=stream),
            "to_device_async": lambda out: xl.to_device_async(x, out=out),
            "on the device": lambda out: xl.to_device(d, out=out),
            "a kernel": lambda out: kernel(d, out=out),
            "in place": xl.elementwise("double *x", "x[i] = 1", name="set"),
            "a reduction": lambda out: reductions.sum(
                xl.to_device(np.ones((2, 3, 2)), device=xl.device_of(out)), axis=0, out=out
            ),
            "rows of results": lambda out: xl.stream_map(lambda rows: rows, x, chunk_rows=1, out=out),
        }
        for kind, out in _windows(backend).items():
            d = xl.to_device(np.ones((3, 2)), device=xl.device_of(out))
            for name, call in calls.items():
                if name == "rows of results" and xl.device_of(out).kind != "cpu":
                    continue
                if name == "stream" and xl.device_of(out) != stream.device:
                    continue
                for _ in range(2):
                    with pytest.raises(LayoutError, match="share memory"):
                        call(out)
                        pytest.fail(f"{name} took {kind}")
            assert not xl.to_host(out).any()


def test_on_a_thread_s_own_default_stream_no_other_thread_enqueues(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handle, 2, names another stream in each thread: what a helper enqueued there nothing would wait for."""
    backend: Any = load_backend("fake")
    enqueued: list[int] = []
    enqueue, record = machine.enqueue, machine.record

    def watched(stream: Any, *rest: Any, **options: Any) -> Any:
        if stream.handle == 2:
            enqueued.append(threading.get_ident())
        return enqueue(stream, *rest, **options)

    def recorded(stream: Any, **options: Any) -> Any:
        if stream.handle == 2:
            enqueued.append(threading.get_ident())
        return record(stream, **options)

    monkeypatch.setattr(machine, "enqueue", watched)
    monkeypatch.setattr(machine, "record", recorded)
    x = bits_of(6 << 20, np.float32, seed=4)
    stream = xl.Stream.from_any(backend.stream_wrap(2, backend.devices()[0]).handle, HERE)
    for given in (x, x[::2], x[:100], xl.pinned_array(x, backend="fake")):
        with forced(None, chunk_nbytes=64 << 10, helpers=3):
            d = xl.to_device(given, device=HERE, stream=stream)
            assert_same_bits(xl.to_host(d, stream=stream), given)
            assert_same_bits(xl.to_host_async(d, stream=stream).result(), given)
            made = xl.to_device_async(given, device=HERE, stream=stream).result()
            tree = xl.tree.to_device([given, given[:9], given[1:]], device=HERE, stream=stream)
            for found, each in zip((made, *tree), (given, given, given[:9], given[1:]), strict=True):
                assert_same_bits(xl.to_host(found, stream=stream), each)
            for found, each in zip(xl.tree.to_host(tree, stream=stream), (given, given[:9], given[1:]), strict=True):
                assert_same_bits(found, each)
    assert set(enqueued) == {threading.get_ident()}
