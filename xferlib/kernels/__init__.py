"""Kernels written once for every backend: `elementwise`, `reduction`, and raw CUDA.

Two front ends (`python_frontend`, `c_frontend`) build one representation (`ir`), which two engines run with one
meaning: `numpy_engine` on every CPU, and generated CUDA on GPUs.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xferlib.kernels import reductions as reductions
    from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
    from xferlib.kernels.raw import KernelAttributes, RawKernel, RawModule, raw_module
    from xferlib.kernels.reduction import ReductionKernel, reduction
    from xferlib.kernels.scan import ScanKernel, scan

# Each is imported at its first use: a program that has only CUDA source pays for nothing else.
_PUBLIC = {
    "elementwise": ("ElementwiseKernel", "elementwise"),
    "raw": ("KernelAttributes", "RawKernel", "RawModule", "raw_module"),
    "reduction": ("ReductionKernel", "reduction"),
    "scan": ("ScanKernel", "scan"),
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = [
    "ElementwiseKernel",
    "KernelAttributes",
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "ScanKernel",
    "elementwise",
    "raw_module",
    "reduction",
    "reductions",
    "scan",
]


class _Kernels(ModuleType):
    """This package, where `elementwise`, `reduction` and `scan` are the functions, and not the modules of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _MODULES and isinstance(value, ModuleType):  # by the import system, behind an import of the module
            return
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    import importlib

    if name == "reductions":
        return importlib.import_module("xferlib.kernels.reductions")
    if name not in _MODULES:
        raise AttributeError(f"module 'xferlib.kernels' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"xferlib.kernels.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})


sys.modules[__name__].__class__ = _Kernels
