"""PTX as code of this process: from memory, from the disk, or translated and compiled now.

What is on the disk needs no part of the translator, which is not even imported for it.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import functools
import os
import struct
import threading
import weakref
import zlib
from typing import Any

import numpy as np

from xferlib import _native
from xferlib._runtime import process
from xferlib.errors import KernelCompileError
from xferlib.kernels import cuda_engine as cache
from xferlib.kernels import host_compiler
from xferlib.kernels.cuda_cpu.translation import TranslatedModule, pack, unpack

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
        return self.translation.block_nbytes + max(self.translation.block_align, 16)


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
