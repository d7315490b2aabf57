"""Trials of `xferlib doctor` in a process of their own: `python -m xferlib._cli.doctor_trial MARK QUESTION [names]`.

The answer is one line of JSON behind the mark on standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._core import registry
from xferlib.errors import KernelFaultError, XferError

_SEED = 20261124
_SMALL, _STAGED, _PINNED = 4 << 10, 4 << 20, 16 << 20
"""Bytes of arrays that travel in one driver call, through the staging buffers, and from pinned memory."""


def try_backend(name: str = "") -> dict[str, Any]:
    """Try small transfers and kernels on every device of a backend, and check the bits; no name: the default device."""
    if not name:
        try:
            return {"device": str(xl.device_of(xl.to_device(np.ones(1))))}
        except XferError as error:
            return {"reason": str(error)}
    status = registry.status(name)
    if not status.is_available:
        return {"reason": status.reason, "install": status.install}
    return {"devices": [_device(xl.get_device(str(each))) for each in registry.get(name).devices()]}


def _device(device: xl.Device) -> dict[str, Any]:
    found: dict[str, Any] = {"device": str(device), "name": "", "wrong": [], "left_out": []}
    for what, attempt in _ATTEMPTS.items():
        try:
            found["name"] = found["name"] or device.properties.name
            found["wrong"] += [f"{what}: {each}" for each in attempt(device)]
        except NotImplementedError as error:  # UnsupportedError among it: the backend says that it cannot
            found["left_out"].append(f"{what}: {error}")
        except Exception as error:
            text = str(error) if isinstance(error, XferError) else f"{type(error).__name__}: {error}"
            found["wrong"].append(f"{what}: {text}")
    return found


def _random(nbytes: int) -> np.ndarray[Any, Any]:
    """Floats of every kind: NaN with payloads, infinities, subnormal numbers, -0."""
    return np.random.default_rng(_SEED).integers(0, 1 << 32, nbytes // 4, np.uint32).view(np.float32)


def _try_transfers(device: xl.Device) -> Iterator[str]:
    for nbytes in (_SMALL, _STAGED):
        x = _random(nbytes).reshape(32, -1)
        for kind, source in (("contiguous", x), ("transposed", x.T), ("reversed", x[::-1, ::-2])):
            arrived = xl.to_host(xl.to_device(source, device=device))
            if arrived.tobytes() != source.tobytes():
                yield f"{source.nbytes} {kind} bytes come back changed"


def _try_pinned(device: xl.Device) -> Iterator[str]:
    if not registry.get(device.backend).at(device).capabilities.pinned_memory:
        return
    x = xl.pinned_array(_random(_PINNED), backend=device.backend)
    out = xl.pinned_empty(x.shape, x.dtype, backend=device.backend)
    xl.to_host(xl.to_device(x, device=device), out=out)
    if out.tobytes() != x.tobytes():
        yield f"{x.nbytes} pinned bytes come back changed"


def _try_kernels(device: xl.Device) -> Iterator[str]:
    x = np.random.default_rng(_SEED).normal(size=10_007).astype(np.float32)
    n = np.arange(x.size, dtype=np.int64)
    fused = xl.elementwise("T x, T a", "T y", "y = x * a + 1")
    total = xl.reduction("T n", map_expr="n", reduce_expr="a + b", identity="0", dtype="T")
    d, m = xl.to_device(x, device=device), xl.to_device(n, device=device)
    expected = x * np.float32(1.5) + np.float32(1)  # NumPy rounds after each of the two, and so must the device
    if xl.to_host(fused(d, np.float32(1.5))).tobytes() != expected.tobytes():
        yield "x * a + 1 has other bits than NumPy's"
    if int(xl.to_host(total(m))) != int(n.sum()):
        yield "a sum of whole numbers is wrong"


_ATTEMPTS: dict[str, Callable[[xl.Device], Iterator[str]]] = {
    "transfer": _try_transfers,
    "pinned transfer": _try_pinned,
    "kernel": _try_kernels,
}


def try_together(*names: str) -> dict[str, Any]:
    """Use each backend, then each again, on the first device; ``wrong`` says where one failed beside the others."""
    x = np.arange(1000, dtype=np.float32)
    wrong = []
    for name in (*names, *names):
        try:
            if xl.to_host(xl.to_device(x, backend=name)).tobytes() != x.tobytes():
                wrong.append(f"{name}: an array comes back changed")
        except Exception as error:
            wrong.append(f"{name}: {error}")
    return {"wrong": wrong}


_BEYOND = 'extern "C" __global__ void k(int *x, int n) { if (threadIdx.x <= n) x[threadIdx.x] += 1; }'


def try_cuda_on_cpu() -> dict[str, Any]:
    """Run a kernel unchecked, then one element too far and checked; ``problem`` says how that went wrong."""
    kernel = xl.raw_module(_BEYOND).get_function("k")
    x = np.zeros(32, np.int32)
    try:
        with xl.use_backend("numpy"):
            xl.configure(kernel_check="0")
            kernel(1, 32, (x, 31))
            if x.tolist() != [1] * 32:
                return {"problem": f"1 was added to 32 zeros: {x.tolist()}"}
            xl.configure(kernel_check="1")
            kernel(1, 64, (x, 32))
    except KernelFaultError:
        return {}
    except XferError as error:
        return {"problem": str(error)}
    return {"problem": "a write beyond the end of an array is not seen"}


_QUESTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "trial": try_backend,
    "together": try_together,
    "cuda-on-cpu": try_cuda_on_cpu,
}

if __name__ == "__main__":
    mark, question, *names = sys.argv[1:]
    print(f"\n{mark}{json.dumps(_QUESTIONS[question](*names))}", flush=True)
