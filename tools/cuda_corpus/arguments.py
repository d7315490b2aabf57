"""Arguments for a kernel of which only the text is known: the same ones on every machine, by a number."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xferlib.errors import XferError
from xferlib.kernels.cuda_cpu.translation import Kernel
from xferlib.kernels.cuda_launch import USUAL_SHARED_NBYTES
from xferlib.kernels.cuda_signature import parse_signature

Extents = tuple[int, int, int]

_GEOMETRIES: tuple[tuple[Extents, Extents, int], ...] = (
    ((4, 1, 1), (128, 1, 1), 400),
    ((2, 2, 1), (16, 16, 1), 32),
    ((1, 1, 1), (256, 1, 1), 256),
    ((2, 1, 1), (64, 1, 1), 1024),
    ((2, 2, 1), (8, 8, 1), 16),
    ((2, 1, 1), (32, 1, 1), 64),
    ((1, 1, 1), (512, 1, 1), 8),
    ((2, 2, 1), (8, 4, 4), 128),
    ((2, 2, 1), (32, 8, 1), 64),
    ((4, 1, 1), (16, 1, 1), 64),
    ((2, 2, 1), (32, 32, 1), 64),
    ((2, 2, 1), (32, 16, 1), 64),
    ((2, 2, 1), (32, 6, 1), 64),
    ((1, 1, 1), (1024, 1, 1), 2048),
    ((2, 1, 1), (192, 1, 1), 1024),
    ((2, 1, 1), (8, 4, 2), 64),
    ((1, 1, 1), (32, 1, 1), 1),
    ((1, 1, 1), (1, 1, 1), 64),
)
"""Grid, block, and what integers are."""
_FILLS = ("float32", "int32", "float64", "zero")
"""Elements whose type the text does not tell; with the last one all elements are 0."""
COUNT = len(_GEOMETRIES) * len(_FILLS)
"""Of sets of arguments; the first one that a kernel takes without a fault is its own."""
_ARRAY_NBYTES = 1 << 20
_SHARED_NBYTES = 16 << 10


@dataclass(slots=True)
class Launch:
    """A launch: the arrays that the kernel may reach, and the bytes of its parameters."""

    grid: Extents
    block: Extents
    shared_nbytes: int
    is_cooperative: bool
    arrays: list[np.ndarray[Any, Any]] = field(default_factory=list)
    values: list[bytes | int | list[int]] = field(default_factory=list)
    """Each parameter by its bytes, by the number of the array that it points to, or by those of arrays in it."""
    offset: int = 0
    """Of the byte that pointers point to in their arrays."""


def make_launch(kernel: Kernel, signature: str | None, number: int) -> Launch:
    """The launch of a number below `COUNT`."""
    (grid, block, size), fill = _GEOMETRIES[number % len(_GEOMETRIES)], _FILLS[number // len(_GEOMETRIES)]
    most = math.prod(kernel.maxntid or (1024,))
    if kernel.reqntid:
        x, y, z = (*kernel.reqntid, 1, 1)[:3]
        block = (x, y, z)
    elif math.prod(block) > most:
        block = (most, 1, 1)
    shared = min(_SHARED_NBYTES, USUAL_SHARED_NBYTES - kernel.static_nbytes) if kernel.dynamic_align else 0
    launch = Launch(grid, block, shared, kernel.is_cooperative)
    launch.offset = _ARRAY_NBYTES // 4 if fill != _FILLS[0] else 0  # for indices below 0, too
    words = _Words([zlib.crc32(kernel.name.encode()), number], is_zero=fill == "zero")
    integers = {"float32": (size, min(size, block[0])), "int32": (size, size), "float64": (size, 2)}.get(
        fill, (size, 1)
    )
    declared, unknown = _read(signature, kernel), "float32" if fill == "zero" else fill
    for nth, parameter in enumerate(kernel.params):
        kind, is_pointer = declared[nth] if declared else (None, parameter.nbytes == 8)
        if is_pointer:
            launch.values.append(_add_array(launch, words, kind or unknown))
        elif kind is not None and kind.kind in "fiub" and kind.itemsize == parameter.nbytes:
            launch.values.append(words.scalar(kind, integers[nth % 3 == 0 and nth > 0]))
        elif kind is None and fill == "float64" and parameter.nbytes % 8 == 0:
            launch.values.append([_add_array(launch, words, "float32")] * (parameter.nbytes // 8))
        else:
            count = -(-parameter.nbytes // 4)
            content = np.full(count, size, np.int32) if fill == "int32" else words.array(np.dtype("float32"), count)
            launch.values.append(content.tobytes()[: parameter.nbytes])
    return launch


def _read(signature: str | None, kernel: Kernel) -> list[tuple[Any, bool]] | None:
    """Of each parameter the dtype, and whether it is a pointer; None where they are not known."""
    if signature is None:
        return None
    found: list[tuple[Any, bool]] = []
    for text in _split(signature):
        while (plain := re.sub(r"<[^<>]*>", "", text)) != text:
            text = plain  # without the arguments of templates
        is_pointer = any(mark in text for mark in "*&[")
        try:
            (parameter,) = parse_signature(text, kernel.name)
            found.append((None if parameter.is_struct else parameter.dtype, is_pointer))
        except (XferError, ValueError):
            found.append((None, is_pointer))
    fits = len(found) == len(kernel.params)
    fits = fits and all(each.nbytes == 8 or not known[1] for each, known in zip(kernel.params, found, strict=True))
    return found if fits else None


def _split(signature: str) -> Iterator[str]:
    """The parameters of a list, whose types may have lists of their own."""
    depth, begin = 0, 0
    for at, letter in enumerate(signature):
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and not depth:
            yield signature[begin:at].strip()
            begin = at + 1
    if signature[begin:].strip() not in ("", "void"):
        yield signature[begin:].strip()


def _add_array(launch: Launch, words: _Words, kind: Any) -> int:
    """Add an array to a launch; returns its number."""
    launch.arrays.append(words.array(np.dtype(kind), _ARRAY_NBYTES // np.dtype(kind).itemsize))
    return len(launch.arrays) - 1


class _Words:
    """Random numbers by their bits alone: NumPy's distributions are not the same in every version."""

    def __init__(self, seed: list[int], *, is_zero: bool) -> None:
        self._source = np.random.PCG64(np.random.SeedSequence(seed))
        self._is_zero = is_zero

    def _fractions(self, count: int) -> Any:
        return (self._source.random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def array(self, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
        """Floats of -1 to 1, integers of 0 to 31."""
        if self._is_zero:
            return np.zeros(count, dtype)
        if dtype.kind in "fc":
            numbers = self._fractions(count) * 2 - 1
            return np.ascontiguousarray(numbers.astype(dtype))
        return np.ascontiguousarray((self._fractions(count) * (2 if dtype.kind == "b" else 32)).astype(dtype))

    def scalar(self, dtype: np.dtype[Any], size: int) -> bytes:
        """A float of 0.5 to 1, or the size as an integer."""
        if dtype.kind == "f":
            return bytes((0.5 + self._fractions(1) / 2).astype(dtype).tobytes())
        return np.asarray(size).astype(dtype).tobytes()


def list_bytes(launch: Launch, addresses: list[int]) -> list[bytes]:
    """The parameters, with arrays at these addresses."""
    addresses = [each + launch.offset for each in addresses]
    found = []
    for value in launch.values:
        if isinstance(value, int):
            found.append(np.uint64(addresses[value]).tobytes())
        elif isinstance(value, list):
            found.append(np.array([addresses[each] for each in value], np.uint64).tobytes())
        else:
            found.append(value)
    return found
