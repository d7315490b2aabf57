"""The ranks of one communicator: they compare each call, wait for it, and end together when one fails.

The obvious way is to call the library's collective and to wait. It waits without a limit for a rank that is gone, has
raised an exception or makes another call, and an error of the library's own names no rank and no call. So every rank
shows a digest of its call before data move (`Control`), and waits in slices, between which it looks at the state of the
others and after the operations that run beside the program (`OpenOperations`). After an error in a call that has
begun, Ctrl-C included, nothing tells what the others have received: it is published, they raise `PeerError` with the
first cause, and each rank refuses every later call. An operation that was not waited for to its end is noted
(`is_torn`), so that the end of the process does not hang.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import math
import mmap
import os
import socket
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import numpy as np

from xferlib._api import creation, transfers
from xferlib._core import registry
from xferlib._core.arrays import UNWRITABLE, HostArray, address_in_order, refuse_truncated, share_memory
from xferlib._core.dtypes import in_native_order, name_of
from xferlib._memory.buffers import host_cache
from xferlib._runtime.process import reset_in_child
from xferlib._transfer import describe
from xferlib._transfer.describe import CopySource
from xferlib.distributed.drivers import COMPLETE
from xferlib.errors import (
    ClosedError,
    DistributedError,
    DistributedTimeoutError,
    ForkError,
    LayoutError,
    MismatchError,
    MixedDevicesError,
    PeerError,
    UnsupportedArrayError,
    XferError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from xferlib._core.arrays import ArrayInfo
    from xferlib._core.device import Device, RawStream
    from xferlib.distributed.drivers import DeviceDriver, Driver, Pending


# One call of a communicator: its description, which errors show and the ranks compare.

DIGEST_BITS = 40


class Signature(NamedTuple):
    """All that must be the same in every rank."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    options: str = ""
    """Such as ``"op='sum'"``."""
    via: str = "host"
    """Whether host memory carries the data, or the name of the driver of devices."""

    def __str__(self) -> str:
        of = f" of shape {self.shape}, dtype {self.dtype}" if self.dtype else ""
        options = f", {self.options}" if self.options else ""
        return f"{self.name}{of}{options}{'' if self.via == 'host' else f', through {self.via}'}"


class Call(NamedTuple):
    """A signature, and its number among the calls of its communicator."""

    signature: Signature
    number: int
    kind: str = "call"
    """``"message"`` for `send` and `recv`, which are counted apart."""

    def __str__(self) -> str:
        return f"{self.kind} {self.number}, {self.signature}"


@functools.lru_cache(4096)
def digest(signature: Signature) -> int:
    """Digest of a signature, the same in every process, of `DIGEST_BITS`."""
    hashed = hashlib.blake2b(repr(tuple(signature)).encode(), digest_size=DIGEST_BITS // 8)
    return int.from_bytes(hashed.digest(), "little")


# Words and notices by which the ranks compare their calls, and tell each other of failures.
#
# Before data move, every rank shows a word of 64 bits: how many words it has shown, and a digest of its call. Ranks
# that show different digests make different calls; a rank that shows none in time is missing. Ranks of one host use
# memory that they share, `Board`; others the driver itself, `DriverControl`.

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

    def list_missing(self) -> list[int]:
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
        """Wait for a bounded time until every rank has written its last message; all of it if that is unknown."""
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


# The control of ranks on one host: a few pages of memory that all of them map.
#
# A word is written by one store of eight bytes, so a reader sees all of it or nothing. Two sets of words are used in
# turn: a rank shows its next word only after it has seen all words of the set before, so no rank is ever two sets
# ahead.
#
# Each rank holds a POSIX lock on a byte of the file, which the kernel releases when the process is gone, in whatever
# way it went; and a forked child does not inherit it.

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

    def list_missing(self) -> list[int]:
        own = self._shown[self.rank] >> DIGEST_BITS
        return [rank for rank, word in enumerate(self._shown.tolist()) if word >> DIGEST_BITS != own]

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
            elif state == RankState.RUNS and (rank in self._gone or (looks and self._has_died(rank))):
                self._gone.add(rank)
                found.append((RankState.FAILED, Failure(rank, "its process is gone: killed, or ended by os._exit()")))
            elif state == RankState.LEFT and rank in self.list_missing():
                text = "its program has ended, or has closed the communicator"
                found.append((RankState.FAILED, Failure(rank, text)))
        if looks:
            self._looked_s = time.monotonic()
        return [failure for _, failure in sorted(found)]

    def _has_died(self, rank: int) -> bool:
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


# The end of a rank: the others learn of it, and of its cause, and none is left waiting.
#
# An exception that ends the program is told to the other ranks before the process ends; they then raise `PeerError`. A
# process of MPI is ended by MPI itself after an error, since its finalisation would wait for ranks that are gone.

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


# The operations that run beside the program: begun with ``async_op=True``, and perhaps not complete.
#
# The obvious way is to leave them alone until the program waits for them. But MPI moves their data only while it is
# looked at, and one of several steps begins the next in a call. A rank that waits for anything else would hold up
# another one that waits for such an operation first, and both would wait for ever. So every wait looks after those of
# all groups.

_STEP_S = 0.0002
"""A rank that waits looks after them so often."""

_all: set[OpenOperations] = set()
"""The open operations of all groups that have some."""
_turn = threading.Lock()
"""Of `_advance`: an operation takes no step within another one's."""


class OpenOperation(Protocol):
    """An operation that runs beside the program: a `Collective`, which stands above this module."""

    @property
    def is_done(self) -> bool:
        """Whether it is complete, after the steps that can be taken at once."""

    @property
    def is_in_steps(self) -> bool:
        """Whether it begins more than one operation of the driver."""

    def wait(self) -> Any: ...


class OpenOperations:
    """The open operations of one group.

    Args:
        lock: `Group.lock`.
        fail_on_error: `Group.fail_on_error`.
    """

    def __init__(self, lock: threading.RLock, fail_on_error: Callable[[], AbstractContextManager[None]]) -> None:
        self.lock = lock
        self.fail_on_error = fail_on_error
        self._operations: list[OpenOperation] = []

    def __bool__(self) -> bool:
        return bool(self._operations)

    def add(self, operation: OpenOperation) -> None:
        """Look after an operation until it is complete."""
        self._operations.append(operation)
        _all.add(self)

    def settle(self, *, all_of_them: bool) -> None:
        """Complete all, or only those of several steps, whose steps must begin in the same order in every rank."""
        for each in self._operations:
            if all_of_them or each.is_in_steps:
                each.wait()
        self.sweep()

    def sweep(self) -> None:
        """Take the steps that can be taken, and forget what is complete."""
        self._operations = [each for each in self._operations if not each.is_done]
        if not self._operations:
            self.drop()

    def drop(self) -> None:
        """Stop advancing the operations: the group has failed."""
        _all.discard(self)


def wait_for(pending: Pending, most_s: float) -> bool:
    """Wait for a part of a call, and look after open operations meanwhile; returns whether it is complete."""
    if not _all:
        return pending.wait(most_s)
    end_s = time.monotonic() + most_s
    while not pending.wait(_STEP_S):
        if time.monotonic() > end_s:
            return False
        _advance()
    return True


def _advance() -> None:
    if not _turn.acquire(blocking=False):  # another thread is at it, or this call is within a step
        return
    try:
        for each in tuple(_all):
            if each.lock.acquire(blocking=False):  # else a thread is in a call of that group, which looks after it
                try:
                    with each.fail_on_error():
                        each.sweep()
                finally:
                    each.lock.release()
    finally:
        _turn.release()


# The arrays of a call: where they are, which memory carries them, and where the result goes.


@functools.cache
def _name_of(dtype: np.dtype[Any]) -> str:
    """NumPy's own takes microseconds."""
    return name_of(dtype)


class Operand(NamedTuple):
    """The array that a rank gives."""

    source: CopySource
    stream: Any
    """As the user gave it."""
    raw_stream: RawStream | None
    """The stream of a device array: the user's, or the current one; None in host memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def dtype_name(self) -> str:
        return _name_of(self.dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        # The ranks reduce bytes as numbers of this machine; `load` swaps those of another order on the way.
        return in_native_order(self.source.dtype)

    @property
    def nbytes(self) -> int:
        """Of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def load(self) -> HostArray:
        """Its elements in host memory, flat and in C order: its own memory where that is so already."""
        host = self.source.host
        if host is None:
            # Pinned: the device writes it by itself, and no thread copies it once more.
            host = transfers.to_host(self.source.given, stream=self.stream, pinned=True)
        return np.ascontiguousarray(host, self.dtype).reshape(-1)


def operand_of(x: Any, call: str, stream: Any) -> Operand:
    """Describe what a rank gives: an array of any backend, a sequence or a scalar.

    Raises:
        UnsupportedArrayError, UnsupportedDTypeError: No device can hold it.
        StreamError: The stream is of another device.
    """
    source = describe.source_of(x, what=f"{call}: x")
    device = source.device if source.device is not None else source.backend.devices()[0]
    if source.host is not None:
        if stream is not None:
            describe.raw_stream(stream, device)  # a formality there, which is of the right device all the same
        return Operand(source, None, None)
    source.backend.attach(device)
    raw = source.backend.stream_current(device) if stream is None else describe.raw_stream(stream, device)
    return Operand(source, stream, raw)


class Result:
    """The array that a call returns, and the host memory that the driver fills for it.

    Args:
        operand: The array that the rank gives; the result is of its backend and on its device.
        shape: Of the result.
        out: The caller's array; None for a new one.
        call: For messages.

    Raises:
        LayoutError: ``out`` differs in shape or dtype, is not contiguous, or is read-only.
        MixedBackendsError, MixedDevicesError: It is of another backend or device.
    """

    __slots__ = ("array", "host", "info", "is_given", "operand")

    def __init__(self, operand: Operand, shape: tuple[int, ...], out: Any, call: str) -> None:
        source = operand.source
        self.operand = operand
        self.is_given = out is not None
        """Whether the array is the caller's."""
        self.info: ArrayInfo | None = None
        """Location and layout on a device; None in host memory."""
        self.host: HostArray | None = None
        """The result in host memory; None on a device."""
        backend, device = source.backend, source.device
        if out is not None:
            self.array, self.info = out, _check_out(out, operand, shape, call)
            backend.note_write(out, f"{call}: out")
        elif device is None or source.backend.name == "numpy":
            # From the cache of results, whose pages are there: the system clears fresh ones at the first touch.
            self.array = host_cache.empty(shape, operand.dtype)
        else:
            stream = operand.raw_stream if operand.raw_stream is not None else backend.stream_current(device)
            self.array = backend.empty(shape, operand.dtype, device=device, stream=stream)
        if source.host is not None:
            self.info = None
            self.host = self.array if isinstance(self.array, np.ndarray) else backend.host_view(self.array)
        elif self.info is None:
            self.info = backend.view(self.array)

    def buffer(self, given: HostArray) -> HostArray:
        """Flat host memory for the driver to fill: ``given`` itself where the result is to replace it."""
        if self.host is None:
            assert self.info is not None
            backend = self.operand.source.backend.name
            return creation.pinned_empty((self.info.size,), self.operand.dtype, backend=backend)
        flat = self.host.reshape(-1)
        # The same array, not another one over the same memory: the drivers know by identity that they work in place.
        return given if _is_same(flat, given) else flat

    def store(self, flat: HostArray) -> None:
        """Take over what the driver has filled."""
        if self.host is None:
            assert self.info is not None
            transfers.to_device(flat.reshape(self.info.shape), out=self.array, stream=self.operand.stream)


def _is_same(one: HostArray, two: HostArray) -> bool:
    return one.nbytes == two.nbytes and (address_in_order(one) == address_in_order(two) or not one.nbytes)


def separate(given: HostArray, out: HostArray) -> HostArray:
    """``given``, or a copy of it where the driver would overwrite it before it has been read."""
    return given.copy() if share_memory(given, out) else given


def _check_out(out: Any, operand: Operand, shape: tuple[int, ...], call: str) -> ArrayInfo:
    owner, source = registry.owner_of(out), operand.source
    if owner is None or isinstance(out, np.generic):  # NumPy's scalars cannot be written
        raise UnsupportedArrayError(
            f"{call}: out is {type(out).__name__}, not an array of any backend; make it with xferlib.empty()"
        )
    info = owner.view(out)
    # Devices are made once each, so identity tells; the backend comes first, for two devices of different libraries may
    # have the same number.
    if source.device is not None and info.device is not source.device:
        if info.device.backend != source.device.backend:
            raise registry.make_mixed_backends_error(call, ("x", source.backend), ("out", owner))
        raise registry.make_mixed_devices_error(call, ("x", source.device), ("out", info.device))
    if info.shape != shape or info.dtype != operand.dtype:
        raise LayoutError(
            f"{call}: out has shape {info.shape} and dtype {info.dtype}, but the result has shape {shape} and dtype "
            f"{operand.dtype}; make it with xferlib.empty()"
        )
    if not info.is_c_contiguous:
        raise LayoutError(f"{call}: out is not contiguous, with strides {info.strides}; give a C-contiguous array")
    if not info.is_writable:
        raise LayoutError(f"{call}: out {UNWRITABLE}")
    refuse_truncated(out, f"{call}: out")
    return info


# The watch over the work of a rank's device: a host that waits for a device cannot be told that a rank is gone.
#
# The device's work waits for every rank, without a limit of its own. So a thread looks at the state of the other ranks,
# and ends this process, with the cause, where work cannot be completed; what the device would have written is
# undefined.

_WATCH_GRACE_S = 1.0
"""The longest time between the news of a failure and the error that a rank which is not blocked raises by itself."""


class DeviceWatch:
    """A thread for one group, from its first call on a device until the group ends."""

    def __init__(self, group: Group) -> None:
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
        if now_s - self._failed_s > _WATCH_GRACE_S and self._is_busy():
            why = f"rank {failures[0].rank} has failed: {failures[0].text}" if failures else f"NCCL: {device_failure}"
            group.end_process(PeerError(f"rank {group.rank}: {call} cannot be completed on the device: {why}"))

    def _is_busy(self) -> bool:
        return self._is_inside or not self._group.is_device_idle()

    def _run(self) -> None:
        while not self._group.is_over.wait(self._group.control.look_s):
            self.look()


_SLICE_S = 0.02
"""A rank that waits looks at the state of the others so often."""
_CAUSE_S = 1.0
"""The longest wait for the cause, after the driver or another rank has failed: a process dies faster than its lock."""


class Group:
    """A driver, the control beside it, and the state of this rank.

    Args:
        driver: Carries the data.
        timeout_s: The longest wait within one call.
        is_checked: Whether ranks compare each call before it begins.
        name: The name of the communicator, in errors and in the names of its parts.
    """

    def __init__(self, driver: Driver, timeout_s: float, *, is_checked: bool, name: str) -> None:
        self.driver = driver
        self.rank = driver.rank
        self.size = driver.size
        self.timeout_s = timeout_s
        self.checks = is_checked
        self.is_checked = is_checked and driver.size > 1
        self.name = name
        self.lock = threading.RLock()
        self.count = 0
        self.cause = ""
        """Why the group refuses work; empty while it works."""
        self.device_driver: DeviceDriver | None = None
        """Made by `devices`; None before, at the end, and where device memory passes through the host."""
        self._place: Device | None = None
        """The device that `device_driver` was made for, or would have been."""
        self.watch: DeviceWatch | None = None
        """Over the work of `device_driver`."""
        self.is_over = threading.Event()
        """Set when the group refuses work."""
        self.end_process: Callable[[BaseException], None]
        """Tells the other ranks of an error, and ends this process; set by `watch`."""
        self._differs_s = 0.0
        """Since when another rank's `MismatchError` is known; 0 if there is none."""
        self._left: list[Pending] = []  # operations of the driver that were not waited for to their end
        self.parts = 0  # calls of `Communicator.split`
        self.messages = 0
        """Calls of `send` and `recv`, which the ranks do not count alike."""
        self.open = OpenOperations(self.lock, self.fail_on_error)
        self._pid = os.getpid()
        self.control: Control = DriverControl(driver)
        begun = Call(Signature("init" if name == "world" else "split", (), ""), 0)
        hosts = [host.decode() for host in self.exchange(socket.gethostname().encode(), begun)]
        self.local_rank = hosts[: self.rank].count(hosts[self.rank])
        if self.size > 1 and len(set(hosts)) == 1:
            self._share_board(begun)

    def _share_board(self, call: Call) -> None:
        path = create(self.size) if self.rank == 0 else ""
        path = self.exchange(path.encode(), call)[0].decode()
        try:
            shared: Control | None = Board(path, self.rank, self.size)
        except OSError:  # such as containers of one name, each with a folder of its own
            shared = None
        has_all = all(self.exchange(b"" if shared is None else b"1", call))
        if self.rank == 0:
            remove(path)
        if shared is not None and has_all:
            self.control = shared
        elif shared is not None:
            shared.close()

    # --- one call

    def check_process(self) -> None:
        """Refuse a forked child, where another thread's lock is held for ever.

        Raises:
            ForkError: This is one.
        """
        if os.getpid() != self._pid:
            raise ForkError(
                f"the communicator is of process {self._pid}, not of its forked child {os.getpid()}; call it in the "
                "process that called init()"
            )

    def check_usable(self) -> None:
        """Refuse work after an error, after `close`, and in a forked child.

        Raises:
            DistributedError, ClosedError, ForkError: As said.
        """
        self.check_process()
        if self.cause:
            text = f"rank {self.rank}: this communicator refuses work: {self.cause}; "
            if self.cause == "closed":
                raise ClosedError(text + "make another with init()")
            raise DistributedError(text + "start the job again")

    def begin(self, signature: Signature) -> Call:
        """Count a call, and compare it with those of the other ranks.

        Raises:
            MismatchError: They are not the same; all ranks raise it, and nothing was sent.
        """
        self.count += 1
        call = Call(signature, self.count)
        if self.is_checked:
            self.control.show(digest(signature))
            self.wait(self.control, call, others=self._others)
            if not self.control.agrees():
                self._mismatch(call)
        return call

    def _mismatch(self, call: Call) -> NoReturn:
        texts = [text.decode() for text in self.exchange(str(call.signature).encode(), call)]
        ranks: dict[str, list[int]] = {}
        for rank, text in enumerate(texts):
            ranks.setdefault(text, []).append(rank)
        made = "; ".join(
            f"rank{'s' * (len(some) > 1)} {', '.join(map(str, some))}: {text}" for text, some in ranks.items()
        )
        raise MismatchError(
            f"rank {self.rank}: call {call.number} of the communicator is not the same in every rank, and nothing was "
            f"sent: {made}; let every rank make the same calls in the same order"
        )

    def wait(self, pending: Pending, call: Call, others: Callable[[], str] = str) -> None:
        """Wait for a part of a call.

        Args:
            pending: The part.
            call: The call.
            others: What is known of the other ranks, for the error of a timeout.

        Raises:
            PeerError: Another rank has failed, or the driver has.
            DistributedTimeoutError: It takes longer than the timeout.
        """
        try:
            if wait_for(pending, _SLICE_S):
                return
            end_s = time.monotonic() + self.timeout_s
            while True:
                self._look(call, end_s, others)
                if wait_for(pending, _SLICE_S):
                    return
        except BaseException as error:
            # The words on the board are no operation of the driver, which could be torn.
            if not isinstance(pending, Board):
                self._left.append(pending)
            if isinstance(error, DistributedError) or not isinstance(error, Exception):
                raise
            raise self._explain_loss(call, error) from error

    def _look(self, call: Call, end_s: float, others: Callable[[], str]) -> None:
        for failure in self.control.failures():
            if failure.text.startswith(MismatchError.__name__):
                # It was first to have every rank's words. They are on their way to this one, which will raise the same.
                self._differs_s = self._differs_s or time.monotonic()
                if time.monotonic() - self._differs_s < _CAUSE_S:
                    continue
            raise PeerError(
                f"rank {self.rank}: rank {failure.rank} has failed, so this rank's {call} cannot be completed: "
                f"{failure.text}"
            )
        self.control.waits(str(call))
        if time.monotonic() > end_s:
            raise DistributedTimeoutError(
                f"rank {self.rank}: {call} timed out after {self.timeout_s:g} s{others()}; see the output of "
                "the other ranks, or give init() a longer timeout"
            )

    def _others(self) -> str:
        calls = {rank: self.control.busy(rank) for rank in self.control.list_missing()}
        waits = {rank: f", its last wait was in {call}" if call else "" for rank, call in calls.items()}
        return "".join(f"; rank {rank} has not come{wait}" for rank, wait in waits.items())

    def _explain_loss(self, call: Call, error: Exception) -> PeerError:
        """The error of a driver that failed: by the rank that caused it, if that becomes known soon."""
        end_s = time.monotonic() + _CAUSE_S
        while True:
            if failures := self.control.failures():
                why = f"rank {failures[0].rank} has failed: {failures[0].text}"
                break
            if time.monotonic() > end_s:
                why = f"driver {self.driver.name!r} says: {str(error).splitlines()[0]}"
                break
            time.sleep(_SLICE_S)
        return PeerError(f"rank {self.rank}: {call} failed: {why}")

    def run(self, steps: Iterator[Pending], call: Call) -> None:
        """Take all steps of a call."""
        for pending in steps:
            if pending is not COMPLETE:
                self.wait(pending, call)

    # --- devices

    def check_device(self, operand: Operand, call: str) -> bool:
        """Whether an array is in device memory that a driver may carry from GPU to GPU.

        Raises:
            MixedDevicesError: The communicator has used another device before.
        """
        if self.size == 1 or operand.source.info is None or not self.driver.carries(operand.source.backend):
            return False
        place = operand.source.device
        assert place is not None
        if self._place is not None and self._place.index != place.index:
            raise MixedDevicesError(
                f"{call}: x is on {place}, but this communicator has used {self._place}, and it has one device for "
                "each rank; move x there first, or make another communicator with split()"
            )
        return True

    def devices(self, operand: Operand, call: Call) -> DeviceDriver | None:
        """The driver of the group's devices, which all ranks make at their first call; None where they share one."""
        if self._place is None:
            place = operand.source.device
            assert place is not None
            identity = operand.source.backend.device_identity(place).uuid or f"{socket.gethostname()} {place.index}"
            if len(set(self.exchange(identity.encode(), call))) == self.size:
                self.watch = watch = DeviceWatch(self)
                watch.enters(call)
                self.device_driver = self.driver.for_device(
                    place,
                    lambda data: self.exchange(data, call),
                    lambda pending: self.wait(pending, watch.hands_over()),
                )
            self._place = place
        return self.device_driver

    def is_device_idle(self) -> bool:
        """Whether the device has completed every operation; asked by `watch`."""
        devices = self.device_driver  # another thread may leave them
        try:
            return devices is None or devices.is_idle()
        except XferError:  # a device that has failed waits for nothing
            return True

    def device_failure(self) -> str:
        """The failure that the driver of devices has found; empty for none."""
        devices = self.device_driver
        return "" if devices is None else devices.failure()

    # --- small data

    def exchange(self, data: bytes, call: Call) -> list[bytes]:
        """Return every rank's ``data``, in the order of ranks."""
        if self.size == 1:
            return [data]
        sizes = np.empty(self.size, np.int64)
        self.wait(self.driver.all_gather(sizes, np.array([len(data)], np.int64)), call)
        longest = max(int(sizes.max()), 1)
        padded = np.frombuffer(data.ljust(longest, b"\0"), np.uint8).copy()
        gathered = np.empty(self.size * longest, np.uint8)
        self.wait(self.driver.all_gather(gathered, padded), call)
        rows = gathered.reshape(self.size, longest)
        return [row[:nbytes].tobytes() for row, nbytes in zip(rows, sizes.tolist(), strict=True)]

    # --- the end

    @contextmanager
    def fail_on_error(self) -> Iterator[None]:
        """A call that has begun: any error in it, Ctrl-C included, ends the group's work."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise

    def is_torn(self) -> bool:
        """Whether an operation of the driver is still in the middle, so that the driver cannot end in order."""
        try:
            return self.driver.is_torn() or any(not each.wait(_SLICE_S) for each in self._left)
        except Exception:  # it has failed
            return True

    def fail(self, error: BaseException) -> None:
        """Refuse every later call, tell the other ranks why, and drop what the device cannot complete."""
        if not self.cause:
            self.cause = f"{type(error).__name__}: {error}"
            follows = isinstance(error, PeerError)
            self.control.publish(RankState.FOLLOWED if follows else RankState.FAILED, self.cause)
            self.is_over.set()
            self.open.drop()
            if self.device_driver is not None and self.watch is not None and not self.is_device_idle():
                self.watch.close()
                self.device_driver.abort()  # or a wait for the device, which the program may begin, would never end

    def close(self, cause: str = "closed") -> None:
        if not self.cause:
            self.cause = cause
            self.control.publish(RankState.LEFT, "")
            self.is_over.set()

    def release(self) -> None:
        """Release what the drivers hold; every rank calls it, after `close`."""
        if self.device_driver is not None and self.watch is not None:
            self.watch.close()
            self.device_driver.close()
        self.driver.close()
