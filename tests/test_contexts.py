"""CUDA contexts: one that is not the primary one is refused with the remedy; PyCUDA's are current in every thread."""

from __future__ import annotations

import subprocess
import sys

import pytest

import xferlib as xl
from tests.needed import need

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
    status = xl.available_backends()[name]
    if not any(xl.Device(device).kind == "cuda" for device in status.devices):
        pytest.skip(f"{name} sees no CUDA device ({status})")
    done = subprocess.run([sys.executable, "-c", _SCRIPT, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused", "refused"]


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


def test_an_array_that_pycuda_made_is_freed_in_whatever_thread_it_dies() -> None:
    need("pycuda")
    done = subprocess.run([sys.executable, "-c", _DIES_ELSEWHERE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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


@pytest.mark.parametrize("name", ["cupy", "torch"])  # PyCUDA's own handlers fail where a forked child ends so
def test_a_forked_child_may_end_as_an_interpreter_does(name: str) -> None:
    status = xl.available_backends()[name]
    if not any(xl.Device(device).kind == "cuda" for device in status.devices):
        pytest.skip(f"{name} sees no CUDA device ({status})")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKED, name]  # forking beside threads
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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


@pytest.mark.parametrize("name", ["cupy", "torch", "pycuda", "sim"])
def test_a_process_that_has_used_every_device_ends_quietly(name: str) -> None:
    need(name)
    done = subprocess.run([sys.executable, "-c", _ENDS, name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
