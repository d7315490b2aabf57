"""The typed errors for the driver's results."""

from __future__ import annotations

import os
from typing import Any

from xferlib._core.ordering import capture
from xferlib._runtime.fork import reset_in_child
from xferlib.backends.cuda import driver as calls
from xferlib.errors import CaptureError, DeviceLostError, DeviceMemoryError, ForkError, TransferError

# After these nothing more can run in the process (CUDA driver API, "CUresult").
_STICKY = frozenset({
    "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC", "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_NVLINK_UNCORRECTABLE", "CUDA_ERROR_CONTEXT_IS_DESTROYED",
})  # fmt: skip

_forked_from: int | None = None


def _mark_forked() -> None:
    global _forked_from
    _forked_from = os.getppid()


reset_in_child(_mark_forked)


def check(result: Any, doing: str) -> None:
    """Raise the typed error for a driver call that did not succeed."""
    if int(result) != calls.SUCCESS:
        raise failure(result, doing)


def failure(result: Any, doing: str) -> Exception:
    """The error for a driver result, as fact, value and remedy."""
    if _forked_from is not None:
        return ForkError(
            f"{doing} in process {os.getpid()}, forked from {_forked_from} after CUDA was initialised there; "
            "start workers with multiprocessing.get_context('spawn'), or fork first"
        )
    name = calls.error_name(int(result))
    if name in _STICKY:
        return DeviceLostError(
            f"{doing} failed with {name}: an earlier kernel or copy broke the CUDA context, and nothing more can run "
            "on the device in this process; restart it (compute-sanitizer finds the faulty access)"
        )
    if int(result) == calls.OUT_OF_MEMORY:
        return DeviceMemoryError(f"{doing} failed with {name}: free device arrays, or move less at a time")
    if name == "CUDA_ERROR_STREAM_CAPTURE_UNJOINED":
        return capture.unjoined(doing)
    if name.startswith("CUDA_ERROR_STREAM_CAPTURE"):
        return CaptureError(
            f"{doing} failed with {name}: a library has made a call that a capture does not allow; make it before the "
            "block, or leave it out"
        )
    return TransferError(f"{doing} failed with {name}; `xferlib info` shows the driver and the devices")


def refuse_fork(doing: str) -> None:
    """Raise where this process was forked from one that uses CUDA."""
    if _forked_from is not None:
        raise failure(0, doing)


def is_forked() -> bool:
    """Whether this process was forked from one that uses CUDA."""
    return _forked_from is not None
