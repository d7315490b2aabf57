"""PTX and CUDA C++ run on a CPU thread after thread: the translator without the runtime."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.targets import has_nvrtc
from xferlib.kernels import host_compiler
from xferlib.kernels.cuda_cpu import code, emit, ptx
from xferlib.kernels.cuda_cpu.code import list_c_options

EMULATOR = Path(emit.__file__).parents[2] / "_native" / "emulator"
COUNTS = ("accesses", "stores", "atomics", "begun", "ended", "printed", "traps", "ticks", "fences", "yields")

PTX = """
.version 7.0
.target sm_75
.address_size 64
.global .align 4 .u32 factor = 3;
.visible .entry triple(.param .u64 x)
{
    .reg .b64 %rd<4>; .reg .b32 %r<4>;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    ld.global.u32 %r1, [factor];
    mul.lo.u32 %r3, %r2, %r1;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""
"""A kernel that multiplies its thread's element of ``int *x`` by 3, which is a variable."""

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@functools.cache
def runner() -> ctypes.CDLL:
    sources = (Path(__file__).with_name("runner.c"), EMULATOR / "arithmetic.c", EMULATOR / "approximate.c")
    options = ("-O2", "-std=gnu11", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "runner.so")
        command = ["cc", *options, f"-I{EMULATOR}", "-o", str(target), *map(str, sources), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        return ctypes.CDLL(str(target))


class Program:
    """A translated module, loaded."""

    def __init__(self, *texts: str, checked: bool = False) -> None:
        self.translation = emit.translate(ptx.merge([ptx.parse(text) for text in texts]), checked=checked)
        self.library = host_compiler.load_c(self.translation.text, flags=list_c_options())
        self.block = ctypes.create_string_buffer(self.translation.block_nbytes + 256)
        self.address = -(-ctypes.addressof(self.block) // 128) * 128
        ctypes.memmove(self.address, self.translation.make_block(), self.translation.block_nbytes)
        self.library.xf_init_module(ctypes.c_void_p(self.address))

    def run(self, name: str, *arguments: object, grid: int = 1, block: int = 1, dynamic: int = 0) -> dict[str, int]:
        """Launch: arrays by their address, NumPy scalars and bytes by their value."""
        kernel = self.translation.kernels[name]
        data = bytearray(kernel.params_nbytes)
        for parameter, argument in zip(kernel.params, arguments, strict=True):
            if isinstance(argument, np.ndarray):
                argument = np.uint64(argument.ctypes.data)
            raw = argument if isinstance(argument, bytes) else argument.tobytes()  # type: ignore[attr-defined]
            assert len(raw) == parameter.nbytes, (parameter, raw)
            data[parameter.offset : parameter.offset + len(raw)] = raw
        params = (ctypes.c_char * max(len(data), 16)).from_buffer(data.ljust(16, b"\0"))
        entry = getattr(self.library, kernel.symbol)
        extents = ctypes.c_uint32 * 3
        runner().run_kernel(
            entry, params, ctypes.c_uint64(self.address), extents(grid, 1, 1), extents(block, 1, 1),
            ctypes.c_uint32(kernel.shared_nbytes), ctypes.c_uint32(dynamic),
        )  # fmt: skip
        counts = (ctypes.c_uint64 * len(COUNTS))()
        runner().read_counts(counts)
        return dict(zip(COUNTS, counts, strict=True))

    def variable(self, name: str, dtype: type) -> np.ndarray:
        variable = self.translation.variables[name]
        raw = ctypes.string_at(self.address + variable.offset, variable.nbytes)
        return np.frombuffer(raw, dtype)


_INCLUDE = re.compile("^ *#include .*$", re.MULTILINE)


def combine_sources(sources: Iterable[str]) -> str:
    """One source of many: the kernel `k` of number 9 becomes `k9`, in its own namespace; lines keep their numbers."""
    includes: dict[str, None] = {}
    spaces = []
    for number, source in enumerate(sources):
        includes |= dict.fromkeys(_INCLUDE.findall(source))
        text = re.sub(r"(?<=__global__ void )k\b", f"k{number}", _INCLUDE.sub("", source))
        spaces.append(f"namespace case{number} {{\n#line 1\n{text}\n}}")
    return "\n".join([*includes, *spaces])


class Bodies:
    """Bodies of kernels, which are compiled together, as a compiler begins more slowly than it compiles one.

    Args:
        params: Their parameters.
        before: What stands before each.
        functions: What they call.

    Places are told by the lines of a body, from 1.
    """

    def __init__(self, params: str, before: str = "", *, functions: str = "") -> None:
        self._params, self._before, self._functions = params, before, functions
        self._bodies: list[str] = []

    def add(self, *bodies: str) -> tuple[str, ...]:
        self._bodies += bodies
        return bodies

    @functools.cached_property
    def _module(self) -> Any:
        return self._make(self._bodies)

    def _make(self, bodies: Sequence[str]) -> Any:
        kernels = (
            f'extern "C" __global__ void k{number}({self._params}) {{\n#line 1\n{self._before}{body}\n}}'
            for number, body in enumerate(bodies)
        )
        groups = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
        head = groups * any("cg::" in each for each in bodies)
        return xl.raw_module("\n".join([head, self._functions, *kernels]))

    def find(self, body: str) -> Any:
        """The kernel of a body; one that was not added is compiled alone."""
        if body not in self._bodies:
            return self._make([body]).get_function("k0")
        return self._module.get_function(f"k{self._bodies.index(body)}")


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC")


def compile_cuda(source: str, *options: str, arch: str = "compute_90") -> str:
    """The PTX of CUDA C++, from the cache or by NVRTC."""
    return code.compile_to_ptx(source, arch=arch, options=options, names=())[0]
