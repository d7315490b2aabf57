"""Words and notices by which the ranks compare their calls, and tell each other of failures.

Before data move, every rank shows a word of 64 bits: how many words it has shown, and a digest of its call. Ranks that
show different digests make different calls; a rank that shows none in time is missing. Ranks of one host use memory
that they share, `board.Board`; others the driver itself, `DriverControl`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xferlib.distributed.call import DIGEST_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xferlib.distributed.drivers.driver import Driver, Pending

_NOTICED_S = 0.5
"""A rank that waits has seen a notice by then, and has written its error."""
_NUMBER_MASK = (1 << (64 - DIGEST_BITS)) - 1


class RankState(IntEnum):
    """The state of a rank, as the others see it."""

    RUNS = 0
    LEFT = 1
    """It has closed the communicator, or its program has ended."""
    FAILED = 2
    FOLLOWED = 3
    """It has failed because another rank had."""


class Failure(NamedTuple):
    """A rank that does not go on, and why."""

    rank: int
    text: str


class Control(ABC):
    """Compares the calls of all ranks, and tells of failures. One call at a time."""

    look_s = 2.0
    """How often another thread may ask for `failures`: it may be a message to another host."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self._number = 0
        self._word = 0

    def show(self, digest: int) -> None:
        """Show this rank's call to the others; `wait` then waits for theirs."""
        self._number += 1
        self._word = (self._number & _NUMBER_MASK) << DIGEST_BITS | digest
        self._show()

    @abstractmethod
    def _show(self) -> None: ...

    @abstractmethod
    def wait(self, most_s: float) -> bool:
        """Wait at most that long; return whether every rank has shown its call."""

    @abstractmethod
    def agrees(self) -> bool:
        """Whether all have shown the same, once `wait` has returned True."""

    def _is_shown(self, words: Sequence[int]) -> bool:
        number = self._word >> DIGEST_BITS
        return words.count(self._word) == self.size or all(word >> DIGEST_BITS == number for word in words)

    def missing(self) -> list[int]:
        """The ranks that have not shown their call; empty where that is not known."""
        return []

    def busy(self, rank: int) -> str:
        """The call that a rank waits in, if it has said so."""
        return ""

    def waits(self, text: str) -> None:
        """Tell the others, once, that this rank waits, and in which call."""

    @abstractmethod
    def publish(self, state: RankState, text: str) -> None:
        """Tell the others of this rank's end or failure."""

    @abstractmethod
    def failures(self) -> list[Failure]:
        """The ranks that have failed, first causes first."""

    def say_last(self) -> None:
        """Tell the others that this rank has written all that it has to say."""

    def await_ends(self, most_s: float) -> None:
        """Wait, for a bounded time, until every rank has said its last, or would have, where that is not known."""
        time.sleep(min(most_s, _NOTICED_S))

    def close(self) -> None:
        """Release the shared memory."""


class DriverControl(Control):
    """Words and notices through the driver, for ranks on several hosts."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.rank, driver.size)
        self._driver = driver
        self._pending: Pending | None = None
        self._shown = np.zeros(1, np.uint64)
        self._words = np.zeros(driver.size, np.uint64)

    def _show(self) -> None:
        self._shown[0] = self._word
        self._pending = self._driver.all_gather(self._words, self._shown)

    def wait(self, most_s: float) -> bool:
        assert self._pending is not None
        return self._pending.wait(most_s)

    def agrees(self) -> bool:
        words: list[int] = self._words.tolist()
        return words.count(self._word) == self.size

    def publish(self, state: RankState, text: str) -> None:
        if state is not RankState.LEFT:  # its last data may be on their way; the driver notices the end by itself
            self._driver.notify(f"{state.value}{text}")

    def failures(self) -> list[Failure]:
        told = sorted((text[:1], rank, text[1:]) for rank, text in self._driver.notices().items() if rank != self.rank)
        return [Failure(rank, text) for _, rank, text in told]
