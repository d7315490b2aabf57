"""The speed at which this machine moves data: measured on request, kept on disk for each device and core count."""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from xferlib._api import creation, transfers
from xferlib._core import devices, registry
from xferlib._core.device import Device, DeviceSpec
from xferlib._runtime import own_folder, thread_budget

_NBYTES = 64 << 20
_REPEATS = 5
_SOURCES = 4
"""The number of arrays used in turn: no processor's cache holds all of them, as with a program's data."""
_KERNELS = 8
_WARM_S = 0.3
"""The time after which a GPU that was idle, and ran at a fraction of its clocks, is at full speed."""
_FILE = "calibration.json"
_MOST = 1 << 20
_BEYOND = 1e9
"""No speed and no latency is as much: a file that says so is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Speeds in 1e9 bytes a second, and the time of the smallest copy.

    ``memory_gb_per_s`` is that of device memory, read and written by a kernel; 0 where xferlib makes no kernels.
    """

    pinned_up_gb_per_s: float
    pinned_down_gb_per_s: float
    staged_up_gb_per_s: float
    staged_down_gb_per_s: float
    latency_up_us: float
    latency_down_us: float
    memory_gb_per_s: float = 0.0

    def expected_s(self, nbytes: int, path: str, *, is_upload: bool) -> float:
        """Estimate the seconds that a copy of ``nbytes`` over ``path`` takes."""
        direction = "up" if is_upload else "down"
        kind = "pinned" if path == "pinned" else "staged"
        speed: float = getattr(self, f"{kind}_{direction}_gb_per_s")
        latency: float = getattr(self, f"latency_{direction}_us")
        return latency * 1e-6 + nbytes / (speed * 1e9)


def calibrate(device: DeviceSpec = None) -> Calibration:
    """Measure a device's link and memory, in about a second, and keep the result for `explain`.

    Args:
        device: An accelerator; the current device if omitted.
    """
    place = devices.get_device(device)
    source = np.random.default_rng(0).integers(0, 256, _NBYTES, dtype=np.uint8)
    pinned = creation.pinned_array(source, backend=place.backend)
    target = creation.empty(_NBYTES, np.uint8, device=place)
    memory = itertools.cycle([source + number for number in range(_SOURCES)])
    tiny, tiny_target = source[:64], creation.empty(64, np.uint8, device=place)

    def seconds(copy: Any) -> float:
        times = []
        for _ in range(_REPEATS + 1):
            start = time.perf_counter()
            copy()
            place.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times[1:])

    def speed(copy: Any) -> float:
        return _NBYTES / seconds(copy) / 1e9

    device_memory = _memory_gb_per_s(place, seconds)
    found = Calibration(
        pinned_up_gb_per_s=speed(lambda: transfers.to_device(pinned, out=target)),
        pinned_down_gb_per_s=speed(lambda: transfers.to_host(target, out=pinned)),
        staged_up_gb_per_s=speed(lambda: transfers.to_device(next(memory), out=target)),
        staged_down_gb_per_s=speed(lambda: transfers.to_host(target, out=next(memory))),
        latency_up_us=seconds(lambda: transfers.to_device(tiny, out=tiny_target)) * 1e6,
        latency_down_us=seconds(lambda: transfers.to_host(tiny_target)) * 1e6,
        memory_gb_per_s=device_memory,
    )
    _save(_key(place), found)
    return found


def _memory_gb_per_s(device: Device, seconds: Callable[[Callable[[], None]], float]) -> float:
    """Measure the rate at which a kernel reads and writes; done first, for it warms the device up."""
    if not registry.get(device.backend).at(device).capabilities.kernels:
        return 0.0
    from xferlib.kernels import elementwise

    halved = elementwise("float32 x", "float32 y", "y = x * 0.5f", name="calibrate")
    array = creation.zeros(_NBYTES // 4, np.float32, device=device)

    def kernels() -> None:
        for _ in range(_KERNELS):
            halved(array, array)

    warm_from = time.perf_counter()
    while time.perf_counter() - warm_from < _WARM_S:
        kernels()
        device.synchronize()
    return 2 * _KERNELS * _NBYTES / seconds(kernels) / 1e9


def known(device: Device) -> Calibration | None:
    """Return the calibration kept for a device; None if there is none, or what is kept makes no sense."""
    entry = _read().get(_key(device))
    names = {each.name for each in fields(Calibration)}
    if not isinstance(entry, dict) or set(entry) != names:
        return None
    if not all(type(each) in (int, float) and 0 <= each < _BEYOND for each in entry.values()):
        return None
    found = {name: float(entry[name]) for name in names}
    is_whole = all(found[name] for name in names if name.endswith("gb_per_s") and name != "memory_gb_per_s")
    return Calibration(**found) if is_whole else None


def _key(device: Device) -> str:
    return f"{device.properties.name} | {device.kind} {device.index} | {thread_budget.usable_cores()} cores"


def _read() -> dict[str, Any]:
    try:
        with own_folder.opened() as folder:
            entries = json.loads(folder.read(_FILE, _MOST) or b"{}")
    except (own_folder.NotUsedError, OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _save(key: str, found: Calibration) -> None:
    """Add a measurement to the file; one that cannot be written is skipped."""
    entries = {**_read(), key: asdict(found)}
    content = json.dumps(entries, indent=1).encode()
    failures = own_folder.NotUsedError, OSError, ValueError
    with contextlib.suppress(*failures), own_folder.opened(creates=True) as folder:
        folder.write(_FILE, content if len(content) <= _MOST else json.dumps({key: asdict(found)}).encode())
