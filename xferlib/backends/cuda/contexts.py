"""Contexts and devices made current for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from xferlib.backends.cuda import driver as calls
from xferlib.backends.cuda.errors import is_forked, refuse_fork

if TYPE_CHECKING:
    from xferlib._core.device import Device


class Devices(Protocol):
    """A library's devices, one of which is current for each thread."""

    _devices: tuple[Device, ...]

    def device_current(self) -> Device: ...

    def device_use(self, device: Device) -> None: ...


class Inside:
    """Make a context current for the driver alone, for a few of its calls, and the one before it again afterwards.

    A default stream is the current context's, and memory of a device's pool can be reached from that device alone.

    Args:
        context: A primary context; 0: the process has one device, and nothing is to be done.
    """

    __slots__ = ("_before", "_context")

    def __init__(self, context: int) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._before = calls.context_current() if self._context else 0
        if self._before != self._context:
            calls.context_use(self._context)

    def __exit__(self, *exc_info: object) -> None:
        if self._before != self._context:
            calls.context_use(self._before)


HERE = Inside(0)
"""For a block that is inside already."""


class Current:
    """Make a device current for a block, and the one before it again afterwards."""

    __slots__ = ("_backend", "_before", "_device")

    def __init__(self, backend: Devices, device: Device) -> None:
        self._backend = backend
        self._device = device

    def __enter__(self) -> None:
        if len(self._backend._devices) == 1:
            self._before = None
            return
        if is_forked():
            refuse_fork(f"using {self._device}")
        before = self._backend.device_current()
        self._before = None if before is self._device else before
        if self._before is not None:
            self._backend.device_use(self._device)

    def __exit__(self, *exc_info: object) -> None:
        if self._before is not None:
            self._backend.device_use(self._before)
