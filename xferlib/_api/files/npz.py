"""NumPy's ``.npz``: what is stored in it without compression is read where it lies in the file.

What a file claims about itself is compared with what it holds before memory is taken for it: its sizes, and that each
array fills its member. A member that is compressed grows in memory as it is unpacked, up to what its header says. The
checksums are verified, as `numpy.load` does, which reads every byte once more.
"""

from __future__ import annotations

import functools
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from xferlib._runtime import thread_budget
from xferlib._runtime.jobs import Computation
from xferlib._runtime.threads import workers
from xferlib.errors import ArgumentError, OutOfMemoryError, XferError, shown

MAGIC = b"PK"
_STRUCTURE = "xferlib.json"
"""The member with the structure: no array, and so no name of one."""
_HEAD = struct.Struct("<26xHH")
"""The lengths of the name and of the extra field, in what precedes a member."""
_END, _END_MOST = b"PK\5\6", 22 + (1 << 16)
"""The first bytes of the table's end, and the most bytes of it."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_HEADER_MOST = 12_000
"""Bytes of an array's header, of which NumPy takes 10,000."""
_DEFLATED_MOST = 1032
"""Bytes that one byte of deflate can stand for."""
_STRUCTURE_LEAST, _STRUCTURE_RATIO = 1 << 20, 20
"""Bytes of the structure, which xferlib does not compress, and of what one byte of a compressed one may stand for: the
objects that it describes take as much again many times."""
_PART = 1 << 20
"""Bytes that are unpacked at once, or of which one thread makes a checksum."""
_PARTS_LEAST = 8
"""Parts from which it pays to wake other threads for checksums."""


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
        OutOfMemoryError: The host has no memory for what it holds.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    structure = None
    try:
        with zipfile.ZipFile(path) as archive:
            whole = memoryview(cast("Any", np.memmap(path, np.uint8, "r")))
            members = archive.infolist()
            _check_table(members, bytes(whole[-_END_MOST:]))
            for member in members:
                archive.open(member).close()  # compares what precedes it, its name too, with the table of the archive
                if member.filename == _STRUCTURE:
                    most = max(_STRUCTURE_LEAST, _STRUCTURE_RATIO * member.compress_size)
                    structure = _unpacked(archive, member, most).decode()
                elif member.filename.endswith(".npy"):
                    arrays[member.filename.removesuffix(".npy")] = _array(path, archive, member, whole)
    except XferError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"load: the host has no memory for what {path} holds; load a part of it") from error
    except Exception as error:  # a damaged file leads zipfile, zlib and NumPy to errors of any kind
        text = str(error) or type(error).__name__
        raise ArgumentError(f"load: {path} cannot be read as .npz ({text[:300]}); save it again") from error
    return arrays, structure


def _check_table(members: list[zipfile.ZipInfo], end: bytes) -> None:
    """Refuse what zipfile takes: a table with fewer members than it says, two of one name, or over the same bytes.

    A small file could have any number of the last ones.
    """
    counts = struct.unpack_from("<HH", end, end.rfind(_END) + 8)  # of this part of the archive, and of all
    if not {*counts} <= {len(members), 0xFFFF}:  # which stands for more than it can say
        raise ValueError(f"its table has {len(members)} members instead of {max(counts)}")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("two members have one name")
    for one, two in pairwise(sorted(members, key=lambda member: member.header_offset)):
        if one.header_offset + _HEAD.size + one.compress_size > two.header_offset:
            raise ValueError(f"{shown(one.filename)} and {shown(two.filename)} overlap")


def _array(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, whole: memoryview) -> np.ndarray[Any, Any]:
    if member.compress_type != zipfile.ZIP_STORED:
        data = _unpacked(archive, member, member.file_size)
        shape, dtype, order, start = _header(member, bytes(data[:_HEADER_MOST]))
        return np.ndarray(shape, dtype, data, start, order=order)
    begin, end = _located(member, whole)
    shape, dtype, order, start = _header(member, whole[begin : min(end, begin + _HEADER_MOST)].tobytes())
    if _checksum(whole[begin:end]) != member.CRC:
        raise ValueError(f"the checksum of {shown(member.filename)} is wrong")
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", begin + start, shape, order))


def _checksum(data: memoryview) -> int:
    """The CRC-32 of some bytes, of whose parts each is a thread's: one thread reads 3.5 GB/s."""
    count = -(-len(data) // _PART)
    if count < _PARTS_LEAST:
        return zlib.crc32(data)
    found = [0] * count
    first = len(data) - (count - 1) * _PART  # bytes of the first part, so that each that follows has as many

    def work(take: Callable[[], int]) -> None:
        while (number := take()) >= 0:
            end = first + number * _PART
            found[number] = zlib.crc32(data[max(end - _PART, 0) : end])

    workers.run(Computation(count, work, helpers=min(thread_budget.crew().each_way, count) - 1))
    whole, matrix = 0, _zeros_behind()
    for part in found:
        whole = _times(matrix, whole) ^ part
    return whole


@functools.cache
def _zeros_behind() -> list[int]:
    """The matrix over single bits, by its columns, that makes of a checksum that with a part of zeros behind."""
    step = [0xEDB88320, *(1 << bit for bit in range(31))]  # one bit: the polynomial, and a shift
    for _ in range((8 * _PART).bit_length() - 1):
        step = [_times(step, column) for column in step]
    return step


def _times(matrix: list[int], vector: int) -> int:
    found = 0
    for column in matrix:
        if vector & 1:
            found ^= column
        vector >>= 1
    return found


def _located(member: zipfile.ZipInfo, whole: memoryview) -> tuple[int, int]:
    """Where the bytes of a member that is stored as it is lie in the file."""
    name_length, extra_length = _HEAD.unpack(whole[member.header_offset : member.header_offset + _HEAD.size].tobytes())
    begin = member.header_offset + _HEAD.size + name_length + extra_length
    end = begin + member.file_size
    if member.compress_size != member.file_size or end > len(whole):
        raise ValueError(f"{shown(member.filename)} is said to have {member.file_size} bytes, which it has not")
    return begin, end


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytearray:
    """The bytes of a member, whose number and checksum are right; in memory that grows with them."""
    name, size = shown(member.filename), member.file_size
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed in another way than NumPy's")
    if size > most or size > _DEFLATED_MOST * member.compress_size:
        raise ValueError(f"{name} is said to have {size} bytes, and has {member.compress_size} in the file")
    found = bytearray()
    with archive.open(member) as packed:
        if member.compress_type == zipfile.ZIP_DEFLATED and member.filename != _STRUCTURE:
            found += packed.read(min(size, _HEADER_MOST))
            _header(member, bytes(found))  # before the rest is unpacked
        while part := packed.read(_PART):
            found += part
    if len(found) != size:
        raise ValueError(f"{name} has {len(found)} bytes instead of {size}")
    return found


def _header(member: zipfile.ZipInfo, start: bytes) -> tuple[tuple[int, ...], np.dtype[Any], Any, int]:
    """The shape, the dtype, the order and the header's length of the array that a member begins."""
    file = io.BytesIO(start)
    version = np.lib.format.read_magic(cast("Any", file))
    if version not in _HEADERS:
        raise ValueError(f"{shown(member.filename)} has version {version}")
    try:
        shape, is_fortran, dtype = _HEADERS[version](cast("Any", file))
    except MemoryError as error:  # what Python's own parser calls brackets within each other
        raise ValueError("the header is no description of an array") from error
    if dtype.hasobject:
        raise ValueError(f"{shown(member.filename)} holds Python objects")
    nbytes = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or not dtype.itemsize or file.tell() + nbytes != member.file_size:
        raise ValueError(
            f"{shown(member.filename)} has {member.file_size - file.tell()} bytes, and its header tells of shape "
            f"{shown(shape)} and dtype {dtype}"
        )
    return shape, dtype, "F" if is_fortran else "C", file.tell()
