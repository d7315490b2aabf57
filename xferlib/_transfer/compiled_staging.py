"""Transfers of the calling thread, staged by `staging.c` in one call.

The obvious way is one C function that stages everything and returns. `copy` is that, for a transfer that takes some
milliseconds. A longer one would keep Ctrl-C waiting, an asynchronous one needs no Python thread at all, and the arrays
of a tree are described while the first of them are on their way: these are an `open_transfer.OpenTransfer`.

Helpers are threads of `staging.c`, shared by all transfers and counted by the thread budget.

Guaranteed: when `copy` returns, no thread works on the transfer. The chunks go back to the ring when the last block is
done; after an error of the driver only once the stream has been waited for. If there is no error, every copy is
enqueued.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import TYPE_CHECKING, Any

from xferlib import _native
from xferlib._core.raw import PER_THREAD
from xferlib._core.thresholds import (
    C_FIRST_BLOCK_NBYTES,
    C_STREAMED_FROM,
    C_STREAMED_MOST,
    LENT_CHUNKS,
    ONE_WAY_CHUNKS,
    SHARED_CHUNKS,
)
from xferlib._memory import staging_ring
from xferlib._runtime import circumstances, config, thread_budget
from xferlib._transfer import compiled_copies, plan, regions
from xferlib._transfer.regions import Regions
from xferlib.errors import OutOfMemoryError

if TYPE_CHECKING:
    import numpy as np

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream, StagingCalls
    from xferlib._memory.staging_ring import Ring

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
        self._number = circumstances.number[0]
        most = plan.chunk_nbytes()
        self.calls = calls
        self.ring = ring
        # What has arrived goes past the processor's caches always, what is sent only where that is faster.
        past = (C_STREAMED_FROM, C_STREAMED_MOST) if is_upward else (0, sys.maxsize)
        self.struct = _native.Setup(
            ring=ring.handle, stream=stream.handle, copy=calls.copy, record=calls.record, wait=calls.wait,
            order=calls.order, enter=calls.enter, context=calls.context, is_upward=is_upward, most_chunks=LENT_CHUNKS,
            shared_chunks=SHARED_CHUNKS, way_chunks=ONE_WAY_CHUNKS, streamed_from=past[0], streamed_most=past[1],
            **compiled_copies.limits(thread_budget.crew(), most),
        )  # fmt: skip
        self.library = _native.library()
        self.provided = 0
        """Bytes of the largest transfer that the ring has been given chunks for."""
        self._config = config.get()
        self.most_piece = most
        """Bytes that a thread takes at a time."""
        self._until_s = time.monotonic() + _VALID_S

    def is_valid(self) -> bool:
        """Whether nothing that it was made from has changed: settings, and the cores that the process may use."""
        number = circumstances.number[0]
        if time.monotonic() >= self._until_s:
            return False
        if number != self._number:
            if self._config is not config.get() or self.most_piece != plan.chunk_nbytes():
                return False
            self._number = number
        return True

    def provide(self, nbytes: int, stream: RawStream) -> None:
        """Let the ring have chunks for a transfer of ``nbytes``, the largest so far."""
        self.ring.provide(1 + nbytes // C_FIRST_BLOCK_NBYTES, stream)
        self.provided = nbytes


_VALID_S = 1.0
_MOST_SETUPS = 64
"""Streams come and go."""


def setup_of(backend: Backend, stream: RawStream, *, is_upward: bool) -> StreamSetup | None:
    """The common part of transfers on a stream; None where C cannot stage them."""
    key = (stream.handle, is_upward)
    ring = staging_ring.rings.made.get((backend.pinned_domain, stream.device.index))
    found: StreamSetup | None = ring.setups.get(key) if ring is not None else None
    return found if found is not None and found.is_valid() else _made_setup(backend, stream, key)


def _made_setup(backend: Backend, stream: RawStream, key: tuple[int, bool]) -> StreamSetup | None:
    calls = calls_of(backend, stream)
    if calls is None:
        return None
    ring = staging_ring.rings.of(backend, stream.device)
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


def stage(
    array: HostArray, dtype: np.dtype[Any], host: int, pointer: int, backend: Backend, stream: RawStream, *,
    is_upward: bool,
) -> bool:  # fmt: skip
    """Copy between a host array and contiguous memory of the device, in one call of C; the device is attached.

    Args:
        array: Of any layout, its first element at the address ``host``.
        dtype: Of the elements on the device, the first at the address ``pointer``.
        backend, stream, is_upward: They carry the copy, to the device or from it.

    Returns:
        False, and nothing is done, where C cannot stage the array.

    Raises:
        As `copy`.
    """
    setup = setup_of(backend, stream, is_upward=is_upward)
    if setup is None:
        return False
    region = _native.ArrayRegion()
    form = regions.describe(region, array, dtype, host, pointer, is_read=is_upward)
    if form is None:
        return False
    copy(Regions(region, 1, region.nbytes, (array, form)), setup, backend, stream)
    return True


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
        close_failed(handle, setup.ring, backend, stream)
        raise setup.calls.failure(error, stream)


# --- for calls that C makes by itself: see `stager.c`


def addresses() -> dict[str, int]:
    """The addresses of the C functions that make a whole transfer, and tell whether other threads want the cores."""
    library = _native.library()
    functions = {"stage": library.xf_copy, "is_crowded": library.xf_is_crowded}
    return {name: ctypes.cast(each, ctypes.c_void_p).value or 0 for name, each in functions.items()}


def prepared(
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


def gone_on(backend: Backend, device: Device, is_upward: int, handle: int, error: int, named: RawStream | None) -> None:
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
    library = _native.library()
    try:
        with setup.calls.inside():
            setup.ring.provide(1, stream)
            while library.xf_run(handle, SLICE):
                setup.ring.provide(1, stream)
    except BaseException:  # Ctrl-C too
        library.xf_end(handle)
        close_failed(handle, setup.ring, backend, stream)
        raise
    error: int = library.xf_end(handle)
    if not error:
        library.xf_close(handle, 0)
    return error


def no_memory() -> OutOfMemoryError:
    """The error for a transfer whose state has no room."""
    return OutOfMemoryError("host memory for the state of a transfer is short; free arrays")


def close_failed(handle: Any, ring: Ring, backend: Backend, stream: RawStream) -> None:
    """Free a transfer that has failed or was ended early: a copy may be in flight that no event marks."""
    is_lost = True
    try:
        backend.stream_synchronize(stream)
        is_lost = False
    finally:  # a copy may be in flight for ever: its chunks are never used again
        ring.lose(_native.library().xf_close(handle, is_lost))
