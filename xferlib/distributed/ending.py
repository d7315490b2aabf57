"""The end of a rank: the others learn of it, and of its cause, and none is left waiting.

An exception that ends the program is told to the other ranks before the process ends; they then raise `PeerError`. A
process of MPI is ended by MPI itself after an error, since its finalisation would wait for ranks that are gone.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from types import TracebackType

    from xferlib.distributed.group import Group

_GRACE_S = 2.0
"""The longest time that a rank which has failed leaves the others to say why they end."""
_FORWARD_S = 0.2
"""A launcher drops the output that it has not forwarded when it hears of the end."""

_groups: dict[int, Group] = {}
"""Those that are not closed, also if the program has dropped them: the others may wait for this rank."""
_lock = threading.Lock()
_is_installed = False
_has_raised = False
"""Whether an exception has ended the program."""


def watch(group: Group) -> None:
    """Tell the ranks of this group, too, how this process ends."""
    global _is_installed
    group.end_process = functools.partial(abort, group)
    with _lock:
        _groups[id(group)] = group
        if not _is_installed:
            _is_installed = True
            # The first group's is kept and called first: it prints the traceback, and telling the others can end their
            # output and, by way of the launcher, this process.
            before = sys.excepthook

            def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
                before(kind, error, trace)
                _tell(error)

            sys.excepthook = hook
            atexit.register(_end)


def forget(group: Group) -> None:
    """The group was closed by every rank."""
    _groups.pop(id(group), None)


def _tell(error: BaseException) -> None:
    global _has_raised
    _has_raised = True
    for group in list(_groups.values()):
        group.fail(error)


def _end() -> None:
    """Tell the others that this rank ends; after an error, let MPI end the job."""
    groups = list(_groups.values())
    for group in groups:
        group.close("the interpreter has ended")
        group.control.say_last()
    # An interpreter that ends in order finalises MPI and gloo, which wait for every operation that was begun. One that
    # is torn never completes, so the job is ended instead.
    torn = [group for group in groups if _has_raised or group.is_torn()]
    if torn:
        end_job(torn)


def end_job(groups: list[Group]) -> None:
    """Wait a moment, so that the others can say why they end, then end the processes of the job."""
    with contextlib.suppress(Exception):  # the program may have closed its output
        sys.stdout.flush()
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    for group in groups:
        group.control.await_ends(_GRACE_S)
    time.sleep(_FORWARD_S)
    for group in groups:
        group.driver.abort()


def abort(group: Group, error: BaseException) -> None:
    """End this process, with its message, and the job, whatever fails meanwhile."""
    try:
        with contextlib.suppress(Exception):  # a reader that is gone, or no output at all
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        for each in list(_groups.values()):
            each.device_driver = None  # another thread may be inside: call it no more
        _tell(error)
        group.control.say_last()
        end_job([group])
    finally:
        # Not sys.exit(): this is a thread beside the program, which may hang in the driver, and no exception reaches
        # it.
        os._exit(1)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _groups.clear()


reset_in_child(_after_fork_in_child)
