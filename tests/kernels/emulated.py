"""Generated CUDA source on a CPU: compiled by NVRTC as for a GPU, run thread by thread, with every access checked.

A stand-in for what `xferlib.kernels` asks of a CUDA backend.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.kernels.targets import need_nvrtc
from xferlib.backends.base import ArrayInfo
from xferlib.errors import KernelFaultError
from xferlib.kernels.cuda_cpu.module import CpuModule, compile_ptx

_ARCH = "compute_80"


class _Compiled(NamedTuple):
    cubin: bytes


class Kernel(NamedTuple):
    name: str
    module: CpuModule


class Emulator:
    """The CUDA part of a backend, as far as plans of kernels go."""

    misaligned = 0
    """Launches with an access at an address that is no multiple of its size, which a GPU refuses."""

    def compute_capability(self, device: Any) -> tuple[int, int]:
        return (8, 0)

    def compiler_version(self) -> str:
        return "emulated"

    def compile(self, source: str, *, device: Any, options: tuple[str, ...] = ()) -> _Compiled:
        need_nvrtc()
        from xferlib.backends.cuda.compiler import compile_source

        options = (*options, "--generate-line-info")
        return _Compiled(compile_source(source, arch=_ARCH, options=options, names=()).cubin)

    def load(self, cubin: bytes, *, name: str, device: Any) -> Kernel:
        code = compile_ptx(cubin.rstrip(b"\0").decode(), is_checked=True)
        module = CpuModule(code, np.empty(code.variables_nbytes, np.uint8))
        module.initialise()
        return Kernel(name, module)

    def prepare_launch(self, kernel: Kernel, grid: Any, block: Any, params: int, **_: Any) -> Callable[[int], None]:
        return lambda handle: self._run(kernel, grid, block, params)

    def launch(self, kernel: Kernel, grid: Any, block: Any, params: int, **_: Any) -> None:
        self._run(kernel, grid, block, params)

    def _run(self, kernel: Kernel, grid: Any, block: Any, params: int) -> None:
        sizes = [each.nbytes for each in kernel.module.kernel(kernel.name).params]
        table = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
        values = [ctypes.string_at(table[number], nbytes) for number, nbytes in enumerate(sizes)]
        pointers = [int.from_bytes(each, "little") for each in values if len(each) == 8]
        try:
            kernel.module.launch(
                kernel.name, (*grid, 1, 1)[:3], (*block, 1, 1)[:3], values, _memory_around(pointers), label=kernel.name
            )
        except KernelFaultError as error:
            if error.kind != "misaligned":
                raise
            self.misaligned += 1


def _memory_around(pointers: list[int]) -> list[tuple[str, np.ndarray[Any, Any], bool]]:
    """The parts of the process's memory that the pointers are in: plans do not say how long their arrays are."""
    found: dict[int, int] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(each, 16) for each in line.split(" ", 1)[0].split("-"))
        if " rw" in line and any(begin <= each < end for each in pointers):
            found[begin] = end - begin
    return [
        ("memory", np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(begin)), False)
        for begin, nbytes in found.items()
    ]


def info_of(array: np.ndarray[Any, Any]) -> ArrayInfo:
    return ArrayInfo(array.ctypes.data, array.shape, array.strides, array.dtype, None, True)


def run_on_cuda(
    program: Any, shape: tuple[int, ...], arrays: Mapping[int, np.ndarray[Any, Any]], scalars: Any = (), **options: Any
) -> int:
    """Run a program's CUDA source on arrays by the numbers of their parameters; the count of misaligned accesses."""
    from xferlib.kernels.cuda_engine import CudaPlan

    infos = {number: info_of(each) for number, each in arrays.items()}
    emulator: Any = Emulator()
    plan = CudaPlan(emulator, None, program, shape, infos, is_aliased=False, **options)
    plan.bind([infos[number].pointer for number in plan.array_order], scalars)
    plan.launch(0)
    return emulator.misaligned


def as_cuda(kernel: Any, *arrays: np.ndarray[Any, Any]) -> int:
    """Run an element-wise kernel's CUDA source, compiled by NVRTC, on all its arguments."""
    program = kernel.definition.specialize(tuple(each.dtype for each in arrays), frozenset()).program
    elements = [each for each, param in zip(arrays, program.params, strict=True) if not param.is_raw]
    return run_on_cuda(program, (elements or arrays)[-1].shape, dict(enumerate(arrays)))
