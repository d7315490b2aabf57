"""Collective operations on arrays of any backend, over MPI or PyTorch's process groups.

comm = xl.distributed.init()              # mpiexec -n 2 python program.py, or torchrun, or alone
total = comm.all_reduce(x)                # NumPy, CuPy, PyCUDA, PyTorch; the result is where x is
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from xferlib._runtime.checks import COMMUNICATOR_NAMES
from xferlib.distributed.communicator import (
    Communicator,
    TreeCollective,
    broadcast_params,
    init,
    mean_grads,
    pairwise_sum,
)
from xferlib.distributed.operations import Collective

if not TYPE_CHECKING:  # or any name would pass a type checker

    def __getattr__(name: str) -> Any:
        is_method = not name.startswith("_") and hasattr(Communicator, name)
        remedy = f"; a communicator has it: xferlib.distributed.init().{name}" if is_method else ""
        if name in COMMUNICATOR_NAMES:
            remedy = f"; write {COMMUNICATOR_NAMES[name]}, with comm = xferlib.distributed.init()"
        module = sys.modules[__name__]
        raise AttributeError(f"module 'xferlib.distributed' has no attribute {name!r}{remedy}", name=name, obj=module)


__all__ = ["Collective", "Communicator", "TreeCollective", "broadcast_params", "init", "mean_grads", "pairwise_sum"]
