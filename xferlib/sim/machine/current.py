"""The simulated machine in use, which loading backend ``sim`` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib.sim.machine.machine import Machine
    from xferlib.sim.model.streams import SimStream


class Simulator(Protocol):
    """The backend: drives the machine, and knows the calling thread's current device and stream."""

    machine: Machine

    def devices(self) -> tuple[Device, ...]: ...
    def device_current(self) -> Device: ...
    def current(self, device: Device, /) -> SimStream: ...


_instance: Simulator | None = None


def install(simulator: Simulator) -> None:
    """Set the backend, which the registry has made."""
    global _instance
    _instance = simulator


def simulator() -> Simulator:
    """The backend, loaded."""
    return _instance if _instance is not None else _load()


def _load() -> Simulator:
    from xferlib._core import registry

    registry.get("sim")
    assert _instance is not None
    return _instance


def machine() -> Machine:
    """The machine that the backend drives."""
    return simulator().machine


def stream(device: Device) -> SimStream:
    """The calling thread's current stream on a device."""
    return simulator().current(device)
