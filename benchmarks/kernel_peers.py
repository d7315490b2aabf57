"""The other libraries' ways to compute what `python -m benchmarks kernels` measures."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Run = Callable[[], Any]
Runs = dict[str, Run]


def load(names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """Modules by name, and for those that cannot be imported the reason."""
    modules, absent = {}, {}
    for name in names:
        try:
            modules[name] = importlib.import_module(name)
        except Exception as error:
            absent[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return modules, absent


def host_expression(modules: dict[str, Any], x: Any, y: Any, out: Any) -> Runs:
    """``x*y + exp(-abs(x))`` on the CPU."""
    runs: Runs = {"numpy": lambda: x * y + np.exp(-np.abs(x))}
    if "numexpr" in modules:
        evaluate = modules["numexpr"].evaluate
        runs["numexpr"] = lambda: evaluate("x*y + exp(-abs(x))", {"x": x, "y": y}, out=out)
    if "numba" in modules:
        runs["numba"] = _numba(modules["numba"], x, y, out)
    if "torch" in modules:
        torch = modules["torch"]
        tx, ty = torch.from_numpy(x), torch.from_numpy(y)
        runs["torch eager"] = lambda: tx * ty + torch.exp(-torch.abs(tx))
    return runs


def _numba(numba: Any, x: Any, y: Any, out: Any) -> Run:
    @numba.njit(parallel=True, cache=False)  # type: ignore[untyped-decorator]
    def compute(x: Any, y: Any, out: Any) -> None:
        for i in numba.prange(x.size):
            out[i] = x[i] * y[i] + np.exp(-abs(x[i]))

    return lambda: compute(x, y, out)


def device_expression(
    modules: dict[str, Any], x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], *, is_given: bool = True
) -> Runs:
    """``x*y + exp(-abs(x))`` on the GPU, into given arrays or new ones; torch makes new ones always, PyCUDA never."""
    runs: Runs = {}
    if "cupy" in modules:
        cupy = modules["cupy"]
        kernel = cupy.ElementwiseKernel("T x, T y", "T z", "z = x * y + exp(-abs(x))", "bench")
        cx, cy = cupy.asarray(x), cupy.asarray(y)
        cz = cupy.empty_like(cx)
        runs["cupy ElementwiseKernel"] = (lambda: kernel(cx, cy, cz)) if is_given else (lambda: kernel(cx, cy))
    if "torch" in modules:
        runs |= _torch_expression(modules["torch"], x, y)
    if "pycuda.gpuarray" in modules and is_given:
        from pycuda.elementwise import ElementwiseKernel

        gpuarray = modules["pycuda.gpuarray"]
        pycuda_kernel = ElementwiseKernel(
            "float *x, float *y, float *z", "z[i] = x[i] * y[i] + expf(-fabsf(x[i]))", "bench"
        )
        px, py = gpuarray.to_gpu(x), gpuarray.to_gpu(y)
        pz = gpuarray.empty_like(px)
        runs["pycuda ElementwiseKernel"] = lambda: pycuda_kernel(px, py, pz)
    return runs


def _torch_expression(torch: Any, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Runs:
    tx, ty = torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()

    def expression(a: Any, b: Any) -> Any:
        return a * b + torch.exp(-torch.abs(a))

    runs: Runs = {"torch eager": lambda: expression(tx, ty)}
    compiled = torch.compile(expression)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(tx, ty)
    except Exception:
        return runs
    return runs | {"torch.compile": lambda: compiled(tx, ty)}


def device_sum(modules: dict[str, Any], x: np.ndarray[Any, Any], axis: int | None) -> Runs:
    """The sum of a square on the GPU."""
    runs: Runs = {}
    if "cupy" in modules:
        cx = modules["cupy"].asarray(x)
        runs["cupy"] = lambda: cx.sum(axis=axis)
    if "torch" in modules:
        tx = modules["torch"].from_numpy(x).cuda()
        runs["torch eager"] = tx.sum if axis is None else lambda: tx.sum(axis)
    return runs


def device_binary(modules: dict[str, Any], x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Runs:
    """``x + y`` on the GPU into a new or given array."""
    runs: Runs = {}
    if "cupy" in modules:
        cupy = modules["cupy"]
        cx, cy = cupy.asarray(x), cupy.asarray(y)
        cz = cupy.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype)
        runs["cupy"] = lambda: cupy.add(cx, cy, out=cz)
    if "torch" in modules:
        torch = modules["torch"]
        tx, ty = torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()
        tz = torch.empty(np.broadcast_shapes(x.shape, y.shape), dtype=tx.dtype, device="cuda")
        runs["torch eager"] = lambda: torch.add(tx, ty, out=tz)
    return runs


def device_views(modules: dict[str, Any], x: np.ndarray[Any, Any], views: tuple[Any, Any]) -> Runs:
    """The sum of two views of one array on the GPU, into a given array."""
    runs: Runs = {}
    shape = np.broadcast_shapes(*(x[view].shape for view in views))
    if "cupy" in modules:
        cupy = modules["cupy"]
        cx, cz = cupy.asarray(x), cupy.empty(shape, x.dtype)
        runs["cupy"] = functools.partial(cupy.add, *(cx[view] for view in views), out=cz)
    if "torch" in modules:
        torch = modules["torch"]
        tx = torch.from_numpy(x).cuda()
        tz = torch.empty(shape, dtype=tx.dtype, device="cuda")
        runs["torch eager"] = functools.partial(torch.add, *(tx[view] for view in views), out=tz)
    return runs


def device_in_place(modules: dict[str, Any], x: np.ndarray[Any, Any], view: Any) -> Runs:
    """A view of an array on the GPU, doubled in place."""
    runs: Runs = {}
    if "cupy" in modules:
        cupy = modules["cupy"]
        part = cupy.asarray(x)[view]
        runs["cupy"] = lambda: cupy.multiply(part, 2, out=part)
    if "torch" in modules:
        tensor = modules["torch"].from_numpy(x).cuda()[view]
        runs["torch eager"] = lambda: tensor.mul_(2)
    return runs


def device_copy(modules: dict[str, Any], x: np.ndarray[Any, Any]) -> Runs:
    """A copy from one array on the GPU to another, by the driver for CuPy and torch."""
    runs: Runs = {}
    if "cupy" in modules:
        cupy = modules["cupy"]
        cx = cupy.asarray(x)
        cz = cupy.empty_like(cx)
        runs["cupy"] = lambda: cupy.copyto(cz, cx)
    if "torch" in modules:
        torch = modules["torch"]
        tx = torch.from_numpy(x).cuda()
        tz = torch.empty_like(tx)
        runs["torch eager"] = lambda: tz.copy_(tx)
    return runs
