"""The watch over the work of a rank's device: a host that waits for a device cannot be told that a rank is gone.

The device's work waits for every rank, without a limit of its own. So a thread looks at the state of the other ranks,
and ends this process, with the cause, where work cannot be completed; what the device would have written is undefined.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from xferlib.errors import DistributedTimeoutError, PeerError

if TYPE_CHECKING:
    from xferlib.distributed.call import Call
    from xferlib.distributed.control import Control

_GRACE_S = 1.0
"""The longest time between the news of a failure and the error that a rank which is not blocked raises by itself."""


class Watched(Protocol):
    """The group, as the watch sees it."""

    rank: int
    timeout_s: float
    cause: str
    control: Control
    is_over: threading.Event

    def is_device_idle(self) -> bool: ...
    def device_failure(self) -> str: ...
    def end_process(self, error: BaseException) -> None: ...


class DeviceWatch:
    """A thread for one group, from its first call on a device until the group ends."""

    def __init__(self, group: Watched) -> None:
        self._call: Call | None = None
        self._begun_s = 0.0
        self._is_inside = False
        self._failed_s = 0.0
        """Since when a failure is known; 0 if there is none."""
        self._group = group
        self._thread = threading.Thread(target=self._run, name="xferlib-watch", daemon=True)
        self._thread.start()

    def enters(self, call: Call) -> None:
        """The host is about to enqueue a call, for which the library may wait too."""
        self._call = call
        self._begun_s = time.monotonic()
        self._is_inside = True

    def leaves(self) -> None:
        """The call is enqueued."""
        self._is_inside = False

    def hands_over(self) -> Call:
        """The call, for which the host waits from here as for one in host memory."""
        assert self._call is not None
        self._is_inside = False
        return self._call

    def close(self) -> None:
        """Wait until the thread has ended, as it does when the group is over."""
        self._thread.join()

    def look(self) -> None:
        """Look once, and end the process if the device waits for a rank that does not come."""
        group, call = self._group, self._call
        if group.cause or call is None:
            return
        now_s = time.monotonic()
        failures = group.control.failures()
        device_failure = group.device_failure()
        if not failures and not device_failure:
            self._failed_s = 0.0
            if now_s - self._begun_s > group.timeout_s and self._is_busy():
                text = f"rank {group.rank}: {call} timed out after {group.timeout_s:g} s on the device"
                remedy = "see the output of the other ranks, or give init() a longer timeout"
                group.end_process(DistributedTimeoutError(f"{text}; {remedy}"))
            return
        self._failed_s = self._failed_s or now_s
        if now_s - self._failed_s > _GRACE_S and self._is_busy():
            why = f"rank {failures[0].rank} has failed: {failures[0].text}" if failures else f"NCCL: {device_failure}"
            group.end_process(PeerError(f"rank {group.rank}: {call} cannot be completed on the device: {why}"))

    def _is_busy(self) -> bool:
        return self._is_inside or not self._group.is_device_idle()

    def _run(self) -> None:
        while not self._group.is_over.wait(self._group.control.look_s):
            self.look()
