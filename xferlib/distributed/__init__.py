"""Collective operations on arrays of any backend, over MPI or PyTorch's process groups.

import xferlib as xl
from xferlib import distributed

comm = distributed.init()                 # mpiexec -n 2 python program.py, or torchrun, or alone
total = comm.all_reduce(x)                # NumPy, CuPy, PyCUDA, PyTorch; the result is where x is
"""

from xferlib.distributed.collective import Collective
from xferlib.distributed.communicator import Communicator
from xferlib.distributed.launch import init
from xferlib.distributed.parameters import TreeCollective, broadcast_params, mean_grads, pairwise_sum

__all__ = [
    "Collective",
    "Communicator",
    "TreeCollective",
    "broadcast_params",
    "init",
    "mean_grads",
    "pairwise_sum",
]
