"""Rows of every kind that `stream_map` reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest


class Sliced:
    """As zarr and h5py have it: shape, dtype and slices, and no memory to look at; a pickled copy is another object."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self._data = data
        self.shape = data.shape
        self.dtype = data.dtype
        self.asked: list[tuple[int, int]] = []
        self.written: list[tuple[int, int]] = []

    def __getitem__(self, part: slice) -> np.ndarray[Any, Any]:
        self.asked.append((part.start, part.stop))
        return self._data[part].copy()

    def __setitem__(self, part: slice, value: np.ndarray[Any, Any]) -> None:
        self.written.append((part.start, part.stop))
        self._data[part] = value


class Filling:
    """Fills memory that it is given."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self._data = data
        self.shape = data.shape
        self.dtype = data.dtype
        self.filled: set[int] = set()

    def read_into(self, out: np.ndarray[Any, Any], start: int) -> None:
        self.filled.add(out.ctypes.data)
        out[...] = self._data[start : start + len(out)]


def mapped(path: Path, data: np.ndarray[Any, Any], mode: str = "r+", order: Any = "C") -> np.memmap[Any, Any]:
    file = np.memmap(path, data.dtype, "w+", shape=data.shape, order=order)
    file[...] = data
    file.flush()
    del file
    return np.memmap(path, data.dtype, mode, shape=data.shape, order=order)  # type: ignore[call-overload]


def _read_only(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    data = data.copy()
    data.flags.writeable = False
    return data


def _private(path: Path, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A map that keeps what was written to it, which its file does not have."""
    file = mapped(path, data * 0, "c")
    file[...] = data
    return file


def _tensor(data: np.ndarray[Any, Any]) -> Any:
    return pytest.importorskip("torch").from_numpy(data.copy())


SOURCES: dict[str, Callable[[Path, np.ndarray[Any, Any]], Any]] = {
    "array": lambda _, data: data,
    "fortran": lambda _, data: np.asfortranarray(data),
    "strided": lambda _, data: np.repeat(data, 2, axis=1)[:, ::2],
    "read-only": lambda _, data: _read_only(data),
    "tensor": lambda _, data: _tensor(data),
    "sliced": lambda _, data: Sliced(data),
    "filling": lambda _, data: Filling(data),
    "map": lambda path, data: mapped(path, data, "r"),
    "map to write": mapped,
    "private map": _private,
    "fortran map": lambda path, data: mapped(path, data, "r", "F"),
    "columns of a map": lambda path, data: mapped(path, np.repeat(data, 2, axis=1), "r")[:, ::2],
    "map backwards": lambda path, data: mapped(path, data[::-1, ::-1], "r")[::-1, ::-1],
}
OUTS: dict[str, Callable[[Path, np.ndarray[Any, Any]], Any]] = {
    "array": lambda _, data: np.zeros_like(data),
    "strided": lambda _, data: np.zeros((len(data), 2 * data.shape[1]), data.dtype)[:, ::2],
    "sliced": lambda _, data: Sliced(np.zeros_like(data)),
    "tensor": lambda _, data: _tensor(np.zeros_like(data)),
    "map": lambda path, data: mapped(path, np.zeros_like(data)),
    "new map": lambda path, data: np.memmap(path, data.dtype, "w+", shape=data.shape),
    "fortran map": lambda path, data: mapped(path, np.zeros_like(data), order="F"),
    "columns of a map": lambda path, data: mapped(path, np.repeat(data * 0, 2, axis=1))[:, ::2],
}
