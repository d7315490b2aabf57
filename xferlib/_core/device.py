"""Devices as values: ``cupy:cuda:0``. Their methods ask `directory`, which `_core.devices` fills in."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeAlias, cast

from xferlib._core import blocks
from xferlib._runtime import peer_names
from xferlib.errors import DeviceNotFoundError, shown

_interned: dict[tuple[str, str, int], Device] = {}
_SPEC = re.compile(r"(?:(?P<backend>[A-Za-z_]\w*):)?(?P<kind>[A-Za-z]\w*)(?::(?P<index>\d{1,4}))?", re.ASCII)
_INDEX = re.compile(r"\d{1,4}", re.ASCII)
_KINDS = frozenset({"cpu", "cuda", "sim"})


class DeviceParts(NamedTuple):
    """The parts of a device's text, None for those that it leaves out; a kind without a number is that of 0."""

    backend: str | None
    kind: str | None
    number: int | None


@functools.lru_cache(maxsize=64)
def parse(text: str, source: str) -> DeviceParts:
    """Read ``"torch:cuda:1"``, ``"cuda:1"``, ``"1"``, ``"torch:1"`` or ``"torch"``, a backend's own default device.

    Args:
        text: A device, which need not exist.
        source: What to call it in the message.

    Raises:
        DeviceNotFoundError: It cannot be read.
    """
    if _INDEX.fullmatch(text):
        return DeviceParts(None, None, int(text))
    match = _SPEC.fullmatch(text)
    if match is None:
        raise DeviceNotFoundError(
            f"{source}={shown(text)} cannot be read; write 'cpu', 'cuda:0' or "
            "'backend:cuda:0', for instance 'torch:cuda:0'"
        )
    if match["backend"] is None and match["kind"] not in _KINDS:
        return DeviceParts(match["kind"], None, int(match["index"]) if match["index"] else None)
    return DeviceParts(match["backend"], match["kind"], int(match["index"] or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """Properties of a device; 0 for those that a CPU does not have."""

    name: str
    total_nbytes: int
    compute_capability: tuple[int, int] = (0, 0)
    multiprocessor_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """The names by which a machine knows a device; empty for a CPU."""

    uuid: str = ""
    pci_bus_id: str = ""


class TorchDevice(Protocol):
    """An object like ``torch.device``, which is not imported."""

    @property
    def type(self) -> str: ...

    @property
    def index(self) -> Any: ...


class CupyDevice(Protocol):
    """An object like ``cupy.cuda.Device``, which is not imported."""

    @property
    def id(self) -> int: ...


class Directory(Protocol):
    """Knows which devices exist, and their backends."""

    def resolve(self, spec: DeviceSpec) -> Device:
        """Return the device of a specification; raises DeviceNotFoundError."""

    def properties(self, device: Device) -> DeviceProperties: ...

    def identity(self, device: Device) -> DeviceIdentity: ...

    def memory(self, device: Device) -> tuple[int, int]:
        """Free and total memory, in bytes."""

    def attribute(self, device: Device, name: str) -> int: ...

    def synchronize(self, device: Device) -> None: ...

    def use(self, device: Device) -> None: ...

    def enter(self, device: Device) -> None: ...


DeviceName: TypeAlias = "str | int | Device | TorchDevice | CupyDevice"
DeviceSpec: TypeAlias = "DeviceName | None"
"""Specifications that `Device` and every ``device=`` take; None is the current device."""

directory = cast("Directory", None)
"""`_core.devices` sets it when it is imported, which importing xferlib does."""


class Device(blocks.Enterable):
    """A device of a backend: ``cupy:cuda:0``, ``torch:cpu``, ``numpy:cpu``.

    Equal devices are the same object. As a context manager it makes an accelerator, and its
    backend, current for this thread and asyncio task: in xferlib, in the native library, and in each other library
    of the process that xferlib has met on the same accelerators. A CPU device does nothing there,
    so that the same code runs on both.

    Args:
        spec: ``"cupy:cuda:0"``; ``"cuda:1"``, ``"cpu"`` or an ``int`` for the current backend;
            None for the current device; or the device object of PyTorch or CuPy. NumPy integers are
            refused: ``a[0]`` is not a device. Every ``device=`` takes the same, which annotations call DeviceSpec.

    Raises:
        DeviceNotFoundError: ``spec`` cannot be read, or the device does not exist.
        BlockError: A block is left twice, by another task, or before one within it.
    """

    __slots__ = ("backend", "index", "kind")

    backend: str
    kind: str
    index: int

    def __new__(cls, spec: DeviceSpec = None) -> Device:
        return directory.resolve(spec)

    @classmethod
    def _of(cls, backend: str, kind: str, index: int) -> Device:
        key = (backend, kind, index)
        device = _interned.get(key)
        if device is None:
            device = object.__new__(cls)
            object.__setattr__(device, "backend", backend)
            object.__setattr__(device, "kind", kind)
            object.__setattr__(device, "index", index)
            device = _interned.setdefault(key, device)
        return device

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Device is a value: {name!r} cannot be set; make another with xferlib.Device(...)")

    def __reduce__(self) -> tuple[Any, tuple[str, str, int]]:
        return (Device._of, (self.backend, self.kind, self.index))

    def __copy__(self) -> Device:
        return self

    def __deepcopy__(self, memo: Any) -> Device:
        return self

    def __str__(self) -> str:
        return f"{self.backend}:{self.kind}" if self.kind == "cpu" else f"{self.backend}:{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            peer_names.refuse(self, name, peer_names.DEVICE_NAMES)

    @property
    def properties(self) -> DeviceProperties:
        """Name, memory in bytes, compute capability."""
        return directory.properties(self)

    @property
    def total_memory(self) -> int:
        """Memory of the device in bytes; of a CPU that of the machine, 0 where the system does not say."""
        return directory.memory(self)[1]

    @property
    def free_memory(self) -> int:
        """Bytes that no process has allocated now; what a library's pool keeps for reuse is not free."""
        return directory.memory(self)[0]

    @property
    def uuid(self) -> str:
        """The device's own name, the same in every process: ``"GPU-..."`` as nvidia-smi has it; empty for a CPU."""
        return directory.identity(self).uuid

    @property
    def pci_bus_id(self) -> str:
        """Where the device is plugged in, such as ``"0000:3B:00.0"``; empty for a CPU."""
        return directory.identity(self).pci_bus_id

    def attribute(self, name: str) -> int:
        """A number that CUDA's driver knows of the device: ``attribute("max_threads_per_block")``.

        Args:
            name: A ``CU_DEVICE_ATTRIBUTE_...`` of the driver API, in any case, with or without that prefix.

        Raises:
            ArgumentError: There is no such attribute.
            UnsupportedError: The device is a CPU.
        """
        return directory.attribute(self, name)

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            peer_names.refuse(self, name, peer_names.DEVICE_NAMES)

    def synchronize(self) -> None:
        """Block until all work on the device is done."""
        directory.synchronize(self)

    def use(self) -> Device:
        """Make this device, and its backend, current for this thread from now on."""
        directory.use(self)
        return self

    def __enter__(self) -> Device:
        directory.enter(self)
        return self


def make_device(backend: str, kind: str, index: int = 0) -> Device:
    """The device object, for backends: not checked against what exists."""
    return Device._of(backend, kind, index)
