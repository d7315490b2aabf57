"""The hook by which the simulator's race detector follows the library's threads; `threads` calls it."""

from __future__ import annotations

from typing import Any, Protocol


class ThreadListener(Protocol):
    """Records which thread's work happens-before which other's."""

    def began(self) -> None:
        """Note that the calling thread is one of xferlib's own."""

    def note_end(self) -> None:
        """Note that the calling thread, one of xferlib's own, is about to end."""

    def publish(self, before: Any) -> Any:
        """Return the mark to keep on an object that is handed over; ``before``: the mark that it has already."""

    def acquire(self, kept: Any) -> None:
        """Note that the calling thread has taken over the object with the mark ``kept``."""


listener: ThreadListener | None = None
