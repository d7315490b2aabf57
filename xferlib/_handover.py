"""Work and memory handed from one host thread to another: what the simulator must know of them.

A queue orders two threads, but nobody beside Python can see it. Whoever hands something over says so
here; on real devices nobody listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from xferlib._array import ArrayInfo
    from xferlib._layout import HostArray
    from xferlib._workers import Job
    from xferlib.backends.base import RawStream


class Ends(NamedTuple):
    """What a staged transfer copies, between which memory, and on which stream."""

    host: HostArray
    device: ArrayInfo
    stream: RawStream
    is_upload: bool


class Postponed(Protocol):
    """A transfer whose threads have not begun."""

    def begin(self) -> None:
        """Somebody waits for it."""

    def is_due(self) -> bool:
        """Somebody asks whether it is done: whether it is time to begin."""

    def drop(self) -> None:
        """Nobody wants it any more."""


class ReadAhead(Protocol):
    """A batch that may be read before it is handed out."""

    def handed_out(self) -> None:
        """It is about to be handed out: the program may change its arrays again."""


class Listener(Protocol):
    """Follows what is ordered behind what between host threads."""

    def began(self) -> None:
        """The calling thread is one of xferlib's own."""

    def ended(self) -> None:
        """The calling thread, one of xferlib's own, is about to end."""

    def given(self, before: Any) -> Any:
        """What to keep beside a thing given away; ``before``: what is kept there already."""

    def taken(self, kept: Any) -> None:
        """The calling thread has taken over the thing beside which ``kept`` lay."""

    domain: str
    """The ``pinned_domain`` of the backends that are listened to."""

    def postpone(self, job: Job, ends: Ends) -> Postponed:
        """Take over a transfer that threads would stage, to do its job later."""

    def read_ahead(self, hosts: list[HostArray]) -> ReadAhead:
        """Arrays of the host may be read from now on, until they are handed out."""

    def touched(self, host: HostArray, *, is_write: bool) -> None:
        """The calling thread reads or writes an array of the host for a blocking transfer."""

    def finishing(self, job: Job) -> None:
        """The calling thread has enqueued the last copy of a job, or the last has arrived."""

    def staged(self, nbytes: int) -> None:
        """The calling thread has copied so much between ordinary and page-locked memory."""


listener: Listener | None = None


def began() -> None:
    """The calling thread does work that other threads give it."""
    if listener is not None:
        listener.began()


def ended() -> None:
    """The calling thread, which has said that it `began`, is about to end."""
    if listener is not None:
        listener.ended()


def given(thing: Any) -> None:
    """Whatever the calling thread has done comes before what the taker of ``thing`` does."""
    if listener is not None:
        thing.handover = listener.given(thing.handover)


def taken(thing: Any) -> None:
    """The calling thread follows the givers of ``thing``."""
    if listener is not None:
        listener.taken(thing.handover)


def staged(nbytes: int) -> None:
    """The calling thread has filled or emptied a staging chunk."""
    if listener is not None:
        listener.staged(nbytes)


def postponed(job: Job, ends: Ends, domain: str) -> Postponed | None:
    """Keep a transfer back until the program waits for it; None: threads are to stage it now."""
    return listener.postpone(job, ends) if listener is not None and listener.domain == domain else None


def finishing(job: Job) -> None:
    """The last copy of a staged transfer is enqueued, or has arrived: its event and its end become known next."""
    if listener is not None:
        listener.finishing(job)


def read_ahead(hosts: list[Any], domain: str) -> ReadAhead | None:
    """Arrays of the host, among other things, may be read from now on, until they are handed out."""
    return listener.read_ahead(hosts) if listener is not None and listener.domain == domain else None


def touched(host: HostArray, domain: str, *, is_write: bool) -> None:
    """The calling thread reads or writes an array of the host for a blocking transfer."""
    if listener is not None and listener.domain == domain:
        listener.touched(host, is_write=is_write)
