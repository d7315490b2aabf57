"""The speed at which this machine moves data: measured on request, kept on disk for each device and core count."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from xferlib._api import creation, transfers
from xferlib._core import registry
from xferlib._core.arrays import c_strides
from xferlib._core.device import Device, DeviceSpec
from xferlib._runtime import own_folder, threads
from xferlib._transfer import describe, plan
from xferlib._transfer.describe import CopySource, HostEnd
from xferlib._transfer.plan import Plan, TransferPath

if TYPE_CHECKING:
    from xferlib.kernels.elementwise import ElementwiseKernel

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

    def estimate_s(self, nbytes: int, path: str, *, is_upload: bool) -> float:
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
    place = registry.get_device(device)
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
    if not registry.part_of(device).capabilities.kernels:
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


def get_calibration(device: Device) -> Calibration | None:
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
    return f"{device.properties.name} | {device.kind} {device.index} | {threads.usable_cores()} cores"


def _read() -> dict[str, Any]:
    try:
        with own_folder.open_folder() as folder:
            entries = json.loads(folder.read(_FILE, _MOST) or b"{}")
    except (own_folder.NotUsedError, OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _save(key: str, found: Calibration) -> None:
    """Add a measurement to the file; one that cannot be written is skipped."""
    entries = {**_read(), key: asdict(found)}
    content = json.dumps(entries, indent=1).encode()
    failures = own_folder.NotUsedError, OSError, ValueError
    with contextlib.suppress(*failures), own_folder.open_folder(creates=True) as folder:
        folder.write(_FILE, content if len(content) <= _MOST else json.dumps({key: asdict(found)}).encode())


# The path of a transfer, whether and why it is asynchronous, and its expected time.

_REASONS = {
    TransferPath.EMPTY: "there is nothing to copy",
    TransferPath.SMALL: "one thread copies it at once into pinned memory: the source is free when the call returns",
    TransferPath.PINNED: "the memory is page-locked: the device reads it by itself while the host goes on",
    TransferPath.STAGED: "the memory is pageable, or its layout or dtype differs: threads gather it into pinned chunks",
    TransferPath.PERMUTED: (
        "the array is dense in another axis order: it is sent as it lies and put in C order on the device"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """The path and cost of a transfer; shown or printed, it reads as sentences.

    Attributes:
        direction: ``"to device"`` or ``"to host"``.
        path: ``"pinned"``, ``"staged"``, ``"small"``, ``"permuted"``, ``"host"`` or ``"empty"``.
        is_async: Whether ``to_device(x, stream=s)`` or ``to_host(x, stream=s)`` returns before the copy is done.
        nbytes: Bytes that cross the link.
        plan: The plan that such a transfer is made by, in words: its copies, the threads, and where the dtype changes.
        expected_ms: From this machine's calibration; None before `xferlib.calibrate`.
        reason: The reason for this path.
        advice: The change that would make it faster or asynchronous; empty if there is none.
    """

    direction: str
    path: str
    is_async: bool
    nbytes: int
    plan: str
    expected_ms: float | None
    reason: str
    advice: str

    def __repr__(self) -> str:
        cost = "unknown: run xferlib.calibrate()" if self.expected_ms is None else f"{self.expected_ms:.3g} ms"
        lines = [
            f"{self.direction}: {self.nbytes} bytes, path {self.path!r}, expected time {cost}",
            f"plan: {self.plan}",
            f"{'asynchronous' if self.is_async else 'not asynchronous'}: {self.reason}",
        ]
        return "\n".join([*lines, f"advice: {self.advice}"] if self.advice else lines)


@overload
def explain(x: ElementwiseKernel) -> str: ...
@overload
def explain(x: Any, *, backend: str | None = None, device: DeviceSpec = None, dtype: Any = None) -> Explanation: ...
def explain(x: Any, *, backend: str | None = None, device: DeviceSpec = None, dtype: Any = None) -> Explanation | str:
    """Explain which path a transfer takes, whether and why it is asynchronous, and how long it should take.

    Nothing is copied. A host array is explained as `to_device` would send it, a device array as
    `to_host` would copy it into a new array.

    Args:
        x: A host or device array; or a kernel of `elementwise`, of which it names the engine on a CPU, and why that is
            not compiled C, for the dtypes of each call so far.
        backend, device, dtype: As for `to_device`.
    """
    if isinstance(x, functools.partial) and (engines := _explain_kernel(x)):
        return engines
    source = describe.source_of(x, dtype=dtype)
    if (host := source.host) is None:
        return _download(source)
    target, place, *_ = describe.target_of(backend, device, None, None)
    wanted = describe.get_result_dtype(source, dtype)
    if place.kind == "cpu":
        return Explanation(
            direction="to device", path="host", is_async=False, nbytes=host.nbytes, plan="one copy", advice="",
            expected_ms=_estimate_ms(place, host.nbytes, "host", is_upload=True),
            reason=f"{place} is a CPU: the array is copied in host memory",
        )  # fmt: skip
    target.attach(place)
    found = plan.of(HostEnd(host, wanted, target), place, is_upload=True)
    return Explanation(
        direction="to device",
        path=found.path.value,
        is_async=found.path is TransferPath.PINNED,
        nbytes=found.nbytes,
        plan=str(found),
        expected_ms=_estimate_ms(place, found.nbytes, found.path.value, is_upload=True),
        reason=_REASONS[found.path],
        advice=_advice(host, wanted, found),
    )


def _explain_kernel(x: Any) -> str:
    """The engines of a kernel; empty for what is no kernel."""
    from xferlib.kernels.elementwise import ElementwiseKernel

    if not isinstance(x, ElementwiseKernel):
        return ""
    lines = [f"{x.name}({types}): {engine}" for types, engine in x._engines().items()]
    return "\n".join(lines) or f"{x.name}: not called yet; {x.name}.engine(dtype, ...) tells for the dtypes of a call"


def _advice(host: np.ndarray[Any, Any], wanted: np.dtype[Any], found: Plan) -> str:
    if not found.is_slow:
        return ""
    if host.dtype != wanted or not host.flags.c_contiguous:
        return "if it is sent often, keep pinned_array(x, dtype); to_device_async(x) returns at once as it is"
    return "allocate it with pinned_empty(), or use to_device_async(x), which returns at once"


def _download(source: CopySource) -> Explanation:
    info = source.info
    assert info is not None
    strides, means = c_strides(info.shape, info.dtype.itemsize), plan.means_of(source.backend, info.device)
    found = plan.compile_plan(
        info.shape, strides, info.dtype, info.dtype, means, False, True, True, True, "pageable", plan.forced()
    )  # fmt: skip
    return Explanation(
        direction="to host",
        path=found.path.value,
        is_async=False,
        nbytes=found.nbytes,
        plan=str(found),
        expected_ms=_estimate_ms(info.device, info.nbytes, found.path.value, is_upload=False),
        reason="to_host returns complete data; threads empty the pinned chunks that the device fills",
        advice=""
        if found.path is TransferPath.EMPTY
        else "to_host_async(x) returns at once; out=pinned_empty(...) skips the staging",
    )


def _estimate_ms(device: Device, nbytes: int, path: str, *, is_upload: bool) -> float | None:
    calibration = get_calibration(device)
    if calibration is None or not nbytes:
        return None
    return calibration.estimate_s(nbytes, path, is_upload=is_upload) * 1e3
