"""CUDA source to machine code, by NVRTC and nvJitLink; neither needs a GPU.

The options are the caller's: what they mean for rounding is decided where the source is generated. cuda.core's
``Program`` has a field for each option that it knows, and no place for those that a user gives as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cuda.bindings import nvrtc

from xferlib.errors import KernelCompileError

_COMPILED = nvrtc.nvrtcResult.NVRTC_SUCCESS


class Compiled(NamedTuple):
    """The output of NVRTC for a source: machine code, or PTX, and the mangled names of the names asked for."""

    cubin: bytes
    names: dict[str, str]
    log: str = ""
    """The compiler's messages: warnings, where there are any."""


def version() -> str:
    """NVRTC's version, which machine code and PTX depend on."""
    _, major, minor = nvrtc.nvrtcVersion()
    return f"nvrtc {major}.{minor}"


def find_library() -> str:
    """The path of NVRTC; empty where the bindings do not tell."""
    try:
        from cuda import pathfinder

        return pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path or ""
    except Exception:  # an older pathfinder, or none
        return ""


def compile_source(source: str, *, arch: str, options: tuple[str, ...], names: tuple[str, ...]) -> Compiled:
    """Machine code for ``arch``, such as ``sm_90``, or PTX for ``compute_90``; needs NVRTC but no GPU."""
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
        is_ptx = arch.startswith("compute_")
        _, size = (nvrtc.nvrtcGetPTXSize if is_ptx else nvrtc.nvrtcGetCUBINSize)(program)
        code = b"\0" * size
        (nvrtc.nvrtcGetPTX if is_ptx else nvrtc.nvrtcGetCUBIN)(program, code)
        return Compiled(code, lowered, _log(program))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _log(program: Any) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b"\0" * size
    nvrtc.nvrtcGetProgramLog(program, log)
    text: str = log.rstrip(b"\0").decode(errors="replace").strip()
    return text


# Device code linked from several pieces by nvJitLink.

_LAUNCHES = b"__cudaCDP2"
"""The names of the device runtime begin with it."""


def link_pieces(pieces: Sequence[tuple[str, str, bytes]], *, arch: str) -> bytes:
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
        for name, kind, content in (*pieces, *_find_device_runtime(pieces)):
            kind_of = getattr(nvjitlink.InputType, kind)
            _call_linker(nvjitlink, handle, arch, nvjitlink.add_data, kind_of, content, len(content), name)
        _call_linker(nvjitlink, handle, arch, nvjitlink.complete)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    finally:
        nvjitlink.destroy(handle)


def _find_device_runtime(pieces: Sequence[tuple[str, str, bytes]]) -> list[tuple[str, str, bytes]]:
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


def _call_linker(nvjitlink: Any, handle: int, arch: str, call: Any, *arguments: Any) -> None:
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
