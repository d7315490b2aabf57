"""Launches of loaded kernels: one by one, prepared, and repeated without Python; written once for the CUDA backends."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from cuda.bindings import driver

from xferlib._core.backend_options import DeviceKernels
from xferlib._native.driver_calls import NOT_FIT, ArrayAddress, LaunchField

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream

_NO_CONTEXT = (int(driver.CUresult.CUDA_ERROR_INVALID_CONTEXT), int(driver.CUresult.CUDA_ERROR_NOT_INITIALIZED))


class _LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute`` of the driver API, for values that are one int."""

    _fields_: ClassVar = [
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    ]


class _LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig`` of the driver API."""

    _fields_: ClassVar = [
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    ]

    def __repr__(self) -> str:
        grid, block = (self.grid_x, self.grid_y, self.grid_z), (self.block_x, self.block_y, self.block_z)
        return f"grid {grid}, block {block} and {self.shared} bytes of shared memory"


_EARLY = int(driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
_COOPERATIVE = int(driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
_EARLY_FROM = (9, 0)
"""Compute capability from which a kernel itself can wait for the one before it."""


class LoadedKernel:
    """A kernel of a loaded library; keeps the library, and so the code, loaded."""

    __slots__ = ("_library", "function", "handle", "name")

    def __init__(self, library: Any, name: str, handle: Any) -> None:
        self._library = library
        self.name = name
        self.handle = int(handle)
        self.function = driver.CUfunction(self.handle)


class CudaLaunches(DeviceKernels):
    """Launches, for `CudaBackend` to inherit beside its devices."""

    _devices: tuple[Device, ...]
    name: str
    address: ArrayAddress | None = None
    """How an array of the library tells its address; None: `operands` alone does."""

    if TYPE_CHECKING:  # what it needs of the classes beside it, which may stand behind this one
        follows_writes: bool

        def matcher(self, arrays: Sequence[Any]) -> Callable[..., bool]:
            raise NotImplementedError

        def note_write(self, array: Any, what: str) -> None:
            raise NotImplementedError

        def attach(self, device: Device) -> None:
            raise NotImplementedError

        def compute_capability(self, device: Device) -> tuple[int, int]:
            raise NotImplementedError

        def device_current(self) -> Device:
            raise NotImplementedError

        def device_use(self, device: Device) -> None:
            raise NotImplementedError

        def is_inside(self, device: Device) -> bool:
            raise NotImplementedError

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: int,
        *,
        stream: RawStream,
        shared_nbytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Enqueue ``kernel``. ``params`` is the address of the array of pointers to the arguments."""
        launch = self.prepare_launch(
            kernel, grid, block, params, device=stream.device, shared_nbytes=shared_nbytes, cooperative=cooperative
        )
        launch(stream.handle)

    def prepare_launch(
        self,
        kernel: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: int,
        *,
        device: Device,
        shared_nbytes: int = 0,
        awaits: bool = False,
        cooperative: bool = False,
    ) -> Callable[[int], None]:
        """A function that enqueues this launch on a stream of ``device``, given by its handle.

        The arguments are what ``params`` then points to. One thread may call it at a time.

        Args:
            awaits: The kernel itself waits for the one before it on the stream, by ``griddepcontrol.wait``, and so may
                be started early where the device knows that instruction (CUDA's programmatic dependent launch).
            cooperative: All blocks run at a time, or the launch fails.
        """
        from xferlib.backends.cuda.driver import launch_kernel  # compiling needs no driver

        attribute = _EARLY if awaits and self.compute_capability(device) >= _EARLY_FROM else None
        config = self._config(grid, block, shared_nbytes, _COOPERATIVE if cooperative else attribute)
        arguments = (ctypes.addressof(config), kernel.handle, params, 0)
        last = 0

        def launch(handle: int) -> None:
            nonlocal last
            if handle != last:
                config.stream = last = handle
            result = launch_kernel(*arguments)  # four of them; cuLaunchKernel has eleven
            if result in _NO_CONTEXT:  # a thread that has not used CUDA yet
                self.attach(device)
                result = launch_kernel(*arguments)
            if result:
                from xferlib.backends.cuda.errors import check  # which needs the driver's library

                check(result, f"launching kernel {kernel.name!r} with {config} on {device}")

        if len(self._devices) == 1:
            return launch

        def launch_there(handle: int) -> None:
            if self.is_inside(device):
                launch(handle)
                return
            from xferlib.backends.cuda.contexts import Current

            with Current(self, device):
                launch(handle)

        return launch_there

    def repeat_launch(
        self,
        kernel: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arrays: Sequence[Any],
        fields: tuple[LaunchField, ...],
        *,
        device: Device,
        shared_nbytes: int = 0,
        cooperative: bool = False,
    ) -> tuple[Callable[[Any, int], int], Callable[[int, Any, int], bool]] | None:
        """As `DeviceKernels.repeat_launch`."""
        from xferlib.backends.cuda import driver as calls

        if self.address is None:
            return None
        config = self._config(grid, block, shared_nbytes, _COOPERATIVE if cooperative else None)
        at = _LaunchConfig.stream.offset
        note = self.note_write if self.follows_writes else None
        run = calls.bind_launch(kernel.handle, bytes(config), at, self.matcher(arrays), self.address, note, fields)
        if run is None:
            return None

        def otherwise(result: int, args: Any, handle: int, _kept: Any = (config, kernel)) -> bool:
            if result in _NO_CONTEXT:  # a thread that has not used CUDA yet
                self.attach(device)
                result = launch(args, handle)
            if result == NOT_FIT:
                return False
            if result:
                from xferlib.backends.cuda.errors import check  # which needs the driver's library

                check(result, f"launching kernel {kernel.name!r} with {config} on {device}")
            return True

        def launch_there(args: Any, handle: int) -> int:
            if self.is_inside(device):
                return run(args, handle)
            from xferlib.backends.cuda.contexts import Current

            with Current(self, device):
                return run(args, handle)

        launch = run if len(self._devices) == 1 else launch_there
        return launch, otherwise

    @staticmethod
    def _config(
        grid: tuple[int, int, int], block: tuple[int, int, int], shared_nbytes: int, attribute: int | None
    ) -> _LaunchConfig:
        config = _LaunchConfig(*grid, *block, shared_nbytes)
        if attribute is not None:
            config.attributes = ctypes.pointer(_LaunchAttribute(attribute, value=1))
            config.attribute_count = 1
        return config
