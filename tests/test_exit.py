"""The interpreter ends in silence while daemon threads use the library, as often as it is tried.

How often that is tried here is little; `XFERLIB_EXIT_TIMES` says how often.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.needed import need
from tests.processes import IMPORTED, NUMPY, TORCH, end_quietly, run
from tests.sizes import IS_LONG
from xferlib.testing import native

PROGRAM = Path(__file__).with_name("exiting.py")
TIMES = int(os.environ.get("XFERLIB_EXIT_TIMES", "1"))
WAYS = (
    "prefetch", "stream_map", "in flight", "exception", "fork", "transfer", "asynchronous", "kernel", "current",
    "trees", "sleeper", "sys.exit",
)  # fmt: skip
USUAL = {
    "numpy": ("exception", "fork"), "torch": ("in flight",), "fake": ("asynchronous", "current"),
    "sim": ("prefetch", "stream_map", "transfer", "kernel", "trees", "sleeper", "sys.exit"),
    "cupy": WAYS[:5], "pycuda": WAYS[:5],
}  # fmt: skip
"""Each way once without a GPU, where a program begins fast; all of them where `XFERLIB_EXIT_TIMES` is given."""
CASES = [(name, way) for name, ways in USUAL.items() for way in (WAYS if "XFERLIB_EXIT_TIMES" in os.environ else ways)]
compiled = pytest.mark.skipif(bool(native().why_no_calls), reason="no compiler here")
before_3_14 = pytest.mark.skipif(sys.version_info >= (3, 14), reason="threads stop by themselves from Python 3.14 on")
CODES = {"sys.exit": 3, "exception": 1}


def ended(*arguments: str, after: tuple[str, ...] = NUMPY) -> tuple[int, str]:
    """How a program ended, and what it said, but for the traceback that it means to show."""
    is_anew = IS_LONG or "XFERLIB_EXIT_TIMES" in os.environ  # the end is the same, however it began
    done = run(*arguments, after=() if is_anew else after)
    said = done.stdout + done.stderr
    is_meant = said.count("Traceback") == 1 and said.endswith("SystemError: on purpose\n")
    return done.returncode, "" if is_meant else said


@pytest.mark.parametrize(("name", "way"), CASES)
def test_the_interpreter_ends_in_silence(name: str, way: str, plugins: Path) -> None:
    need(name)
    if name == "fake" and way == "kernel":
        pytest.skip("the fake device computes nothing")
    for _ in range(TIMES):
        done = ended(str(PROGRAM), name, way, str(plugins), after=IMPORTED.get(name, NUMPY))
        assert done == (CODES.get(way, 0), "")


ENDS_MEANWHILE = """
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.2)  # the thread wakes meanwhile, and is ended

threading.Thread(target=work, daemon=True).start()
ready.wait()
builtins.slow = Slow()
"""
OWNS = """
import builtins, ctypes, sys, threading, time
import xferlib as xl
from xferlib import _native as calling

xl.to_device

libc = ctypes.CDLL(None)
key = ctypes.c_uint()
abort = ctypes.cast(libc.abort, ctypes.c_void_p)
assert libc.pthread_key_create(ctypes.byref(key), abort) == 0
ready = threading.Event()

def work():
    {guard}
    libc.pthread_setspecific(key, ctypes.c_void_p(1))
    ready.set()
    while True:
        time.sleep(0.001)

"""


@compiled
@before_3_14
def test_a_guarded_thread_does_not_end_with_the_interpreter() -> None:
    assert ended("-c", OWNS.format(guard="calling.guard_thread()") + ENDS_MEANWHILE) == (0, "")
    assert (
        ended("-c", OWNS.format(guard="pass") + ENDS_MEANWHILE)[0] != 0
    )  # so that the program can tell the difference


DROPS = """
import builtins, sys, threading, time
import torch
{use}

sys.setswitchinterval(1000)  # so that the thread gives the GIL up where torch does: when a tensor dies
ready = threading.Event()

def work():
    while True:
        x = torch.empty(10)
        del x
        ready.set()

"""


@compiled
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no end of a thread unwinds it")
@before_3_14
def test_a_thread_within_a_librarys_own_operation_does_not_abort_the_process() -> None:
    pytest.importorskip("torch")
    use = "import xferlib as xl; xl.to_device([1.0])"
    assert ended("-c", DROPS.format(use=use) + ENDS_MEANWHILE, after=TORCH) == (0, "")
    if "XFERLIB_EXIT_TIMES" in os.environ:  # whether the program can tell the difference
        assert ended("-c", DROPS.format(use="") + ENDS_MEANWHILE, after=TORCH)[0] != 0


def test_an_end_without_threads_costs_no_wait() -> None:
    shutdown = "from xferlib._runtime import process as shutdown; shutdown._INSIDE_S = 1e9"
    source = f"import xferlib as xl; xl.to_device([1.0]); {shutdown}"
    assert ended("-c", source) == (0, "")


# --- what outlives the interpreter


OUTLIVING = """
import threading
import xferlib as xl

xl.use_backend("sim")
x = xl.ones(3)
held = [xl.pinned_empty(1000, "uint8"), x, xl.to_device_async(x), xl.Stream(), xl.prefetch([x])]
threading.current_thread().held = held
"""


def test_arrays_that_die_behind_the_library_die_in_silence() -> None:
    end_quietly("-c", OUTLIVING)


KEPT = """
import builtins, os, sys
from xferlib._runtime import process as _immortal


class Stream:
    def __del__(self):
        os.write(1, b"destroyed")


class Guard:
    def __init__(self):
        self.stream = Stream()

    def __del__(self, keep=_immortal.keep):
        keep(self.stream)


if sys.argv[1] == "at once":
    kept = Stream()
    _immortal.keep(kept)
else:
    builtins.held = Guard()  # dies when there is nothing to be imported any more
"""


@pytest.mark.parametrize("when", ["at once", "at the end"])
def test_a_kept_object_is_never_destroyed(when: str) -> None:
    end_quietly("-c", KEPT, when)
