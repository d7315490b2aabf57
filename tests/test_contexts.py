"""CUDA contexts that are not the primary one: refused with the remedy, and everything works again without them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import xferlib as xl

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
