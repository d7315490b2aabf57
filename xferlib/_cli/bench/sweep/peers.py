"""The libraries here that xferlib is compared with."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass

import xferlib as xl
from xferlib._cli.bench import libraries


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Libraries, and what they have beside them."""

    libraries: dict[str, libraries.ArrayLibrary]
    backends: tuple[str, ...]
    """Those whose arrays xferlib takes and makes."""
    is_gpu: bool
    compiles: bool
    """Whether ``torch.compile`` takes part."""
    has_numexpr: bool
    absent: dict[str, str]
    """Libraries that are not here, with the reason."""


def present(*, compiles: bool) -> Peers:
    """The libraries with a GPU, or else those of the CPU."""
    names, absent = libraries.with_cuda(("cupy", "torch"))
    found: dict[str, libraries.ArrayLibrary] = {}
    if "cupy" in names:
        found["cupy"] = libraries.CupyLibrary()
    if "torch" in names:
        found["torch"] = libraries.TorchLibrary()
    is_gpu = bool(found)
    if not is_gpu:
        found["numpy"] = libraries.NumpyLibrary()
        if xl.available_backends()["torch"].is_available:
            found["torch"] = libraries.TorchLibrary("cpu")
    has_numexpr = not is_gpu and importlib.util.find_spec("numexpr") is not None
    if not is_gpu and not has_numexpr:
        absent["numexpr"] = "not installed"
    if "torch" in found:
        missing = _missing_compiler(is_gpu=is_gpu) if compiles else "--without-compile"
        if missing:
            absent["torch.compile"] = missing
    return Peers(
        libraries=found, backends=tuple(found), is_gpu=is_gpu, has_numexpr=has_numexpr, absent=absent,
        compiles="torch" in found and "torch.compile" not in absent,
    )  # fmt: skip


def _missing_compiler(*, is_gpu: bool) -> str:
    """The reason why ``torch.compile`` is left out; empty if it is not."""
    if not any(map(shutil.which, ("cc", "gcc", "clang") if is_gpu else ("g++", "clang++"))):
        return "no C compiler" if is_gpu else "no C++ compiler"
    return "Triton is not installed" if is_gpu and importlib.util.find_spec("triton") is None else ""
