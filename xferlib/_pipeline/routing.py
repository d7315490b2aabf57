"""How the batches of a loop travel.

The obvious way is one: every batch on a stream of its own, staged by threads. For small batches its fixed costs exceed
the copy's: two events and two waits to order the streams, a guard on each array so that its memory is not freed under
the consumer's work, and a wake-up of threads. So the size and the kind of a batch choose its route:

- DIRECT, arrays of up to 128 KiB, trees of up to medium size, and every batch of a device without streams: on the
  consumer's stream, as `xferlib.to_device` copies them.
- AHEAD, up to three arrays of medium size, or pinned ones of any size: on a side stream, into memory of the consumer's
  stream (see `side_stream`).
- OWN, everything else: on the slot's stream, in memory of that stream.

With a transform, or a stream that the caller names, every batch takes OWN. The thread of a `ThreadedFeed`, whose
current stream is not the consumer's, only stages: `kept` and `staged` make the batches that it leaves to the consumer.

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
from xferlib._core.thresholds import (
    AHEAD_MOST,
    DIRECT_MOST,
    MEDIUM_NBYTES,
    SMALL_NBYTES,
    WAITING_MOST,
)
from xferlib._memory import pinned_ranges
from xferlib._pipeline.ahead_tree import AheadTree
from xferlib._runtime import thread_budget
from xferlib._transfer import packing, plan
from xferlib.errors import PinnedMemoryError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._pipeline.side_stream import Ahead, Conveyor


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
            return Route.AHEAD if host.nbytes <= MEDIUM_NBYTES or self._is_one_copy(host) else Route.OWN
        leaves = flatten(host)[0]
        nbytes = _nbytes(leaves)
        if nbytes is None:
            return Route.OWN
        if nbytes <= MEDIUM_NBYTES:
            return Route.DIRECT
        large = [leaf for leaf in leaves if leaf.nbytes > DIRECT_MOST]
        is_few = packing.is_few(len(leaves), len(large))
        return Route.AHEAD if is_few and all(map(self._is_one_copy, large)) else Route.OWN

    def _is_pinned(self, leaf: Any) -> bool:
        """Whether the device reads an array where it lies: the caller of a blocking copy would wait for that."""
        return type(leaf) is np.ndarray and pinned_ranges.find(address(leaf), leaf.nbytes, self.backend) is not None

    def _is_one_copy(self, host: HostArray) -> bool:
        """Whether an array that is more than medium is sent by one copy, which nothing but its source delays."""
        return self._is_staged_whole(host) or (_is_plain(host) and self._is_pinned(host))

    def _is_staged_whole(self, host: HostArray) -> bool:
        """Whether an array that is more than medium is copied into pinned memory before any of it is sent."""
        return host.nbytes <= AHEAD_MOST and _is_plain(host) and _native.is_on() and thread_budget.crew().fillers > 0

    def _is_staged(self, array: HostArray) -> bool:
        """The same of one of any size."""
        return array.nbytes <= MEDIUM_NBYTES or self._is_staged_whole(array)

    def begun_ahead(self, host: Any) -> Ahead | AheadTree:
        """Begin a batch whose route is `Route.AHEAD`.

        Raises:
            As `Conveyor.send`.
        """
        conveyor = self.conveyor
        assert conveyor is not None
        if type(host) is np.ndarray:
            return conveyor.send(host)
        leaves, rebuild = flatten(host)
        conveyor.share(len(leaves))
        begun = lambda leaf: conveyor.send(leaf) if leaf.nbytes > DIRECT_MOST or self._is_pinned(leaf) else leaf
        return AheadTree(leaves, rebuild, begun, self.device)

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
        return rebuild([self._copied(leaf) for leaf in leaves])

    def staged(self, host: Any) -> Ahead | AheadTree | None:
        """Stage a medium batch in this thread, for the consumer to send: few arrays of any library, on the host.

        For a source that may fill the same memory again. None, and nothing done, for any other batch, and where pinned
        memory is short.

        Raises:
            UnsupportedDTypeError: No device holds it.
        """
        conveyor = self.conveyor
        if conveyor is None or self._is_host or not self._may_choose or plan.forced() is not None:
            return None
        if registry.backend_of(host) is not None:
            array = _host_array(host)
            return conveyor.stage(array) if array is not None and self._is_staged(array) else None
        leaves, rebuild = flatten(host)
        arrays = [leaf if registry.backend_of(leaf) is None else _host_array(leaf) for leaf in leaves]
        found = [each for each in arrays if isinstance(each, np.ndarray)]
        large = [each for each in found if each.nbytes > SMALL_NBYTES]
        is_all = len(found) == sum(registry.backend_of(leaf) is not None for leaf in leaves)
        is_few = packing.is_few(len(leaves), len(large))
        if not is_all or not large or not is_few or not all(map(self._is_staged, large)):
            return None
        conveyor.share(len(large))
        return AheadTree(arrays, rebuild, self._kept_or_staged, self.device)

    def _kept_or_staged(self, leaf: Any) -> Any:
        """Copy an array of a tree on the host; another leaf stays as it is."""
        if not isinstance(leaf, np.ndarray):
            return leaf
        if leaf.nbytes <= SMALL_NBYTES:
            return self._copied(leaf)
        assert self.conveyor is not None
        staged = self.conveyor.stage(leaf)
        if staged is None:
            raise PinnedMemoryError(f"no pinned memory for {leaf.nbytes} bytes")  # the batch goes another way
        return staged

    def _copied(self, array: HostArray) -> HostArray:
        refuse_truncated(array, "a batch")
        staging_hooks.touched(array, self.backend.pinned_domain, is_write=False)
        return array.copy()

    @property
    def transforms_ahead(self) -> bool:
        """Whether the transform may run on the stream of the copies: the library follows the current stream."""
        abilities = self.backend.capabilities
        return self.transform is not None and (abilities.native_current_stream or not abilities.streams)


def _is_plain(host: HostArray) -> bool:
    """Whether an array's bytes are sent as they lie."""
    return host.flags.c_contiguous and host.dtype.isnative


def _nbytes(leaves: list[Any]) -> int | None:
    """Sum the bytes of NumPy arrays; None where a leaf is something else."""
    if any(type(leaf) is not np.ndarray for leaf in leaves):
        return None
    nbytes: int = sum(leaf.nbytes for leaf in leaves)
    return nbytes


def _host_array(array: Any) -> HostArray | None:
    """The NumPy array of an array's memory; None where that is a device's."""
    if type(array) is np.ndarray:
        refuse_truncated(array, "a batch")
        host: HostArray = array
        return host
    owner = registry.backend_of(array)
    assert owner is not None
    if owner.view(array).device.kind != "cpu":
        return None
    refuse_truncated(array, "a batch")
    return owner.host_view(array)
