"""The simulated machine that is in use: made when backend ``sim`` is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib.sim.backend import SimBackend
    from xferlib.sim.machine import Machine
    from xferlib.sim.streams import SimStream

_instance: SimBackend | None = None


def install(backend: SimBackend) -> None:
    """The registry has made the backend."""
    global _instance
    _instance = backend


def simulator() -> SimBackend:
    """The backend, loaded."""
    return _instance if _instance is not None else _load()


def _load() -> SimBackend:
    from xferlib import _registry

    _registry.get("sim")
    assert _instance is not None
    return _instance


def machine() -> Machine:
    """The machine that the backend drives."""
    return simulator().machine


def stream(device: Device) -> SimStream:
    """The calling thread's current stream on a device."""
    return simulator().current(device)
