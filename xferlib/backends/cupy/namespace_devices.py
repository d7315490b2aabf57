"""The device that a function of CuPy's namespace makes its arrays on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cupy

from xferlib._core.device import Device
from xferlib.errors import DeviceNotFoundError, shown


def index_of(device: Any) -> int:
    """The number of a device of CuPy's, of xferlib's, of their names, or the number itself.

    Raises:
        DeviceNotFoundError: CuPy has no such device.
    """
    found: Any = device
    if isinstance(device, cupy.cuda.Device):
        found = int(device.id)
    elif isinstance(device, Device) and device.kind == "cuda":
        found = device.index
    elif isinstance(device, str):
        kind, _, number = device.removeprefix("cupy:").partition(":")
        if kind == "cuda" and (not number or number.isdecimal()):
            found = int(number) if number else cupy.cuda.runtime.getDevice()
    if type(found) is int and 0 <= found < cupy.cuda.runtime.getDeviceCount():
        return found
    raise DeviceNotFoundError(f"device={shown(device)} is no device of CuPy here; give 'cuda:0', 0 or x.device")


@contextmanager
def inside(device: Any, like: Any = None) -> Iterator[int]:
    """Make a device current for a block: the one that is named, else that of the array ``like``, else the current one.

    Yields:
        Its number.

    Raises:
        DeviceNotFoundError: CuPy has no such device.
    """
    current = cupy.cuda.runtime.getDevice()
    if device is not None:
        wanted = index_of(device)
    else:
        wanted = like.data.device_id if isinstance(like, cupy.ndarray) else current
    if wanted == current:
        yield wanted
        return
    with cupy.cuda.Device(wanted):
        yield wanted
