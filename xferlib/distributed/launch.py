"""How a process joins its job: which driver its launcher speaks, and the first communicator."""

from __future__ import annotations

import importlib.util
import numbers
import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from xferlib._runtime.checks import refuse_no_flag
from xferlib.distributed.communicator import Communicator
from xferlib.distributed.drivers import mpi, nccl, torch
from xferlib.distributed.drivers.single import SingleDriver
from xferlib.distributed.group import Group
from xferlib.errors import ArgumentError, did_you_mean, shown

if TYPE_CHECKING:
    from xferlib.distributed.drivers.driver import Driver

_DRIVERS = ("auto", "single", "mpi", "torch", "nccl")
_PARTS = {"gloo": "torch", "mpi4py": "mpi", "pytorch": "torch"}
"""Names of libraries, and the drivers that use them: for the error of an unknown one."""


def init(driver: str = "auto", timeout: float = 300.0, check: bool = True, *, cuda_aware: bool = False) -> Communicator:
    """Join the other processes of the job; every process calls it.

    Args:
        driver: ``"mpi"``, for a program started by mpiexec or srun; ``"torch"``, by torchrun, with gloo for host memory
            and NCCL for GPUs; ``"single"`` for one process alone; ``"nccl"`` for NCCL beside the driver of the
            launcher, which must be installed then. ``"auto"`` takes the driver that the launcher's environment
            variables tell, else ``"single"``, and with MPI it takes NCCL too, where that is installed. Without NCCL,
            where ranks share a GPU, and where the program has initialised MPI below ``MPI_THREAD_MULTIPLE``, device
            arrays pass through pinned host memory.
        timeout: The longest wait within one call, in seconds.
        check: Compare each call with those of the other ranks before data move. Without it mismatched calls hang, fail
            somewhere else or give wrong numbers.
        cuda_aware: Where each rank has a GPU of its own, give MPI the addresses of device memory, in place of NCCL and
            of pinned host memory. The host waits for each call. An MPI that was not built for CUDA crashes then, as
            those of the wheels do.

    Returns:
        The communicator of all processes. A second call makes another, independent one.

    Raises:
        ArgumentError: There is no such driver, or ``timeout`` is no positive number; ``cuda_aware`` with PyTorch or
            with NCCL.
        DriverUnavailableError: The driver's library is missing, or the program was not started for it.
        DistributedTimeoutError: Another process has not called it in time.
    """
    if not isinstance(driver, str) or driver not in _DRIVERS:
        hint = did_you_mean(_PARTS.get(driver.lower(), driver.lower()), _DRIVERS) if isinstance(driver, str) else ""
        raise ArgumentError(f"init: driver={shown(driver)} is none of {', '.join(_DRIVERS)}{hint}")
    if isinstance(timeout, np.generic):  # a float32 would be compared as one
        timeout = timeout.item()
    is_number = isinstance(timeout, numbers.Real) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= sys.float_info.max:
        raise ArgumentError(f"init: timeout={shown(timeout)} is no positive number of seconds; give one, such as 300.0")
    refuse_no_flag(check, "init: check")
    refuse_no_flag(cuda_aware, "init: cuda_aware")
    made = _joined(driver, float(timeout), is_cuda_aware=cuda_aware)
    return Communicator(Group(made, float(timeout), is_checked=check, name="world"))


def _joined(driver: str, timeout_s: float, *, is_cuda_aware: bool) -> Driver:
    if driver == "nccl" and is_cuda_aware:
        raise ArgumentError(
            "init: driver='nccl' has NCCL carry device memory, and cuda_aware=True has MPI do it; give one of the two"
        )
    if driver == "nccl":
        nccl.check_installed()
    host = driver if driver in ("single", "mpi", "torch") else launched_for()
    if is_cuda_aware and host == "torch":
        raise ArgumentError(
            "init: cuda_aware=True is for MPI, and this job is torchrun's; start it with mpiexec, or leave it away"
        )
    if host == "torch":
        return torch.world(timeout_s)
    if host == "mpi":
        return mpi.world(timeout_s, has_nccl=driver in ("nccl", "auto"), is_cuda_aware=is_cuda_aware)
    return SingleDriver()


def launched_for() -> str:
    """The driver that this process was started for, by the variables that launchers set."""
    if all(name in os.environ for name in torch.VARIABLES):
        return "torch"
    if any(name in os.environ for name in mpi.RANK_VARIABLES):
        return "mpi"
    if int(os.environ.get("SLURM_NTASKS", "1") or 1) > 1 and importlib.util.find_spec("mpi4py") is not None:
        return "mpi"
    return "single"
