"""The chunks of a `stream_map` that this process computes: each device's station in turn, for the calling thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import transfers
from xferlib._core import registry
from xferlib._core.arrays import SUPPORTED, address
from xferlib._core.registry import resolve
from xferlib._core.streams import current_stream
from xferlib._core.thresholds import LARGE_NBYTES, SMALL_NBYTES
from xferlib._memory.buffers import RECYCLED_FROM, host_cache, let_malloc_recycle
from xferlib._pipeline.chunks import Station
from xferlib._runtime import threads as thread_budget
from xferlib._runtime.checks import has
from xferlib._runtime.threads import deferred
from xferlib.errors import ArgumentError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.arrays import Array, HostArray
    from xferlib._core.device import Device
    from xferlib._pipeline.chunks import Results


_ALONE = 2
"""`sys.getrefcount` of an attribute that nothing else refers to: the attribute and the call's argument."""

_ALIASED = 4096
"""Processors take a load for dependent on an earlier store of the same address modulo this. Two arrays at the same one
are copied without such pairs: 512 KiB from the second-level cache in 25 us, and in 53 if 16 bytes apart (NumPy's
large arrays begin at 16)."""
_ALIGNED = 16
"""Bytes: every dtype may begin at a multiple."""


def listed(devices: Any, call: str = "stream_map") -> list[Any]:
    """The specifications in ``devices``, which is one or several of them; that of the current device for None.

    Raises:
        ArgumentError: It is neither.
    """
    if devices is None or isinstance(devices, (str, int)) or has(devices, "kind"):
        return [devices]
    if not isinstance(devices, Iterable):
        raise ArgumentError(f"{call}: devices is {type(devices).__name__}; give devices such as ['cuda:0', 'cuda:1']")
    try:
        return list(devices)
    except Exception as error:  # a foreign object may raise anything
        raise ArgumentError(
            f"{call}: devices is {type(devices).__name__}, which lists nothing; give devices such as ['cuda:0']"
        ) from error


def targets_of(devices: Any, call: str = "stream_map") -> list[Device]:
    """The devices that a call names.

    Raises:
        ArgumentError: They are none, or one is named twice.
        DeviceNotFoundError: A device does not exist.
    """
    targets = [resolve(each) for each in listed(devices, call)]
    if not targets or len(set(targets)) < len(targets):
        raise ArgumentError(f"{call}: devices={[str(each) for each in targets]!r}; name at least one, and each once")
    return targets


def chunks_of(low: int, high: int, chunk_rows: int) -> list[tuple[int, int]]:
    """The first row, and the row after the last, of each chunk of some rows."""
    return [(start, min(start + chunk_rows, high)) for start in range(low, high, chunk_rows)]


class InTurn:
    """A CPU, to which chunks are copied, and their results from it, in the calling thread.

    A hand-over between threads takes as long as the copy of a megabyte, and no link works meanwhile. Chunks lie in
    recycled memory: malloc may return the pages of a fresh array in each step, and faults on them take longer than the
    copy. Where the function only reads, rows that a device can hold as they are need no copy.

    Args:
        device, numbers, results: As for `Station`.
        may_alias: Chunks may be the rows of the source themselves.
    """

    def __init__(self, device: Device, numbers: range, results: Results, *, may_alias: bool) -> None:
        self.device = device
        self._may_alias = may_alias
        self._numbers: Iterator[int] = iter(numbers)
        self._results = results
        self._backend = registry.get(device.backend).at(device)
        self._stream = current_stream(device)  # one stream is like another on a CPU
        self._memory: HostArray | None = None
        """The memory of the chunk before, which no array uses any more if nothing but this refers to it."""

    def start(self) -> None:
        """No-op: there is no thread."""

    def next(self) -> Any:
        """Return the next chunk on the device."""
        host = self._results.read(next(self._numbers))
        if self._may_alias and (rows := self._rows(host)) is not None:
            return rows
        if host.nbytes >= SMALL_NBYTES and (recycled := self._recycled(host)) is not None:
            return transfers.to_device(host, out=recycled)
        return transfers.to_device(host, device=self.device)

    def _rows(self, host: HostArray) -> Array | None:
        """The rows themselves as an array of the device's library; None where they must be put in order."""
        if not (self._holds(host.dtype) and host.flags.c_contiguous and host.flags.aligned):
            return None
        plain = self._backend.plain_arrays
        if plain is not None and plain.array_type is np.ndarray:
            rows = host.view(np.ndarray)
            rows.flags.writeable = False
            return rows
        if not host.flags.writeable:  # another library would write to pages that end the process
            return None
        return self._backend.over(address(host), host.shape, host.dtype, device=self.device, owner=host)

    def _holds(self, dtype: np.dtype[Any]) -> bool:
        return dtype in SUPPORTED and self._backend.plain_arrays is not None

    def _recycled(self, host: HostArray) -> Array | None:
        """Memory for a chunk, used again once the function refers to it no more; None where there can be none."""
        dtype = host.dtype if host.dtype.isnative else host.dtype.newbyteorder("=")
        if not self._holds(dtype):
            return None
        needed = host.nbytes + _ALIASED
        if self._memory is None or self._memory.nbytes < needed or sys.getrefcount(self._memory) > _ALONE:
            self._memory = host_cache.empty((max(needed, RECYCLED_FROM),), np.dtype(np.uint8))
        memory, begin = self._memory, address(self._memory)
        pointer = begin + (address(host) - begin) % _ALIASED // _ALIGNED * _ALIGNED
        return self._backend.over(pointer, host.shape, dtype, device=self.device, owner=memory)

    def give(self, number: int, value: Any) -> None:
        """Store a result."""
        self._results.store(number, self._results.begin(number, value, self._stream)())

    def release(self) -> None:
        """No-op: no thread waits."""

    def close(self) -> None:
        """Free the memory: the next call's chunks may lie there."""
        self._memory = None


class ChunkMap:
    """A function over chunks, on the devices of this process.

    Args:
        fn: Called with each chunk on its device, in the calling thread.
        results: Reads chunks and stores results.
        targets: Chunk k goes to device k modulo their number.
        depth: Chunks on each device.
        may_alias: On a device in the host's memory chunks may be the rows of the source themselves.
    """

    def __init__(
        self, fn: Callable[[Any], Any], results: Results, targets: list[Device], depth: int, *, may_alias: bool
    ) -> None:
        self._fn = fn
        self._results = results
        self._targets = targets
        self._depth = depth
        self._may_alias = may_alias
        self._stations: list[Station | InTurn] = []
        results.on_stop = self._release

    def run(self) -> Any:
        """Compute every chunk, and return what the sink has.

        The first error is raised when the results in flight are stored.
        """
        results, count = self._results, len(self._targets)
        try:
            results.report()
            is_in_turn = count == 1 and self._is_in_turn()
            if any(device.kind == "cpu" for device in self._targets):
                let_malloc_recycle()  # also where the function's own arrays come from
            for index, device in enumerate(self._targets):
                numbers = range(index, len(results.spans), count)
                self._stations.append(
                    InTurn(device, numbers, results, may_alias=self._may_alias)
                    if is_in_turn
                    else Station(device, numbers, results, self._depth)
                )
                self._stations[-1].start()
            for number in range(len(results.spans)):
                if results.is_stopped:
                    break
                self._compute(number, self._stations[number % count])
                results.report()
        except BaseException as error:
            results.stop(error)
            raise
        finally:
            with deferred:  # or Ctrl-C might leave threads that nothing ends
                for station in self._stations:
                    station.close()
                results.end()
        if results.error is not None:
            raise results.error
        results.report()
        return results.value

    def _is_in_turn(self) -> bool:
        """Whether threads beside the function would gain nothing: on a device without streams, for chunks in memory
        that are small, or not copied, and where there is one core."""
        results, device = self._results, self._targets[0]
        if not results.spans or results.waits or registry.get(device.backend).at(device).capabilities.streams:
            return False
        is_alone = self._may_alias or thread_budget.crew().each_way == 1
        return is_alone or bool(results.read(0).nbytes <= LARGE_NBYTES)

    def _release(self) -> None:
        for station in self._stations:
            station.release()

    def _compute(self, number: int, station: Station | InTurn) -> None:
        try:
            chunk = station.next()
        except StopIteration:
            return  # another thread has failed; its error is raised at the end
        with station.device:
            value = self._fn(chunk)
            del chunk
            if value is None:
                raise UnsupportedArrayError(
                    "stream_map: the function gave None; let it return an array of as many rows, or give reduce"
                )
            station.give(number, value)
