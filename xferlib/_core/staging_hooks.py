"""Hooks that tell a simulated machine of staged transfers, and of host memory that a transfer uses.

On real devices `listener` is None, and each hook costs that comparison. A simulated machine needs them for three
reasons: it stages a transfer as late as the contract allows (`postponed`), which shows programs that do not wait; it
checks that the program leaves host memory alone while a copy may use it (`read_ahead`, `touched`); and it charges the
time of copying between ordinary and pinned memory (`staged`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._runtime.jobs import Job


class Ends(NamedTuple):
    """The host array, the device array and the stream of a staged transfer, and what it keeps alive."""

    host: HostArray
    device: ArrayInfo
    stream: RawStream
    kept: tuple[Any, ...]
    is_upload: bool


class Postponed(Protocol):
    """A staged transfer whose threads have not begun."""

    def begin(self) -> None:
        """Do it now: a caller waits for it."""

    def is_due(self) -> bool:
        """Return whether it is time to begin: a caller polls it."""

    def drop(self) -> None:
        """Forget it: its handle is gone."""


class ReadAhead(Protocol):
    """A batch that may be read before it is handed out."""

    def handed_out(self) -> None:
        """The batch is about to be handed out: the program may change its arrays again."""


class StagingListener(Protocol):
    """A simulated machine's side of the hooks."""

    domain: str
    """The ``pinned_domain`` of the backends that are listened to."""

    def postpone(self, job: Job, ends: Ends) -> Postponed:
        """Take over a transfer that threads would stage, to do its job later."""

    def finishing(self, job: Job) -> None:
        """The calling thread has enqueued the last copy of a job, or the last has arrived."""

    def read_ahead(self, hosts: list[HostArray]) -> ReadAhead:
        """Host arrays may be read from now on, until they are handed out."""

    def touched(self, host: HostArray, *, is_write: bool) -> None:
        """The calling thread reads or writes a host array for a blocking transfer."""

    def staged(self, nbytes: int) -> None:
        """The calling thread has copied ``nbytes`` between ordinary and pinned memory."""


listener: StagingListener | None = None


def postponed(job: Job, ends: Ends, domain: str) -> Postponed | None:
    """Keep a transfer back until the program waits for it; None: threads are to stage it now."""
    return listener.postpone(job, ends) if listener is not None and listener.domain == domain else None


def finishing(job: Job) -> None:
    """The last copy of a staged transfer is enqueued, or has arrived: its event and its end become known next."""
    if listener is not None:
        listener.finishing(job)


def read_ahead(hosts: list[Any], domain: str) -> ReadAhead | None:
    """Host arrays, among other things, may be read from now on, until they are handed out."""
    return listener.read_ahead(hosts) if listener is not None and listener.domain == domain else None


def touched(host: HostArray, domain: str, *, is_write: bool) -> None:
    """The calling thread reads or writes a host array for a blocking transfer."""
    if listener is not None and listener.domain == domain:
        listener.touched(host, is_write=is_write)


def staged(nbytes: int) -> None:
    """The calling thread has filled or emptied a staging chunk."""
    if listener is not None:
        listener.staged(nbytes)
