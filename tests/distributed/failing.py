"""A program in which one rank fails: ``python failing.py WAY``, or ``python failing.py`` for ranks that it forks.

Without an argument it imports PyTorch once and runs every way in two forked ranks, without a launcher that would end
one because of the other; it prints what each rank said, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import threading
from typing import Any

import numpy as np

from xferlib import distributed

WAYS = ("killed", "raising", "leaving", "stuck", "aborting", "absent")
RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK")
"""Of MPICH, Open MPI, other launchers by PMIx, and torchrun."""
_HANG_S = 60


def fail(way: str) -> None:
    if "many-hosts" in sys.argv:
        socket.gethostname = lambda: str(os.getpid())  # so that nothing is shared
    is_faulty = next(os.environ[name] for name in RANK_VARIABLES if name in os.environ) == "1"
    if way == "absent" and is_faulty:
        threading.Event().wait()
    comm = distributed.init(timeout=3.0 if way in ("stuck", "absent") else 60.0)
    x = np.ones(1000)
    comm.all_reduce(x)
    if is_faulty:
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
    comm.all_reduce(x)


def forked(way: str, port: int) -> dict[str, Any]:
    """Run one way in two ranks; the exit code and the error output of the one that does not fail by itself."""
    ranks: list[int] = []
    with tempfile.TemporaryFile() as output:
        code = _run_two(way, port, output, ranks)
        output.seek(0)
        return {"code": code, "said": output.read().decode()}


def _run_two(way: str, port: int, output: Any, ranks: list[int]) -> int:
    for rank in (0, 1):
        child = os.fork()
        if not child:
            os.dup2(output.fileno() if rank == 0 else os.open(os.devnull, os.O_WRONLY), 2)
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            run_and_end(way)
        ranks.append(child)
    signal.alarm(_HANG_S)  # a rank that hangs ends the program, and fails the test
    code = os.waitstatus_to_exitcode(os.waitpid(ranks[0], 0)[1])
    signal.alarm(0)
    os.kill(ranks[1], signal.SIGKILL)
    os.waitpid(ranks[1], 0)
    return code


def run_and_end(way: str) -> None:
    """End as an interpreter does that runs `fail` alone."""
    try:
        fail(way)
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
    if len(sys.argv) > 1 and sys.argv[1] in WAYS:
        fail(sys.argv[1])
    else:
        import torch.distributed  # noqa: F401 - before the forks, once for all

        print(json.dumps({way: forked(way, free_port()) for way in WAYS}))
