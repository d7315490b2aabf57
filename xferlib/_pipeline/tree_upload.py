"""A tree of arrays on its way to a device: all copies are in flight at once, and the tree is handed out on request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import transfers
from xferlib._core import registry
from xferlib._core.containers import flatten
from xferlib._core.stream import Stream
from xferlib._core.thresholds import C_LEAF_FROM, PYTHON_LEAF_FROM
from xferlib._memory import in_flight
from xferlib._transfer import copies, ends, many, packing, staged
from xferlib._transfer.ends import CopyTarget
from xferlib._transfer.handle import Transfer
from xferlib._transfer.host_end import HostEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.array import Array
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawEvent, RawStream


class Arriving:
    """The copies of one tree.

    Args:
        tree: Arrays in nested containers; other leaves stay as they are.
        backend: Serves ``device``.
        device: The target device.
        stream: Carries the copies, and owns the device arrays.

    Raises:
        As `xferlib.to_device`: nothing that was begun is left behind.
    """

    __slots__ = ("_backend", "_event", "_owned", "_rebuild", "_results", "_stream", "_together", "_transfers")

    def __init__(self, tree: Any, backend: Backend, device: Device, stream: RawStream) -> None:
        self._backend = backend
        self._stream = stream
        self._rebuild: Callable[[list[Any]], Any] | None
        if type(tree) is np.ndarray:
            leaves, self._rebuild = [tree], None
        else:
            leaves, self._rebuild = flatten(tree)
        self._results: list[Any] = list(leaves)
        self._transfers: list[tuple[Transfer, int | None]] = []
        """The transfers of leaves that other threads stage, with the numbers of the leaves; None of several leaves."""
        self._together: list[Array] = []
        """Arrays of transfers of several leaves."""
        self._owned: list[Array] = []
        """Arrays whose copies are enqueued, one for each allocation."""
        self._event: RawEvent | None = None
        """Recorded after the copies of those."""
        packed, alone = packing.chosen(leaves, None, device)
        backend.attach(device)
        try:
            self._begin(leaves, packed, alone, device)
        except BaseException:
            self.cancel()
            raise

    def _begin(self, leaves: list[Any], packed: list[packing.LeafKind], alone: list[int], device: Device) -> None:
        order = Stream._of(self._stream, self._backend)
        together = self._begin_together(leaves, alone, device)
        for number in alone:
            if number in together:
                continue
            leaf = leaves[number]
            if self._is_left_to_threads(leaf, device):
                target = CopyTarget(self._backend, device, self._stream)
                self._transfers.append((copies.begin(ends.source_of(leaf), target, is_awaited=True), number))
            else:
                self._results[number] = transfers.to_device(leaf, device=device, stream=order)
                self._owned.append(self._results[number])
        if packed:
            self._owned.append(packing.send(leaves, self._results, packed, self._backend, self._stream))
        if self._owned:
            self._event = in_flight.record(self._backend, self._stream)

    def _begin_together(self, leaves: list[Any], numbers: list[int], device: Device) -> set[int]:
        """Begin the transfers of large leaves that are staged together; returns their numbers."""
        if not many.is_worth(leaves, numbers, self._backend, device):
            return set()
        begun = lambda transfer: self._transfers.append((transfer, None))
        found = many.begin(leaves, numbers, self._backend, device, self._stream, begun)
        self._together = list(found.values())
        for number, array in found.items():
            self._results[number] = array
        return set(found)

    def _is_left_to_threads(self, leaf: Any, device: Device) -> bool:
        nbytes = _nbytes(leaf)
        if nbytes >= PYTHON_LEAF_FROM or nbytes < C_LEAF_FROM:
            return nbytes >= PYTHON_LEAF_FROM
        if not isinstance(leaf, np.ndarray):
            return False
        return staged.stages_alone(HostEnd(leaf, ends.wanted_dtype(None, leaf.dtype), self._backend), device)

    @property
    def is_sent(self) -> bool:
        """Whether every copy is enqueued, and no thread has part in one."""
        return not self._transfers

    def push(self) -> None:
        """Start the transfers that there was no room for before."""
        for transfer, _ in self._transfers:
            transfer.try_start()

    def is_settled(self, wait_s: float) -> bool:
        """Return True once all copies are enqueued; help, and block for at most ``wait_s``."""
        until_s = time.monotonic() + wait_s
        return all(transfer.is_settled(max(until_s - time.monotonic(), 0.0)) for transfer, _ in self._transfers)

    @property
    def has_failed(self) -> bool:
        """Whether a copy can no longer succeed."""
        return any(transfer.has_failed for transfer, _ in self._transfers)

    def release(self) -> None:
        """Wait until the sources may be changed: every copy is complete.

        Raises:
            TransferError: A copy failed; the sources are unchanged.
        """
        self.await_end()
        for transfer, _ in self._transfers:
            transfer.check()

    def await_end(self) -> None:
        """Wait until no copy reads the sources, whether it succeeded or not."""
        for transfer, _ in self._transfers:
            transfer.release()
        if self._event is not None:
            self._backend.event_synchronize(self._event)  # a small source may be pinned

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copies that are enqueued: one at a time fills the link as well."""
        for transfer, _ in self._transfers:
            transfer.precede(stream)
        if self._event is not None:
            self._backend.event_wait(stream, self._event)

    def result(self) -> Any:
        """Return the tree on the device, ordered on the calling thread's current stream.

        Raises:
            TransferError: A copy failed.
        """
        results = list(self._results)
        for transfer, number in self._transfers:
            value = transfer.result()
            if number is not None:
                results[number] = value
        if self._event is not None or self._together:
            current = self._backend.stream_current(self._stream.device)
            if current.handle != self._stream.handle:
                if self._event is not None:
                    self._backend.event_wait(current, self._event)
                for array in (*self._owned, *self._together):
                    self._backend.consumed(array, current)
        return results[0] if self._rebuild is None else self._rebuild(results)

    def cancel(self) -> None:
        """Drop the tree: start no more copies."""
        for transfer, _ in self._transfers:
            transfer.cancel()


def _nbytes(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return array.nbytes
    owner = registry.backend_of(array)
    assert owner is not None
    return owner.view(array).nbytes
