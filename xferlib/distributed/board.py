"""The control of ranks on one host: a few pages of memory that all of them map.

A word is written by one store of eight bytes, so a reader sees all of it or nothing. Two sets of words are used in
turn: a rank shows its next word only after it has seen all words of the set before, so no rank is ever two sets ahead.

Each rank holds a POSIX lock on a byte of the file, which the kernel releases when the process is gone, in whatever way
it went; and a forked child does not inherit it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import time
from pathlib import Path

from xferlib.distributed.control import Control, Failure, RankState

_FOLDER = "/dev/shm"  # noqa: S108 - memory that processes share; the file's name is made by mkstemp
_TEXT_NBYTES = 1024
_WORD_NBYTES = 8
_SPIN_S = 0.001
"""Longest time that a rank polls before it sleeps: ranks that come together need a few microseconds."""
_SLEEP_S = 0.0001
_LOOK_S = 0.01


def size_nbytes(size: int) -> int:
    """Bytes of the file of a group: two sets of words, the states, the last signs, and two texts for each rank."""
    return size * (4 * _WORD_NBYTES + 2 * _TEXT_NBYTES)


def create(size: int) -> str:
    """Make the file, in memory where the system has such a folder, and return its path."""
    folder = _FOLDER if os.access(_FOLDER, os.W_OK) else None
    descriptor, path = tempfile.mkstemp(prefix="xferlib-", dir=folder)
    try:
        os.truncate(descriptor, size_nbytes(size))
    finally:
        os.close(descriptor)
    return path


def remove(path: str) -> None:
    """Remove the file's name; the memory stays for those who have mapped it."""
    Path(path).unlink(missing_ok=True)


class Board(Control):
    """The memory of one group, as one rank sees it.

    Raises:
        OSError: The file does not exist here, as on another host.
    """

    look_s = 0.25

    def __init__(self, path: str, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        self._memory = mmap.mmap(self._file, size_nbytes(size))
        words = memoryview(self._memory)[: 4 * size * _WORD_NBYTES].cast("Q")
        self._sets = words[:size], words[size : 2 * size]
        self._states = words[2 * size : 3 * size]
        self._lasts = words[3 * size :]
        self._texts = 4 * size * _WORD_NBYTES
        self._shown = self._sets[0]
        self._said = ""
        self._looked_s = 0.0
        self._gone: set[int] = set()

    def _show(self) -> None:
        self._shown = self._sets[self._number & 1]
        self._shown[self.rank] = self._word

    def wait(self, most_s: float) -> bool:
        shown = self._shown
        if self._is_shown(shown.tolist()):
            return True
        begun_s = now_s = time.monotonic()
        while now_s - begun_s < most_s:
            if now_s - begun_s < _SPIN_S:
                os.sched_yield()
            else:
                time.sleep(_SLEEP_S)
            if self._is_shown(shown.tolist()):
                return True
            now_s = time.monotonic()
        return False

    def agrees(self) -> bool:
        return self._shown.tolist().count(self._word) == self.size

    def missing(self) -> list[int]:
        own = self._shown[self.rank] >> 40
        return [rank for rank, word in enumerate(self._shown.tolist()) if word >> 40 != own]

    def waits(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._write(self.rank + self.size, text)

    def busy(self, rank: int) -> str:
        return self._read(rank + self.size)

    def publish(self, state: RankState, text: str) -> None:
        if self._states[self.rank] in (RankState.RUNS, RankState.LEFT):  # the first cause stays
            self._write(self.rank, text)
            self._states[self.rank] = state

    def failures(self) -> list[Failure]:
        found: list[tuple[int, Failure]] = []
        looks = time.monotonic() - self._looked_s > _LOOK_S
        for rank, state in enumerate(self._states.tolist()):
            if rank == self.rank:
                continue
            if state in (RankState.FAILED, RankState.FOLLOWED):
                found.append((state, Failure(rank, self._read(rank))))
            elif state == RankState.RUNS and (rank in self._gone or (looks and self._is_gone(rank))):
                self._gone.add(rank)
                found.append((RankState.FAILED, Failure(rank, "its process is gone: killed, or ended by os._exit()")))
            elif state == RankState.LEFT and rank in self.missing():
                text = "its program has ended, or has closed the communicator"
                found.append((RankState.FAILED, Failure(rank, text)))
        if looks:
            self._looked_s = time.monotonic()
        return [failure for _, failure in sorted(found)]

    def _is_gone(self, rank: int) -> bool:
        return self._is_free(rank) and self._states[rank] == RankState.RUNS  # it may have ended in between

    def _is_free(self, rank: int) -> bool:
        """Whether the rank's lock is free: its process is gone."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        except OSError:
            return False
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, rank)
        return True

    def say_last(self) -> None:
        self._lasts[self.rank] = 1

    def await_ends(self, most_s: float) -> None:
        end_s = time.monotonic() + most_s
        while time.monotonic() < end_s and any(
            not last and rank != self.rank and not self._is_free(rank) for rank, last in enumerate(self._lasts.tolist())
        ):
            time.sleep(_LOOK_S)

    def close(self) -> None:
        os.close(self._file)  # and with it the lock; the memory goes with its last view

    def _write(self, row: int, text: str) -> None:
        start = self._texts + row * _TEXT_NBYTES
        written = text.encode()[: _TEXT_NBYTES - 1]
        self._memory[start : start + len(written) + 1] = written + b"\0"

    def _read(self, row: int) -> str:
        start = self._texts + row * _TEXT_NBYTES
        return self._memory[start : start + _TEXT_NBYTES].partition(b"\0")[0].decode(errors="replace")
