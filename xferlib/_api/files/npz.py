"""NumPy's ``.npz``: what is stored in it without compression is read where it lies in the file."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from xferlib.errors import ArgumentError

MAGIC = b"PK"
_STRUCTURE = "xferlib.json"
"""The member with the structure: no array, and so no name of one."""
_HEAD = struct.Struct("<26xHH")
"""The lengths of the name and of the extra field, in what precedes a member."""
_HEADERS = {(1, 0): "read_array_header_1_0", (2, 0): "read_array_header_2_0"}


def write(path: Path, arrays: dict[str, np.ndarray[Any, Any]], structure: str) -> None:
    """Write NumPy arrays, and a structure, to a new file, without compression."""
    with zipfile.ZipFile(path, "x", allowZip64=True) as archive:
        archive.writestr(_STRUCTURE, structure)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(cast("Any", member), array, allow_pickle=False)


def read(path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], str | None]:
    """The arrays, over the file's memory where they lie in it as they are, and the structure.

    Raises:
        ArgumentError: A member is no array of numbers, or the file is damaged.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    structure = None
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for member in archive.infolist():
                if member.filename == _STRUCTURE:
                    structure = archive.read(member).decode()
                elif member.filename.endswith(".npy"):
                    arrays[member.filename.removesuffix(".npy")] = _array(path, archive, file, member)
    except (zipfile.BadZipFile, ValueError, EOFError, struct.error, KeyError) as error:
        raise ArgumentError(f"load: {path} cannot be read as .npz ({error}); save it again") from error
    return arrays, structure


def _array(path: Path, archive: zipfile.ZipFile, file: BinaryIO, member: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    if member.compress_type != zipfile.ZIP_STORED:
        with archive.open(member) as unpacked:
            found: np.ndarray[Any, Any] = np.lib.format.read_array(cast("Any", unpacked), allow_pickle=False)
            return found
    file.seek(member.header_offset)
    name_length, extra_length = _HEAD.unpack(file.read(_HEAD.size))
    file.seek(name_length + extra_length, 1)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"{member.filename} has version {version}")
    shape, is_fortran, dtype = getattr(np.lib.format, _HEADERS[version])(file)
    if dtype.hasobject:
        raise ValueError(f"{member.filename} holds Python objects")
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", file.tell(), shape, "F" if is_fortran else "C"))
