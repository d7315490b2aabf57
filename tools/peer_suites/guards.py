"""Uses of a peer's classes that say nothing about xferlib, on the backends where that is so."""

from __future__ import annotations

import sys
from typing import Any

import xferlib as xl
from tools.peer_suites.adapting import SHIM
from tools.peer_suites.missing import guard
from xferlib._pretend.arrays import PretendedArray
from xferlib._pretend.streams import CupyStream, NumberedDevice


def _always(*_: Any, **__: Any) -> bool:
    return True


def has_no_streams(*_: Any, **__: Any) -> bool:
    """Whether the backend's arrays are the host's."""
    return not xl.get_backend().capabilities.streams


def _is_on_cpu(*_: Any, **__: Any) -> bool:
    return xl.get_device().kind != "cuda"


def _is_simulated(array: Any, **_: Any) -> bool:
    return xl.get_backend(array._native).name == "sim"


def _is_tensor(array: Any) -> bool:
    return hasattr(array._native, "data_ptr")


def _has_negative_step(array: Any, key: Any, *_: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return _is_tensor(array) and any(isinstance(each, slice) and (each.step or 1) < 0 for each in parts)


def _views_another_dtype(array: Any, dtype: Any = None, *_: Any) -> bool:
    return _is_tensor(array) and dtype is not None


def _asks_for_streams(array: Any, **options: Any) -> bool:
    return has_no_streams() and (options.get("stream") is not None or bool(options.get("dl_device")))


def _exports_an_older_version(array: Any) -> bool:
    return getattr(sys.modules.get(f"{SHIM}.cupy._util"), "CUDA_ARRAY_INTERFACE_EXPORT_VERSION", 3) != 3


def _is_ptds(
    stream: Any, null: bool = False, non_blocking: bool = False, ptds: bool = False, *_: Any, **__: Any
) -> bool:
    return ptds and has_no_streams()


def _is_no_device(device: Any, index: Any = None) -> bool:
    here = xl.get_device()
    return index is not None and int(index) not in [x.index for x in xl.get_backend().devices() if x.kind == here.kind]


def add_guards(cls: type[PretendedArray], owner: str) -> None:
    """Guard the members of a peer's class of arrays.

    Args:
        cls: The class.
        owner: The backend whose arrays are the peer's own.
    """

    def is_foreign(array: Any, **options: Any) -> bool:
        name = xl.get_backend(array._native).name
        return bool(options) and name in ("cupy", "torch") and name != owner

    def is_described_otherwise(array: Any) -> bool:
        return xl.get_backend(array._native).name != owner

    def is_described_on_cpu(array: Any) -> bool:
        return not hasattr(array._native, "__cuda_array_interface__")

    interface = "__cuda_array_interface__"
    guard(cls, "__getitem__ __setitem__", _has_negative_step, "negative steps, which tensors have not")
    guard(cls, "view", _views_another_dtype, "Tensor.view, which is torch's own")
    guard(cls, interface, _exports_an_older_version, f"an older version of {interface}")
    guard(cls, interface, is_described_otherwise, f"what other libraries' arrays say of themselves by {interface}")
    guard(cls, interface, is_described_on_cpu, f"{interface} of a CPU")
    guard(cls, "base", _always, "ndarray.base")
    if hasattr(cls, "__dlpack__"):
        guard(cls, "__dlpack__", _asks_for_streams, "streams and device memory of CUDA on a CPU")
        guard(cls, "__dlpack__", is_foreign, "what other libraries' arrays do by __dlpack__")
        guard(cls, "__dlpack__ __dlpack_device__", _is_simulated, "simulated memory in another library")
        guard(cls, "scatter_add put", _always, "functions that NumPy computes")


def guard_streams() -> None:
    """Guard CuPy's streams and devices."""
    guard(CupyStream, "__init__", _is_ptds, "default streams of each thread on a CPU")
    guard(CupyStream, "priority is_non_blocking", has_no_streams, "options of streams on a CPU")
    guard(CupyStream, "from_external __cuda_stream__", has_no_streams, "streams of CUDA on a CPU")
    guard(CupyStream, "begin_capture", has_no_streams, "captures of a library's own operations on a CPU")
    guard(CupyStream, "device_id", _always, "Stream.device_id")
    guard(NumberedDevice, "__init__", _is_no_device, "a second device")
    guard(NumberedDevice, "pci_bus_id from_pci_bus_id", _is_on_cpu, "PCI on a CPU")
    guard(NumberedDevice, "attributes mem_info compute_capability", _always, "facts of a device")
    for name in ("lt", "le", "gt", "ge"):
        setattr(NumberedDevice, f"__{name}__", lambda self, other: NotImplemented)
    is_device = lambda _, other: isinstance(other, NumberedDevice)
    guard(NumberedDevice, "__lt__ __le__ __gt__ __ge__", is_device, "an order of devices")
