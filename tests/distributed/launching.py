"""Jobs of several processes on this machine, started as users start them."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.processes import HANG_S
from tests.sizes import IS_LONG

HERE = Path(__file__).parent
WITHOUT_TORCH = "XFERLIB_TEST_RANKS_WITHOUT_TORCH"
"""Set in ranks that do without PyTorch, whose import would take longer than all else in each."""
_ENVIRON = {
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    # PyTorch asks for the name of each address that its store is connected from: a name server that does not answer
    # every question costs five seconds each time, in all ranks.
    "RES_OPTIONS": "timeout:1 attempts:1",
}  # fmt: skip
"""Among others for Open MPI, which takes no more ranks than cores, and none of root's, unless it is told."""


def mpiexec() -> str | None:
    """The launcher of MPI beside this interpreter, or the system's; None without mpi4py."""
    beside = Path(sys.executable).with_name("mpiexec")
    return (str(beside) if beside.is_file() else shutil.which("mpiexec")) if has("mpi4py") else None


@functools.cache
def mpi_kind() -> str:
    """The MPI that `mpiexec` is of: ``"Hydra"``, of MPICH and its kin, or ``"Open MPI"``."""
    done = run([str(mpiexec()), "--version"])
    said = done.stdout + done.stderr
    return "Open MPI" if "Open MPI" in said or "OpenRTE" in said else "Hydra"


def has(module: str) -> bool:
    """Whether a module is installed."""
    return importlib.util.find_spec(module) is not None


def need(driver: str) -> None:
    """Skip the test where the driver, or its launcher, is not installed."""
    if driver == "mpi" and mpiexec() is None:
        pytest.skip("mpi4py or mpiexec is not installed")
    if driver == "torch" and not has("torch"):
        pytest.skip("PyTorch is not installed")


def command(driver: str, size: int) -> list[str]:
    """The launch line of a driver, for a program of Python."""
    if driver == "mpi":
        return [str(mpiexec()), "-n", str(size), sys.executable]
    if driver == "torch" and not IS_LONG and hasattr(os, "fork"):  # test_how_to.py has the lines of torchrun itself
        return [sys.executable, "-m", "tests.distributed.forked", str(size)]
    if driver == "torch":
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
        return [*launcher, f"--nproc-per-node={size}"]
    return [sys.executable]


def environ(**more: str) -> dict[str, str]:
    """This process's environment and import path, for programs that it starts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_ENVIRON, **more}


def run(line: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command; its output as text. One that hangs is ended with its ranks, and the test fails with its output."""
    if line[0] == sys.executable and WITHOUT_TORCH not in more:
        done = processes.run(*line[1:], environ=environ(**more), after=processes.TORCH)
    else:
        done = processes.start(line, environ(**more))
    if done.returncode == -signal.SIGKILL:
        pytest.fail(f"{line} has not ended after {HANG_S} s:\n{done.stdout[-8000:]}{done.stderr[-3000:]}")
    return done


def job(driver: str, size: int, *program: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python, or ``-m`` and a module, in every rank."""
    need(driver)
    return run([*command(driver, size), *program], **more)


def passes_in_ranks(driver: str, size: int, *files: str, is_ended_by_mpi: bool = False) -> None:
    """Run files of tests in every rank of one job; all must pass.

    Args:
        driver, size: Of the job.
        files: In the folder ``ranks``.
        is_ended_by_mpi: Whether operations are left open on purpose, so that MPI ends the job with an error.
    """
    paths = [str(HERE / "ranks" / name) for name in files]
    given = {} if driver == "torch" or IS_LONG else {WITHOUT_TORCH: "1"}
    done = job(driver, size, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *paths, **given)
    said = done.stdout[-8000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == size, said
    assert " failed" not in done.stdout, said
    assert " error" not in done.stdout, said
    assert done.returncode == 0 or is_ended_by_mpi, said
