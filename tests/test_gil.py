"""No driver call that may block holds the GIL, or a host function that needs it would stop the process for ever.

Programs of their own, which are killed if they hang.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xferlib as xl
from tests.needed import need_cuda
from tests.processes import printed
from xferlib.testing import native

pytestmark = pytest.mark.usefixtures("compiled_parts")

FULL_QUEUE = Path(__file__).with_name("full_queue.py")
WORKS = (
    "record", "record again", "wait", "query", "upload pinned", "upload small", "download", "copy", "launch", "free"
)  # fmt: skip
compiled = pytest.mark.skipif(bool(native().why_no_calls), reason="no compiler here")

BLOCKED = """
import ctypes, sys, threading
from xferlib import _native as calling

libc = ctypes.CDLL(None)
semaphore = ctypes.create_string_buffer(64)  # at least a sem_t
assert libc.sem_init(semaphore, 0, 0) == 0
here = ctypes.addressof(semaphore)

def address(name):
    return ctypes.cast(libc[name], ctypes.c_void_p).value

BLOCKS, ZERO, NOT_ZERO = address("sem_wait"), address("sched_yield"), address("getpagesize")
behind = lambda *functions: calling.bind_copy_behind(*functions, ZERO, ZERO)


def begin(name):
    print(name, flush=True)  # the last name is that of the call which hangs
    threading.Timer(0.1, lambda: libc.sem_post(semaphore)).start()  # a thread that needs the GIL
"""
CALLS = {
    "any call": "calling.bind(BLOCKS, 1, keeps_lock=False)(here)",
    "the first record of a copy behind": "behind(BLOCKS, NOT_ZERO, ZERO)(0, 0, 0, 0, here, 0, 0, 0, 0, False)",
    "its wait": "behind(ZERO, BLOCKS, NOT_ZERO)(0, 0, 0, 0, 0, here, 0, 0, 0, False)",
    "its copy": "behind(ZERO, ZERO, BLOCKS)(here, 0, 0, 0, 0, 0, 0, 0, 0, False)",
}


def test_only_calls_that_cannot_block_keep_the_gil() -> None:
    source = (Path(xl.__file__).parent / "backends" / "cuda" / "driver.py").read_text()
    assert re.findall(r'\(_address\("(\w+)"\), \d, keeps_lock=True\)', source) == ["cuGetErrorName"]
    assert source.count("keeps_lock=True") == 1
    assert "PYFUNCTYPE" not in source


@compiled
def test_a_blocking_call_lets_another_thread_end_it() -> None:
    program = "\n".join([BLOCKED, *(f"begin({name!r})\n{call}" for name, call in CALLS.items())])
    assert printed("-c", program).splitlines() == [*CALLS]


@pytest.mark.parametrize("what", WORKS)
@pytest.mark.parametrize("name", ["cupy", "torch", "pycuda"])
def test_a_full_queue_behind_a_host_function_drains(name: str, what: str) -> None:
    need_cuda(name)
    assert "passed" in printed(str(FULL_QUEUE), name, what)
