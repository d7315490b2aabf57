"""Facts about devices from the CUDA driver itself, without a library over it."""

from __future__ import annotations

import ctypes
import os
from typing import Any

LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
"""Of the driver, as the loader finds it."""
_NAME_NBYTES = 256


def facts() -> list[str]:
    """The driver's version and each device, one sentence each; one sentence where there is none."""
    try:
        driver = ctypes.CDLL(LIBRARY)
    except OSError:
        return [f"no CUDA driver: {LIBRARY} is not found"]
    if status := driver.cuInit(0):
        return [f"the CUDA driver cannot be used: cuInit returns error {status}"]
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    major, minor = version.value // 1000, version.value % 1000 // 10
    return [f"CUDA driver for CUDA {major}.{minor}", *(_device(driver, index) for index in range(count.value))]


def _device(driver: Any, index: int) -> str:
    device, nbytes = ctypes.c_int(0), ctypes.c_size_t(0)
    name = ctypes.create_string_buffer(_NAME_NBYTES)
    if status := driver.cuDeviceGet(ctypes.byref(device), index):
        return f"cuda:{index} cannot be used: cuDeviceGet returns error {status}"
    driver.cuDeviceGetName(name, _NAME_NBYTES, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(nbytes), device)
    return f"cuda:{index}, {name.value.decode(errors='replace')}, {nbytes.value / (1 << 30):.1f} GiB"


def active_devices() -> set[int] | None:
    """The devices whose primary context this process has made; None where there is no driver to ask."""
    try:
        driver = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    count, flags, is_active = ctypes.c_int(0), ctypes.c_uint(0), ctypes.c_int(0)
    if driver.cuDeviceGetCount(ctypes.byref(count)):
        return set()  # not initialised, so nothing has made one
    found = set()
    for index in range(count.value):
        if not driver.cuDevicePrimaryCtxGetState(index, ctypes.byref(flags), ctypes.byref(is_active)):
            found |= {index} if is_active.value else set()
    return found
