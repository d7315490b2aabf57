"""Shared state is read while other threads change it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing.tools import in_threads

ROUNDS = 60


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[int], Any]) -> None:
    """Do each work several times in a thread of its own; raises the first error of one."""
    begin = threading.Barrier(len(works))

    def run(work: Callable[[int], Any]) -> None:
        begin.wait()
        for number in range(ROUNDS):
            work(number)

    in_threads(run, works)


def test_memory_is_given_back_while_threads_transfer(backend: str, hasty: None) -> None:
    x = np.arange(5000, dtype=np.float32)

    def transfer(number: int) -> None:
        with xl.use_backend(backend):
            back = xl.to_host(xl.to_device(x + number))
            assert (back == x + number).all()

    def short_lived(number: int) -> None:  # each thread has staging memory of its own, and leaves it
        thread = threading.Thread(target=transfer, args=(number,))
        thread.start()
        thread.join()

    def observe(_: int) -> None:
        with xl.use_backend(backend):
            xl.pinned_pool().stats()
            list(xl.prefetch([x, x]))
            xl.Stream().synchronize()

    together(transfer, short_lived, short_lived, observe, lambda _: xl.trim())
