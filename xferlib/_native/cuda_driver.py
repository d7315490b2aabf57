"""Facts about devices from the CUDA driver itself, without a library over it.

`xferlib doctor` runs this file as a script, in a process of its own: a driver that crashes ends that one alone. So it
imports nothing of xferlib's, and not NumPy, which would take ten times as long as all of this.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
"""Of the driver, as the loader finds it."""
_CAPABILITY = (75, 76)
"""Major and minor, by their numbers in CUdevice_attribute (CUDA driver API)."""


def answer(library: str = LIBRARY) -> dict[str, Any]:
    """The driver's version and devices; ``absent`` or ``status`` where there is none to ask."""
    try:
        driver = ctypes.CDLL(library)
        start, count_devices = driver.cuInit, driver.cuDeviceGetCount
    except (OSError, AttributeError) as error:  # there is none, or something else by its name
        return {"absent": str(error)}
    if status := start(0):
        return {"status": status}
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    count_devices(ctypes.byref(count))
    return {
        "version": [version.value // 1000, version.value % 1000 // 10],
        "devices": [_device(driver, index) for index in range(count.value)],
    }


def _device(driver: Any, index: int) -> dict[str, Any]:
    device, nbytes, value = ctypes.c_int(0), ctypes.c_size_t(0), ctypes.c_int(0)
    if status := driver.cuDeviceGet(ctypes.byref(device), index):
        return {"status": status}
    name, bus = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
    driver.cuDeviceGetName(name, 256, device)
    driver.cuDeviceGetPCIBusId(bus, 64, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(nbytes), device)
    capability = []
    for number in _CAPABILITY:
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        capability.append(value.value)
    return {
        "name": name.value.decode(errors="replace"), "bus": bus.value.decode(errors="replace"),
        "capability": capability, "nbytes": nbytes.value,
    }  # fmt: skip


def facts() -> list[str]:
    """The same in sentences: one for the driver and one for each device; one where there is no driver."""
    found = answer()
    if "absent" in found:
        return [f"no CUDA driver: {LIBRARY} is not found"]
    if "status" in found:
        return [f"the CUDA driver cannot be used: cuInit returns error {found['status']}"]
    major, minor = found["version"]
    devices = [
        f"cuda:{index} cannot be used: cuDeviceGet returns error {each['status']}"
        if "status" in each
        else f"cuda:{index}, {each['name']}, {each['nbytes'] / (1 << 30):.1f} GiB"
        for index, each in enumerate(found["devices"])
    ]
    return [f"CUDA driver for CUDA {major}.{minor}", *devices]


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


if __name__ == "__main__":
    print(sys.argv[1] + json.dumps(answer(sys.argv[2])))
