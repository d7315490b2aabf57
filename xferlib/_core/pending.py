"""Transfers whose copies are not all enqueued yet, by the stream they go to."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


class PendingTransfer(ABC):
    """A transfer, as streams see it."""

    __slots__ = ()

    @abstractmethod
    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until every copy is enqueued, or the transfer has failed."""

    @abstractmethod
    def poll(self) -> None:
        """Begin the transfer if it was put off, and drive it if no thread does."""

    @abstractmethod
    def hold_back(self, stream: RawStream, backend: Backend) -> None:
        """Make later work on ``stream``, of ``backend``, wait for it."""


_pending: dict[tuple[Device, int], list[PendingTransfer]] = {}
_pending_lock = threading.RLock()  # reentrant: a finalizer may run inside


def pending_on(raw: RawStream) -> tuple[PendingTransfer, ...]:
    if not _pending:
        return ()
    with _pending_lock:
        return tuple(_pending.get((raw.device, raw.handle), ()))


def settle_all() -> None:
    """Wait until every transfer begun so far is enqueued, or has failed."""
    for transfers in list(_pending.values()):
        for transfer in list(transfers):
            transfer.settle()


def add_pending(raw: RawStream, transfer: PendingTransfer) -> None:
    with _pending_lock:
        _pending.setdefault((raw.device, raw.handle), []).append(transfer)


def remove_pending(raw: RawStream, transfer: PendingTransfer) -> None:
    with _pending_lock:
        key = (raw.device, raw.handle)
        waiting = _pending.get(key)
        if waiting is not None and transfer in waiting:
            waiting.remove(transfer)
            if not waiting:
                del _pending[key]
