"""Copies between host and device by way of pinned memory: executes plans.

The obvious way for pageable memory is one driver call, which stages it itself. It uses one thread, and neither
gathers nor converts: slower than our own staging from 64 KiB on. One thread that fills a pinned buffer and sends it is
no faster: filling and sending take turns. So what is small is one copy by way of the thread's slab, and everything else
is staged by C (`copy`), with several threads over a ring of chunks. Where that cannot be, as on the simulator,
or where the C is not compiled, one thread gathers a part of the array after the other into its slab and sends it.

Guaranteed: `upload` returns when the source has been read, unless it is pinned; `download` returns when the destination
is complete. An error of any thread becomes the transfer's error, and stops the others.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import observe
from xferlib._core.arrays import HostArray, address, copy_into, cut_in_chunks, dense_order, find_memory_map
from xferlib._core.device import PER_THREAD, opened
from xferlib._core.dtypes import SUPPORTED
from xferlib._core.observe import Kind
from xferlib._core.thresholds import (
    DIRECT_MOST,
    FIRST_BLOCK_NBYTES,
    HOST_HELPER_NBYTES,
    LENT_CHUNKS,
    MEDIUM_NBYTES,
    SMALL_NBYTES,
    SPIN_NS,
)
from xferlib._memory import buffers, lifetimes
from xferlib._runtime import process, threads
from xferlib._runtime.threads import Job, workers
from xferlib._transfer import plan
from xferlib._transfer.describe import HostEnd, Upload
from xferlib._transfer.plan import TransferPath
from xferlib.errors import CaptureError, LayoutError, OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.arrays import Array, ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream, StagingCalls
    from xferlib._core.observe import Moving, Step
    from xferlib._memory.buffers import Ring
    from xferlib._transfer.plan import HostForm, Plan


# Copies between host arrays: what a transfer to or from a CPU device is.


def copy_on_cpu(kind: Kind, dst: HostArray, src: HostArray, backend: Backend, device: Device) -> None:
    """Fill one host array from another that shares no memory with it: all that a copy to or from a CPU device is."""
    if (recorder := observe.active) is None:
        copy_on_host(dst, src)
    else:
        recorder.on_host(kind, "copy", dst.nbytes, backend, device, lambda: copy_on_host(dst, src))


def new(backend: Backend, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array on a CPU device, whose pages are recycled or huge where it is large."""
    if backend.name == "numpy":  # which has no pool of its own
        return buffers.host_cache.empty(shape, dtype)
    made = backend.empty(shape, dtype, device=device, stream=backend.stream_current(device))
    buffers.prefer_huge(backend.host_view(made))
    return made


def copy_small_leaves(leaves: list[Any]) -> tuple[list[Any], list[int]]:
    """Copy the small host arrays among some objects.

    Returns:
        The objects, with the copies in place of those arrays, and the numbers of the other objects.
    """
    calls = _native.find_calls()
    others = 1
    if calls is not None:
        made, others = calls.copy_small(leaves, HOST_HELPER_NBYTES - 1)
    else:
        made = [leaf.copy() if _is_small(leaf) else leaf for leaf in leaves]
    if not others:
        return made, []
    return made, [number for number, (one, leaf) in enumerate(zip(made, leaves, strict=True)) if one is leaf]


def _is_small(leaf: Any) -> bool:
    if type(leaf) is not np.ndarray or find_memory_map(leaf) is not None:
        return False
    return leaf.nbytes < HOST_HELPER_NBYTES and leaf.dtype in SUPPORTED


def copy_on_host(dst: HostArray, src: HostArray) -> None:
    """Fill one host array from another, by several threads where it is large and they are compiled."""
    if not copy_between(dst, src, plan.helpers()):
        copy_into(dst, src)


# Copies between host arrays by C: any layout by the calling thread, and those that are large by several.


def gather(array: HostArray, dtype: np.dtype[Any], memory: HostArray, pointer: int) -> None:
    """Copy the elements in C order to ``memory``, at an address, converted; releases the GIL."""
    found = _suitable(array, dtype)
    if found is None:
        copy_into(np.ndarray(array.shape, dtype, memory), array)
    else:
        _native.load_library().xf_spread(found.layout, array.ctypes.data, 0, array.size, pointer, True, False)


def scatter(array: HostArray, dtype: np.dtype[Any], memory: HostArray, pointer: int) -> None:
    """Fill an array from elements of ``dtype`` in C order in ``memory``, at an address; releases the GIL."""
    found = _suitable(array, dtype)
    if found is None:
        copy_into(array, np.ndarray(array.shape, dtype, memory))
    else:
        _native.load_library().xf_spread(found.layout, array.ctypes.data, 0, array.size, pointer, False, True)


_SHORT_ROW = 8


def copy_between(dst: HostArray, src: HostArray, helpers: int) -> bool:
    """Fill a host array from one that shares no memory with it; releases the GIL.

    One of them must be in C order, aligned and in native byte order; or ``dst`` dense in another order, in which the
    axes of both are put then.

    Args:
        dst, src: Of the same shape.
        helpers: The most threads that may help.

    Returns:
        Whether that was done, not where NumPy takes no more time, or the C knows no way.
    """
    is_gathered = dst.flags.carray and dst.dtype.isnative
    if not is_gathered and not (src.flags.c_contiguous and src.flags.aligned and src.dtype.isnative):
        order = dense_order(dst.shape, dst.strides, dst.itemsize)
        if order is None or not (dst.flags.behaved and dst.dtype.isnative):
            return False
        dst, src, is_gathered = dst.transpose(order), src.transpose(order), True
        if src.dtype != dst.dtype and not _has_rows(dst.shape):
            return False
    host, plain, layout = (src, dst, None) if is_gathered else (dst, src, None)
    if host.flags.c_contiguous and src.dtype == dst.dtype:
        if src.nbytes < HOST_HELPER_NBYTES or not _native.is_on():
            return False
        host, plain = src, dst
    elif (found := _suitable(host, plain.dtype)) is not None:
        layout = found.layout
    else:
        return False
    pointers = address(host), address(plain)
    _native.load_library().xf_host_copy(layout, *pointers, plain.nbytes, is_gathered, *host_crew(helpers))
    return True


def _has_rows(shape: tuple[int, ...]) -> bool:
    """Whether the last two axes have elements enough for a block to be worth converting: as in `host_copies.c`."""
    return shape[-1] >= _SHORT_ROW and (len(shape) < 2 or shape[-1] * shape[-2] >= _SHORT_ROW**2)


def host_crew(helpers: int) -> tuple[int, int, int, int]:
    """How threads take part in a copy between host arrays, as ``xf_host_copy`` takes it."""
    return HOST_HELPER_NBYTES, helpers, threads.crew().both_ways, SPIN_NS


def _suitable(array: HostArray, dtype: np.dtype[Any]) -> HostForm | None:
    """The form of an array for which the C takes less time than NumPy, whose floats saturate in several steps."""
    given = array.dtype
    is_small = array.size * dtype.itemsize < SMALL_NBYTES
    if (is_small and not (given.kind == "f" and dtype.kind in "iu")) or not array.size or not _native.is_on():
        return None
    return plan.describe_form(array.shape, array.strides, given, dtype)


# Copies of plain bytes into pinned memory by several threads.


PAST_MOST = 4 * DIRECT_MOST
"""Bytes up to which pinned memory is filled past the caches: more that a device reads from there come sooner. Of a list
arrays of up to as many pass through pinned memory of the loop in their turn, if they do not wait there."""


def fill(pinned: int, host: int, nbytes: int) -> None:
    """Copy plain bytes into pinned memory; in a loop, spinning helper threads take part."""
    _native.load_library().xf_fill(*_arguments(pinned, host, nbytes))


def _arguments(pinned: int, host: int, nbytes: int) -> tuple[int, ...]:
    """The arguments of ``xf_fill``."""
    return pinned, host, nbytes, nbytes <= PAST_MOST, *fill_crew()


def fill_crew() -> tuple[int, int, int]:
    """How threads take part in a fill, as ``xf_fill`` takes it."""
    budget = threads.crew()
    return budget.fillers, budget.both_ways, SPIN_NS


class Filling:
    """Plain bytes on their way into pinned memory.

    Args:
        pinned: The address of memory that nothing else uses.
        host: The address of as many bytes, which stay as they are until `end`.
        nbytes: The number of bytes.
        keep: Must outlive the copy.
    """

    __slots__ = ("_handle", "_keep", "_pid", "nbytes")

    def __init__(self, pinned: int, host: int, nbytes: int, keep: Any) -> None:
        arguments, library = _arguments(pinned, host, nbytes), _native.load_library()
        self.nbytes = nbytes
        self._keep = keep
        self._pid = os.getpid()
        self._handle: int | None = library.xf_fill_begin(*arguments)
        if self._handle is None:
            library.xf_fill(*arguments)

    def end(self) -> None:
        """Do what is left in this thread too; on return every byte is there."""
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():  # a forked child has none of the threads
            _native.load_library().xf_fill_end(handle)
        self._keep = None

    def __del__(self) -> None:
        try:
            if self._handle is not None:
                self.end()
        except Exception:  # it was never begun, or the interpreter is going away
            return


# The arrays of a staged transfer, as C takes them: each contiguous on the device, of any layout on the host.


class Regions(NamedTuple):
    """Arrays of one transfer."""

    table: Any
    """An array of `xferlib._native.ArrayRegion`, or one."""
    number: int
    nbytes: int
    """On the device."""
    keep: Any
    """The arrays, and descriptions that ``table`` points to."""


def of_one(end: HostEnd, pointer: int, *, is_read: bool = False) -> Regions | None:
    """Describe one array and its address on the device, as `describe` does; None where that has too many axes."""
    region = _native.ArrayRegion()
    form = describe(region, end, pointer, is_read=is_read)
    return None if form is None else Regions(region, 1, end.nbytes, (end.array, form))


def of_many(ends: Sequence[HostEnd], pointers: Sequence[int]) -> Regions:
    """Describe arrays whose plans C can stage, and their addresses on the device."""
    table = (_native.ArrayRegion * len(ends))()
    forms = [describe(region, end, pointer) for region, end, pointer in zip(table, ends, pointers, strict=True)]
    return Regions(table, len(ends), sum(end.nbytes for end in ends), ([end.array for end in ends], forms))


_UNITS = (_native.CACHE_LINE, buffers.HUGE)
"""Where pieces of plain bytes may begin, of pages in use and of fresh ones: two threads that fault in one huge page
both clear it."""


class PlainCopy(NamedTuple):
    """A copy of bytes as they are."""

    host: int
    """The address there."""
    device: int
    nbytes: int
    is_fresh: bool = False
    """The host's pages were never touched, and filling them faults them in."""


def of_plain(copies: Sequence[PlainCopy]) -> Regions:
    """Describe copies of bytes as they are; the caller keeps their memory."""
    table = (_native.ArrayRegion * len(copies))()
    for region, (found, device, nbytes, is_fresh) in zip(table, copies, strict=True):
        region.host, region.device, region.nbytes = found, device, nbytes
        region.unit, region.is_fresh = _UNITS[is_fresh], is_fresh
    return Regions(table, len(copies), sum(each.nbytes for each in copies), None)


def join_regions(*some: Regions) -> Regions:
    """Regions of one transfer, as one table."""
    table = (_native.ArrayRegion * sum(each.number for each in some))()
    start = ctypes.addressof(table)
    for each in some:
        size = each.number * ctypes.sizeof(_native.ArrayRegion)
        ctypes.memmove(start, ctypes.byref(each.table), size)
        start += size
    return Regions(table, len(table), sum(each.nbytes for each in some), some)


def of_parts(parts: Any, nbytes: int, pointer: int, keep: Any) -> Regions:
    """Describe arrays that are copied as one.

    Args:
        parts: An array of `xferlib._native.Part`, in the order of their places.
        nbytes: To the end of the last.
        pointer: Where the first place is on the device.
        keep: Must outlive the transfer.
    """
    region = _native.ArrayRegion(device=pointer, nbytes=nbytes, unit=_native.CACHE_LINE, part=parts, parts=len(parts))
    return Regions(region, 1, nbytes, (parts, keep))


def describe(region: Any, end: HostEnd, pointer: int, *, is_read: bool = False) -> HostForm | bool | None:
    """Fill in a region; returns the form that it points to, True if to none, None if it cannot be described.

    Args:
        region: An `xferlib._native.ArrayRegion`.
        end: On the host.
        pointer: Of the first element on the device.
        is_read: It is known to be a source, whose pages exist.
    """
    array, dtype = end.array, end.dtype
    region.device, region.host, region.nbytes = pointer, end.pointer, end.nbytes
    if array.dtype == dtype and array.flags.c_contiguous:
        region.is_fresh = is_fresh = not is_read and buffers.is_fresh(array)
        region.unit = _UNITS[is_fresh]
        return True
    form = plan.describe_form(array.shape, array.strides, array.dtype, dtype)
    if form is None:
        return None
    region.unit = 0  # the layout's
    region.layout = ctypes.pointer(form.layout)
    return form


# Transfers of the calling thread, staged by `staging.c` in one call.
#
# The obvious way is one C function that stages everything and returns. `copy` is that, for a transfer that takes some
# milliseconds. A longer one would keep Ctrl-C waiting, an asynchronous one needs no Python thread at all, and the
# arrays of a tree are described while the first of them are on their way: these are an `OpenTransfer`.
#
# Helpers are threads of `staging.c`, shared by all transfers and counted by the thread budget.
#
# Guaranteed: when `copy` returns, no thread works on the transfer. The chunks go back to the ring when the last block
# is done; after an error of the driver only once the stream has been waited for. If there is no error, every copy is
# enqueued.

ONE_WAY_CHUNKS = 2 * LENT_CHUNKS
"""Most chunks of all transfers in one direction together, so that those in the other go on meanwhile."""
SLICE = 16
"""Pieces that a thread does before it checks for Ctrl-C and errors: some milliseconds."""


class StreamSetup:
    """The common part of transfers of one direction on one stream, made once.

    Args:
        ring: Of the stream's device.
        backend, stream, calls: They carry the copies.
        is_upward: Host to device.
    """

    __slots__ = ("_config", "_number", "_until_s", "calls", "library", "most_piece", "provided", "ring", "struct")

    def __init__(self, ring: Ring, stream: RawStream, calls: StagingCalls, *, is_upward: bool) -> None:
        self._number = process.fast_path_epoch[0]
        most = plan.chunk_nbytes()
        self.calls = calls
        self.ring = ring
        self.struct = _native.Setup(
            ring=ring.handle, stream=stream.handle, copy=calls.copy, record=calls.record, wait=calls.wait,
            order=calls.order, enter=calls.enter, context=calls.context, is_upward=is_upward, most_chunks=LENT_CHUNKS,
            shared_chunks=LENT_CHUNKS * 3 // 4, way_chunks=ONE_WAY_CHUNKS,
            **plan.limits(threads.crew(), most),
        )  # fmt: skip
        self.library = _native.load_library()
        self.provided = 0
        """Bytes of the largest transfer that the ring has been given chunks for."""
        self._config = process.get()
        self.most_piece = most
        """Bytes that a thread takes at a time."""
        self._until_s = time.monotonic() + _VALID_S

    def is_valid(self) -> bool:
        """Whether nothing that it was made from has changed: settings, and the cores that the process may use."""
        number = process.fast_path_epoch[0]
        if time.monotonic() >= self._until_s:
            return False
        if number != self._number:
            if self._config is not process.get() or self.most_piece != plan.chunk_nbytes():
                return False
            self._number = number
        return True

    def provide(self, nbytes: int, stream: RawStream) -> None:
        """Let the ring have chunks for a transfer of ``nbytes``, the largest so far."""
        self.ring.provide(1 + nbytes // FIRST_BLOCK_NBYTES, stream)
        self.provided = nbytes


_VALID_S = 1.0
_MOST_SETUPS = 64
"""Streams come and go."""


def setup_of(backend: Backend, stream: RawStream, *, is_upward: bool) -> StreamSetup | None:
    """The common part of transfers on a stream; None where C cannot stage them."""
    key = (stream.handle, is_upward)
    ring = buffers.rings.made.get((backend.pinned_domain, stream.device.index))
    found: StreamSetup | None = ring.setups.get(key) if ring is not None else None
    return found if found is not None and found.is_valid() else _make_setup(backend, stream, key)


def _make_setup(backend: Backend, stream: RawStream, key: tuple[int, bool]) -> StreamSetup | None:
    calls = calls_of(backend, stream)
    if calls is None:
        return None
    ring = buffers.rings.of(backend, stream.device)
    if len(ring.setups) >= _MOST_SETUPS:
        ring.setups.clear()
    found = ring.setups[key] = StreamSetup(ring, stream, calls, is_upward=key[1])
    return found


def calls_of(backend: Backend, stream: RawStream) -> StagingCalls | None:
    """The C functions by which transfers on a stream are staged; None where C cannot do it.

    Its threads enqueue copies themselves, which the calling thread's own default stream would not see.
    """
    fast = backend.fast
    if fast is None or stream.handle == PER_THREAD or not _native.is_on():
        return None
    return fast.staging_calls(stream.device)


def copy(described: Regions, setup: StreamSetup, backend: Backend, stream: RawStream) -> None:
    """Make a transfer in this thread, with helpers; the device is attached.

    Raises:
        OutOfMemoryError, PinnedMemoryError: Host memory for it is short; nothing has been copied.
        TransferError: An error of the driver.
    """
    if described.nbytes > setup.provided:
        setup.provide(described.nbytes, stream)
    opened = ctypes.c_void_p()
    with setup.calls.inside():
        error = setup.library.xf_copy(
            ctypes.byref(setup.struct), ctypes.byref(described.table), described.number, opened
        )
    if error:
        _finish(opened.value, error, setup, backend, stream)


def _finish(handle: Any, error: int, setup: StreamSetup, backend: Backend, stream: RawStream) -> None:
    """Go on with a transfer that C has left with a result; raises as `copy`."""
    if error == _native.NO_MEMORY:
        raise no_memory()
    if error == _native.STARVED:
        error = _go_on(handle, setup, backend, stream)
    if error:
        close_failed(handle, backend, stream)
        raise setup.calls.failure(error, stream)


# --- for calls that C makes by itself: see `copies.c`


def addresses() -> dict[str, int]:
    """The addresses of the C functions that make a whole transfer, and of others that C calls beside one."""
    functions = {
        "stage": "xf_copy", "is_crowded": "xf_is_crowded", "rouse": "xf_rouse", "take_chunk": "xf_ring_take",
        "give_chunk": "xf_ring_give", "lose_chunk": "xf_ring_lose",
    }  # fmt: skip
    return dict(zip(functions, _native.addresses_of(*functions.values()), strict=True))


def prepare_stream(
    backend: Backend, device: Device, is_upward: int, nbytes: int, named: RawStream | None
) -> tuple[StreamSetup, int, int] | None:
    """The common part of transfers on a stream, its address, and the size that there are chunks for.

    Args:
        backend, device, is_upward, nbytes: Of the transfer.
        named: The stream; None is the current one.

    Returns:
        None where C cannot stage them.

    Raises:
        As `copy`.
    """
    stream = named or backend.stream_current(device)
    setup = setup_of(backend, stream, is_upward=bool(is_upward))
    if setup is None:
        return None
    if nbytes > setup.provided:
        setup.provide(nbytes, stream)
    return setup, ctypes.addressof(setup.struct), setup.provided


def continue_transfer(
    backend: Backend, device: Device, is_upward: int, handle: int, error: int, named: RawStream | None
) -> None:
    """Go on with a transfer that C has left with a result; raises as `copy`."""
    stream = named or backend.stream_current(device)
    setup = setup_of(backend, stream, is_upward=bool(is_upward))
    assert setup is not None
    _finish(handle, error, setup, backend, stream)


def _go_on(handle: Any, setup: StreamSetup, backend: Backend, stream: RawStream) -> int:
    """End a transfer that waits for chunks, which other transfers have, or which there are none of any more.

    Returns:
        The driver's error; 0: there was none, and the transfer is closed.
    """
    library = _native.load_library()
    try:
        with setup.calls.inside():
            setup.ring.provide(1, stream)
            while library.xf_run(handle, SLICE):
                setup.ring.provide(1, stream)
    except BaseException:  # Ctrl-C too
        library.xf_end(handle)
        close_failed(handle, backend, stream)
        raise
    error: int = library.xf_end(handle)
    if not error:
        library.xf_close(handle, 0)
    return error


def no_memory() -> OutOfMemoryError:
    """The error for a transfer whose state has no room."""
    return OutOfMemoryError("host memory for the state of a transfer is short; free arrays")


def close_failed(handle: Any, backend: Backend, stream: RawStream) -> None:
    """Free a transfer that has failed or was ended early: a copy may be in flight that no event marks."""
    is_lost = True
    try:
        backend.stream_synchronize(stream)
        is_lost = False
    finally:  # a copy may be in flight for ever: its chunks are never used again
        _native.load_library().xf_close(handle, is_lost)


# Transfers in C that threads enter and leave, and to which arrays may be added until they are closed.
#
# Threads enter as those of a `Job`, or C threads do it all: a long transfer then keeps no Ctrl-C waiting, and an
# asynchronous one needs no Python thread.
#
# Guaranteed: when the job of an `OpenTransfer` is over, no thread of either kind works on the transfer; its chunks are
# dealt with as those of `copy`.
#
# `OpenTransfer._lock` protects the start and the end: `_handle` is set once, and regions are added until the end only.

_ENDLESS = 1 << 62
"""The steps of a job are counted in C."""
_POLL_SLICE = 2
"""Pieces that a thread does which has other transfers to look after: a fraction of a millisecond."""


class OpenTransfer:
    """A transfer that threads enter and leave.

    Args:
        setup, backend, stream: They carry the copies.
        nbytes: Of all regions.
        moving: Records it; None if no recorder is open.
    """

    def __init__(
        self, setup: StreamSetup, backend: Backend, stream: RawStream, nbytes: int, *, moving: Moving | None = None
    ) -> None:
        self._setup = setup
        self._backend = backend
        self._stream = stream
        self._nbytes = nbytes
        self._moving = moving
        self._lock = threading.Lock()
        self._regions: list[Regions] = []
        """All of them; they live as long as the transfer."""
        self._handle: Any = None
        self._is_closed = False
        """No region will be added."""
        self._is_over = False
        self._is_orphaned = False
        """It was begun without a Python thread."""

    def add(self, regions: Regions) -> bool:
        """Add arrays; False, and nothing done, where the transfer is over already."""
        with self._lock:
            if self._is_over:
                return False
            self._regions.append(regions)
            if self._handle is not None:
                self._hand_over(regions)
        return True

    def close(self) -> None:
        """Tell that no region will be added."""
        with self._lock:
            self._is_closed = True
            if self._handle is not None:
                _native.load_library().xf_add(self._handle, None, 0, True, 0)

    def job(self, after: Callable[[], None] | None) -> Job:
        """The job that threads are to help with; ``after`` runs at its end."""

        def finish() -> None:
            try:
                self._finish()
            finally:
                if after is not None:
                    after()

        job = Job(_ENDLESS, self._work, helpers=0, finish=finish)
        job.start = functools.partial(self._start, job)
        return job

    def _start(self, job: Job) -> bool:
        """Let C threads do it all, until a Python thread waits for the job. The caller waits for it or cancels it."""
        with self._lock:
            if self._handle is None:
                self._is_orphaned = True
                self._open()
                job.run_slice = self._run_slice
        return True

    def _open(self) -> None:
        """Begin, with the lock held."""
        struct = self._setup.struct
        self._backend.attach(self._stream.device)
        self._setup.ring.provide(1 + self._nbytes // FIRST_BLOCK_NBYTES, self._stream)
        if self._moving is not None:
            struct = type(struct).from_buffer_copy(struct)
            first, last = self._moving.events()
            struct.is_marked, struct.before_first, struct.after_last = 1, first.handle, last.handle
        library = _native.load_library()
        self._handle = library.xf_open(ctypes.byref(struct))
        if self._handle is None:
            raise no_memory()
        try:
            for number, added in enumerate(self._regions, 1):
                self._hand_over(added, is_last=self._is_closed and number == len(self._regions))
        except BaseException:  # the next thread would take it for begun
            handle, self._handle = self._handle, None
            library.xf_end(handle)
            library.xf_close(handle, 0)
            raise

    def _hand_over(self, regions: Regions, *, is_last: bool = False) -> None:
        """Give regions to C, with the lock held."""
        table, more = ctypes.byref(regions.table), self._is_orphaned
        if not _native.load_library().xf_add(self._handle, table, regions.number, is_last, more):
            raise no_memory()

    def _run_slice(self) -> bool:
        """Do a few pieces in this thread; returns whether none is left to take."""
        self._backend.attach(self._stream.device)
        with self._setup.calls.inside():
            is_left = _native.load_library().xf_run(self._handle, _POLL_SLICE)
        return self._is_closed and not is_left

    def _work(self, take: Callable[[], int]) -> None:
        """Take pieces, with other threads, until none is left or the job has failed."""
        if take() < 0:
            return
        self._backend.attach(self._stream.device)
        with self._lock:
            if self._handle is None:
                self._open()
        library, handle = _native.load_library(), self._handle
        # Back to Python after some pieces: `take` ends the job on Ctrl-C, cancellation or another thread's error.
        with self._setup.calls.inside():
            while library.xf_run(handle, SLICE) and take() >= 0:
                self._setup.ring.provide(1, self._stream)  # others may have them all, or the program has freed them

    def _finish(self) -> None:
        """End the transfer, when every Python thread has left."""
        with self._lock:
            self._is_over = True
            handle, self._handle = self._handle, None
        if handle is None:
            return
        library = _native.load_library()
        error = library.xf_end(handle)  # helpers may still be filling a chunk
        if self._moving is not None and not error:
            self._moving.note_finished(_list_steps(handle))
        close_failed(handle, self._backend, self._stream) if error else library.xf_close(handle, 0)
        self._regions.clear()
        if error:
            raise self._setup.calls.failure(error, self._stream)


def _list_steps(handle: Any) -> list[Step]:
    """The pieces of a transfer that has ended, and the threads that staged them."""
    marks = ctypes.POINTER(_native.Mark)()
    count = _native.load_library().xf_marks(handle, ctypes.byref(marks))
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        (mark.nbytes, mark.begun_ns * 1e-9, mark.ended_ns * 1e-9, _name(mark.thread, names))
        for mark in (marks[number] for number in range(count))
    ]


def _name(thread: int, names: dict[int | None, str]) -> str:
    """The name of a Python thread, or of a helper, which has a negative number."""
    return f"xferlib-c{-thread}" if thread < 0 else names.get(thread, f"thread {thread}")


def upload(request: Upload, found: Plan) -> None:
    """Fill memory in C order of a device on a stream; pageable memory has been read on return."""
    end, _, dst, stream, _ = request
    backend = end.backend
    if found.path is TransferPath.PINNED:
        copy_pinned(end, dst.pointer, stream, is_upward=True)
        return
    # The driver waits for the stream first: so only where that is idle.
    fast = backend.fast if found.tries_driver else None
    if fast is not None and fast.takes_pageable(stream, idle=True):
        if observe.driver_copy(Kind.H2D, fast.copy_to_device, dst.pointer, end.pointer, end.nbytes, backend, stream):
            return
    if found.path is TransferPath.SMALL:
        memory, pointer = buffers.slab_of(backend, end.nbytes, stream).take(end.nbytes, stream)
        gather(end.array, end.dtype, memory, pointer)
        observe.copy(Kind.H2D, dst.pointer, pointer, end.nbytes, backend, stream)
    else:
        _stage(end, dst.pointer, stream, is_upward=True)


def _stage(end: HostEnd, pointer: int, stream: RawStream, *, is_upward: bool) -> None:
    """Stage an array in this thread, with helpers: in one call of C where that can be, and no recorder is open."""
    backend = end.backend
    setup = setup_of(backend, stream, is_upward=is_upward) if observe.active is None else None
    described = of_one(end, pointer, is_read=is_upward) if setup is not None else None
    if setup is not None and described is not None:
        copy(described, setup, backend, stream)
    else:
        workers.run(job(end, pointer, stream, None, is_upward=is_upward))


def job(end: HostEnd, pointer: int, stream: RawStream, finish: Callable[[], None] | None, *, is_upward: bool) -> Job:
    """The job that stages an array between the host's end and contiguous memory of the device, at an address.

    ``finish`` runs when every copy of an upload is enqueued, a download is complete, or one has failed.
    """
    backend = end.backend
    described = of_one(end, pointer) if calls_of(backend, stream) is not None else None
    if described is not None:
        staging = begin(backend, stream, described.nbytes, is_upward=is_upward)
        staging.add(described)
        staging.close()
        return staging.job(finish)
    return _slab_job(end, pointer, stream, finish, is_upward=is_upward)


def begin(backend: Backend, stream: RawStream, nbytes: int, *, is_upward: bool) -> OpenTransfer:
    """A transfer in C of some ``nbytes``, with no regions yet; `calls_of` has said that it can be."""
    setup = setup_of(backend, stream, is_upward=is_upward)
    assert setup is not None
    moving = observe.make_mover(Kind.H2D if is_upward else Kind.D2H, nbytes, 0, backend, stream)
    return OpenTransfer(setup, backend, stream, nbytes, moving=moving)


def copy_pinned(end: HostEnd, pointer: int, stream: RawStream, *, is_upward: bool) -> None:
    """Copy straight between pinned memory and contiguous memory of the device, at an address; returns at once."""
    assert end.pinned is not None
    for host, nbytes in end.pinned.spans:
        device = pointer + host - end.pointer
        kind, dst, src = (Kind.H2D, device, host) if is_upward else (Kind.D2H, host, device)
        observe.copy(kind, dst, src, nbytes, end.backend, stream)


# --- device to host


def download(src: ArrayInfo, end: HostEnd, stream: RawStream, found: Plan) -> None:
    """Fill host memory from ``src`` (C-contiguous) after the work on ``stream``; complete on return."""
    backend = end.backend
    if found.path is TransferPath.EMPTY:
        return
    if found.path is TransferPath.PINNED:
        copy_pinned(end, src.pointer, stream, is_upward=False)
        await_copy(backend, stream)
        return
    fast = backend.fast if found.tries_driver else None
    if fast is not None and fast.takes_pageable(stream, idle=False):
        if observe.driver_copy(Kind.D2H, fast.copy_to_host, end.pointer, src.pointer, src.nbytes, backend, stream):
            return
    if found.path is TransferPath.SMALL:
        _download_small(src, end, stream)
    else:
        _stage(end, src.pointer, stream, is_upward=False)


def await_copy(backend: Backend, stream: RawStream) -> None:
    """Wait for the copies on ``stream``, even if the wait is interrupted: their memory must outlive them."""
    try:
        backend.stream_synchronize(stream)
    except BaseException:
        lifetimes.abandon(backend, stream)
        raise


def _download_small(src: ArrayInfo, end: HostEnd, stream: RawStream) -> None:
    nbytes, backend = src.nbytes, end.backend
    own = buffers.slab_of(backend, nbytes, stream)
    memory, pointer = own.take(nbytes, stream)
    # The slab's bytes may be taken again once this returns, so even an interrupted copy must be waited for.
    try:
        observe.copy(Kind.D2H, pointer, src.pointer, nbytes, backend, stream)
        backend.stream_synchronize(stream)
    except BaseException:
        lifetimes.abandon(backend, stream)
        raise
    scatter(end.array, end.dtype, memory, pointer)
    own.mark_empty()


# --- by one thread, through its slab: on the simulator, for backends without C functions, without the compiled C


def _slab_job(
    end: HostEnd, pointer: int, stream: RawStream, finish: Callable[[], None] | None, *, is_upward: bool
) -> Job:
    """The job that copies between the host's end and contiguous memory of the device, at an address."""
    backend, itemsize = end.backend, end.dtype.itemsize
    chunks = cut_in_chunks(end.array, itemsize, max(min(MEDIUM_NBYTES, plan.chunk_nbytes()), itemsize))
    moving = observe.make_mover(Kind.H2D if is_upward else Kind.D2H, end.nbytes, chunks.count, backend, stream)
    copy_part = _send_part if is_upward else _fetch_part

    def work(take: Callable[[], int]) -> None:
        backend.attach(stream.device)
        while (index := take()) >= 0:
            offset, part = chunks[index]
            copy_part(end, part, pointer + offset, stream, moving)

    return Job(chunks.count, work, finish=finish)


def _send_part(end: HostEnd, part: HostArray, pointer: int, stream: RawStream, moving: Moving | None) -> None:
    backend, nbytes, begun_s = end.backend, part.size * end.dtype.itemsize, time.perf_counter()
    memory, source = buffers.slab_of(backend, nbytes, stream).take(nbytes, stream)
    gather(part, end.dtype, memory, source)
    observe.note_staging(nbytes)
    if moving is not None:
        moving.note_staged(begun_s, nbytes)
        moving.send()
    backend.copy(pointer, source, nbytes, stream=stream)
    if moving is not None:
        moving.note_enqueued()


def _fetch_part(end: HostEnd, part: HostArray, pointer: int, stream: RawStream, moving: Moving | None) -> None:
    backend, nbytes = end.backend, part.size * end.dtype.itemsize
    own = buffers.slab_of(backend, nbytes, stream)
    memory, target = own.take(nbytes, stream)
    try:  # the slab's bytes may be taken again after this, so even an interrupted copy must be waited for
        if moving is not None:
            moving.send()
        backend.copy(target, pointer, nbytes, stream=stream)
        if moving is not None:
            moving.note_enqueued()
        backend.stream_synchronize(stream)
    except BaseException:
        lifetimes.abandon(backend, stream)
        raise
    begun_s = time.perf_counter()
    scatter(part, end.dtype, memory, target)
    own.mark_empty()
    observe.note_staging(nbytes)
    if moving is not None:
        moving.note_staged(begun_s, nbytes)


# --- in a capture: a graph repeats copies between fixed addresses, and of bytes as they are


def find_captured_stream(call: str, backend: Backend, device: Device, stream: RawStream | None) -> RawStream | None:
    """The stream of a copy that is captured; None for one that is not.

    Raises:
        CaptureError: The copy's stream and the current one are not of the same capture.
    """
    if not opened:
        return None
    current = backend.stream_current(device)
    order = stream if stream is not None else current
    if order.capture is not current.capture:
        raise CaptureError(
            f"{call}: {order!r} and the current stream {current!r} are not of one capture, so that neither may wait "
            "for the other; give a stream that has waited for the captured one, or leave stream= out"
        )
    return order if order.capture is not None else None


def capture_upload(end: HostEnd, out: Any, into: ArrayInfo, stream: RawStream) -> TransferPath:
    """Record a copy from pinned memory.

    Raises:
        CaptureError: The memory is pageable, or would have to be converted or spread.
    """
    if not end.nbytes:
        return TransferPath.EMPTY
    _check_captured("to_device", end, into)
    copy_pinned(end, into.pointer, stream, is_upward=True)
    lifetimes.in_flight.hold(end.backend, lifetimes.record(end.backend, stream), end.array, out)
    return TransferPath.PINNED


def capture_download(src: Any, info: ArrayInfo, backend: Backend, stream: RawStream, out: Any) -> HostArray:
    """Record a copy to pinned memory.

    Raises:
        LayoutError: There is no ``out``.
        CaptureError: It is pageable, or the array would have to be converted or put in order.
    """
    if out is None:
        raise LayoutError(
            "to_host_async: a copy in a capture needs out=, which each launch of the graph fills; make it with "
            "pinned_empty()"
        )
    found: HostArray = out
    end = HostEnd(found, info.dtype, backend)
    if end.nbytes:
        _check_captured("to_host_async", end, info)
        copy_pinned(end, info.pointer, stream, is_upward=False)
        lifetimes.in_flight.hold(backend, lifetimes.record(backend, stream), src, found)
    return found


def _check_captured(call: str, end: HostEnd, there: ArrayInfo) -> None:
    if not end.is_plain or not there.is_c_contiguous:
        raise CaptureError(
            f"{call}: a copy in a capture moves bytes as they are, and the arrays differ (dtype {end.array.dtype} and "
            f"strides {end.array.strides} on the host, {there.dtype} and {there.strides} on the device); convert "
            "before the capture, or on the device"
        )
    if end.pinned is None:
        raise CaptureError(
            f"{call}: {end.nbytes} bytes of pageable memory in a capture, which a graph cannot copy; use an array made "
            "with pinned_empty() or pinned_array(x)"
        )
