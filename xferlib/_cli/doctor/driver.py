"""Answers of the CUDA driver itself, through ctypes: its version, its devices.

Run as a script, by `child.answer_of_script`: importing NumPy would take ten times as long as all of this.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

_CAPABILITY = (75, 76)
"""Major and minor, by their numbers in CUdevice_attribute (CUDA driver API)."""


def _answer(library: str) -> dict[str, Any]:
    """The driver's version and devices; ``absent`` or ``status`` where there is none to ask."""
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        return {"absent": str(error)}
    if status := driver.cuInit(0):
        return {"status": status}
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    return {
        "version": [version.value // 1000, version.value % 1000 // 10],
        "devices": [_device(driver, index) for index in range(count.value)],
    }


def _device(driver: Any, index: int) -> dict[str, Any]:
    name, bus = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
    device = ctypes.c_int(0)
    if status := driver.cuDeviceGet(ctypes.byref(device), index):
        return {"status": status}
    driver.cuDeviceGetName(name, 256, device)
    driver.cuDeviceGetPCIBusId(bus, 64, device)
    return {
        "name": name.value.decode(errors="replace"),
        "bus": bus.value.decode(errors="replace"),
        "capability": [_attribute(driver, each, device) for each in _CAPABILITY],
    }


def _attribute(driver: Any, number: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int(0)
    driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


if __name__ == "__main__":
    print(sys.argv[1] + json.dumps(_answer(sys.argv[2])))
