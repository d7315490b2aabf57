"""`prefetch`: the next batches are copied while the consumer works on the one before."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import devices as devices_of_process
from xferlib._core import registry
from xferlib._core.containers import flatten
from xferlib._core.ordering import capture
from xferlib._core.stream import Stream
from xferlib._core.thresholds import PYTHON_LEAF_FROM
from xferlib._pipeline.chunk_map import targets_of
from xferlib._pipeline.feed import copy_streams
from xferlib._pipeline.prefetcher import Prefetcher
from xferlib._pipeline.reader_feed import ThreadedFeed
from xferlib._pipeline.rotation import Dealer, Rotation
from xferlib._pipeline.routing import Router
from xferlib._pipeline.sequence_feed import ListFeed
from xferlib._pipeline.side_stream import Conveyor
from xferlib._runtime.checks import MOST_AHEAD, has, refuse_keyword, whole
from xferlib._transfer import ends, plan
from xferlib._transfer.host_end import HostEnd
from xferlib.errors import ArgumentError, UnsupportedArrayError, shown

if TYPE_CHECKING:
    from typing import Never

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, DeviceSpec
    from xferlib._core.raw import RawStream
    from xferlib._pipeline.feed import Feed


_COLUMN_LEAST = 256
"""Rows from which arrays of differing kinds in a tuple are taken for the columns of a data set."""


def prefetch(
    batches: Iterable[Any],
    *,
    depth: int = 2,
    device: DeviceSpec = None,
    transform: Callable[[Any], Any] | None = None,
    stream: Any = None,
    devices: Any = None,
    **unknown: Never,
) -> Prefetcher:
    """Iterate over batches as device arrays; the next ones are copied while you work on this one.

    Each batch is ordered on the stream that is current when it is taken: that stream waits for the
    copy, the host does not. The order is the source's. An error of the source is raised after every batch
    that came before it, and again at the next ``next``; a batch that cannot be copied (for want of memory,
    or because no device holds its dtype) is tried again then, so that none is lost. Ctrl-C is raised at once;
    the next ``next`` goes on from there, perhaps without the batch that was about to be handed out.

    The arrays of a list or tuple must not be changed up to ``depth`` batches ahead, and pinned ones not before
    their copy is made: copies run ahead of you. Any other iterable is read ahead by a thread, one item after the
    other: each has been copied before the next is read, so that a generator may fill the same array again
    and again. Arrays of up to 128 KiB and trees of up to 2 MiB are copied on your own stream when their turn
    comes, since that takes less time than ordering two streams. Up to three larger arrays of up to 2 MiB each, 8 MiB
    on a host with eight cores and more, and pinned ones of any size up to that, are copied on another stream into
    memory that belongs to yours.

    Args:
        batches: Iterable of arrays, or of trees of them as `xferlib.tree.to_device` takes them,
            in any host memory, of any shapes and dtypes; other leaves stay as they are. A torch
            ``DataLoader`` is one. ``iter`` is called once for each iteration. A tuple of arrays that differ in kind,
            and all have the same 256 rows or more, is refused: it is a data set, not batches.
        depth: Batches ahead of the one that you work on; at least 1. The device holds ``depth + 1``
            batches, and one more while a loop variable still holds the one before.
        device: The target; the current device if omitted.
        devices: Several targets: batch n goes to device n modulo their number, and each has ``depth`` batches ahead.
            ``zip(batches, batches)`` over one iterator of two devices gives a batch for each at a time.
        transform: Called with each batch *on the device*; its result is handed out: for instance
            ``uint8`` to ``float32``, so that the link carries the smaller type. It runs ahead as well, on
            the stream of the copies and in the thread that reads, where the library's operations follow a
            stream; on PyCUDA it runs when the batch is handed out. For work on the host give
            ``map(function, batches)``.
        stream: Carries the copies; streams of the prefetcher's own if omitted.

    Returns:
        An iterator that is also a context manager: `Prefetcher.close` ends it early. Over a list, a ``DataLoader`` or
        anything else that gives its items again, each ``for`` begins anew, and ``len`` is the source's; over an
        iterator a ``for`` goes on with the rest, and raises ClosedError when there is none.

    Raises:
        ArgumentError: ``depth`` is no whole number from 1, or ``transform`` no function; or ``devices`` are none, or
            given with ``device``, or several with a stream.
        UnsupportedArrayError: ``batches`` is no iterable, or one batch instead of several, or a data set's columns.
        DeviceNotFoundError, StreamError: There is no such device, or the stream is of another one.
    """
    if unknown:
        refuse_keyword("prefetch", unknown)
    ahead = whole(depth, least=1)
    if ahead is None or ahead > MOST_AHEAD:
        raise ArgumentError(
            f"prefetch: depth={shown(depth)} is not a whole number from 1 to {MOST_AHEAD}; 2 suits most loops"
        )
    if transform is not None and not callable(transform):
        raise ArgumentError(f"prefetch: transform is {type(transform).__name__}, not a function of a batch")
    _refuse_single(batches)
    _refuse_columns(batches)
    targets = _targets(device, devices, stream)
    for target in targets:
        _backend_of(target).attach(target)
        capture.refuse_current("prefetch", _backend_of(target), target)
    given = ends.raw_stream(stream, targets[0]) if stream is not None else None

    def begin() -> Feed | Rotation:
        items: Any = batches if type(batches) is list or type(batches) is tuple else None
        count = len(targets)
        if count == 1:
            source = items if items is not None else iter(batches)
            return _feed_of(source, targets[0], ahead, transform, given, is_list=items is not None)
        dealer = Dealer(iter(batches), count) if items is None else None
        feeds: list[Feed] = []
        rotation = Rotation(feeds, dealer)
        try:
            for number, target in enumerate(targets):
                part = dealer.part(number) if dealer is not None else items[number::count]
                feeds.append(_feed_of(part, target, ahead, transform, given, is_list=items is not None))
        except BaseException:
            rotation.close(waits=False)
            raise
        return rotation

    return Prefetcher(batches, begin)


def _targets(device: Any, several: Any, stream: Any) -> list[Device]:
    """The devices that batches go to."""
    if several is None:
        is_streams = device is None and isinstance(stream, Stream)
        return [stream.device if is_streams else devices_of_process.resolve(device)]
    if device is not None:
        raise ArgumentError("prefetch: device and devices are both given; leave one of them out")
    targets = targets_of(several, "prefetch")
    if stream is not None and len(targets) > 1:
        raise ArgumentError(
            f"prefetch: stream is of one device, but devices are {[str(each) for each in targets]!r}; leave stream out"
        )
    return targets


def _backend_of(device: Device) -> Backend:
    return registry.get(device.backend).at(device)


def _feed_of(
    source: Any, target: Device, ahead: int, transform: Callable[[Any], Any] | None, given: RawStream | None,
    *, is_list: bool,
) -> Feed:  # fmt: skip
    """The feed of one device, from a list or an iterator: an object with `__next__`, and perhaps nothing else."""
    backend = _backend_of(target)
    count = ahead + 1
    streams = [given] * count if given is not None else copy_streams(backend, target, count)
    conveyor = Conveyor(backend, target, streams[0], count) if given is None else None
    router = Router(backend, target, transform, conveyor)
    if is_list and not _needs_thread(source, backend, target):
        return ListFeed(source, router, streams)
    return ThreadedFeed(iter(source) if is_list else source, router, streams, is_stable=is_list)


def _refuse_single(batches: Any) -> None:
    if isinstance(batches, (str, bytes, Mapping)):
        raise UnsupportedArrayError(
            f"prefetch: batches is {type(batches).__name__}, which is one batch at most; give an iterable of batches, "
            "for instance [batch]"
        )
    is_scalar = has(batches, "ndim") and batches.ndim == 0
    if is_scalar or not (has(batches, "__iter__") or has(batches, "__getitem__")):
        raise UnsupportedArrayError(
            f"prefetch: batches is {type(batches).__name__}, not an iterable of batches; a list, a generator or a "
            "DataLoader is one"
        )


def _refuse_columns(batches: Any) -> None:
    """Refuse ``(X, y)``: a data set's columns, each of which would silently be one batch."""
    if (
        type(batches) is not tuple
        or len(batches) < 2
        or not all(registry.backend_of(each) is not None for each in batches)
    ):
        return
    kinds = {(tuple(each.shape[1:]), str(each.dtype)) for each in batches}
    rows = {each.shape[0] if len(each.shape) else 0 for each in batches}
    if len(rows) == 1 and len(kinds) > 1 and (count := rows.pop()) >= _COLUMN_LEAST:
        raise UnsupportedArrayError(
            f"prefetch: batches is a tuple of {len(batches)} arrays of {count} rows each, which would be "
            f"{len(batches)} batches; give batches of both, as ((X[i:i + 128], y[i:i + 128]) for i in "
            "range(0, len(X), 128)), or a list if each array is a batch"
        )


def _needs_thread(batches: Any, backend: Backend, device: Device) -> bool:
    """Whether beginning a batch takes Python so long that a thread of its own pays."""
    with contextlib.suppress(Exception):  # a batch that is no tree says so when its turn comes
        return any(_takes_long(leaf, backend, device) for leaf in flatten(batches[0])[0])
    return False


def _takes_long(leaf: Any, backend: Backend, device: Device) -> bool:
    """Whether Python copies a leaf and it is large: it is not pinned, and no C threads stage it."""
    if getattr(leaf, "nbytes", 0) < PYTHON_LEAF_FROM:
        return False
    if not isinstance(leaf, np.ndarray) or not backend.capabilities.pinned_memory:
        return True
    end = HostEnd(leaf, ends.wanted_dtype(None, leaf.dtype), backend)
    found = plan.of(end, device, is_upload=True, is_blocking=False, may_permute=False, may_cast=False)
    return not (found.path is plan.Path.PINNED or found.is_c)
