"""One batch of a pipeline: it is copied, transformed and handed out, and may be retried after a failure.

The obvious way is to copy a batch when it is read and to raise what goes wrong there. But it is read ahead, in another
thread or in the turn of an earlier batch, and an error raised there would lose the batches before it; and an iterator
that has given up a batch because of a full device cannot give it again. So a batch keeps its item on the host until it
has been handed out, and keeps its error until its turn comes.

Guaranteed:

- `try_begin`, `try_prepare` and `push` raise nothing but KeyboardInterrupt; any other error is kept, or met again by
  `hand_over`.
- `hand_over` may be called again after any error. A kept error is raised once, unless memory was short: then the copy
  is retried at once. A copy that can no longer succeed is cancelled and begun anew.
- What `hand_over` returns is ordered on the stream that is current in the calling thread.

A batch has no lock of its own. The reading thread begins it and hands it on; from then on the consumer uses it under
`Feed._turn`. Beside the consumer come only `precede`, by which the reading thread puts the next batch's copies behind
it, and `cancel` and `await_end`, when the feed is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from xferlib._core import registry
from xferlib._core.containers import flatten, say_where
from xferlib._core.stream import Stream
from xferlib._memory import in_flight
from xferlib._pipeline.routing import Route, Router
from xferlib._pipeline.tree_upload import Arriving
from xferlib._runtime.handoff import Handed
from xferlib._transfer import ends
from xferlib.errors import ArrayError, OutOfMemoryError

if TYPE_CHECKING:
    from xferlib._core.array import Array
    from xferlib._core.raw import RawEvent, RawStream
    from xferlib._pipeline.ahead_tree import AheadTree
    from xferlib._pipeline.side_stream import Ahead

    AnyBatch: TypeAlias = "Batch | Ahead | AheadTree"
    """A batch as a feed uses it: one of a few copies may be these alone."""


class Batch(Handed):
    """An item of the source on its way to the device: it may fail, and be retried, until it has been handed out.

    Attributes:
        has_slot: Its device memory belongs to its slot's stream, and not to the consumer's.
        is_sent: Nothing is left to `push`.
        is_sent_by_consumer: The reading thread stages it, and the consumer's thread enqueues its copy.
        is_stalled: Starting it failed when there was room for it.
    """

    __slots__ = (
        "_arriving",
        "_error",
        "_event",
        "_host",
        "_made",
        "_route",
        "_router",
        "_stream",
        "_value",
        "is_sent",
        "is_stalled",
    )

    is_sent_by_consumer = False

    def __init__(self, host: Any, router: Router, stream: RawStream, route: Route = Route.OWN) -> None:
        self._route = route
        self._host = host
        self._router = router
        self._stream = stream
        self._arriving: Arriving | None = None
        self._error: Exception | None = None
        self._value: Any = None
        self._made: list[Array] | None = None
        """Arrays that the transform made; None before it ran."""
        self._event: RawEvent | None = None
        self.is_sent = True
        self.is_stalled = False

    @property
    def has_slot(self) -> bool:
        return self._route is Route.OWN

    def try_begin(self, before: AnyBatch | None, *, is_awaited: bool = False) -> bool:
        """Start copying, behind the copies of ``before``; an error is kept until the batch's turn comes.

        Args:
            before: The batch before; None if it has been handed out.
            is_awaited: The calling thread waits anyhow until the source may be changed.
        """
        if self._route is Route.DIRECT:
            return True
        try:
            if self._route is Route.OWN and before is not None:
                before.precede(self._stream)
            self._begin(is_awaited=is_awaited)
        except Exception as error:
            self._error, self.is_stalled = error, True
        return not self.is_stalled

    def try_prepare(self) -> None:
        """Start copying, transform, and wait until the source may be changed; an error is kept."""
        try:
            self._begin()
            self._transform_ahead()
            assert self._arriving is not None
            self._arriving.release()
        except Exception as error:
            self._error, self.is_stalled = error, True

    def _begin(self, *, is_awaited: bool = False) -> None:
        router = self._router
        if self._arriving is not None:
            return
        self._arriving = Arriving(self._host, router.backend, router.device, self._stream, is_awaited=is_awaited)
        self.is_sent = self._arriving.is_sent

    def _transform_ahead(self) -> None:
        router = self._router
        if self._made is not None or router.transform is None or not router.transforms_ahead:
            return
        assert self._arriving is not None
        with Stream._of(self._stream, router.backend):
            value = router.transform(self._arriving.result())
        leaves, rebuild = flatten(value, moving="")
        made = []
        for number, leaf in enumerate(leaves):
            owner = registry.backend_of(leaf)
            if owner is not None and owner.view(leaf).device is router.device:
                leaves[number] = router.backend.guarded(leaf, self._stream)
                made.append(leaves[number])
        self._value = rebuild(leaves)
        self._event = in_flight.record(router.backend, self._stream)
        self._made = made

    def push(self) -> None:
        """Start what there was no room for before, and enqueue the copy of what has been staged."""
        if self._arriving is not None and self._error is None:
            try:  # at half the cost of contextlib's way, twice for each batch
                self._arriving.push()
            except Exception:  # noqa: S110  `hand_over` meets the same error, and raises it
                pass

    def is_settled(self, wait_s: float) -> bool:
        """Return True once all copies are enqueued; block for at most ``wait_s``."""
        return self._error is not None or self._arriving is None or self._arriving.is_settled(wait_s)

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copies that are enqueued."""
        if self._arriving is not None:
            self._arriving.precede(stream)

    def hand_over(self) -> Any:
        """Return the batch, ordered on the calling thread's current stream; may be called again after an error."""
        if self._route is Route.DIRECT:
            return send(self._host, self._router)
        try:
            return self._handed_over()
        except ArrayError as error:
            say_where(error, self._host, ends.check_leaf, "batch")
            raise

    def _handed_over(self) -> Any:
        if self._error is not None:
            error, self._error = self._error, None
            self._restart()
            if not isinstance(error, OutOfMemoryError):  # whose cause may be gone by now
                raise error
        try:
            if self._arriving is None:
                self._begin()
            return self._ordered()
        except BaseException:  # Ctrl-C ends a copy that this thread helped with
            # Only then is there something to repeat; and only then does the source still have it: see `try_prepare`.
            if self._arriving is not None and self._arriving.has_failed:
                self._restart()
            raise

    def _ordered(self) -> Any:
        router = self._router
        assert self._arriving is not None
        if router.transform is None:
            return self._arriving.result()
        if not router.transforms_ahead:
            with router.device:
                return router.transform(self._arriving.result())
        self._transform_ahead()
        assert self._made is not None
        current = router.backend.stream_current(router.device)
        if current.handle != self._stream.handle:
            router.backend.event_wait(current, self._event)
            for array in self._made:
                router.backend.consumed(array, current)
        return self._value

    def _restart(self) -> None:
        self.cancel()
        self._arriving = self._made = self._value = None

    def cancel(self) -> None:
        """Drop the batch: start no more copies for it."""
        if self._arriving is not None:
            self._arriving.cancel()

    def release(self) -> None:
        """Wait until the source may be changed."""
        if self._arriving is not None:
            self._arriving.release()

    def await_end(self) -> None:
        """After `cancel`: wait until no copy reads the source, whether it succeeded or not."""
        if self._arriving is not None:
            self._arriving.await_end()


def send(host: Any, router: Router) -> Any:
    """Copy a batch on the calling thread's current stream.

    Raises:
        As `xferlib.tree.to_device`, and tells which array of the batch it was.
    """
    try:
        return router.send(host)
    except ArrayError as error:
        say_where(error, host, ends.check_leaf, "batch")
        raise
