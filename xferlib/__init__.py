"""Move arrays to accelerators, compute, and move them back, over CuPy, PyCUDA, PyTorch or NumPy."""

from typing import Any

from xferlib._runtime import supported

supported.refuse()  # before NumPy, which would fail in a way of its own

from xferlib import errors as errors  # noqa: E402
from xferlib._runtime import torch_compile  # noqa: E402

torch_compile.keep_tracer_out()

# The public names by the modules that define them, each imported at its first use (SPEC 1 of Scientific Python): a
# program pays for the parts that it uses. The rest follows from this table: `__all__`, `__dir__`, and `__init__.pyi`
# for type checkers, which tools/make_stub.py writes from these names and the signatures of their functions.
_PUBLIC: dict[str, tuple[str, ...]] = {
    "xferlib": ("distributed", "kernels", "random", "sim", "tree"),
    "xferlib._api.array_module": ("ArrayModule",),
    "xferlib._api.creation": (
        "arange", "array_over", "asarray", "common", "concat", "empty", "empty_like", "eye", "full", "full_like",
        "get_array_module", "get_backend", "linspace", "namespace", "ones", "ones_like", "pin", "pinned_array",
        "pinned_empty", "pinned_empty_like", "pinned_pool", "pinned_zeros", "synchronize", "trim", "zeros",
        "zeros_like",
    ),
    "xferlib._api.device_array": ("DeviceArray", "is_array"),
    "xferlib._api.diagnose": ("Calibration", "Explanation", "calibrate", "explain"),
    "xferlib._api.transfers": ("astype", "copy_to", "to_device", "to_device_async", "to_host", "to_host_async"),
    "xferlib._arrays.namespace": ("get_exact_module",),
    "xferlib._core.registry": (
        "BackendStatus", "Device", "available_backends", "device_of", "get_device", "use_backend",
    ),
    "xferlib._core.streams": ("Event", "Graph", "Stream", "current_stream"),
    "xferlib._memory.pinned": ("PinnedPool", "PinnedStats"),
    "xferlib._pipeline.prefetch": ("Prefetcher", "prefetch"),
    "xferlib._pipeline.stream_map": ("stream_map",),
    "xferlib._runtime.process": ("configure",),
    "xferlib._trace.trace": ("TraceOperation", "trace"),
    "xferlib._transfer.handle": ("Transfer", "TransferStats"),
    "xferlib.kernels.elementwise": ("ElementwiseKernel", "elementwise"),
    "xferlib.kernels.raw": ("KernelAttributes", "RawKernel", "RawModule", "raw_module"),
    "xferlib.kernels.reduction": ("ReductionKernel", "reduction"),
    "xferlib.kernels.scan": ("ScanKernel", "scan"),
    "xferlib.tree": ("load", "save"),
}  # fmt: skip
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted([*_MODULES, "errors"])  # noqa: PLE0605 - one table

_MODULES["__version__"] = "xferlib._runtime.version"  # which reads files


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        if name.startswith("_"):  # a package that `import` is about to look for
            raise AttributeError(f"module 'xferlib' has no attribute {name!r}")
        from xferlib._arrays.namespace import explain_missing_name  # here: only a program with a mistake waits for it

        raise explain_missing_name(name)
    import importlib

    is_module = module == __name__
    found = importlib.import_module(f"{module}.{name}" if is_module else module)
    value = globals()[name] = found if is_module else getattr(found, name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
