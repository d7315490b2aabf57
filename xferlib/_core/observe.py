"""Hooks of a recorder: each copy, staging step and launch passes here, or looks at `active` first.

Without a recorder `active` is None, and that comparison is all that a hook costs. Calls by the user cost nothing:
a function marked by `user_call` is replaced by one that notes its calls while a recorder is active.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from xferlib._runtime import checks, process
from xferlib._runtime.process import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.arrays import ArrayInfo, HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream
    from xferlib._runtime.threads import Job


class Kind(StrEnum):
    """The kind of an operation, which also selects the row that a timeline draws it in."""

    CALL = "call"
    STAGING = "staging"
    H2D = "h2d"
    KERNEL = "kernel"
    D2H = "d2h"
    D2D = "d2d"
    PEER = "peer"
    RANGE = "range"


Step = tuple[int, float, float, str]
"""Bytes that a thread has staged, when it began and ended by `time.perf_counter`, and the thread's name."""


class Moving(Protocol):
    """Notes the steps of one staged copy; every thread that works on it calls this."""

    def send(self) -> None:
        """A piece is about to be enqueued."""

    def note_enqueued(self) -> None:
        """A piece has been enqueued."""

    def note_staged(self, begun_s: float, nbytes: int) -> None:
        """The calling thread has filled or emptied a chunk, since ``begun_s`` of `time.perf_counter`."""

    def events(self) -> tuple[Any, Any]:
        """Events to record before the first piece and after the last, for code that else calls `note_finished`."""

    def note_finished(self, steps: list[Step]) -> None:
        """Everything has been enqueued in these steps, with `events` around it."""


class Recorder:
    """Notes what happens, and when; must not wait for a device. These methods do the work and note nothing."""

    def enqueue(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, stream: RawStream, run: Callable[[], Any]
    ) -> Any:
        """Do ``run``, which enqueues one operation on ``stream``."""
        return run()

    def on_host(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, device: Device, run: Callable[[], None]
    ) -> None:
        """Do ``run``, which is an operation of a CPU device and complete when it returns."""
        run()

    def begin(self, backend: Backend) -> Any:
        """A call on the host begins; the result is passed to `note_call`."""

    def note_call(self, begun: Any, backend: Backend, nbytes: int = 0) -> None:
        """A call by the user is about to return."""

    def begin_staged_copy(
        self, kind: Kind, nbytes: int, pieces: int, backend: Backend, stream: RawStream
    ) -> Moving | None:
        """A copy is about to be staged in ``pieces``; returns None if it is not noted, or the backend reports it."""
        return None

    def add_backend(self, backend: Backend) -> None:
        """A backend has been loaded."""


active: Recorder | None = None
"""The recorder that is open, or None."""


def is_traced() -> bool:
    """Whether a recording of the program is open: captures on a CPU use the same hooks."""
    return active is not None and not getattr(active, "is_capture", False)


def activate(recorder: Recorder | None) -> None:
    """Record everything from now on with ``recorder``; None ends that."""
    global active
    active = recorder
    checks.is_recorded = recorder is not None
    for function, noted in _user_calls:
        owner: Any = sys.modules[function.__module__]
        *classes, name = function.__qualname__.split(".")
        for each in classes:
            owner = getattr(owner, each)
        setattr(owner, name, function if recorder is None else noted)
    process.bump_epoch()


_Function = TypeVar("_Function", bound=Callable[..., Any])
_user_calls: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
"""Marked functions, and those that note their calls."""


def user_call(about: Callable[..., tuple[Backend, int]]) -> Callable[[_Function], _Function]:
    """Mark a function, or a method, whose calls are recorded; its callers find it by its module or class.

    Args:
        about: From the same arguments: the backend, and the bytes on the device. A call that raises is not noted.
    """

    def mark(function: _Function) -> _Function:
        @functools.wraps(function)
        def noted(*args: Any, **options: Any) -> Any:
            recorder = active
            if recorder is None:  # the trace was closed between the look-up and the call
                return function(*args, **options)
            backend, nbytes = about(*args, **options)
            begun = recorder.begin(backend)
            result = function(*args, **options)
            recorder.note_call(begun, backend, nbytes)
            return result

        # A recording calls an operation by the name in the code object of the function that the user called.
        own: Any = noted
        own.__code__ = own.__code__.replace(co_name=function.__name__, co_qualname=function.__qualname__)
        _user_calls.append((function, noted))
        return function if active is None else noted  # type: ignore[return-value]

    return mark


def copy(kind: Kind, dst: int, src: int, nbytes: int, backend: Backend, stream: RawStream) -> None:
    """Enqueue a copy."""
    recorder = active
    if recorder is None:
        backend.copy(dst, src, nbytes, stream=stream)
    else:
        recorder.enqueue(kind, "copy", nbytes, backend, stream, lambda: backend.copy(dst, src, nbytes, stream=stream))


class DriverCopy(Protocol):
    """``copy_to_device`` or ``copy_to_host`` of a backend."""

    def __call__(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool: ...


def driver_copy(
    kind: Kind, copy: DriverCopy, dst: int, src: int, nbytes: int, backend: Backend, stream: RawStream
) -> bool:
    """Let the driver copy from or to ordinary memory; False if it does not take it."""
    recorder = active
    if recorder is None:
        return copy(dst, src, nbytes, stream=stream)
    run = lambda: copy(dst, src, nbytes, stream=stream)
    return bool(recorder.enqueue(kind, "driver copy", nbytes, backend, stream, run))


def make_mover(kind: Kind, nbytes: int, pieces: int, backend: Backend, stream: RawStream) -> Moving | None:
    """The recorder's notes of one staged copy; None if no recorder is open. ``pieces``: calls of `Moving.send`."""
    return None if active is None else active.begin_staged_copy(kind, nbytes, pieces, backend, stream)


reset_in_child(functools.partial(activate, None))  # a trace is the parent's


# Hooks that tell a simulated machine of staged transfers, and of host memory that a transfer uses.
#
# On real devices `listener` is None, and each hook costs that comparison. A simulated machine needs them for three
# reasons: it stages a transfer as late as the contract allows (`postpone`), which shows programs that do not wait; it
# checks that the program leaves host memory alone while a copy may use it (`watch_batch`, `note_host_access`); and
# it charges the time of copying between ordinary and pinned memory (`note_staging`).


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

    def note_hand_out(self) -> None:
        """The batch is about to be handed out: the program may change its arrays again."""


class StagingListener(Protocol):
    """A simulated machine's side of the hooks."""

    domain: str
    """The ``pinned_domain`` of the backends that are listened to."""

    def postpone(self, job: Job, ends: Ends) -> Postponed:
        """Take over a transfer that threads would stage, to do its job later."""

    def note_finish(self, job: Job) -> None:
        """The calling thread has enqueued the last copy of a job, or the last has arrived."""

    def watch_batch(self, hosts: list[HostArray]) -> ReadAhead:
        """Host arrays may be read from now on, until they are handed out."""

    def note_host_access(self, host: HostArray, *, is_write: bool) -> None:
        """The calling thread reads or writes a host array for a blocking transfer."""

    def note_lend(self, pointer: int) -> None:
        """A pool lends pinned memory to a new array: no array has it any more."""

    def note_staging(self, nbytes: int) -> None:
        """The calling thread has copied ``nbytes`` between ordinary and pinned memory."""


listener: StagingListener | None = None


def postpone_transfer(job: Job, ends: Ends, domain: str) -> Postponed | None:
    """Keep a transfer back until the program waits for it; None: threads are to stage it now."""
    return listener.postpone(job, ends) if listener is not None and listener.domain == domain else None


def note_finish(job: Job) -> None:
    """The last copy of a staged transfer is enqueued, or has arrived: its event and its end become known next."""
    if listener is not None:
        listener.note_finish(job)


def watch_batch(hosts: list[Any], domain: str) -> ReadAhead | None:
    """Host arrays, among other things, may be read from now on, until they are handed out."""
    return listener.watch_batch(hosts) if listener is not None and listener.domain == domain else None


def note_host_access(host: HostArray, domain: str, *, is_write: bool) -> None:
    """The calling thread reads or writes a host array for a blocking transfer."""
    if listener is not None and listener.domain == domain:
        listener.note_host_access(host, is_write=is_write)


def note_lend(pointer: int, domain: str) -> None:
    """A pool lends pinned memory to a new array: no array has it any more."""
    if listener is not None and listener.domain == domain:
        listener.note_lend(pointer)


def note_staging(nbytes: int) -> None:
    """The calling thread has filled or emptied a staging chunk."""
    if listener is not None:
        listener.note_staging(nbytes)
