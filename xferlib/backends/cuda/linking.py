"""Device code linked from several pieces by nvJitLink."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xferlib.errors import KernelCompileError

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
