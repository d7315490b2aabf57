"""The ranks of one communicator: they compare each call, wait for it, and end together when one fails.

The obvious way is to call the library's collective and to wait. It waits without a limit for a rank that is gone, has
raised an exception or makes another call, and an error of the library's own names no rank and no call. So every rank
shows a digest of its call before data move (`control`), and waits in slices, between which it looks at the state of the
others and after the operations that run beside the program (`open_operations`). After an error in a call that has
begun, Ctrl-C included, nothing tells what the others have received: it is published, they raise `PeerError` with the
first cause, and each rank refuses every later call. An operation that was not waited for to its end is noted
(`is_torn`), so that the end of the process does not hang.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from xferlib.distributed import board
from xferlib.distributed.call import Call, Signature, digest
from xferlib.distributed.control import Control, DriverControl, RankState
from xferlib.distributed.drivers.driver import COMPLETE
from xferlib.distributed.open_operations import OpenOperations, waited
from xferlib.distributed.watch import DeviceWatch
from xferlib.errors import (
    ClosedError,
    DistributedError,
    DistributedTimeoutError,
    ForkError,
    MismatchError,
    MixedDevicesError,
    PeerError,
    XferError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xferlib._core.device import Device
    from xferlib.distributed.drivers.device_driver import DeviceDriver
    from xferlib.distributed.drivers.driver import Driver, Pending
    from xferlib.distributed.operands import Operand

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
        """The one that `devices` has made; None before, where device memory passes through the host, and at the end."""
        self._place: Device | None = None
        """The device that `device_driver` was made for, or would have been."""
        self.watch: DeviceWatch | None = None
        """Over the work of `device_driver`."""
        self.is_over = threading.Event()
        """Set when the group refuses work."""
        self.end_process: Callable[[BaseException], None]
        """Tells the other ranks of an error, and ends this process; given by `ending.watch`."""
        self._differs_s = 0.0
        """Since when another rank's `MismatchError` is known; 0 if there is none."""
        self._left: list[Pending] = []  # operations of the driver that were not waited for to their end
        self.parts = 0  # calls of `Communicator.split`
        self.messages = 0
        """Calls of `send` and `recv`, which the ranks do not count alike."""
        self.open = OpenOperations(self.lock, self.failing)
        self._pid = os.getpid()
        self.control: Control = DriverControl(driver)
        begun = Call(Signature("init" if name == "world" else "split", (), ""), 0)
        hosts = [host.decode() for host in self.exchange(socket.gethostname().encode(), begun)]
        self.local_rank = hosts[: self.rank].count(hosts[self.rank])
        if self.size > 1 and len(set(hosts)) == 1:
            self._share_board(begun)

    def _share_board(self, call: Call) -> None:
        path = board.create(self.size) if self.rank == 0 else ""
        path = self.exchange(path.encode(), call)[0].decode()
        try:
            shared: Control | None = board.Board(path, self.rank, self.size)
        except OSError:  # such as containers of one name, each with a folder of its own
            shared = None
        has_all = all(self.exchange(b"" if shared is None else b"1", call))
        if self.rank == 0:
            board.remove(path)
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
            if waited(pending, _SLICE_S):
                return
            end_s = time.monotonic() + self.timeout_s
            while True:
                self._look(call, end_s, others)
                if waited(pending, _SLICE_S):
                    return
        except BaseException as error:
            # The words on the board are no operation of the driver, which could be torn.
            if not isinstance(pending, board.Board):
                self._left.append(pending)
            if isinstance(error, DistributedError) or not isinstance(error, Exception):
                raise
            raise self._lost(call, error) from error

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
        calls = {rank: self.control.busy(rank) for rank in self.control.missing()}
        waits = {rank: f", its last wait was in {call}" if call else "" for rank, call in calls.items()}
        return "".join(f"; rank {rank} has not come{wait}" for rank, wait in waits.items())

    def _lost(self, call: Call, error: Exception) -> PeerError:
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
    def failing(self) -> Iterator[None]:
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
