"""The safetensors format, by its library; the arrays are read where they lie in the file."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from xferlib._runtime.version import install_command
from xferlib.errors import (
    ArgumentError,
    BackendUnavailableError,
    OutOfMemoryError,
    UnsupportedDTypeError,
    XferError,
    shown,
)

BITS = {"bfloat16": np.dtype("int16")}
"""Dtypes that NumPy has not, and the integers of their bits."""
_STRUCTURE = "xferlib"
"""The entry of the file's metadata with the structure."""
_NAMES = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
    "BF16": "bfloat16",
}  # fmt: skip
"""The format's names of dtypes."""


def library() -> ModuleType:
    """The module ``safetensors``.

    Raises:
        BackendUnavailableError: It is not installed.
    """
    try:
        return importlib.import_module("safetensors")
    except ImportError as error:
        raise BackendUnavailableError(
            f"files of safetensors need the package safetensors: {install_command('safetensors')}"
        ) from error


def check(name: str, dtype: str) -> None:
    """Refuse a dtype that the format has not.

    Raises:
        UnsupportedDTypeError: As said.
    """
    if dtype not in _NAMES.values():
        raise UnsupportedDTypeError(
            f"save: {name} is {dtype}, which the safetensors format does not have; convert it, or save to .npz"
        )


def write(path: Path, arrays: dict[str, np.ndarray[Any, Any]], dtypes: dict[str, str], structure: str) -> None:
    """Write NumPy arrays to a new file; those of a dtype in `BITS` are integers of their bits."""
    found: Any = library()
    ready = {
        name: np.ascontiguousarray(each, each.dtype.newbyteorder("<")).reshape(each.shape)
        for name, each in arrays.items()
    }
    specs = {
        name: found.TensorSpec(dtype=dtypes[name], shape=each.shape, data_ptr=each.ctypes.data, data_len=each.nbytes)
        for name, each in ready.items()
    }
    found.serialize_file(specs, str(path), metadata={_STRUCTURE: structure})


def read(path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str], str | None]:
    """The arrays over the file's memory, the names of those dtypes that NumPy has not, and the structure.

    Raises:
        ArgumentError: The file is damaged, or another one.
        OutOfMemoryError: The host has no memory for what it holds.
        UnsupportedDTypeError: It has a dtype that xferlib does not know.
    """
    found: Any = library()
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    others: dict[str, str] = {}
    try:
        found.safe_open(str(path), framework="np")  # checks the header, before any of it is read here
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = dict(json.loads(file.read(length), object_pairs_hook=_once))
        metadata = header.pop("__metadata__", None) or {}
        for name, told in header.items():
            dtype = _NAMES.get(told["dtype"])
            if dtype is None:
                raise UnsupportedDTypeError(
                    f"load: {shown(name)} in {path} is {shown(told['dtype'])}, which xferlib does not know; read it by "
                    "safetensors itself"
                )
            if dtype in BITS:
                others[name] = dtype
            arrays[name] = _array(path, told, BITS.get(dtype) or np.dtype(dtype), 8 + length)
        return arrays, others, metadata.get(_STRUCTURE)
    except XferError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"load: the host has no memory for what {path} holds; load a part of it") from error
    except Exception as error:  # a damaged file leads the library, Python and NumPy to errors of any kind
        text = str(error) or type(error).__name__
        raise ArgumentError(
            f"load: {path} is neither .npz nor safetensors ({text[:300]}); give one of the two"
        ) from error


def _array(path: Path, told: dict[str, Any], dtype: np.dtype[Any], start: int) -> np.ndarray[Any, Any]:
    """An array where it lies in the file, of which the library has checked that it fits."""
    shape, (begin, end) = tuple(told["shape"]), told["data_offsets"]
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise ValueError(f"{end - begin} bytes for an array of shape {shown(shape)} and dtype {dtype}")
    return np.empty(shape, dtype) if 0 in shape else np.asarray(np.memmap(path, dtype, "r", start + begin, shape))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of these, of which no two have one key: the library may have checked the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("two entries have one name")
    return found
