"""PyTorch's process groups: gloo carries host memory. The program's own groups of ``torch.distributed`` stay alone.

Calls on the default group would be shorter: but a process has one, which the program may have or want, and its timeout
names no rank. So there is a group of our own over the launcher's store, under a name of its own. Its limit is days, so
that the communicator's comes first. A message is awaited by a thread, since gloo closes the connection of a wait that
takes too long.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._memory.host import bytes_over
from xferlib._runtime import leak
from xferlib._runtime.version import install_command
from xferlib.distributed.drivers import nccl
from xferlib.distributed.drivers.driver import Driver, Pending
from xferlib.errors import DistributedTimeoutError, DriverUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib.distributed.drivers.device_driver import DeviceDriver

_REDUCED = frozenset(map(np.dtype, ("int8", "uint8", "int32", "int64", "float32", "float64")))
_FOREVER = timedelta(days=20)
"""gloo's own limit, which the communicator's comes before."""
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Set by torchrun, and by the users of ``env://``."""

_MESSAGE_BEHIND_S = 60.0
"""Time after the communicator's timeout that gloo's own of a message comes: its error names no rank and no call."""

_BROADCAST_FROM = 512 << 10
_BROADCAST_RANKS = 8
"""Bytes of each part, and most ranks, from which broadcasts side by side gather in a third of the time that gloo's own
way takes: 40 to 186 ms for two parts of 32 MiB, 102 to 302 for four of 16."""

_worlds = itertools.count()
"""Numbers the calls of `world`, which all ranks make alike: the addresses of each are under a name of their own."""


def world(timeout_s: float) -> GlooDriver:
    """The group of all processes of the job.

    Args:
        timeout_s: For the start.

    Raises:
        DriverUnavailableError: PyTorch, or a variable of its launcher, is missing.
        DistributedTimeoutError: A rank has not called in time.
    """
    try:
        import torch.distributed as torch_distributed
    except ImportError as error:
        raise DriverUnavailableError(
            f"driver 'torch' cannot run here: {error}; install it with {install_command('torch')}"
        ) from error
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing or not torch_distributed.is_available():
        raise DriverUnavailableError(
            f"driver 'torch' needs a launcher: {', '.join(missing) or 'gloo'} is missing; start the program with "
            "torchrun --nproc-per-node=2 PROGRAM"
        )
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    limit = timedelta(seconds=timeout_s)
    try:
        store, rank, size = next(torch_distributed.rendezvous("env://", rank, size, timeout=limit))
        store.set_timeout(limit)
        store = torch_distributed.PrefixStore(f"xferlib/{next(_worlds)}", store)
        return GlooDriver(store, rank, size, timeout_s)
    except (RuntimeError, ValueError) as error:
        raise DistributedTimeoutError(
            f"rank {rank}: init(driver='torch') of {size} ranks at {os.environ['MASTER_ADDR']}:"
            f"{os.environ['MASTER_PORT']} failed or timed out after {timeout_s:g} s; every rank must call init(): "
            f"{str(error).splitlines()[0]}"
        ) from error


def _options(torch_distributed: Any, timeout_s: float) -> Any:
    """How a process group connects: over the loopback interface, where the launcher's address says so of all ranks.

    gloo listens on the address of the host's name otherwise, for which it asks a name server twice a group: one that
    does not answer costs seconds each time.
    """
    gloo = torch_distributed.ProcessGroupGloo
    address = os.environ.get("MASTER_ADDR", "")
    if "GLOO_SOCKET_IFNAME" in os.environ or not _is_loopback(address):
        return timedelta(seconds=timeout_s)
    options = gloo._Options()
    options._timeout = timedelta(seconds=timeout_s)
    options._devices = [gloo.create_device(hostname=address)]
    return options


def _is_loopback(address: str) -> bool:
    import ipaddress  # takes milliseconds, which `import xferlib.distributed` need not

    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:  # the name of a host
        return False


class _GlooWork:
    """An operation of a process group, which threads of its own carry out."""

    def __init__(self, work: Any, arrays: Any) -> None:
        self._work = work
        self._arrays = arrays

    def wait(self, most_s: float) -> bool:
        if not self._work.is_completed():
            try:
                # gloo tells a wait that is over and an operation that failed by the same exception; the state tells
                # them apart.
                self._work.wait(timedelta(seconds=most_s))
            except RuntimeError:
                if not self._work.is_completed():
                    return False
        self._work.wait()  # raises the error of one that failed
        return True

    def __del__(self) -> None:
        try:
            if not self._work.is_completed():
                leak.keep(self._arrays)  # the group's threads may still read and write them
        except Exception:  # the interpreter is going away
            leak.keep(self._arrays)


class _Several:
    """Operations of a process group that go on side by side."""

    def __init__(self, parts: list[_GlooWork]) -> None:
        self._parts = parts

    def wait(self, most_s: float) -> bool:
        end_s = time.monotonic() + most_s
        while self._parts and self._parts[-1].wait(max(end_s - time.monotonic(), 0.0)):
            self._parts.pop()
        return not self._parts


class _Message:
    """A send or receive, which a thread waits for: gloo closes the connection when a wait for one takes too long."""

    def __init__(self, work: Any, arrays: Any, timeout_s: float) -> None:
        self._arrays = arrays
        self._is_over = threading.Event()
        self._error: Exception | None = None

        def wait() -> None:
            try:
                work.wait(timedelta(seconds=timeout_s))
            except Exception as error:
                self._error = error
            self._is_over.set()

        threading.Thread(target=wait, name="xferlib-message", daemon=True).start()

    def wait(self, most_s: float) -> bool:
        if not self._is_over.wait(most_s):
            return False
        if self._error is not None:
            raise self._error
        return True


class GlooDriver(Driver):
    """A gloo process group of its own over the launcher's store."""

    name = "torch"

    def __init__(self, store: Any, rank: int, size: int, timeout_s: float) -> None:
        import torch
        import torch.distributed as torch_distributed

        self._torch = torch
        self._distributed = torch_distributed
        self.store = store
        self._timeout_s = timeout_s
        self.rank = rank
        self.size = size
        group = torch_distributed.PrefixStore("gloo", store)
        self._group = torch_distributed.ProcessGroupGloo(group, rank, size, _options(torch_distributed, timeout_s))
        # After the start, which waits for the other ranks' addresses for as long as the constructor was given.
        self._group.set_timeout(_FOREVER)
        leak.keep(self._group)  # its threads may wait for a rank that is gone, and its end would wait for them
        reduce = torch_distributed.ReduceOp
        self._ops = {"sum": reduce.SUM, "prod": reduce.PRODUCT, "min": reduce.MIN, "max": reduce.MAX}

    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        return dtype in _REDUCED

    def all_reduce(self, out: HostArray, x: HostArray, op: str) -> Pending:
        if out is not x:
            out[...] = x
        options = self._distributed.AllreduceOptions()
        options.reduceOp = self._ops[op]
        tensor = self._torch.from_numpy(out)
        return _GlooWork(self._group.allreduce([tensor], options), tensor)

    def broadcast(self, x: HostArray, root: int) -> _GlooWork:
        options = self._distributed.BroadcastOptions()
        options.rootRank = root
        tensor = self._bytes(x)
        return _GlooWork(self._group.broadcast([tensor], options), tensor)

    def all_gather(self, out: HostArray, x: HostArray) -> Pending:
        if x.nbytes >= _BROADCAST_FROM and self.size <= _BROADCAST_RANKS:
            parts = out.reshape(self.size, -1)
            parts[self.rank] = x
            return _Several([self.broadcast(part, root) for root, part in enumerate(parts)])
        tensors = self._bytes(out), self._bytes(x)
        return _GlooWork(self._group._allgather_base(*tensors), tensors)

    def all_to_all(self, out: HostArray, x: HostArray) -> Pending:
        tensors = self._bytes(out), self._bytes(x)
        return _GlooWork(self._group.alltoall_base(*tensors, [], []), tensors)

    def send(self, x: HostArray, dest: int, tag: int) -> Pending:
        tensor = self._bytes(x)
        return _Message(self._group.send([tensor], dest, tag), tensor, self._timeout_s + _MESSAGE_BEHIND_S)

    def recv(self, out: HostArray, source: int, tag: int) -> Pending:
        tensor = self._bytes(out)
        return _Message(self._group.recv([tensor], source, tag), tensor, self._timeout_s + _MESSAGE_BEHIND_S)

    def _bytes(self, x: HostArray) -> Any:
        if not x.flags.writeable:  # of which PyTorch warns
            x = bytes_over(x.ctypes.data, x.nbytes, x)
        return self._torch.from_numpy(x.view("uint8"))

    def carries(self, backend: Backend) -> bool:
        return nccl.carries(backend)

    def for_device(
        self, device: Device, exchange: Callable[[bytes], list[bytes]], wait: Callable[[Pending], None]
    ) -> DeviceDriver:
        return nccl.Nccl(self.rank, self.size, device, exchange)

    def split(self, members: list[int], name: str) -> GlooDriver:
        store = self._distributed.PrefixStore(name, self.store)
        rank, size = members.index(self.rank), len(members)
        return GlooDriver(store, rank, size, self._timeout_s)

    def notify(self, text: str) -> None:
        try:
            self.store.set(f"failed/{self.rank}", text)
        except RuntimeError:  # the process that holds the store is gone, and all will see that
            return

    def notices(self) -> dict[int, str]:
        try:
            found = [rank for rank in range(self.size) if self.store.check([f"failed/{rank}"])]
            return {rank: self.store.get(f"failed/{rank}").decode(errors="replace") for rank in found}
        except RuntimeError:
            return {}

    def close(self) -> None:
        self._group.shutdown()
