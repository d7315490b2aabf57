"""CUDA source to PTX, by NVRTC, which needs neither a GPU nor a driver; cached on disk."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Sequence
from typing import Any

from xferlib._runtime.version import install_command
from xferlib.errors import KernelCompileError, UnsupportedError
from xferlib.kernels import cuda_engine as cache
from xferlib.kernels import cuda_headers
from xferlib.kernels.cuda_cpu import code

DEBUG = "--device-debug"
_GROUPS = "cooperative_groups"
_WITHOUT_LIBRARY = "-D_CG_LIMIT_INCLUDED_DEPENDENCIES"
"""Cooperative groups without libcu++, on which NVRTC spends 0.3 to 1 s: only reductions into atomics need it."""


def load_nvrtc() -> Any:
    """The module that calls NVRTC.

    Raises:
        UnsupportedError: NVRTC is not installed.
    """
    try:
        from xferlib.backends.cuda import compiler

        compiler.version()
    except (ImportError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UnsupportedError(
            f"CUDA source runs on a CPU by NVRTC, which is not installed ({reason}); {describe_remedy()}, or give "
            "get_function(..., cpu=function) a NumPy function that does the same"
        ) from None
    return compiler


def describe_remedy() -> str:
    """The remedy where NVRTC is missing."""
    if sys.platform == "darwin":
        return "NVIDIA makes none for macOS: compile to PTX on another system and give raw_module(path='kernels.ptx')"
    return install_command("cuda-on-cpu")


def compile_to_ptx(
    source: str, *, arch: str, options: Sequence[str], names: Sequence[str], log_stream: Any = None
) -> tuple[str, dict[str, str]]:
    """PTX of a source from the cache or by NVRTC, and the mangled names.

    Args:
        source: CUDA C++.
        arch: Such as ``compute_80``.
        options: The user's.
        names: Template instances.
        log_stream: A text file, which receives the compiler's messages.

    Raises:
        UnsupportedError: NVRTC is not installed.
        KernelCompileError: It refuses the source.
    """
    folders = cuda_headers.find_folders(source)
    lines = () if DEBUG in options else ("--generate-line-info",)
    whole = (*options, *lines, *cuda_headers.list_options(folders))
    is_kept = cuda_headers.has_only_own(source, options, folders)
    # A cached kernel needs no NVRTC loaded, where a package tells its version.
    compiler = " ".join(cuda_headers.list_packages()) or load_nvrtc().version()
    version = f"{compiler} {cuda_headers.identify(folders)}"
    if forbids_contraction := re.search(r"-fmad[=\0]false", "\0".join(options)) is not None:
        version += f" {code.identify_translator()}"
    name = cache.key("ptx", source, arch, "\0".join((*whole, *names)), version)
    cached = cache.read(name) if is_kept and log_stream is None else None
    if cached is None:
        compile_source = functools.partial(load_nvrtc().compile_source, source, arch=arch, names=tuple(names))
        compiled = None
        if _GROUPS in source:
            with contextlib.suppress(KernelCompileError):  # the source uses more than that
                compiled = compile_source(options=(*whole, _WITHOUT_LIBRARY))
        if compiled is None:
            compiled = compile_source(options=whole)
        if log_stream is not None:
            log_stream.write(compiled.log)
        text = compiled.cubin.rstrip(b"\0")
        if forbids_contraction:
            from xferlib.kernels.cuda_cpu import assembler

            text = assembler.forbid_contraction(text.decode()).encode()
        cached = cache.pack_names(text, compiled.names, names)
        if is_kept:
            cache.write(name, cached)
    content, lowered = cache.unpack_names(cached, names)
    return content.decode(), lowered
