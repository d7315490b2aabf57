"""Generated CUDA source on a CPU: compiled by NVRTC as for a GPU, run thread by thread, with every access checked.

A stand-in for what `xferlib.kernels` asks of a CUDA backend.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from tests.kernels.targets import need_nvrtc
from xferlib.backends.base import ArrayInfo
from xferlib.errors import KernelFaultError
from xferlib.kernels.cuda_cpu import code as cpu_code
from xferlib.kernels.cuda_cpu import module as cpu_module
from xferlib.kernels.cuda_cpu.module import CpuModule
from xferlib.kernels.cuda_source import OPTIONS
from xferlib.kernels.small_floats import store_bits, view_bits

_ARCH = "compute_80"
_STACK_NBYTES = 1 << 20
"""Of a thread. The C compiler does not optimise, so that each value has memory of its own: to optimise takes it more
than twice as long, and a launch of a few thousand threads gains a tenth of that."""

_ENTRY = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(')


class _Compiled(NamedTuple):
    cubin: bytes


def join_sources(sources: Sequence[str]) -> str:
    """One text of several, whose kernels have the numbers of their sources behind their names."""
    parts = []
    for number, source in enumerate(sources):
        for name in _ENTRY.findall(source):
            source = re.sub(rf"\b{name}\b", f"{name}_{number}", source)
        parts.append(f"namespace unit_{number} {{\n{source}\n}}" if len(sources) > 1 else source)
    return "\n".join(parts)


def compiled(options: tuple[str, ...], *sources: str) -> list[bytes]:
    """PTX of the kernels of several sources, and behind it the number of each; skips without NVRTC."""
    need_nvrtc()
    from xferlib.backends.cuda.compiler import compile_source

    options = (*options, "--generate-line-info")
    text = compile_source(join_sources(sources), arch=_ARCH, options=options, names=()).cubin.rstrip(b"\0")
    return [text + number.to_bytes(4, "little") for number in range(len(sources))]


class Kernel(NamedTuple):
    name: str
    module: CpuModule


class Emulator:
    """The CUDA part of a backend, as far as plans of kernels go."""

    misaligned = 0
    """Launches with an access at an address that is no multiple of its size, which a GPU refuses."""
    memory: list[tuple[str, np.ndarray[Any, Any], bool]] | None = None
    """All that kernels may access; None: what the pointers are in of the process's memory."""

    def compute_capability(self, device: Any) -> tuple[int, int]:
        return (8, 0)

    def device_attribute(self, device: Any, name: str) -> int:
        return {"max_shared_memory_per_block_optin": 163 << 10}[name]

    def device_properties(self, device: Any) -> Any:
        return SimpleNamespace(multiprocessor_count=2)

    def stream_create(self, device: Any, **_: Any) -> Any:
        return SimpleNamespace(handle=0)

    def stream_synchronize(self, stream: Any) -> None:
        """Nothing: a launch is over when it returns."""

    def stream_is_recorded(self, stream: Any) -> bool:
        return False

    def allow_shared(self, kernel: Any, nbytes: int, device: Any) -> None:
        """Nothing: there is no limit."""

    def repeat_call(self, *args: Any, **options: Any) -> None:
        """Nothing: it has no driver to which C could give a launch."""

    def zeros_for(self, nbytes: int, stream: Any, zeros_nbytes: int | None = None) -> Any:
        found = np.full(nbytes, 0xA5, np.uint8)
        found[:zeros_nbytes] = 0
        return found

    def compiler_version(self) -> str:
        need_nvrtc()
        from xferlib.backends.cuda import compiler

        return f"PTX for {_ARCH} by {compiler.version()}"

    _find_compiled: Callable[[str], bytes] | None = None

    def __init__(self, find_compiled: Callable[[str], bytes] | None = None) -> None:
        self.stream_current: Callable[[Any], Any] = lambda _: SimpleNamespace(handle=0)
        if find_compiled is not None:
            self._find_compiled = find_compiled

    def compile(self, source: str, *, device: Any, options: tuple[str, ...] = ()) -> _Compiled:
        if self._find_compiled is not None:
            return _Compiled(self._find_compiled(source))
        return _Compiled(compiled(options, source)[0])

    def load(self, cubin: bytes, *, name: str, device: Any) -> Kernel:
        options = "-O0", *cpu_code.list_c_options()[1:]
        with mock.patch.object(cpu_code, "list_c_options", return_value=options):
            code = cpu_code.compile_ptx(cubin[:-4].decode(), is_checked=True)
        module = CpuModule(code, np.empty(code.variables_nbytes, np.uint8))
        module.initialise()
        return Kernel(f"{name}_{int.from_bytes(cubin[-4:], 'little')}", module)

    def prepare_launch(
        self, kernel: Kernel, grid: Any, block: Any, params: int, *, shared_nbytes: int = 0, **_: Any
    ) -> Callable[[int], None]:
        return lambda handle: self._run(kernel, grid, block, params, shared_nbytes)

    def launch(self, kernel: Kernel, grid: Any, block: Any, params: int, **_: Any) -> None:
        self._run(kernel, grid, block, params)

    def _run(self, kernel: Kernel, grid: Any, block: Any, params: int, shared_nbytes: int = 0) -> None:
        sizes = [each.nbytes for each in kernel.module.find_kernel(kernel.name).params]
        table = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
        values = [ctypes.string_at(table[number], nbytes) for number, nbytes in enumerate(sizes)]
        pointers = [int.from_bytes(each, "little") for each in values if len(each) == 8]
        memory = _memory_around(pointers) if self.memory is None else self.memory
        try:
            with mock.patch.object(cpu_module, "_STACK_NBYTES", _STACK_NBYTES):
                kernel.module.launch(
                    kernel.name, (*grid, 1, 1)[:3], (*block, 1, 1)[:3], values, memory, label=kernel.name,
                    shared_nbytes=shared_nbytes,
                )  # fmt: skip
        except KernelFaultError as error:
            if error.kind != "misaligned":
                raise
            self.misaligned += 1


def _memory_around(pointers: list[int]) -> list[tuple[str, np.ndarray[Any, Any], bool]]:
    """The parts of the process's memory that the pointers are in: plans do not say how long their arrays are."""
    found: dict[int, int] = {}
    last = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(each, 16) for each in line.split(" ", 1)[0].split("-"))
        if " rw" not in line:
            continue
        if last and found.get(last) and last + found[last] == begin:  # an array may lie in two
            begin = last
        found[begin], last = end - begin, begin
    return [
        ("memory", np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(begin)), False)
        for begin, nbytes in found.items()
        if any(begin <= each < begin + nbytes for each in pointers)
    ]


def reachable(array: np.ndarray[Any, Any]) -> tuple[str, np.ndarray[Any, Any], bool]:
    """The aligned 16 bytes that hold elements of an array, for `Emulator.memory`: reads of several take them whole."""
    begin, end = np.lib.array_utils.byte_bounds(array)
    begin, end = begin // 16 * 16, -(-end // 16) * 16
    return "memory", np.ctypeslib.as_array((ctypes.c_uint8 * (end - begin)).from_address(begin)), False


def info_of(array: np.ndarray[Any, Any]) -> ArrayInfo:
    return ArrayInfo(array.ctypes.data, array.shape, array.strides, array.dtype, None, True)


def run_on_cuda(
    program: Any, shape: tuple[int, ...], arrays: Mapping[int, np.ndarray[Any, Any]], scalars: Any = (),
    emulator: Any = None, **options: Any,
) -> int:  # fmt: skip
    """Run a program's CUDA source on arrays by the numbers of their parameters; the count of misaligned accesses."""
    from xferlib.kernels.cuda_engine import CudaPlan

    infos = {number: info_of(each) for number, each in arrays.items()}
    emulator = Emulator() if emulator is None else emulator
    plan = CudaPlan(emulator, None, program, shape, infos, is_aliased=False, **options)
    plan.bind([infos[number].pointer for number in plan.array_order], scalars)
    plan.launch(0)
    return emulator.misaligned


def as_cuda(kernel: Any, *arrays: np.ndarray[Any, Any], emulator: Any = None) -> int:
    """Run an element-wise kernel's CUDA source, compiled by NVRTC, on all its arguments: small floats as their bits."""
    program = store_bits(kernel.definition.specialize(tuple(each.dtype for each in arrays), frozenset()).program)
    elements = [each for each, param in zip(arrays, program.params, strict=True) if not param.is_raw]
    operands = dict(enumerate(map(view_bits, arrays)))
    return run_on_cuda(program, (elements or arrays)[-1].shape, operands, emulator=emulator)


class _Collected(Exception):
    """A source is known, and not compiled yet."""


def all_as_cuda(
    calls: Sequence[tuple[Any, ...]], compile_sources: Callable[..., list[bytes]] = compiled
) -> None:  # fmt: skip
    """`as_cuda` of many kernels, each with its arguments, compiled together, which takes a tenth of the time."""
    sources: list[str] = []

    def collect(source: str) -> bytes:
        sources.append(source)
        raise _Collected

    for kernel, *arrays in calls:
        before = [each.copy() for each in arrays]
        with contextlib.suppress(_Collected):
            as_cuda(kernel, *arrays, emulator=Emulator(collect))
        for each, values in zip(arrays, before, strict=True):  # a kernel that a cache knows has run
            if each.flags.writeable:
                each[...] = values
    ready = dict(zip(sources, compile_sources(OPTIONS, *sources), strict=True)) if sources else {}
    for each in calls:
        as_cuda(*each, emulator=Emulator(ready.__getitem__))
