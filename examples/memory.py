"""Memory is kept for speed, and given back on request.

Device memory comes from the pool of the library that owns the arrays; pinned memory and the host memory
of results come from pools of xferlib's, because page-locking costs a hundred times what a copy does.
"""

import xferlib as xl

SHAPE = (1 << 20,)


def main() -> None:
    pool = xl.pinned_pool()
    before = pool.stats()
    x = xl.empty(SHAPE, "float32")
    for _ in range(10):
        staging = xl.pinned_empty(SHAPE, "float32")
        staging[:] = 1
        xl.to_device(staging, out=x)
        del staging  # its memory is used again only when no copy can be reading it
    after = pool.stats()
    allocated, reused = after.allocations - before.allocations, after.reuses - before.reuses
    assert allocated + reused == 10
    print(f"ten pinned arrays of 4 MiB: {allocated} allocated, {reused} reused; {after.total_nbytes >> 20} MiB kept")
    assert xl.to_host(x).sum() == SHAPE[0]
    print(f"trim() gave back {xl.trim() >> 20} MiB")
    assert pool.stats().free_nbytes == 0


if __name__ == "__main__":
    main()
