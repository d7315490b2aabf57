"""NumPy by CuPy's names, so that the namespace of CuPy's arrays runs without a GPU; for a process of its own."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

import xferlib.backends

ABSENT = ("vecdot", "unstack", "permute_dims", "matrix_transpose", "isdtype", "astype")
"""Functions of NumPy 2 that CuPy 14 has not, and some more."""


class Device:
    """`cupy.cuda.Device`; entered ones are kept."""

    entered: list[int] = []  # noqa: RUF012 - for all

    def __init__(self, number: int = 0) -> None:
        self.id = number

    def __enter__(self) -> Device:
        Device.entered.append(self.id)
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _module(name: str, content: dict[str, Any]) -> Any:
    made = sys.modules[name] = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(content)
    return made


def _public(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in dir(module) if not name.startswith("__")}


def install() -> Any:
    """Put the modules where CuPy's are imported from; returns the namespace."""
    functions = {name: found for name, found in _public(np).items() if name not in ABSENT}
    for name in ("empty", "zeros", "ones"):  # which take no more than these
        make = getattr(np, name)
        functions[name] = lambda shape, dtype=float, order="C", make=make: make(shape, dtype, order)
    functions["eye"] = lambda n, m=None, k=0, dtype=float, order="C": np.eye(n, m, k, dtype, order)
    functions["isin"] = lambda x, y, assume_unique=False, invert=False: np.isin(x, y, assume_unique, invert)
    functions["std"] = lambda x, axis=None, dtype=None, out=None, ddof=0, keepdims=False: np.std(
        x, axis, dtype, out, ddof, keepdims
    )
    runtime = types.SimpleNamespace(getDevice=lambda: 0, getDeviceCount=lambda: 2)
    cuda = _module("cupy.cuda", {"Device": Device, "runtime": runtime})
    _module("cupy.cuda.device", {"Device": Device})
    parts = {name: _module(f"cupy.{name}", _public(getattr(np, name))) for name in ("linalg", "fft")}
    _module("cupy", {**functions, **parts, "cuda": cuda})
    package = types.ModuleType("xferlib.backends.cupy")  # without the backend, which needs the driver
    package.__path__ = [str(Path(xferlib.backends.__file__).with_name("cupy"))]
    sys.modules["xferlib.backends.cupy"] = package
    from xferlib.backends.cupy import namespace

    return namespace
