"""CUDA source to cubin, and cubin to kernel: written once for the CUDA backends.

The options are the caller's: what they mean for rounding is decided where the source is generated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cuda.bindings import driver, nvrtc

from xferlib.backends.cuda.launches import CudaLaunches, LoadedKernel
from xferlib.errors import ArgumentError, KernelCompileError

if TYPE_CHECKING:
    from xferlib._core.device import Device

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
        from xferlib.backends.cuda.linking import linked

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
        from xferlib.backends.cuda.errors import failure

        raise failure(result, doing)
