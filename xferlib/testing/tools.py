"""Assertions about arrays, blocks in which the library is set up otherwise, and what it holds at a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import xferlib as xl
from xferlib import _native
from xferlib._api import transfers
from xferlib._core import observe, registry, streams, thresholds
from xferlib._core.backend import Backend
from xferlib._core.dtypes import kind_of
from xferlib._memory import buffers, pinned
from xferlib._memory.lifetimes import in_flight
from xferlib._pipeline import batches, chunks, feeds
from xferlib._runtime import process, threads, torch_compile
from xferlib._trace import recorder
from xferlib._transfer import plan, staging
from xferlib._transfer.plan import TransferPath
from xferlib.errors import ArgumentError, UnsupportedDTypeError, quote

# Assertions about arrays of any backend: equal bits, or a stated number of units in the last place apart.

HostArray = np.ndarray[Any, Any]


def native_bits(array: Any) -> HostArray:
    """The array's elements as unsigned bytes in native byte order: shape S + (itemsize,)."""
    a = np.asarray(array)
    return _view_bits(a.reshape(-1)).reshape(*a.shape, a.dtype.itemsize).copy()


def _view_bits(flat: HostArray) -> HostArray:
    """The bytes of each element in native byte order, of an array of one axis: its own memory, where that has them."""
    native = np.ascontiguousarray(flat, flat.dtype.newbyteorder("="))
    return native.view(np.uint8).reshape(flat.size, flat.dtype.itemsize)


def assert_identical(actual: Any, expected: Any, *, nan_payloads: bool = False) -> None:
    """Assert equal shape, dtype and bits, whatever backends the arrays are of.

    Zeros of different sign differ. A NaN equals any other NaN of that dtype, because arithmetic does not define its
    sign and payload: a CPU and a GPU make different ones. Byte order, strides and device do not count. Parts of
    complex numbers are compared one by one.

    Args:
        actual: An array of any backend, which is copied to the host; or anything that NumPy makes an array of.
        expected: The same.
        nan_payloads: Compare the sign and payload of NaN, too. Copies keep them.

    Raises:
        AssertionError: With the number of elements that differ, and the first of them as value and as bytes.
        UnsupportedDTypeError: The elements are no numbers.
    """
    __tracebackhide__ = True  # pytest shows the line that called it
    a, b = _to_comparable(actual, expected)
    if not nan_payloads:
        a, b = with_one_nan(a), with_one_nan(b)
    assert_same_bits(a, b)


def assert_allclose_ulp(actual: Any, expected: Any, *, max_ulp: int) -> None:
    """Assert equal shape and dtype, and that elements are at most ``max_ulp`` units in the last place apart.

    That many numbers of the dtype lie between the two, so the bound means the same for large and small numbers, across
    zero too. -0.0 equals 0.0. NaN equals NaN and nothing else, and an infinity equals itself alone. Parts of complex
    numbers are compared one by one. Integers and bool must be equal.

    Args:
        actual: An array of any backend, which is copied to the host; or anything that NumPy makes an array of.
        expected: The same, such as a result of greater precision that was converted to the dtype.
        max_ulp: Most units in the last place, 0 or more.

    Raises:
        AssertionError: With the number of elements that are too far apart, and the worst of them.
        ArgumentError: ``max_ulp`` is no such number.
        UnsupportedDTypeError: The elements are no numbers.
    """
    __tracebackhide__ = True  # pytest shows the line that called it
    if isinstance(max_ulp, bool) or not isinstance(max_ulp, (int, np.integer)) or max_ulp < 0:
        raise ArgumentError(f"assert_allclose_ulp: max_ulp={quote(max_ulp)} is not a number of ulp; give an int from 0")
    a, b = _to_comparable(actual, expected)
    if a.dtype.kind not in "fc":
        assert_same_bits(a, b)
        return
    apart = _ulp_apart(a, b)
    too_far = apart > int(max_ulp)
    if not too_far.any():
        return
    worst = tuple(int(i) for i in np.unravel_index(np.argmax(apart), apart.shape))
    distance = (
        "one of the two is no finite number" if apart[worst] == _NOT_COMPARABLE else f"{int(apart[worst])} ulp apart"
    )
    raise AssertionError(
        f"{int(too_far.sum())} of {a.size} elements of dtype {a.dtype} are more than {max_ulp} ulp apart; the worst at "
        f"{worst}: {a[worst]!r}, expected {b[worst]!r}: {distance}"
    )


def _to_comparable(actual: Any, expected: Any) -> tuple[HostArray, HostArray]:
    """Both as host arrays in native byte order, of one shape and dtype."""
    __tracebackhide__ = True
    a, b = _host(actual), _host(expected)
    _assert_alike(a, b)
    return a, b


def _assert_alike(actual: HostArray, expected: HostArray) -> None:
    """Assert equal shape and dtype, also under ``python -O``, which leaves ``assert`` out."""
    __tracebackhide__ = True
    if actual.shape != expected.shape:
        raise AssertionError(f"shape {actual.shape}, expected {expected.shape}")
    if actual.dtype.newbyteorder("=") != expected.dtype.newbyteorder("="):
        raise AssertionError(f"dtype {actual.dtype}, expected {expected.dtype}")


def _host(array: Any) -> HostArray:
    found = np.asarray(array if registry.owner_of(array) is None else transfers.to_host(array))
    if found.dtype.kind not in "biufc":
        raise UnsupportedDTypeError(f"elements of dtype {found.dtype} are not numbers; compare them with numpy.testing")
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def parts(array: HostArray) -> tuple[HostArray, ...]:
    """The real numbers of an array: itself, or its real and its imaginary parts."""
    return (array.real, array.imag) if array.dtype.kind == "c" else (array,)


def with_one_nan(array: HostArray) -> HostArray:
    """A copy in which every NaN has the same bits."""
    if kind_of(array.dtype) not in "fc":
        return array
    found = array.copy()
    for part in parts(found):
        part[np.isnan(part)] = np.nan
    return found


_NOT_COMPARABLE = np.uint64(0xFFFFFFFFFFFFFFFF)
"""The distance of a NaN from a number, and of an infinity from anything else."""


def _ulp_apart(a: HostArray, b: HostArray) -> HostArray:
    """How many steps from one number of the dtype to the next lie between two arrays; the larger of both parts."""
    found = np.zeros(a.shape, np.uint64)
    for x, y in zip(parts(a), parts(b), strict=True):
        ranks = _rank(x), _rank(y)
        apart = np.maximum(*ranks) - np.minimum(*ranks)
        apart = np.where(np.isfinite(x) & np.isfinite(y), apart, _NOT_COMPARABLE)
        apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), np.uint64(0), apart)
        found = np.asarray(np.maximum(found, apart))
    return found


def _rank(part: HostArray) -> HostArray:
    """The place of each number among all of its dtype in ascending order, both zeros in one."""
    bits = np.ascontiguousarray(part).view(f"u{part.dtype.itemsize}").astype(np.uint64).reshape(part.shape)
    sign = np.uint64(1) << np.uint64(8 * part.dtype.itemsize - 1)
    magnitude = bits & (sign - np.uint64(1))
    middle = np.uint64(1) << np.uint64(63)
    return np.where(bits & sign != 0, middle - magnitude, middle + magnitude)


def assert_same_bits(actual: Any, expected: Any) -> None:
    """Assert equal shape, dtype and bits of host arrays; NaN payloads and the sign of zero count, byte order does not.

    Args:
        actual: A host array.
        expected: A host array.

    Raises:
        AssertionError: With the first element that differs, as value and as bytes.
    """
    __tracebackhide__ = True
    a, b = np.asarray(actual), np.asarray(expected)
    _assert_alike(a, b)
    bits, wanted = _view_bits(a.reshape(-1)), _view_bits(b.reshape(-1))  # one axis more than theirs may be too many
    if np.array_equal(bits, wanted):
        return
    is_different = (bits != wanted).any(axis=-1)
    number = int(np.argmax(is_different))
    first = tuple(int(i) for i in np.unravel_index(number, a.shape))
    raise AssertionError(
        f"{int(is_different.sum())} of {a.size} elements of dtype {a.dtype} differ; the first at {first}: {a[first]!r} "
        f"({bits[number].tobytes().hex()}), expected {b[first]!r} ({wanted[number].tobytes().hex()})"
    )


def scribble(array: HostArray) -> None:
    """Change every bit of every element of a writable array, of any strides."""
    if array.dtype.kind == "b":
        np.logical_not(array, out=array)
        return
    for part in parts(array):
        words = part.view(f"u{part.dtype.itemsize}")
        np.invert(words, out=words)


def in_threads(work: Callable[[Any], object], given: Iterable[Any]) -> None:
    """Call ``work`` with each of ``given``, each in a thread of its own, all at once; raises the first error of one."""
    errors: list[BaseException] = []

    def run(each: Any) -> None:
        try:
            work(each)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@contextmanager
def replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute for a block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    process.bump_epoch()
    try:
        yield
    finally:
        setattr(owner, name, before)
        process.bump_epoch()


@contextmanager
def configured(environ: Mapping[str, str] | None = None, /, **settings: Any) -> Iterator[Any]:
    """Give the library other settings for a block; yields the configuration in force.

    What ``xl.configure`` and ``xl.use_backend`` change within the block ends with it, too.

    Args:
        environ: Read the ``XFERLIB_*`` variables of this environment first; what is in force if omitted.
        **settings: As for ``xl.configure``.

    Raises:
        ConfigError: No such setting, or a value that it cannot have; nothing has changed.
    """
    outside = process.get()
    before = outside if environ is None else process._read(environ)
    given = process._environment if environ is None else before
    inside = before
    try:
        with (
            replace_attribute(process, "_config", before),
            replace_attribute(process, "_environment", given),
            replace_attribute(registry, "_process_choices", registry._process_choices),
        ):
            _tell_watchers(outside, before)
            process.configure(**settings)
            try:
                yield process.get()
            finally:
                inside = process.get()
    finally:
        _tell_watchers(inside, outside)


def _tell_watchers(before: Any, now: Any) -> None:
    """Tell those who follow settings of each that has another value, as `configure` does."""
    for name, follow in process.watchers.items():
        if getattr(before, name) != getattr(now, name):
            follow()


@contextmanager
def fresh_registry(**backends: Callable[[], Backend]) -> Iterator[None]:
    """Look for installed backends anew, and match the types of arrays anew, for a block.

    Args:
        **backends: What makes each backend, by name, instead of those that are installed.
    """
    points = {
        name: SimpleNamespace(load=lambda made=made: made, module=made.__module__) for name, made in backends.items()
    }
    with replace_attribute(registry, "_plugins", points or None):
        registry.forget_types(lambda _: True)
        yield


@contextmanager
def fresh_staging(chunks: int | None = None) -> Iterator[None]:
    """Begin with no staging buffers shared among transfers, for a block.

    Args:
        chunks: Most chunks of a new ring, and of each direction and transfer; the library's own limits if omitted.
    """
    limits = (
        (buffers, "RING_CHUNKS"), (buffers, "LENT_CHUNKS"),
        (staging, "LENT_CHUNKS"), (staging, "ONE_WAY_CHUNKS"),
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(replace_attribute(buffers.rings, "made", {}))
        stack.enter_context(
            replace_attribute(buffers, "_local", threading.local())
        )  # whose slabs are idle ones afterwards
        stack.enter_context(replace_attribute(buffers, "_idle_slabs", {}))
        for module, name in limits if chunks is not None else ():
            stack.enter_context(replace_attribute(module, name, chunks))
        yield
        buffers.trim_rings()  # waits for what is in flight


def no_peers(backend: str) -> AbstractContextManager[None]:
    """Let no device of a backend reach another's memory, so that copies between them pass through the host."""
    return replace_attribute(registry.get(backend), "reaches", lambda device, other: False)


def cores(count: int) -> AbstractContextManager[None]:
    """Make the library start threads as on a machine with ``count`` cores, for a block."""
    return replace_attribute(threads, "usable_cores", lambda: count)


def timing_events(count: int) -> AbstractContextManager[None]:
    """Make that many events when a recording meets a device, for a block; others follow where they are needed."""
    return replace_attribute(recorder, "EVENTS_AT_FIRST", count)


@contextmanager
def batches_read_by(reader: str, *, direct_most: int | None = None, hidden_ns: int = 1 << 62) -> Iterator[None]:
    """Make `prefetch` read iterators in one way, for a block, though a simulator looks.

    Args:
        reader: ``"thread"``: from the first item on; ``"consumer"``: until its work hides that of reading.
        direct_most: Bytes of the largest array of a list that goes on the consumer's stream.
        hidden_ns: Nanoseconds that must be hidden so.
    """
    with ExitStack() as ends:
        ends.enter_context(replace_attribute(feeds, "is_watched", lambda: False))
        ends.enter_context(replace_attribute(feeds, "THREAD_FROM_NS", -1 if reader == "thread" else hidden_ns))
        for module in (feeds, batches) if direct_most is not None else ():
            ends.enter_context(replace_attribute(module, "DIRECT_MOST", direct_most))
        yield


def start_results_early() -> AbstractContextManager[None]:
    """Make `stream_map` begin the download of small results, too, while earlier ones are received, for a block."""
    return replace_attribute(chunks, "RESULT_BEGUN_FROM", 0)


@contextmanager
def advised() -> Iterator[list[tuple[str, int, int]]]:
    """Note the advice that the system gets about pages of memory maps, in all threads, for a block.

    Yields:
        Grows by an option of madvise(2), an address and a number of bytes at each call.
    """
    noted: list[tuple[str, int, int]] = []
    own = buffers._advise_kernel

    def advise(name: str, address: int, nbytes: int) -> int:
        noted.append((name, address, nbytes))
        return own(name, address, nbytes)

    with replace_attribute(buffers, "_advise_kernel", advise):
        yield noted


@contextmanager
def forced(path: str | None, *, chunk_nbytes: int | None = None, helpers: int | None = None) -> Iterator[None]:
    """Make transfers of this thread take ``path`` where the array allows it, in chunks of that size.

    Args:
        path: One of `PATHS`; None: the library's own choice.
        chunk_nbytes: Most bytes of a staging chunk; the library's own choice if omitted.
        helpers: The most threads that help this one to copy between host arrays; the library's own choice if omitted.
    """
    chosen = None if path is None else TransferPath(path)
    tokens = plan._forced.set(chosen), _chunk.set(chunk_nbytes), _helpers.set(helpers)
    process.bump_epoch()
    try:
        with _standing_in:
            yield
    finally:
        plan._forced.reset(tokens[0])
        _chunk.reset(tokens[1])
        _helpers.reset(tokens[2])
        process.bump_epoch()


_chunk: ContextVar[int | None] = ContextVar("xferlib_forced_chunk", default=None)
_helpers: ContextVar[int | None] = ContextVar("xferlib_forced_helpers", default=None)


_plan: Any = plan  # whose functions are replaced


class _StandIns:
    """Functions that ask the thread's `forced` first take the place of the library's while any thread is in a block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._own = (plan.chunk_nbytes, plan.helpers)

    def __enter__(self) -> None:
        with self._lock:
            if not self._count:
                self._own = (plan.chunk_nbytes, plan.helpers)
                _plan.chunk_nbytes = self._or_own(_chunk, self._own[0])
                _plan.helpers = self._or_own(_helpers, self._own[1])
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                _plan.chunk_nbytes, _plan.helpers = self._own

    @staticmethod
    def _or_own(wanted: ContextVar[int | None], own: Callable[..., int]) -> Callable[..., int]:
        """The library's own choice, where the thread that asked for the transfer made none."""

        def chosen(*nbytes: int) -> int:
            found = wanted.get()
            return own(*nbytes) if found is None else found

        return chosen


_standing_in = _StandIns()


# Results that a program gets from a machine, made by hand.


def recorded(operations: Iterable[xl.TraceOperation]) -> xl.trace:
    """Make a closed trace of these operations, for tests of what a program does with one.

    Args:
        operations: In the order in which a program would have asked for them.
    """
    made = xl.trace()
    made._found = tuple(operations)
    return made


# The library's state at a moment, for tests that nothing is left behind.

PATHS = tuple(path.value for path in plan.TransferPath)
"""The values of `Transfer.stats.path`, which `forced` takes too."""


class Thresholds(NamedTuple):
    """The sizes at which transfers take another path, and limits of what they share."""

    small_nbytes: int = thresholds.SMALL_NBYTES
    """Up to here one thread stages an array through a buffer of its own."""
    medium_nbytes: int = thresholds.MEDIUM_NBYTES
    """Up to here one thread is as fast as several."""
    chunk_nbytes: int = thresholds.CHUNK_NBYTES
    """A chunk of the staging buffers that transfers share."""
    ring_chunks: int = buffers.RING_CHUNKS
    """Chunks of a ring of staging buffers."""
    transfer_chunks: int = thresholds.LENT_CHUNKS
    """Chunks that one transfer may have at once."""


THRESHOLDS = Thresholds()


def load_backend(name: str) -> Backend:
    """The backend of that name, loaded at the first call.

    Raises:
        BackendNotFoundError: Nothing is registered under ``name``.
        BackendUnavailableError: It cannot run here.
    """
    return registry.get(name)


class StagingStats(NamedTuple):
    """The staging buffers that the transfers of a backend's devices share."""

    nbytes: int
    """Pinned memory."""
    lent_up: int
    """Chunks in use by transfers to a device."""
    lent_down: int
    """Chunks in use by transfers to the host."""


def staging_stats(backend: str) -> StagingStats:
    """The contents of a backend's staging buffers."""
    domain = registry.get(backend).pinned_domain
    rings = [ring for key, ring in tuple(buffers.rings.made.items()) if key[0] == domain]
    return StagingStats(
        sum(ring.nbytes for ring in rings),
        sum(ring.count_lent(is_upward=True) for ring in rings),
        sum(ring.count_lent(is_upward=False) for ring in rings),
    )


def get_in_use_nbytes() -> tuple[int, ...]:
    """Bytes that the program holds of each pinned pool, in the order in which the pools were made."""
    return tuple(pool.stats().in_use_nbytes for pool in pinned.pools.all())


def lent_chunks(timeout_s: float = 10.0) -> int:
    """The number of chunks that transfers hold; waits up to ``timeout_s`` until there are none."""
    until_s, pause = time.monotonic() + timeout_s, threading.Event()
    while (count := _count_lent()) and time.monotonic() < until_s:
        pause.wait(1e-3)
    return count


def _count_lent() -> int:
    return sum(ring.count_lent(is_upward=each) for ring in buffers.rings.all() for each in (True, False))


def pending_count() -> int:
    """Transfers that are not settled: some of their copies are not enqueued yet."""
    return sum(map(len, tuple(streams._pending.values())))


def settle_all() -> None:
    """Wait until every transfer begun so far is settled."""
    streams.settle_all()


def in_flight_count() -> int:
    """The number of copies whose objects are kept, because they are not known to be complete."""
    return len(in_flight._held)


def is_recording() -> bool:
    """Whether a trace is open."""
    return observe.active is not None


class Native(NamedTuple):
    """The parts in C."""

    is_on: bool
    """Whether staging is compiled, and the setting ``native`` allows it."""
    why_no_staging: str
    """Why Python stages; empty where staging is compiled."""
    why_no_calls: str
    """Why the driver is called through ctypes; empty where calls are compiled."""


def native() -> Native:
    """The parts in C that are compiled and in use."""
    return Native(_native.is_on(), _native.why_absent(), _native.why_calls_absent())


def in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function that one of xferlib's, compiled from C, stands for: to step through it, or to compare.

    Args:
        function: Such as ``xl.get_array_module``. Any other function is returned as it is.
    """
    return torch_compile._in_python.get(function, function)
