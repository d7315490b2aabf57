"""A tree of arrays on its way to a device: every copy under way at once, and handed out when it is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _api, _packing
from xferlib._leaves import flatten
from xferlib._stream import Stream
from xferlib._transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._device import Device
    from xferlib.backends.base import Backend, RawStream


class Arriving:
    """The copies of one tree.

    Args:
        tree: Arrays in nested containers; leaves that are no arrays stay as they are.
        backend: Serves ``place``.
        place: The target device.
        stream: Carries the copies, and owns the device arrays.

    Raises:
        As `xferlib.to_device`: nothing that was begun is left behind.
    """

    __slots__ = ("_parts", "_rebuild", "_results")

    def __init__(self, tree: Any, backend: Backend, place: Device, stream: RawStream) -> None:
        self._rebuild: Callable[[list[Any]], Any] | None
        if type(tree) is np.ndarray:
            leaves, self._rebuild = [tree], None
        else:
            leaves, self._rebuild = flatten(tree)
        self._results: list[Any] = list(leaves)
        self._parts: list[tuple[Transfer, int]] = []
        """Each transfer, and the number of the leaf that it brings; -1: several, packed."""
        packed, alone = _packing.chosen(leaves, None, place)
        backend.attach(place)
        try:
            if packed:
                self._parts.append((_send_packed(leaves, self._results, packed, backend, stream), -1))
            order = Stream._of(stream, backend)
            for number in alone:
                self._parts.append((_api.to_device_async(leaves[number], device=place, stream=order), number))
        except BaseException:
            self.cancel()
            raise

    def settle(self) -> None:
        """Wait until every copy is enqueued: the sources have been read, unless they are pinned."""
        for transfer, _ in self._parts:
            transfer.settle()

    def release(self) -> None:
        """Wait until the sources may be changed."""
        for transfer, _ in self._parts:
            transfer.release()

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copies that are enqueued: one after the other fills the link as well."""
        for transfer, _ in self._parts:
            transfer.precede(stream)

    def result(self) -> Any:
        """The tree on the device, ordered on the calling thread's current stream.

        Raises:
            TransferError: A copy failed.
        """
        results = list(self._results)
        for transfer, number in self._parts:
            arrived = transfer.result()
            if number >= 0:
                results[number] = arrived
        return results[0] if self._rebuild is None else self._rebuild(results)

    def cancel(self) -> None:
        """Nobody wants the tree any more: copy no more than has been begun."""
        for transfer, _ in self._parts:
            transfer.cancel()

    def await_end(self) -> None:
        """After `cancel`: wait until no copy reads the sources."""
        for transfer, _ in self._parts:
            transfer.await_end()


def _send_packed(
    leaves: list[Any], results: list[Any], kinds: list[_packing.Kind], backend: Backend, stream: RawStream
) -> Transfer:
    slab, nbytes = _packing.send(leaves, results, kinds, backend, stream)
    transfer = Transfer(slab, backend, stream, nbytes=nbytes, path="small", is_upload=True)  # its source is our own
    transfer.finish()
    return transfer
