"""CUDA source to cubin, and cubin to kernel: written once for the CUDA backends.

The options are the caller's: what they mean for rounding is decided where the source is generated.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from cuda.bindings import driver, nvrtc

from xferlib._core.backend import DeviceKernels
from xferlib._native import NOT_FIT, ArrayAddress, LaunchField
from xferlib.errors import ArgumentError, KernelCompileError

if TYPE_CHECKING:
    from xferlib._core.device import Device, RawStream


# Launches of loaded kernels: one by one, prepared, and repeated without Python; written once for the CUDA backends.

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
                from xferlib.backends.cuda.contexts import check  # which needs the driver's library

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
                from xferlib.backends.cuda.contexts import check  # which needs the driver's library

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


_SUCCESS = driver.CUresult.CUDA_SUCCESS
_COMPILED = nvrtc.nvrtcResult.NVRTC_SUCCESS


class Compiled(NamedTuple):
    """The output of NVRTC for a source: machine code, and the mangled names of the names asked for."""

    cubin: bytes
    names: dict[str, str]
    log: str = ""
    """The compiler's messages: warnings, where there are any."""


_ATTRIBUTES = {
    "registers": "NUM_REGS", "max_threads": "MAX_THREADS_PER_BLOCK", "shared_nbytes": "SHARED_SIZE_BYTES",
    "constant_nbytes": "CONST_SIZE_BYTES", "local_nbytes": "LOCAL_SIZE_BYTES",
    "max_dynamic_shared_nbytes": "MAX_DYNAMIC_SHARED_SIZE_BYTES", "ptx_version": "PTX_VERSION",
    "binary_version": "BINARY_VERSION",
}  # fmt: skip
"""The driver's names of a kernel's attributes, by ours."""


class Library:
    """Machine code loaded by the driver; unloaded when the last kernel of it dies."""

    __slots__ = ("handle",)

    def __init__(self, cubin: bytes) -> None:
        result, self.handle = driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0)
        _check(result, "loading a compiled kernel")

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        if hasattr(self, "handle") and not _is_finalizing():  # the driver's functions may be gone by then
            driver.cuLibraryUnload(self.handle)


class CudaKernels(CudaLaunches):
    """Compilation, for `CudaBackend` to inherit beside its devices."""

    def compile(
        self, source: str, *, device: Device, options: tuple[str, ...] = (), names: tuple[str, ...] = ()
    ) -> Compiled:
        """Machine code of ``source`` for ``device``.

        Args:
            source: CUDA C++.
            device: The device whose architecture to compile for.
            options: NVRTC options, without the architecture.
            names: C++ names, such as template instances, whose mangled names are wanted.

        Raises:
            KernelCompileError: NVRTC refused the source; the message is its log.
        """
        major, minor = self.compute_capability(device)
        return compile_source(source, arch=f"sm_{major}{minor}", options=options, names=names)

    def link(self, pieces: Sequence[tuple[str, str, bytes]], *, device: Device) -> bytes:
        """Machine code of several pieces of device code: the name, the kind and the content of each.

        Raises:
            KernelCompileError: nvJitLink is not installed, or refused them.
        """
        major, minor = self.compute_capability(device)
        return linked(pieces, arch=f"sm_{major}{minor}")

    def compute_capability(self, device: Device) -> tuple[int, int]:
        kind = driver.CUdevice_attribute
        result, major = driver.cuDeviceGetAttribute(kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device.index)
        _check(result, f"reading the compute capability of {device}")
        _, minor = driver.cuDeviceGetAttribute(kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device.index)
        return int(major), int(minor)

    def compiler_version(self) -> str:
        """The version of NVRTC, on which the machine code depends."""
        _, major, minor = nvrtc.nvrtcVersion()
        return f"{major}.{minor}"

    def load(self, cubin: bytes, *, name: str, device: Device) -> LoadedKernel:
        """Kernel ``name`` of machine code, ready to launch on ``device``."""
        return self.kernel_of(self.load_library(cubin, device=device), name)

    def load_library(self, cubin: bytes, *, device: Device) -> Library:
        """Machine code whose kernels share its device variables."""
        self.attach(device)
        return Library(cubin)

    def kernel_of(self, library: Library, name: str) -> LoadedKernel:
        """Kernel ``name`` of a loaded library."""
        result, handle = driver.cuLibraryGetKernel(library.handle, name.encode())
        if result != _SUCCESS:
            raise KernelCompileError(
                f'no kernel {name!r} in the compiled source; declare it extern "C" __global__, or name its template '
                "instance in names="
            )
        return LoadedKernel(library, name, handle)

    def allow_shared(self, kernel: LoadedKernel, nbytes: int, device: Device) -> None:
        """Let ``kernel`` be launched with that much dynamic shared memory, beyond 48 KiB where the device can."""
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (result,) = driver.cuKernelSetAttribute(attribute, nbytes, driver.CUkernel(kernel.handle), device.index)
        _check(result, f"reserving {nbytes} bytes of shared memory for kernel {kernel.name!r} on {device}")

    def global_of(self, library: Library, name: str, device: Device) -> tuple[int, int]:
        """Address and size in bytes of a variable of a loaded library on ``device``."""
        from xferlib.backends.cuda.contexts import Current

        self.attach(device)
        with Current(self, device):  # each device has its own
            result, pointer, nbytes = driver.cuLibraryGetGlobal(library.handle, name.encode())
        if result == driver.CUresult.CUDA_ERROR_NOT_FOUND:
            raise ArgumentError(
                f"no variable {name!r} in the compiled source; declare it __device__ or __constant__, outside of "
                "functions, or name it in names=('&space::name',)"
            )
        _check(result, f"finding variable {name!r} on {device}")
        return int(pointer), int(nbytes)

    def kernel_attributes(self, kernel: LoadedKernel, device: Device) -> dict[str, int]:
        """The resources of a kernel on ``device``, by the names of `xferlib.KernelAttributes`."""
        found = {}
        for name, theirs in _ATTRIBUTES.items():
            attribute = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{theirs}")
            result, value = driver.cuKernelGetAttribute(attribute, driver.CUkernel(kernel.handle), device.index)
            _check(result, f"asking for {name} of kernel {kernel.name!r} on {device}")
            found[name] = int(value)
        return found

    def occupancy(self, kernel: LoadedKernel, threads: int, shared_nbytes: int, device: Device) -> int:
        """Blocks of that many threads and bytes of shared memory that run at a time on a multiprocessor."""
        from xferlib.backends.cuda.contexts import Current

        if shared_nbytes > 48 << 10:
            self.allow_shared(kernel, shared_nbytes, device)
        with Current(self, device):
            result, blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel.function, threads, shared_nbytes)
        _check(result, f"asking for the occupancy of kernel {kernel.name!r} on {device}")
        return int(blocks)


def compile_source(source: str, *, arch: str, options: tuple[str, ...], names: tuple[str, ...]) -> Compiled:
    """Machine code for ``arch``, such as ``sm_90``; needs NVRTC but no GPU."""
    result, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    if result != _COMPILED:
        raise KernelCompileError(f"NVRTC could not start ({result.name}); check the installation of cuda-bindings")
    try:
        for name in names:
            nvrtc.nvrtcAddNameExpression(program, name.encode())
        arguments = [f"--gpu-architecture={arch}".encode(), *(option.encode() for option in options)]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
        if result != _COMPILED:
            raise KernelCompileError(f"NVRTC refused the source for {arch}:\n{_log(program)}")
        lowered = {name: nvrtc.nvrtcGetLoweredName(program, name.encode())[1].decode() for name in names}
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        cubin = b"\0" * size
        nvrtc.nvrtcGetCUBIN(program, cubin)
        return Compiled(cubin, lowered, _log(program))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _log(program: Any) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b"\0" * size
    nvrtc.nvrtcGetProgramLog(program, log)
    text: str = log.rstrip(b"\0").decode(errors="replace").strip()
    return text


def _check(result: Any, doing: str) -> None:
    if result != _SUCCESS:
        from xferlib.backends.cuda.contexts import failure

        raise failure(result, doing)


# Device code linked from several pieces by nvJitLink.

_LAUNCHES = b"__cudaCDP2"
"""The names of the device runtime begin with it."""


def linked(pieces: Sequence[tuple[str, str, bytes]], *, arch: str) -> bytes:
    """One cubin of several pieces; needs nvJitLink but no GPU.

    CUDA's device runtime is one of them where a kernel launches another.

    Args:
        pieces: The name of each, what it holds by nvJitLink's names, and its content.
        arch: The architecture, such as ``sm_90``.

    Raises:
        KernelCompileError: nvJitLink is not there, or refuses: the message is its log.
    """
    try:
        from cuda.bindings import nvjitlink

        options = [f"-arch={arch}"]
        options += ["-lto"] if any(kind == "LTOIR" for _, kind, _ in pieces) else []
        handle = nvjitlink.create(len(options), options)
    except Exception as error:  # each release of the bindings has an error of its own for a library that is absent
        raise KernelCompileError(
            f"linking device code needs nvJitLink, which cannot be used here ({error}); run pip install "
            "nvidia-nvjitlink"
        ) from None
    try:
        for name, kind, content in (*pieces, *_runtime(pieces)):
            kind_of = getattr(nvjitlink.InputType, kind)
            _called(nvjitlink, handle, arch, nvjitlink.add_data, kind_of, content, len(content), name)
        _called(nvjitlink, handle, arch, nvjitlink.complete)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    finally:
        nvjitlink.destroy(handle)


def _runtime(pieces: Sequence[tuple[str, str, bytes]]) -> list[tuple[str, str, bytes]]:
    """CUDA's device runtime, where one of the pieces calls it and it is installed."""
    is_given = any("cudadevrt" in name for name, _, _ in pieces)  # by the user: there must be one
    if is_given or not any(_LAUNCHES in content for _, _, content in pieces):
        return []
    try:
        from cuda import pathfinder

        path = Path(pathfinder.find_static_lib("cudadevrt"))
        return [(path.name, "LIBRARY", path.read_bytes())]
    except Exception:  # older pathfinders know no such libraries, others raise errors of their own
        return []


def _called(nvjitlink: Any, handle: int, arch: str, call: Any, *arguments: Any) -> None:
    """Make a call, and raise the linker's log where it fails."""
    try:
        call(handle, *arguments)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle) + 1)
        nvjitlink.get_error_log(handle, log)
        text = log.rstrip(b"\0").decode(errors="replace").strip()
        remedy = (
            "; a kernel that launches kernels needs libcudadevrt.a of CUDA's toolkit or of nvidia-cuda-runtime: give "
            "its path in link="
            if _LAUNCHES in log
            else ""
        )
        raise KernelCompileError(f"nvJitLink refused the pieces for {arch}: {text or error}{remedy}") from None
