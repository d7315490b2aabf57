"""Result memory: recycled in a loop, nothing kept after a single transfer, never shared."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.striking import python_s_handler, struck_everywhere
from xferlib._memory import buffers as host
from xferlib.testing import configured
from xferlib.testing.tools import in_threads

U8 = np.dtype(np.uint8)


@pytest.fixture
def cache() -> host.HostCache:
    return host.HostCache()


def test_arrays_are_writable_aligned_and_of_the_size_asked_for(cache: host.HostCache) -> None:
    for nbytes in (0, 1, 1000, host.RECYCLED_FROM, host.RECYCLED_FROM + 8, 5 << 20):
        x = cache.empty((nbytes // 8, 8), U8)
        x[:] = 1
        assert x.shape == (nbytes // 8, 8)
        assert x.flags.c_contiguous
        assert x.flags.writeable
        assert nbytes < host.RECYCLED_FROM or x.ctypes.data % host.HUGE == 0


def test_a_single_result_leaves_nothing_behind(cache: host.HostCache) -> None:
    x = cache.empty((host.RECYCLED_FROM,), U8)
    del x
    assert cache.nbytes_free == 0


def test_a_loop_recycles_its_memory(cache: host.HostCache) -> None:
    pointers = []
    for _ in range(6):
        x = cache.empty((host.RECYCLED_FROM,), U8)
        pointers.append(x.ctypes.data)
        del x
    assert len(set(pointers[2:])) == 1
    assert cache.nbytes_free == host.RECYCLED_FROM + host.HUGE  # for the alignment
    freed = cache.nbytes_free
    assert cache.trim() == freed
    assert cache.nbytes_free == 0


def test_the_results_of_one_tree_leave_nothing_behind(cache: host.HostCache) -> None:
    tree = [cache.empty((host.RECYCLED_FROM,), U8) for _ in range(3)]
    tree.clear()
    assert cache.nbytes_free == 0
    for _ in range(2):  # the tree of a loop
        tree = [cache.empty((host.RECYCLED_FROM + 4096 * number,), U8) for number in range(200)]
        pointers = {each.ctypes.data for each in tree}
        tree.clear()
    assert cache.nbytes_free == 200 * (host.RECYCLED_FROM + host.HUGE) + 4096 * sum(range(200))
    tree = [cache.empty((host.RECYCLED_FROM + 4096 * number,), U8) for number in range(200)]
    assert {each.ctypes.data for each in tree} == pointers


def test_malloc_serves_results_where_no_more_can_be_mapped(
    cache: host.HostCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(size: int) -> None:
        raise OSError("too many mappings")

    monkeypatch.setattr(host, "_map", refuse)
    x = cache.empty((host.RECYCLED_FROM,), U8)
    x[:] = 1
    with pytest.raises(MemoryError, match="cannot be mapped"):
        cache.empty((33 << 20,), U8)


def test_memory_is_not_reused_while_a_view_lives(cache: host.HostCache) -> None:
    kept = []
    for number in range(5):
        x = cache.empty((host.RECYCLED_FROM,), U8)
        x[:] = number
        kept.append(x[5:6].view(np.int8))
        del x
    assert [int(view[0]) for view in kept] == [0, 1, 2, 3, 4]


def test_the_limit_drops_the_least_recently_used(cache: host.HostCache) -> None:
    one = 16 * host.HUGE
    before = xl.configure(host_cache=8 * one)
    try:
        for nbytes in (one, 2 * one, 3 * one, 4 * one):
            for _ in range(3):
                x = cache.empty((nbytes,), U8)
                del x
            assert cache.nbytes_free <= 8 * one
        sizes = set(cache._free)
        assert max(sizes) >= 4 * one
        assert min(sizes) > one + host.HUGE  # the first size has gone
    finally:
        xl.configure(host_cache=before.host_cache)


def test_too_much_memory_is_an_error_of_the_tree_of_memory_errors(cache: host.HostCache) -> None:
    with pytest.raises(MemoryError, match="bytes of host memory"):
        cache.empty((1 << 62,), U8)


def test_many_threads_never_share_a_block(cache: host.HostCache) -> None:
    def work(number: int) -> None:
        for _ in range(15):
            x = cache.empty((host.RECYCLED_FROM,), U8)
            x[::4096] = number
            assert (x[::4096] == number).all()
            del x

    in_threads(work, range(8))


def test_memory_that_is_kept_is_counted_wherever_ctrl_c_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "RECYCLED_FROM", 1 << 16)

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        cache = host.HostCache()
        for size in (1, 1, 1, 2, 2, 1, 2):
            found = [run(lambda size=size: cache.empty((size << 18,), np.dtype(np.float32))) for _ in range(2)]
            assert found[0].nbytes == size << 20
            del found
        kept = [block.size for blocks in cache._free.values() for block in blocks]
        assert sum(kept) == cache.nbytes_free <= 9 << 20
        assert len(kept) > 1

    with configured(host_cache=9 << 20), python_s_handler():
        struck_everywhere(program)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_hands_out_no_page_of_its_parents(cache: host.HostCache) -> None:
    x = host.host_cache.empty((host.RECYCLED_FROM,), U8)
    x[:] = 7
    gc.collect()  # a forked child must not free what earlier tests left: PyCUDA's objects would end it
    child = os.fork()
    if not child:
        try:
            del x
            gc.collect()
            made = [host.host_cache.empty((host.RECYCLED_FROM,), U8) for _ in range(4)]
            for each in made:
                each[:] = 1
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (x == 7).all()


def test_an_array_keeps_the_owner_of_its_memory_alive() -> None:
    class Owner:
        def __init__(self) -> None:
            self.memory = np.full(64, 3, np.uint8)

    import weakref

    owner = Owner()
    seen = weakref.ref(owner)
    x = host.bytes_over(owner.memory.ctypes.data, 64, owner).view(np.int32).reshape(4, 4)
    del owner
    gc.collect()
    view = x[1:, ::2]
    del x
    gc.collect()
    assert seen() is not None
    assert (view == 0x03030303).all()
    del view
    gc.collect()
    assert seen() is None


def test_one_converted_download_keeps_no_memory(fake: Any) -> None:
    d = xl.to_device(np.arange(1 << 20, dtype=np.float32), device="fake:sim:0")
    host.host_cache.trim()
    y = xl.to_host(d, dtype="float64")
    assert y[-1] == (1 << 20) - 1
    del y
    assert host.host_cache.nbytes_free == 0
