"""Arrays of two devices, sent and summed by MPI (CuPy: examples/interoperability/mpi4py_multiple_devices.py).

mpiexec -n 2 python mpi4py_multiple_devices.py
"""

import numpy as np
from mpi4py import MPI

import xferlib as xl


def main() -> None:
    comm = MPI.COMM_WORLD
    rank, other = comm.rank, 1 - comm.rank
    kind = xl.get_device().kind
    devices = [device for device in xl.get_backend().devices() if device.kind == kind]
    with devices[rank % len(devices)]:
        mine = xl.to_host(xl.random.default_rng(rank).random(1000))  # through pinned memory, which any MPI can send
        theirs, total = np.empty_like(mine), np.empty_like(mine)
        comm.Sendrecv(mine, other, recvbuf=theirs, source=other)
        comm.Allreduce(mine, total)
        x, y = xl.to_device(mine), xl.to_device(theirs)
        np.testing.assert_array_equal(xl.to_host(x + y), total)
    print(f"process {rank} of {comm.size} on {xl.device_of(x)}: finished")


if __name__ == "__main__":
    main()
