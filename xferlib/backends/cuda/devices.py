"""CUDA devices and their primary contexts, which every CUDA library of the process shares."""

from __future__ import annotations

import threading
from typing import Any

from cuda import core
from cuda.bindings import driver

from xferlib._core.backend import Backend
from xferlib._core.device import Device, DeviceIdentity, DeviceProperties, make_device
from xferlib.backends.cuda import driver as calls
from xferlib.backends.cuda.contexts import HERE, Current, Inside
from xferlib.backends.cuda.errors import check, failure, is_forked
from xferlib.errors import ArgumentError, BackendUnavailableError, ContextError, shown


class CudaDevices(Backend):
    """The devices that a library sees."""

    def __init__(self, count: int) -> None:
        if count == 0:
            raise BackendUnavailableError(f"{self.name} sees no CUDA device")
        self._devices = tuple(make_device(self.name, "cuda", index) for index in range(count))
        self._contexts: dict[int, int] = {}
        self._primaries: set[int] = set()
        self._attached = threading.local()

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def device_properties(self, device: Device) -> DeviceProperties:
        found = core.Device(device.index)
        result, nbytes = driver.cuDeviceTotalMem(device.index)
        check(result, f"reading the memory size of {device}")
        return DeviceProperties(
            name=found.name,
            total_nbytes=int(nbytes),
            compute_capability=tuple(found.compute_capability),
            multiprocessor_count=found.properties.multiprocessor_count,
        )

    def device_identity(self, device: Device) -> DeviceIdentity:
        found = core.Device(device.index)
        return DeviceIdentity(uuid=f"GPU-{found.uuid.removeprefix('GPU-')}", pci_bus_id=found.pci_bus_id)

    def device_at(self, pointer: int) -> Device:
        if len(self._devices) == 1:
            return self._devices[0]
        if not pointer:
            return self.device_current()
        result, index = driver.cuPointerGetAttribute(
            driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer
        )
        check(result, f"finding the device of the memory at {pointer:#x}")
        return self._devices[int(index)]

    def device_memory(self, device: Device) -> tuple[int, int]:
        self.attach(device)
        with self.inside(device):
            result, free, total = driver.cuMemGetInfo()
        check(result, f"asking for the free memory of {device}")
        return int(free), int(total)

    def device_attribute(self, device: Device, name: str) -> int:
        known = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name.upper()}", None)
        if known is None:
            raise ArgumentError(
                f"{device} has no attribute {shown(name)}; CUDA's driver API names them, under CUdevice_attribute"
            )
        result, value = driver.cuDeviceGetAttribute(known, device.index)
        check(result, f"asking for the attribute {name!r} of {device}")
        return int(value)

    def device_synchronize(self, device: Device) -> None:
        self.attach(device)
        if len(self._devices) == 1:
            result = calls.context_synchronize()
        else:
            with Current(self, device):
                result = calls.context_synchronize()
        if result:
            raise failure(result, f"synchronising {device}")

    def attach(self, device: Device) -> None:
        if is_forked():
            raise failure(0, f"using {device}")
        handle = calls.context_current()
        if handle in self._primaries:
            return
        if not handle:
            self.device_use(device)
            self.core_device(device)
            self._context(device.index)
        elif not self._is_primary(handle):
            raise ContextError(
                f"the CUDA context current in this thread ({handle:#x}) is not the primary context of any device, "
                "so its memory and streams cannot be shared; pop it, and use pycuda.autoprimaryctx "
                "instead of pycuda.autoinit"
            )

    def core_device(self, device: Device) -> core.Device:
        """cuda.core's object for the current device, which it wants initialised in each thread."""
        found = core.Device(device.index)
        ready: set[int] = self._attached.__dict__.setdefault("ready", set())
        if device.index not in ready:
            found.set_current()
            ready.add(device.index)
        return found

    def _is_primary(self, handle: int) -> bool:
        for device in self._devices:
            _, _, is_active = driver.cuDevicePrimaryCtxGetState(device.index)
            if is_active:  # retaining an inactive one would create it, at hundreds of megabytes
                self._context(device.index)
        return handle in self._primaries

    def _context(self, index: int) -> int:
        """The device's primary context, retained once."""
        handle = self._contexts.get(index)
        if handle is None:
            result, context = driver.cuDevicePrimaryCtxRetain(index)
            check(result, f"retaining the primary context of device {index}")
            handle = self._contexts[index] = int(context)
            self._primaries.add(handle)
        return handle

    def is_inside(self, device: Device) -> bool:
        """Whether the device's context is current in this thread, asked in a tenth of the time of setting it."""
        return calls.context_current() == self._contexts.get(device.index)

    def inside(self, device: Device) -> Inside:
        if len(self._devices) == 1 or self.is_inside(device):
            return HERE
        return Inside(self._context(device.index))

    def _inside(self, device: Device, call: Any, *arguments: Any) -> int:
        """The result of a call that depends on the current context: on its default stream, or on its memory."""
        if len(self._devices) == 1 or self.is_inside(device):
            result: int = call(*arguments)
            return result
        with self.inside(device):
            return call(*arguments)  # type: ignore[no-any-return]
