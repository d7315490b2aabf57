"""PyCUDA's names that its tests use and programs do not; all others are those of the pretended PyCUDA."""

from __future__ import annotations

from typing import Any

import xferlib as xl
from tools.peer_suites.guards import add_guards
from tools.peer_suites.missing import guard, lacks_compiler
from xferlib._pretend.pycuda import GPUArray
from xferlib._pretend.pycuda_driver import PycudaContext, PycudaDevice, SourceModule

NAMES: dict[str, dict[str, Any]] = {}
ABSENT = (
    "pycuda.compiler.DynamicSourceModule", "pycuda.tools.DeviceMemoryPool", "pycuda.cumath.frexp",
    "pycuda.cumath.ldexp", "pycuda.cumath.modf",
)  # fmt: skip
"""Names whose pretended objects do less than PyCUDA's: enough for a program, and nothing that says something."""
FILES = ["test/test_gpuarray.py", "test/test_driver.py", "test/test_cumath.py"]


def _find_memory(device: PycudaDevice) -> int:
    """Little where the arrays are the host's, so that tests of the largest ones are left out."""
    return device.own.total_memory if device.own.kind == "cuda" else 1 << 30


def _find_capability(device: PycudaDevice) -> Any:
    return device.own.properties.compute_capability if device.own.kind == "cuda" else (9, 0)


def prepare() -> None:
    add_guards(GPUArray, owner="pycuda")
    guard(SourceModule, "__init__", lacks_compiler, "CUDA source without NVRTC")
    guard(PycudaDevice, "make_context retain_primary_context", _has_a_context, "a second context")
    vars_of_device: dict[str, Any] = {"total_memory": _find_memory, "compute_capability": _find_capability}
    for name, function in vars_of_device.items():
        setattr(PycudaDevice, name, function)


def _has_a_context(device: PycudaDevice) -> bool:
    return PycudaContext.get_current() is not None and xl.get_device().kind == "cuda"
