"""Host memory: arrays over raw blocks, and the recycled memory that results of ``to_host`` live in.

A fresh page costs a fault and a clearing: 10 GB/s at best, and less where several threads fill the memory of one
process. malloc gives the pages of arrays of some MiB back as it sees fit. So a block that a result no longer uses is
kept for the next one *if that size was asked for again after its release*: a loop recycles, and a single transfer, or
the results of one tree, leave nothing behind. Beyond the first GiB kept pages are marked with ``MADV_FREE``: the kernel
takes them whenever it runs short. Marking takes long: every core that used them is interrupted.
"""

from __future__ import annotations

import contextlib
import functools
import math
import mmap
import os
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from xferlib._runtime import config
from xferlib._runtime.fork import reset_in_child
from xferlib.errors import OutOfMemoryError

HUGE = 2 << 20
"""Bytes of a huge page."""
RECYCLED_FROM = HUGE
"""Smaller results are ordinary ``numpy.empty``: malloc recycles them itself, and they take few faults."""
_UNMARKED_NBYTES = 1 << 30
_MALLOC_MOST = 32 << 20
"""Up to here malloc may have memory where no more can be mapped (mallopt(3))."""
_SIZES_REMEMBERED = 4096


@functools.cache
def let_malloc_recycle() -> None:
    """Let malloc keep what is freed for the next array, up to 32 MiB: glibc does so from the first such free on.

    Until then it maps each larger array anew, or gives its pages back in each step of a loop, and the faults on them
    take longer than the loop's work. Only address space is used here: no page is touched.
    """
    with contextlib.suppress(MemoryError):  # where a process may not have 32 MiB more
        np.empty(_MALLOC_MOST - (64 << 10), np.uint8)  # less by what malloc adds, or it would be too large to count


class _Bytes:
    """Exposes memory to NumPy; the array's ``base`` keeps ``owner``, and so the memory, alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, pointer: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (pointer, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def bytes_over(pointer: int, nbytes: int, owner: Any) -> np.ndarray[Any, Any]:
    """A uint8 array over raw host memory that keeps ``owner`` alive."""
    return np.asarray(_Bytes(pointer, nbytes, owner))


def array_over(
    pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int, owner: Any
) -> np.ndarray[Any, Any]:
    """An array of that shape and dtype over raw host memory, keeping ``owner`` alive."""
    return bytes_over(pointer, nbytes, owner).view(dtype).reshape(shape)


class _Pages:
    """Mapped pages, and the first address in them that a huge page may begin at."""

    __slots__ = ("pages", "pointer", "size")

    def __init__(self, pages: mmap.mmap) -> None:
        self.pages = pages
        self.size = len(pages)
        self.pointer = -(-np.frombuffer(pages, dtype=np.uint8).ctypes.data // HUGE) * HUGE


class _Lease:
    """A block while an array uses it; gives it back when the last view of the array dies."""

    __slots__ = ("block", "cache", "is_fresh", "pid")

    def __init__(self, block: _Pages, cache: HostCache, *, is_fresh: bool) -> None:
        self.block = block
        self.cache = cache
        self.is_fresh = is_fresh
        """Whether its pages were newly mapped when it was taken, not recycled."""
        self.pid = os.getpid()

    def __del__(self) -> None:
        try:
            if self.pid == os.getpid():  # a forked child shares the pages: it must not hand them out
                self.cache.give_back(self.block)
        except Exception:  # the interpreter is going away
            return


def is_fresh(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array of `HostCache.empty` was made over untouched pages, which filling it faults in."""
    owner = getattr(getattr(array.base, "base", None), "owner", None)
    return isinstance(owner, _Lease) and owner.is_fresh


class HostCache:
    """Released result memory, by size, least recently used first."""

    def __init__(self) -> None:
        # Reentrant: garbage collection may run a lease's __del__ in the thread that holds the lock.
        self._lock = threading.RLock()
        self._free: OrderedDict[int, list[_Pages]] = OrderedDict()
        self._is_loop: OrderedDict[int, bool] = OrderedDict()
        """Sizes of blocks that were released: whether one was asked for after that."""
        self._counted = 0
        """`nbytes_free`, but for what Ctrl-C may have kept from being counted."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An uninitialised array; over recycled pages where a block of that size is free."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < RECYCLED_FROM:
            return np.empty(shape, dtype)
        try:
            block, is_fresh = self._take(nbytes)
        except (OSError, ValueError, OverflowError) as error:
            if nbytes <= _MALLOC_MOST:  # such as where a process has mapped as many blocks as it may
                return np.empty(shape, dtype)
            raise OutOfMemoryError(
                f"{nbytes} bytes of host memory for the result cannot be mapped ({error}); "
                "free arrays, or move less at a time"
            ) from error
        return array_over(block.pointer, shape, dtype, nbytes, _Lease(block, self, is_fresh=is_fresh))

    def _take(self, nbytes: int) -> tuple[_Pages, bool]:
        """Pages for ``nbytes``, and whether they are fresh: the first write to each faults it in."""
        size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE + HUGE
        with self._lock:
            if size in self._is_loop:
                self._is_loop[size] = True
            blocks = self._free.get(size)
            if blocks:
                block = blocks.pop()
                self._counted -= size
                if not blocks:
                    del self._free[size]
                return block, False
        fresh = _map(size)
        _advise(fresh, "MADV_HUGEPAGE")
        return _Pages(fresh), True

    def give_back(self, block: _Pages) -> None:
        """Keep a block for the next array of its size, or unmap it."""
        size = block.size
        limit = config.get().host_cache
        with self._lock:
            is_loop = self._is_loop.setdefault(size, False)
            self._is_loop.move_to_end(size)
            if len(self._is_loop) > _SIZES_REMEMBERED:
                self._is_loop.popitem(last=False)
            if not is_loop or size > limit:
                return  # the last reference dies with the caller's: unmapped
            if self._counted >= _UNMARKED_NBYTES:
                _advise(block.pages, "MADV_FREE")
            self._free.setdefault(size, []).append(block)
            self._free.move_to_end(size)
            self._counted += size
            if self._counted > limit:
                self._shrink(limit)

    def _shrink(self, limit: int) -> None:
        """Unmap the blocks that were not used for longest, with the lock held."""
        self._counted = self.nbytes_free
        while self._counted > limit:
            oldest, blocks = next(iter(self._free.items()))
            if blocks:
                del blocks[-1]
                self._counted -= oldest
            else:
                del self._free[oldest]

    @property
    def nbytes_free(self) -> int:
        """Bytes of the blocks that are kept."""
        return sum(size * len(blocks) for size, blocks in self._free.items())

    def trim(self) -> int:
        """Unmap every kept block; returns the bytes given up."""
        with self._lock:
            nbytes, self._counted = self.nbytes_free, 0
            self._free.clear()
            self._is_loop.clear()
            return nbytes


def _map(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):  # shared pages, Python's default, have no MADV_FREE
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)


def _advise(block: mmap.mmap, advice: str) -> None:
    option = getattr(mmap, advice, None)
    if option is not None:
        try:
            block.madvise(option)
        except OSError:  # advice: a kernel without it loses speed, nothing else
            return


host_cache = HostCache()


def _after_fork_in_child() -> None:
    host_cache.__init__()  # type: ignore[misc]


reset_in_child(_after_fork_in_child)
