"""The list of devices, the parser of specifications, and the current device."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import blocks, defaults, registry
from xferlib._core import device as _device
from xferlib._core.device import Device, DeviceSpec, make_device, parse
from xferlib._core.raw import refuse_device
from xferlib._runtime import config
from xferlib.errors import ArgumentError, DeviceNotFoundError, UnsupportedArrayError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import DeviceIdentity, DeviceProperties

_local = threading.local()
settle: Callable[[Device], None] | None = None
"""Waits until the transfers on a device are enqueued; `pending` sets it."""


class _Directory:
    """The registry, as devices see it."""

    def resolve(self, spec: DeviceSpec) -> Device:
        return resolve(spec)

    def properties(self, device: Device) -> DeviceProperties:
        return registry.get(device.backend).at(device).device_properties(device)

    def identity(self, device: Device) -> DeviceIdentity:
        return registry.get(device.backend).at(device).device_identity(device)

    def memory(self, device: Device) -> tuple[int, int]:
        return registry.get(device.backend).at(device).device_memory(device)

    def attribute(self, device: Device, name: str) -> int:
        if not isinstance(name, str):
            raise ArgumentError(
                f"{device}: attribute {shown(name)} is no name; give one such as 'max_threads_per_block'"
            )
        return registry.get(device.backend).at(device).device_attribute(device, attribute_name(name))

    def synchronize(self, device: Device) -> None:
        refuse_device("synchronize", device)
        if settle is not None:
            settle(device)
        registry.get(device.backend).at(device).device_synchronize(device)

    def use(self, device: Device) -> None:
        change = _Switch(device)
        if not blocks.alter(device.backend, (change,)):
            undo: list[blocks.Undo] = []
            try:
                change.make(undo)
            except BaseException:
                for each in reversed(undo):
                    each()
                raise
            defaults.use_backend(device.backend)

    def enter(self, device: Device) -> None:
        if device.kind == "cpu":
            blocks.enter(device, None)
        else:
            blocks.enter(device, device.backend, (_Switch(device),))


_device.directory = _Directory()


class _Switch:
    """Makes a device current in its library, and in each other one that has it."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def make(self, undo: list[blocks.Undo]) -> None:
        device = self.device
        owner = registry.get(device.backend)
        after = [(owner, device)]
        # Asked here, so that a later first look does not undo this with XFERLIB_DEVICE.
        undo.append(functools.partial(owner.device_use, current_device(owner)))
        for each in registry.loaded():  # some share their current device, so all are asked before any is told
            here = current_device(each) if each is not owner and each.pinned_domain == owner.pinned_domain else None
            if here is not None and (there := _same(device, each, here)) is not None:
                undo.append(functools.partial(each.device_use, here))
                after.append((each, there))
        for backend, there in reversed(after):  # the library that was named comes last, where they share
            backend.device_use(there)


def _same(device: Device, backend: Backend, here: Device) -> Device | None:
    """The device as another library has it; None if that is current there, or the library is to stay elsewhere."""
    there = make_device(backend.name, device.kind, device.index)
    return there if here is not there and here.kind == device.kind and there in backend.devices() else None


def _join(backend: Backend) -> None:
    """Make a library that the thread meets within blocks of devices as if it had met it before them."""
    for made in blocks.made():
        for change in made.block.changes:
            if (
                isinstance(change, _Switch)
                and registry.get(change.device.backend).pinned_domain == backend.pinned_domain
            ):
                here = backend.device_current()
                if (there := _same(change.device, backend, here)) is not None:
                    made.undo.append(functools.partial(backend.device_use, here))
                    backend.device_use(there)


def attribute_name(name: str) -> str:
    """The name of a device's attribute as backends have it: in lower case, without the driver's prefix."""
    return name.lower().removeprefix("cu_device_attribute_")


def resolve(spec: DeviceSpec, *, backend: Backend | None = None, default: Backend | None = None) -> Device:
    """A device that exists, from any specification.

    Args:
        spec: As for `Device`.
        backend: The backend that the call has settled on, if it has.
        default: The backend of a specification that names none; the default one if omitted.

    Raises:
        DeviceNotFoundError: It cannot be read or does not exist, or is of another backend.
    """
    if spec is None:
        return current_device(backend or default or defaults.default_backend())
    blocks.follow()
    name: str | None
    kind: str | None
    index: int | None
    if type(spec) is not str and (native := _from_native(spec)) is not None:
        return _of_native(*native, spec, backend)
    if isinstance(spec, Device):
        if (backend is None or backend.name == spec.backend) and backend_of(spec) is not None:
            return spec
        name, kind, index = spec.backend, spec.kind, spec.index
    elif isinstance(spec, str):
        name, kind, index = parse(spec, "device")
    elif type(spec) is int:
        name, kind, index = None, None, spec
        if index < 0:
            raise DeviceNotFoundError(
                f"device={shown(index)} is no device: their numbers begin at 0; give None for the current one"
            )
    else:
        raise DeviceNotFoundError(
            f"device={shown(spec)} is {type(spec).__name__}, not a device; give 'cuda:0', 'cpu', a Python int "
            "(int(x) of a NumPy integer) or None; xferlib.device_of(x) gives the device of an array"
        )
    if name is not None and backend is not None and name != backend.name:
        raise _other_backend(spec, name, backend)
    owner = backend if backend is not None else _owner(name, kind, default)
    return _existing(owner, kind, index, spec)


def _from_native(native: Any) -> tuple[str, str, int | None] | None:
    """Backend, kind and index of a library's own device object; None for any other object.

    The library is not imported: the object's class says where it is from. The index is None for torch's ``"cuda"``,
    which is the current device.
    """
    cls = type(native)
    library = cls.__module__.partition(".")[0]
    if library == "torch" and cls.__name__ == "device":
        return "torch", native.type, native.index if native.type != "cpu" else 0
    if library == "cupy" and cls.__name__ == "Device":
        return "cupy", "cuda", int(native.id)
    return None


def _of_native(name: str, kind: str, index: int | None, spec: Any, backend: Backend | None) -> Device:
    """The device that a library's own device object means."""
    if backend is not None and backend.name != name:
        raise _other_backend(spec, name, backend)
    owner = registry.get(name)
    if index is None:
        index = next((each.index for each in [current_device(owner)] if each.kind == kind), 0)
    return _existing(owner, kind, index, spec)


def _other_backend(spec: Any, name: str, backend: Backend) -> DeviceNotFoundError:
    return DeviceNotFoundError(
        f"device={text(spec)!r} belongs to backend {name!r}, but this call uses {backend.name!r}; "
        f"leave one of the two out"
    )


def text(spec: Any) -> str:
    """A specification that has been read, for a message."""
    return shown(spec) if type(spec) is int else str(spec)


def backend_of(device: Device) -> Backend | None:
    """The backend's part that serves a device; None where that does not exist."""
    owner = registry.get(device.backend)
    return owner.at(device) if device in owner.devices() else None


def _owner(name: str | None, kind: str | None, default: Backend | None) -> Backend:
    if name is not None:
        return registry.get(name)
    owner = default if default is not None else defaults.default_backend()
    if kind not in defaults.HOMES or any(device.kind == kind for device in owner.devices()):
        return owner
    return registry.get(defaults.HOMES[kind])


def _existing(backend: Backend, kind: str | None, index: int | None, spec: Any, setting: str = "device") -> Device:
    """The device of a backend that a specification means, which ``setting`` names in messages."""
    if index is None:
        return current_device(backend)
    devices = backend.devices()
    kind = devices[0].kind if kind is None else kind
    for device in devices:  # as it is called by name in each transfer: a generator takes twice as long
        if device.index == index and device.kind == kind:
            return device
    names = ", ".join(map(str, devices))
    raise DeviceNotFoundError(
        f"{setting}={text(spec)!r} does not exist: {backend.name} sees {names}; `xferlib info --load` lists all"
    )


def current_device(backend: Backend) -> Device:
    """The backend's current device for this thread and task; the setting's at the thread's first look behind it."""
    blocks.follow()
    mine = _local
    try:
        is_seen = backend.name in mine.seen
    except AttributeError:
        mine.seen = set()
        is_seen = False
    if not is_seen:
        _apply_default(backend)
        mine.seen.add(backend.name)
        _join(backend)
        if backend.asks_each_thread:
            backend.hand_out(None)
    return backend.device_current()


def _look_again() -> None:
    """Let each thread make the setting's device current, which the program has just changed."""
    global _local
    _local = threading.local()


config.watchers["device"] = _look_again


def _apply_default(backend: Backend) -> None:
    """Make the environment's device current, if it is one of this backend's.

    NumPy is the host side of every backend, and the CPU and the simulated devices belong to some only: where such a
    device is not the program's default, the setting is meant for another backend.
    """
    spec = config.get().device
    if spec is None:
        return
    name, kind, index = defaults.environment_device()
    if index is None or name not in (None, backend.name):
        return
    is_elsewhere = kind in defaults.HOMES and all(each.kind != kind for each in backend.devices())
    if (backend.name == "numpy" or is_elsewhere) and defaults.environment_choice() != backend.name:
        return
    said, remedy = config.origin("device")
    try:
        device = _existing(backend, kind, index, spec, said)
    except DeviceNotFoundError as error:
        raise DeviceNotFoundError(f"{error}; or {remedy}") from None
    backend.device_use(device)


def device_of(x: Any) -> Device:
    """The device that holds an array.

    Raises:
        UnsupportedArrayError: ``x`` is no array of any backend.
    """
    backend = registry.backend_of(x)
    if backend is None:
        raise UnsupportedArrayError(
            f"device_of: {type(x).__name__} is not an array of any backend; "
            "xferlib.get_device(spec) takes specifications"
        )
    return backend.device_of(x)


def for_array(spec: Any, array: Any) -> Device:
    """`get_device`, of the array's own backend where the specification names none; NumPy's is the default one."""
    if isinstance(spec, (str, int)) or spec is None:
        owner = registry.backend_of(array)
        return resolve(spec, default=None if owner is None or owner.name == "numpy" else owner)
    return get_device(spec)


def get_device(spec: Any = None) -> Device:
    """A device from a specification or an array; None is the current device.

    ``with get_device(x): y = x + 1`` works for arrays of every backend: a CPU device is a no-op. A NumPy integer is
    neither: it is refused, as by `Device`.
    """
    if isinstance(spec, (str, int, Device, np.generic)) or registry.backend_of(spec) is None:
        return resolve(spec)
    return device_of(spec)
