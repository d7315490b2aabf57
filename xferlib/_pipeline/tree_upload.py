"""A tree of arrays on its way to a device: all copies are in flight at once, and the tree is handed out on request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import transfers
from xferlib._core import registry
from xferlib._core.containers import flatten
from xferlib._core.stream import Stream
from xferlib._core.thresholds import DRIVER_MOST_UP, PYTHON_LEAF_FROM
from xferlib._memory import in_flight
from xferlib._transfer import copies, ends, many, packing
from xferlib._transfer.ends import CopyTarget
from xferlib._transfer.handle import Transfer

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
        is_awaited: The calling thread has nothing else to do until the arrays have been read: it copies few ones
            itself, as `xferlib.to_device` does, each in one call of C. To begin a transfer that other threads make
            takes longer than to copy some MiB.

    Raises:
        As `xferlib.to_device`: nothing that was begun is left behind.
    """

    __slots__ = ("_backend", "_event", "_is_read", "_owned", "_rebuild", "_results", "_stream", "_transfers")

    def __init__(
        self, tree: Any, backend: Backend, device: Device, stream: RawStream, *, is_awaited: bool = False
    ) -> None:
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
        self._owned: list[Array] = []
        """Arrays that no transfer hands out, one for each allocation."""
        self._event: RawEvent | None = None
        """Recorded after the copies that are of no transfer."""
        self._is_read = False
        """The sources may be changed."""
        backend.attach(device)
        try:
            is_host = device.kind == "cpu"
            packed, alone = ([], packing.all_of(leaves, None)) if is_host else packing.chosen(leaves, None)
            is_single = len(leaves) == 1 and _is_on_host(leaves[0])
            if is_awaited and (is_single or packing.are_few(leaves, DRIVER_MOST_UP, backend)):
                self._copy(leaves, device)
            else:
                self._begin(leaves, packing.SlabLayout(packed), alone, device)
        except BaseException:
            self.cancel()
            raise

    def _copy(self, leaves: list[Any], device: Device) -> None:
        """Copy few arrays on the host in this thread; they have been read on return."""
        with Stream._of(self._stream, self._backend):
            for number, leaf in enumerate(leaves):
                if registry.backend_of(leaf) is not None:
                    self._results[number] = transfers.to_device(leaf, device=device)
                    self._owned.append(self._results[number])
        self._is_read = True
        self._event = in_flight.record(self._backend, self._stream)

    def _begin(self, leaves: list[Any], small: packing.SlabLayout, alone: list[int], device: Device) -> None:
        order = Stream._of(self._stream, self._backend)
        begun = lambda transfer: self._transfers.append((transfer, None))
        can_stage = many.can_stage(self._backend, self._stream)
        if small.members or (alone and can_stage):
            found = many.begin(leaves, self._results, small, alone, self._backend, self._stream, begun)
        else:
            found = many.Begun([], alone, is_enqueued=False)
        self._owned += found.owned
        is_enqueued = found.is_enqueued
        for number in found.alone:
            leaf = leaves[number]
            if not can_stage and _nbytes(leaf) >= PYTHON_LEAF_FROM:
                target = CopyTarget(self._backend, device, self._stream)
                self._transfers.append((copies.begin(ends.source_of(leaf), target, is_awaited=True), number))
            else:
                self._results[number] = transfers.to_device(leaf, device=device, stream=order)
                self._owned.append(self._results[number])
                is_enqueued = True
        if is_enqueued:
            self._event = in_flight.record(self._backend, self._stream)

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
        if self._event is not None and not self._is_read:
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
        if self._owned:
            current = self._backend.stream_current(self._stream.device)
            if current.handle != self._stream.handle:
                if self._event is not None:
                    self._backend.event_wait(current, self._event)
                for array in self._owned:
                    self._backend.consumed(array, current)
        return results[0] if self._rebuild is None else self._rebuild(results)

    def cancel(self) -> None:
        """Drop the tree: start no more copies."""
        for transfer, _ in self._transfers:
            transfer.cancel()


def _is_on_host(leaf: Any) -> bool:
    """Whether a leaf is an array whose copy need not wait for work on any stream."""
    owner = registry.backend_of(leaf)
    return owner is not None and owner.view(leaf).device.kind == "cpu"


def _nbytes(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return array.nbytes
    owner = registry.backend_of(array)
    assert owner is not None
    return owner.view(array).nbytes
