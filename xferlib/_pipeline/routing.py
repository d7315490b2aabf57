"""How the batches of a loop travel.

The obvious way is one: every batch on a stream of its own, staged by threads. For small batches its fixed costs exceed
the copy's: two events and two waits to order the streams, a guard on each array so that its memory is not freed under
the consumer's work, and a wake-up of threads. So the size and the kind of a batch choose its route:

- DIRECT, arrays of up to 128 KiB, trees of up to medium size, and every batch of a device without streams: on the
  consumer's stream, as `xferlib.to_device` copies them.
- AHEAD, single arrays of medium size, and pinned ones: on a side stream, into memory of the consumer's stream (see
  `side_stream`).
- OWN, everything else: on the slot's stream, in memory of that stream.

With a transform, or a stream that the caller names, every batch takes OWN. The thread of a `ThreadedFeed`, whose
current stream is not the consumer's, only stages: `kept` and `stageable` tell what it may leave to the consumer.

Guaranteed: the choice changes neither values nor their order. It reads no data, only an array's type, size, layout and
address.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native, tree
from xferlib._api import transfers
from xferlib._core import registry, staging_hooks
from xferlib._core.containers import flatten
from xferlib._core.layout import address, refuse_truncated
from xferlib._core.stream import Stream
from xferlib._core.thresholds import AHEAD_MOST, DIRECT_MOST, MEDIUM_NBYTES, SMALL_NBYTES, WAITING_MOST
from xferlib._memory import pinned_ranges
from xferlib._runtime import thread_budget
from xferlib._transfer import plan

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._pipeline.side_stream import Conveyor


class Route(Enum):
    """The route of one batch."""

    DIRECT = "on the consumer's stream, when it is handed out"
    AHEAD = "on a stream beside the consumer's, whose memory it is"
    OWN = "on its slot's stream, filled by threads where it is ordinary memory"


class Router:
    """The target of batches, a device, and the transform that runs there.

    Args:
        backend: Serves ``device``.
        device: The device.
        transform: Applied to each batch on the device.
        conveyor: Copies medium arrays; None if the caller has named the stream for all of them.
    """

    __slots__ = ("_is_host", "_may_choose", "backend", "conveyor", "device", "transform")

    def __init__(
        self, backend: Backend, device: Device, transform: Callable[[Any], Any] | None, conveyor: Conveyor | None = None
    ) -> None:
        self.backend = backend
        self.device = device
        self.transform = transform
        self.conveyor = conveyor
        self._may_choose = conveyor is not None and transform is None
        self._is_host = not backend.capabilities.streams

    def route(self, host: Any) -> Route:
        """Choose the route of a batch that is read in the consumer's thread.

        Without streams a copy is complete when it returns, so it is made when the batch is handed out.
        """
        if not self._may_choose:
            return Route.OWN
        if self._is_host:
            return Route.DIRECT
        if type(host) is np.ndarray:
            if host.nbytes <= DIRECT_MOST and not self._is_pinned(host):
                return Route.DIRECT
            return Route.AHEAD if host.nbytes <= MEDIUM_NBYTES or self._is_staged_whole(host) else Route.OWN
        nbytes = _nbytes(flatten(host)[0])
        return Route.OWN if nbytes is None or nbytes > MEDIUM_NBYTES else Route.DIRECT

    def _is_pinned(self, leaf: Any) -> bool:
        """Whether the device reads an array where it lies: the caller of a blocking copy would wait for that."""
        return type(leaf) is np.ndarray and pinned_ranges.find(address(leaf), leaf.nbytes, self.backend) is not None

    def _is_staged_whole(self, host: HostArray) -> bool:
        """Whether an array that is more than medium is copied into pinned memory before any of it is sent."""
        is_plain = host.flags.c_contiguous and host.dtype.isnative
        return host.nbytes <= AHEAD_MOST and is_plain and _native.is_on() and thread_budget.crew().fillers > 0

    def may_wait(self, host: Any) -> bool:
        """Whether a batch may be begun before the consumer's work that its copy waits for: each block has a chunk.

        Threads that stage more would wait for the device, and so would other transfers that need these threads.
        """
        return type(host) is np.ndarray and host.nbytes <= WAITING_MOST and host.flags.c_contiguous

    def send(self, host: Any) -> Any:
        """Upload a batch on the calling thread's current stream, which the host does not wait for.

        Raises:
            As `xferlib.tree.to_device`, before anything is copied.
        """
        if type(host) is np.ndarray:
            return transfers.to_device(host, device=self.device)
        # To wait until pinned memory has been read is to wait for the consumer's work; with a stream nothing waits.
        is_awaited = not self._is_host and any(map(self._is_pinned, flatten(host)[0]))
        order = Stream._of(self.backend.stream_current(self.device), self.backend) if is_awaited else None
        return tree.to_device(host, device=self.device, stream=order)

    def kept(self, host: Any) -> Any:
        """Copy a small batch on the host, to be uploaded when it is handed out; None for any other.

        For a source that may fill the same memory again: cheaper than an upload and a wait for it.
        """
        if self._is_host or not self._may_choose:
            return None
        leaves, rebuild = ([host], itemgetter(0)) if type(host) is np.ndarray else flatten(host)
        nbytes = _nbytes(leaves)
        if nbytes is None or nbytes > SMALL_NBYTES:
            return None
        for leaf in leaves:
            refuse_truncated(leaf, "a batch")
            staging_hooks.touched(leaf, self.backend.pinned_domain, is_write=False)
        return rebuild([leaf.copy() for leaf in leaves])

    def stageable(self, host: Any) -> HostArray | None:
        """Return the array of a batch that a thread may stage for the consumer to send: medium and on the host."""
        if self._is_host or not self._may_choose:
            return None
        if type(host) is not np.ndarray:
            owner = registry.backend_of(host)
            if owner is None or owner.view(host).device.kind != "cpu":
                return None
            refuse_truncated(host, "a batch")
            host = owner.host_view(host)
        array: HostArray = host
        if array.nbytes <= SMALL_NBYTES or plan.forced() is not None:
            return None
        return array if array.nbytes <= MEDIUM_NBYTES or self._is_staged_whole(array) else None

    @property
    def transforms_ahead(self) -> bool:
        """Whether the transform may run on the stream of the copies: the library follows the current stream."""
        abilities = self.backend.capabilities
        return self.transform is not None and (abilities.native_current_stream or not abilities.streams)


def _nbytes(leaves: list[Any]) -> int | None:
    """Sum the bytes of NumPy arrays; None where a leaf is something else."""
    if any(type(leaf) is not np.ndarray for leaf in leaves):
        return None
    nbytes: int = sum(leaf.nbytes for leaf in leaves)
    return nbytes
