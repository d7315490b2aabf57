"""CUDA source as code of this process: PTX by NVRTC, and from it C, compiled; each from memory, the disk, or made now.

NVRTC needs neither a GPU nor a driver. What is on the disk needs no part of the translator, which is not even imported
for it, and no NVRTC.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import functools
import os
import re
import struct
import sys
import threading
import weakref
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib import _native
from xferlib._runtime import process
from xferlib._runtime.version import install_command
from xferlib.errors import KernelCompileError, UnsupportedError
from xferlib.kernels import code_cache as cache
from xferlib.kernels import host_compiler
from xferlib.kernels.cuda_cpu.translation import TranslatedModule, pack, unpack

# --- CUDA source to PTX

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
    folders = cache.find_header_folders(source)
    lines = () if DEBUG in options else ("--generate-line-info",)
    whole = (*options, *lines, *cache.list_header_options(folders))
    is_kept = cache.has_only_cuda_headers(source, options, folders)
    # A cached kernel needs no NVRTC loaded, where a package tells its version.
    compiler = " ".join(cache.list_cuda_packages()) or load_nvrtc().version()
    version = f"{compiler} {cache.identify_headers(folders)}"
    if forbids_contraction := re.search(r"-fmad[=\0]false", "\0".join(options)) is not None:
        version += f" {identify_translator()}"
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


# --- PTX to code

_OPTIONS = (
    "-O1", "-std=gnu11", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-math-errno", "-w", "-fcaller-saves",
    "-fno-asynchronous-unwind-tables",
)  # fmt: skip
_SOURCE = "kernel.cu"
"""The name of a source for the compiler; headers have others."""
_MOST_NBYTES = 64 << 20


class CpuCode:
    """The part that loaded modules of one text share.

    Attributes:
        translation: What is known of the text.
        library: Its kernels.
        is_checked: Every access is looked up, as a launch that is checked or followed needs it.
        nbytes: About what it holds: more memory is in proportion.
    """

    def __init__(self, translation: TranslatedModule, library: ctypes.CDLL, *, is_checked: bool, nbytes: int) -> None:
        self.translation = translation
        self.library: Any = library
        self.is_checked = is_checked
        self.nbytes = nbytes
        # ctypes never unloads a library. Not at the end, when a launch may still be under way.
        weakref.finalize(self, _ctypes.dlclose, library._handle).atexit = False
        self.library.xf_init_module.argtypes = (ctypes.c_void_p,)
        self.library.xf_init_module.restype = None
        self.places = np.asarray(translation.places, np.uint32)

    @property
    def variables_nbytes(self) -> int:
        """The memory that a loaded module needs for its variables, with room to align it."""
        return self.translation.block_nbytes + self.translation.block_align


_codes: dict[str, CpuCode] = {}
"""The code of texts, the last used at the end."""
_lock = threading.Lock()


def compile_ptx(*texts: str, is_checked: bool, finds_overflow: bool = False, debug_text: str = "") -> CpuCode:
    """The code of PTX; one compilation serves all modules of the process, until it is forgotten.

    Args:
        texts: PTX; several are linked.
        is_checked: Let every access be looked up.
        finds_overflow: Raise indices that do not fit in 32 bits, where it is checked.
        debug_text: PTX of a debug build, which shows what the optimiser hides; empty where there is none.

    Raises:
        KernelCompileError: The text is not PTX, or there is no C compiler.
    """
    compiler = host_compiler.identify(list_c_options())
    name = cache.key(
        "cpu code", identify_translator(), *compiler, f"{is_checked:d}{finds_overflow:d}", debug_text, *texts
    )
    with _lock:
        code = _codes.pop(name, None)
    if code is None:
        code = _read(name, is_checked=is_checked)
    if code is None:
        code = _make(name, texts, is_checked=is_checked, finds_overflow=finds_overflow, debug_text=debug_text)
    with _lock:
        _codes[name] = code
        nbytes = sum(each.nbytes for each in _codes.values())
        for old in [*_codes][:-1]:
            if nbytes <= _MOST_NBYTES:
                break
            nbytes -= _codes.pop(old).nbytes
    return code


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it at the fork


process.reset_in_child(_renew_lock)


@functools.cache
def list_c_options() -> tuple[str, ...]:
    """The options of the C compiler; products and sums in one rounding are an instruction where the CPU has it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", "rb") as file:
        for line in file:  # the first processor's: the system writes each only as it is read
            if line.startswith(b"flags"):
                return (*_OPTIONS, "-mfma") if b" fma " in line else _OPTIONS
    return _OPTIONS


@functools.cache
def identify_translator() -> str:
    """A text that changes with the code that translates, and with the headers in what it writes."""
    found = _native.checksum()
    folder = __file__.rpartition(os.sep)[0]
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - of many files the time counts
        if name.endswith(".py"):
            with open(f"{folder}{os.sep}{name}", "rb") as file:
                found = zlib.crc32(file.read(), found)
    return f"{found:08x}"


def _read(name: str, *, is_checked: bool) -> CpuCode | None:
    """Code from the disk; None where there is none that can be loaded."""
    payload = cache.read(name)
    if payload is None:
        return None
    (length,) = struct.unpack_from("<q", payload)
    translation, content = unpack(payload[8 : 8 + length]), payload[8 + length :]
    try:
        library = host_compiler.load_library(name, content)
    except KernelCompileError:  # the cache was filled under another C library
        return None
    return CpuCode(translation, library, is_checked=is_checked, nbytes=len(payload))


def _make(name: str, texts: tuple[str, ...], *, is_checked: bool, finds_overflow: bool, debug_text: str) -> CpuCode:
    from xferlib.kernels.cuda_cpu import emit, ptx

    try:
        modules = [ptx.parse(text) for text in texts]
        whole = modules[0] if len(modules) == 1 else ptx.merge(modules)
        translation = emit.translate(whole, checked=is_checked, finds_overflow=finds_overflow)
    except ptx.PtxError as error:
        raise KernelCompileError(f"the PTX cannot be translated: {error}") from None
    except IndexError:
        raise KernelCompileError("the PTX cannot be translated: an instruction has too few operands") from None
    if debug_text:
        with contextlib.suppress(ptx.PtxError, IndexError):  # what is not understood shows nothing
            translation.unset = emit.find_unset(ptx.parse(debug_text), _SOURCE)
    content = host_compiler.compile_c(translation.text, flags=list_c_options())
    translation.text = ""
    packed = pack(translation)
    payload = struct.pack("<q", len(packed)) + packed + content
    cache.write(name, payload)
    library = host_compiler.load_library(name, content)
    return CpuCode(translation, library, is_checked=is_checked, nbytes=len(payload))
