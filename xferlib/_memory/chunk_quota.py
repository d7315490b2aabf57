"""How many chunks of the ring each direction may have, and which jobs hold chunks that no Python thread will give back.

One direction gets at most `ONE_WAY_CHUNKS`, so that transfers in the other go on. A transfer that must wait for its
share drives an orphaned job to its end meanwhile: perhaps no other thread will, and both would wait for ever.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from xferlib._core.thresholds import LENT_CHUNKS, ONE_WAY_CHUNKS
from xferlib._runtime.interrupts import deferred

if TYPE_CHECKING:
    from xferlib._runtime.jobs import Job

PATIENCE_S = 0.05
"""How long Ctrl-C may be put off by a wait, and how long an orphaned job may go unnoticed."""


class ChunkQuota:
    """The shares of one ring.

    Attributes:
        lent: Chunks that uploads have borrowed, and downloads.
        orphans: Orphaned jobs, in order: a thread in want of a chunk drives the first to its end.
        changed: Protects both; notified when chunks are given back.
    """

    __slots__ = ("changed", "lent", "orphans")

    def __init__(self) -> None:
        self.lent = {True: 0, False: 0}
        self.orphans: dict[Job, None] = {}
        self.changed = threading.Condition()

    def take(self, most: int, is_upward: bool, *, waits: bool) -> int:
        """How many chunks a transfer may have; 0 if it would have to wait for one."""
        while True:
            deferred.check()
            with self.changed:
                left = ONE_WAY_CHUNKS - self.lent[is_upward]
                job = next(iter(self.orphans), None)
                if left > 0 or not waits:
                    count = min(most, LENT_CHUNKS, left)
                    self.lent[is_upward] += count
                    return count
                if job is None:
                    self.changed.wait(PATIENCE_S)
                    continue
            job.help()
            job.wait()

    def give(self, count: int, is_upward: bool) -> None:
        """Note that ``count`` chunks of that direction are back."""
        with self.changed:
            self.lent[is_upward] -= count
            self.changed.notify_all()

    def orphaned(self, job: Job) -> None:
        """Note that this job has chunks, and no Python thread that will give them back."""
        with self.changed:
            self.orphans[job] = None

    def adopt(self, job: Job) -> None:
        """Note that a Python thread is about to give this job's chunks back."""
        with self.changed:
            self.orphans.pop(job, None)

    def drive(self) -> None:
        """Drive the first orphaned job to its end, if there is one."""
        with self.changed:
            job = next(iter(self.orphans), None)
        if job is not None:
            job.help()
            job.wait()
