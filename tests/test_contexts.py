"""CUDA contexts: one that is not the primary one is refused with the remedy; PyCUDA's are current in every thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import driver_double
from tests.needed import need_cuda
from tests.processes import end_quietly, printed

_SCRIPT = """
import sys
import numpy as np
import xferlib as xl
from cuda.bindings import driver

name = sys.argv[1]
x = np.arange(1000.0)
d = xl.to_device(x, device=f"{name}:cuda:0")
(result,) = driver.cuInit(0)
result, device = driver.cuDeviceGet(0)
try:
    result, context = driver.cuCtxCreate(None, 0, device)
except TypeError:  # before CUDA 13
    result, context = driver.cuCtxCreate(0, device)
assert int(result) == 0, result
for call in (lambda: xl.to_device(x, device=f"{name}:cuda:0"), lambda: xl.to_host(d)):
    try:
        call()
    except xl.errors.ContextError as error:
        print("refused" if "primary context" in str(error) else error)
driver.cuCtxPopCurrent()
assert (xl.to_host(d) == x).all() and (xl.to_host(xl.to_device(x, device=f"{name}:cuda:0")) == x).all()
driver.cuCtxDestroy(context)
"""


@pytest.mark.parametrize("name", ["cupy", "torch", "pycuda"])
def test_a_context_that_is_not_primary_is_refused(name: str) -> None:
    need_cuda(name)
    assert printed("-c", _SCRIPT, name).split() == ["refused", "refused"]


_DIES_ELSEWHERE = """
import threading
import warnings

import numpy as np
import xferlib as xl

warnings.simplefilter("always")  # PyCUDA warns where it cannot free an array, which stays allocated then
place = xl.Device("pycuda:cuda:0")
x = np.ones((16, 1 << 20), np.float32)  # 64 MiB
for other in xl.available_backends():
    if other in ("cupy", "torch"):  # whose context is current then in the threads that stage
        xl.to_device(x, device=f"{other}:cuda:0")
for _ in range(3):
    with xl.use_backend("pycuda"):
        out = xl.stream_map(lambda chunk: chunk * 2, x, chunk_rows=2)
    assert (out == 2).all()
    made = xl.to_device(x, device=place)
    kept = [xl.to_host_async(made * 2)]
    del made
    assert (kept.pop().result() == 2).all()
    thread = threading.Thread(target=lambda: xl.to_host(xl.to_device(x, device=place) * 2))
    thread.start()
    thread.join()
"""


_FORKED = """
import os
import sys

import numpy as np
import xferlib as xl

place = xl.Device(f"{sys.argv[1]}:cuda:0").use()
for _ in range(3):
    with xl.Stream() as stream:
        d = xl.to_device(np.arange(9.0))
        xl.to_device_async(np.arange(1 << 20)).result()
with xl.prefetch(np.arange(1 << k) for k in (3, 12, 20)) as batches:
    kept = list(batches)
if not (child := os.fork()):
    sys.exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


_ENDS = """
import sys
import threading

import numpy as np
import xferlib as xl

kept = []


def use(device):
    with device:
        kept.append(xl.to_device(np.arange(1000.0)))
        with xl.Stream() as stream:
            kept.append(xl.to_device(np.ones(1 << 18), stream=stream))
        kept.append(xl.Stream(device).record())


xl.use_backend(sys.argv[1])
for device in xl.get_backend().devices():
    use(device)
    thread = threading.Thread(target=use, args=(device,))
    thread.start()
    thread.join()
device.use()
xl.synchronize()
"""


_FIRST_IN_THREADS = """
import threading
import numpy as np
import xferlib as xl

barrier, found = threading.Barrier(4), []


def use():
    barrier.wait()
    d = xl.to_device(np.arange(1000.0), device="pycuda:cuda:0")
    found.append((xl.to_host(d * 2) == np.arange(1000.0) * 2).all())


for _ in range(3):
    threads = [threading.Thread(target=use) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
barrier = threading.Barrier(1)
use()
assert all(found) and len(found) == 13
"""

_MADE_ELSEWHERE = """
import sys
import threading

import numpy as np
import xferlib as xl

xl.use_backend(sys.argv[1])
x = np.arange(100_000.0)
stream = xl.Stream()
made, small = xl.to_device(x), xl.to_device(x[:9])
event = stream.record()


def next_of(batches):
    found = []
    thread = threading.Thread(target=lambda: found.append(xl.to_host(next(batches))))
    thread.start()
    thread.join()
    return found[0]


def wait_on(waiting, waited):
    waiting.wait(waited)
    return waiting.record().synchronize()


uses = {
    "upload": (xl.to_device_async(x, stream=stream).result, x),
    "upload of its own": (lambda: xl.to_host(xl.to_device(x)), x),
    "small upload": (lambda: xl.to_host(xl.to_device(x[:9])), x[:9]),
    "download": (xl.to_host_async(made).result, x),
    "small download": (lambda: xl.to_host(small), x[:9]),
    "small transfers": (lambda: xl.to_host_async(xl.to_device_async(x[:9]).result()).result(), x[:9]),
    "copy": (lambda: xl.to_host(xl.copy_to(small, xl.to_device(np.zeros(9)))), x[:9]),
    "copy behind": (lambda: xl.to_host(xl.to_device(made, copy=True)), x),
    "event": (event.synchronize, None),
    "event done": (lambda: event.is_done, True),
    "record": (lambda: stream.record().synchronize(), None),
    "record on the default stream": (lambda: xl.current_stream().record().synchronize(), None),
    "wait": (lambda: wait_on(stream, event), None),
    "wait on the default stream": (lambda: wait_on(xl.current_stream(), event), None),
    "synchronise": (stream.synchronize, None),
    "all": (xl.synchronize, None),
    "stream": (lambda: xl.Stream().synchronize(), None),
    "in a stream": (lambda: xl.to_host(xl.to_device(x, stream=stream), stream=stream), x),
    "tree": (lambda: xl.tree.to_host(xl.tree.to_device([x[:9]]))[0], x[:9]),
    "map": (lambda: xl.stream_map(lambda chunk: chunk, x, chunk_rows=30_000), x),
    "pinned": (lambda: xl.to_host(xl.to_device(xl.pinned_empty(9)), out=x[:9].copy()).shape, (9,)),
}
for name, (call, expected) in uses.items():
    found = []

    def use():
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    got = xl.to_host(found[0]) if xl.is_array(found[0]) else found[0]
    assert not isinstance(got, Exception), (name, got)
    assert expected is None or np.array_equal(got, expected), name
for kind in (list, iter):
    batches = iter(xl.prefetch(kind([x, x[:9], np.ones(700_000), x])))
    for expected in (x, x[:9], np.ones(700_000), x):
        assert np.array_equal(next_of(batches), expected)
"""

PROGRAMS = {
    "what one thread made is used by another that has used nothing": (_MADE_ELSEWHERE, ("cupy", "torch", "pycuda")),
    "an array that PyCUDA made is freed in whatever thread it dies": (_DIES_ELSEWHERE, ("pycuda",)),
    "a forked child may end as an interpreter does": (_FORKED, ("cupy", "torch")),  # PyCUDA's handlers fail there
    "every device has been used": (_ENDS, ("cupy", "torch", "pycuda")),
    "PyCUDA may be used first by threads that end": (_FIRST_IN_THREADS, ("pycuda",)),
}


@pytest.mark.parametrize(("what", "name"), [(what, name) for what, (_, names) in PROGRAMS.items() for name in names])
def test_a_program_ends_quietly(what: str, name: str) -> None:
    need_cuda(name)
    end_quietly("-W", "ignore::DeprecationWarning", "-c", PROGRAMS[what][0], name)  # of forks beside threads


# --- PyCUDA's stack of contexts, of which each thread has one that must be empty when the thread ends

_PYCUDA = {
    "__init__": "",
    "tools": "def clear_context_caches(): pass\n",
    "gpuarray": "class GPUArray: pass\ndef splay(*_): pass\n",
    "driver": """
import threading

stacks = {}  # by thread: the real one looks at a thread's when all of Python's is gone from it
wrong = []

def stack(): return stacks.setdefault(threading.get_ident(), [])

def mem_alloc(nbytes): raise MemoryError

class Error(Exception): pass

class Context:
    def __init__(self, device): self.device = device
    def push(self): stack().append(self)
    @staticmethod
    def pop(): stack().pop() if stack() else wrong.append("popped")
    @staticmethod
    def get_current(): return stack()[-1] if stack() else None

class Device:
    count = staticmethod(lambda: 2)
    def __init__(self, index): self.index = index
    def pci_bus_id(self): return str(self.index)
    def retain_primary_context(self): return Context(self)

class Stream:
    handle = 7
    def __init__(self, flags): pass
""",
    "autoprimaryctx": """
import atexit
from pycuda import driver

device = driver.Device(0)
context = device.retain_primary_context()
context.push()

@atexit.register
def _finish_up():
    context.pop()
""",
}
_FIRST_USES = """
import atexit, gc, threading
sys.path.insert(0, sys.argv[1])
from pycuda import driver
if "imported" in sys.argv[2:]:
    import pycuda.autoprimaryctx
from xferlib._core import registry

barrier = threading.Barrier(4)
expected = []

def use():
    barrier.wait()
    backend = registry.get("pycuda")
    for device in (*backend.devices(), backend.devices()[0]):
        backend.device_use(device)
        backend._push(device)
        expected.append(driver.Context.get_current().device.index == device.index)
        expected.append(backend.device_current() is device)

threads = [threading.Thread(target=use) for _ in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
gc.collect()
main = threading.get_ident()
assert not driver.wrong and not any(stack for thread, stack in driver.stacks.items() if thread != main), driver.stacks
barrier = threading.Barrier(1)
use()
use()
assert all(expected) and len(expected) == 6 * 6, expected

atexit._run_exitfuncs()
assert not driver.wrong and not any(driver.stacks.values()), (driver.wrong, driver.stacks)
"""


@pytest.mark.parametrize("first", ["in threads", "imported"])
def test_threads_that_use_pycuda_first_leave_its_stacks_empty(first: str, tmp_path: Path) -> None:
    """One of them imports the module that pushes the context; or the program has, in the main thread."""
    folder = tmp_path / "pycuda"
    folder.mkdir()
    for name, text in _PYCUDA.items():
        (folder / f"{name}.py").write_text(text)
    end_quietly("-c", driver_double.START + _FIRST_USES, str(tmp_path), first)
