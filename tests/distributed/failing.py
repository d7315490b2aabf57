"""A program in which one rank fails: ``failing.py WAY KIND``, or ``failing.py KIND,KIND`` for forked ranks.

Without a way it imports PyTorch once and runs every way of each kind in two forked ranks, without a launcher that would
end one because of the other; it prints what the rank that does not fail by itself said, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib import distributed
from xferlib.distributed.drivers import DeviceDriver, GlooDriver, MpiDevices, MpiDriver

WAYS = ("killed", "raising", "leaving", "stuck", "aborting", "absent")
INSIDE = ("killed-inside", "stuck-inside")
"""The rank fails when the calls have been compared, so that the device of the other waits for it."""
WAITING = ("stuck", "absent")
"""How ways begin that end by a timeout, in which no rank computes."""
ALONE = ("stuck", "absent")
"""Ways in which the other rank never comes: no timeout is too short."""
ALONE_S, TOGETHER_S = 0.5, 3.0
"""Timeouts, of those ways and of ways in which both ranks must come before it."""
_START_S = 90.0
"""Longest wait while ranks start: they import libraries, and on a busy machine CUDA and NCCL take seconds."""
KINDS = {
    "one-host": WAYS,
    "many-hosts": WAYS,
    "simulated-devices": INSIDE,
    "no-output": ("killed-inside",),
    "gpus": WAYS + INSIDE,
}
SIMULATED = ("simulated-devices", "no-output")
RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK")
"""Of MPICH, Open MPI, other launchers by PMIx, and torchrun."""
_HANG_S = 120
MEETING = "XFERLIB_TEST_MEETING"
"""The name of a FIFO by which each rank waits for the other, behind the first call."""


class WaitsForEver(DeviceDriver):
    """A driver of devices whose second operation is never complete: its rank waits for one that does not come."""

    def __init__(self) -> None:
        self._calls = 0

    def reduces(self, *_: Any) -> bool:
        return True

    def enqueue(self, *_: Any) -> None:
        self._calls += 1

    def is_idle(self) -> bool:
        return self._calls < 2


def fail(way: str, kind: str) -> None:
    rank = int(next(os.environ[name] for name in RANK_VARIABLES if name in os.environ))
    if kind == "many-hosts":
        socket.gethostname = lambda: str(os.getpid())  # so that nothing is shared
    if way == "absent" and rank:
        threading.Event().wait()
    if kind == "aware-mpi":
        sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))
        from tests.fake import let_mpi_read

        let_mpi_read(setattr)
    comm = distributed.init(timeout=ALONE_S if way == "absent" else _START_S, cuda_aware=kind == "aware-mpi")
    x = array_of(rank, kind)
    comm.all_reduce(x)
    xl.to_host(x)
    with open(os.environ[MEETING], "r" if rank else "w"):  # or the other might learn of the failure in the first call
        pass
    waits_long = way == "stuck-in-mpi" and rank  # so that the other one is first
    if way.startswith(WAITING) and not waits_long:
        comm._group.timeout_s = ALONE_S if way in ALONE else TOGETHER_S  # all that a start takes is over
    if rank:
        if way == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "raising":
            raise ValueError("no file weights.npz")
        if way == "leaving":
            return
        if way == "stuck":
            threading.Event().wait()
        if way == "aborting":
            comm.abort("the loss is NaN")
        fail_inside(way)
    elif way == "interrupted-in-mpi":
        interrupt_inside()
    elif way == "interrupted-behind-mpi":
        interrupt_behind(comm._group.driver)
    if kind == "no-output":
        sys.stdout = sys.stderr = None
    try:
        xl.to_host(comm.all_reduce(x, out=x))
    except KeyboardInterrupt:
        sys.stderr.write(f"Ctrl-C is caught; is an operation of MPI known to be open: {comm._group.is_torn()}\n")
    if kind in SIMULATED:
        threading.Event().wait()  # as a wait for the device does


def array_of(rank: int, kind: str) -> Any:
    """The array of a rank, on the device that the kind says."""
    if kind in SIMULATED:
        for driver in (MpiDriver, GlooDriver):
            driver.carries = lambda driver, backend: backend.name == "sim"  # type: ignore[method-assign]
            driver.for_device = lambda *_: WaitsForEver()  # type: ignore[method-assign]
        return xl.ones(1000, device=f"sim:sim:{rank}")
    if kind == "aware-mpi":
        return xl.ones(1000, device=f"fake:sim:{rank}")
    return xl.ones(1000, device=gpus()[rank]) if kind == "gpus" else np.ones(1000)


def gpus() -> list[xl.Device]:
    """The GPUs of the first library that sees some."""
    for name in ("torch", "cupy", "pycuda"):
        found = [each for each in map(xl.Device, xl.available_backends()[name].devices) if each.kind == "cuda"]
        if found:
            return found
    return []


def fail_inside(way: str) -> None:
    """Let the next operation of the device never begin."""
    from xferlib.distributed.drivers import Nccl

    def enqueue(*_: Any) -> None:
        if way == "killed-inside":
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "raising-in-mpi":
            raise ValueError("no file weights.npz")
        threading.Event().wait()

    for driver in (Nccl, WaitsForEver, MpiDevices):
        driver.enqueue = enqueue  # type: ignore[assignment, method-assign]


def interrupt_inside() -> None:
    """Let Ctrl-C come while the next operation of MPI is awaited."""

    def all_reduce(driver: Any, *given: Any, begin: Any = MpiDriver.all_reduce) -> Any:
        begun = begin(driver, *given)
        kind, wait = type(begun), type(begun).wait

        def interrupted(*_: Any) -> bool:
            kind.wait = wait
            raise KeyboardInterrupt

        kind.wait = interrupted
        return begun

    MpiDriver.all_reduce = all_reduce  # type: ignore[assignment, method-assign]


def interrupt_behind(driver: Any) -> None:
    """Let Ctrl-C come when MPI has begun the next operation, before its request is known to any other."""

    class Interrupting:
        def __init__(self, comm: Any) -> None:
            self._comm = comm

        def __getattr__(self, name: str) -> Any:
            def begun(*given: Any) -> Any:
                request = getattr(self._comm, name)(*given)
                signal.raise_signal(signal.SIGINT)
                return request

            return begun

    driver._comm = Interrupting(driver._comm)


class Pair:
    """Two forked ranks of one way."""

    def __init__(self, way: str, kind: str, port: int) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._folder = tempfile.mkdtemp()  # which no rank removes, as a `TemporaryDirectory` at its end
        self._meeting = f"{self._folder}/meeting"
        os.mkfifo(self._meeting)
        self._ranks = [self._fork(way, kind, port, rank) for rank in (0, 1)]

    def _fork(self, way: str, kind: str, port: int, rank: int) -> int:
        child = os.fork()
        if not child:
            os.dup2(self._output.fileno() if rank == 0 else os.open(os.devnull, os.O_WRONLY), 2)
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            os.environ[MEETING] = self._meeting
            run_and_end(way, kind)
        return child

    def result(self) -> dict[str, Any]:
        """The exit code and the error output of the rank that does not fail by itself."""
        signal.alarm(_HANG_S)  # a rank that hangs ends the program, and fails the test
        code = os.waitstatus_to_exitcode(os.waitpid(self._ranks[0], 0)[1])
        signal.alarm(0)
        os.kill(self._ranks[1], signal.SIGKILL)
        os.waitpid(self._ranks[1], 0)
        shutil.rmtree(self._folder)
        self._output.seek(0)
        return {"code": code, "said": self._output.read().decode()}


def results(kind: str) -> dict[str, Any]:
    """Run every way of a kind side by side where there are cores enough, else those that wait for a timeout."""
    ways = KINDS[kind]
    has_cores = len(os.sched_getaffinity(0)) >= 2 * len(ways)
    begun = {way: Pair(way, kind, free_port()) for way in ways if has_cores or way.startswith(WAITING)}
    found = {way: Pair(way, kind, free_port()).result() for way in ways if way not in begun}
    return found | {way: pair.result() for way, pair in begun.items()}


def run_and_end(way: str, kind: str) -> None:
    """End as an interpreter does that runs `fail` alone."""
    try:
        fail(way, kind)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    else:
        code = 0
    import atexit

    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    *given, last = sys.argv[1:]
    if given:
        fail(given[0], last)
    else:
        import torch.distributed  # noqa: F401 - before the forks, once for all

        print(json.dumps({kind: results(kind) for kind in last.split(",")}))
