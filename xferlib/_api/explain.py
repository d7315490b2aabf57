"""The path of a transfer, whether and why it is asynchronous, and its expected time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xferlib._api import calibration as _calibration
from xferlib._core import array, registry
from xferlib._core.device import Device, DeviceSpec
from xferlib._transfer import ends, plan
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.plan import Path, Plan

_REASONS = {
    Path.EMPTY: "there is nothing to copy",
    Path.SMALL: "one thread copies it at once into pinned memory: the source is free when the call returns",
    Path.PINNED: "the memory is page-locked: the device reads it by itself while the host goes on",
    Path.STAGED: "the memory is pageable, or its layout or dtype differs: threads gather it into pinned chunks",
    Path.PERMUTED: "the array is dense in another axis order: it is sent as it lies and put in C order on the device",
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


def explain(x: Any, *, backend: str | None = None, device: DeviceSpec = None, dtype: Any = None) -> Explanation:
    """Explain which path a transfer takes, whether and why it is asynchronous, and how long it should take.

    Nothing is copied. A host array is explained as `to_device` would send it, a device array as
    `to_host` would copy it into a new array.

    Args:
        x: A host or device array.
        backend, device, dtype: As for `to_device`.
    """
    owner = registry.backend_of(x)
    if owner is not None and owner.view(x).device.kind != "cpu":
        return _download(x, owner)
    host = owner.host_view(x) if owner is not None else array.as_host_array(x)
    target, place, *_ = ends.target_of(backend, device, None, None)
    wanted = array.check_dtype(host.dtype if dtype is None else dtype)
    if place.kind == "cpu":
        return Explanation(
            direction="to device", path="host", is_async=False, nbytes=host.nbytes, plan="one copy", advice="",
            expected_ms=_expected_ms(place, host.nbytes, "host", is_upload=True),
            reason=f"{place} is a CPU: the array is copied in host memory",
        )  # fmt: skip
    target.attach(place)
    found = plan.of(HostEnd(host, wanted, target), place, is_upload=True)
    return Explanation(
        direction="to device",
        path=found.path.value,
        is_async=found.path is Path.PINNED,
        nbytes=found.nbytes,
        plan=str(found),
        expected_ms=_expected_ms(place, host.size * wanted.itemsize, found.path.value, is_upload=True),
        reason=_REASONS[found.path],
        advice=_advice(host, wanted, found),
    )


def _advice(host: np.ndarray[Any, Any], wanted: np.dtype[Any], found: Plan) -> str:
    if not found.is_slow:
        return ""
    if host.dtype != wanted or not host.flags.c_contiguous:
        return "if it is sent often, keep pinned_array(x, dtype); to_device_async(x) returns at once as it is"
    return "allocate it with pinned_empty(), or use to_device_async(x), which returns at once"


def _download(x: Any, owner: Any) -> Explanation:
    info = owner.view(x)
    strides, part = array.c_strides(info.shape, info.dtype.itemsize), owner.at(info.device)
    means = plan.means_of(part, info.device)
    found = plan.compiled(
        info.shape, strides, info.dtype, info.dtype, means, False, True, True, True, "pageable", plan.forced()
    )  # fmt: skip
    return Explanation(
        direction="to host",
        path=found.path.value,
        is_async=False,
        nbytes=found.nbytes,
        plan=str(found),
        expected_ms=_expected_ms(info.device, info.nbytes, found.path.value, is_upload=False),
        reason="to_host returns complete data; threads empty the pinned chunks that the device fills",
        advice=""
        if found.path is Path.EMPTY
        else "to_host_async(x) returns at once; out=pinned_empty(...) skips the staging",
    )


def _expected_ms(device: Device, nbytes: int, path: str, *, is_upload: bool) -> float | None:
    calibration = _calibration.known(device)
    if calibration is None or not nbytes:
        return None
    return calibration.expected_s(nbytes, path, is_upload=is_upload) * 1e3
