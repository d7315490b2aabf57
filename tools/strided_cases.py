"""Hold the C that gathers, scatters and converts against NumPy, on random layouts, dtypes and ranges.

    python tools/strided_cases.py [--cases 100000] [--seed N] [--library PATH]

``--library`` is another build of `staging.c`, for instance one with sanitizers. The exit status is the number of
differences, at most 1. A NaN that is converted must stay a NaN; its payload is not compared.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core.arrays import check_conversion, copy_into
from xferlib._core.dtypes import DTYPES
from xferlib._transfer import plan as compiled_copies
from xferlib.errors import UnsupportedDTypeError

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 70, 130)
SPECIAL = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 65504.0, 65519.0, 65520.0, 127.5, -128.9, 255.9, 2.0**31, 2.0**32, 2.0**63,
    2.0**64, -(2.0**63), 1e-8, 2.0**-24, 2.0**-25, 5.97e-8,
)  # fmt: skip
Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """One array on the host, its memory, and a range of its elements."""

    array: Array
    memory: Array
    """The bytes that the array is a view of."""
    dtype: np.dtype[Any]
    """Of the device side."""
    first: int
    number: int
    """Of the elements from the first one on."""

    def seen(self, memory: Array) -> Array:
        """The same view of other bytes."""
        start = self.array.__array_interface__["data"][0] - self.memory.__array_interface__["data"][0]
        return np.ndarray(self.array.shape, self.array.dtype, memory, start, self.array.strides)

    def layout(self) -> Any:
        """The array's layout and the conversion, as C takes them."""
        found = compiled_copies.describe_form(self.array.shape, self.array.strides, self.array.dtype, self.dtype)
        assert found is not None
        return ctypes.byref(found.layout)

    def __str__(self) -> str:
        return (
            f"shape {self.array.shape}, strides {self.array.strides}, {self.array.dtype.str} and {self.dtype.str} "
            f"on the device, elements {self.first} to {self.first + self.number}"
        )


def values(dtype: np.dtype[Any], count: int, chance: np.random.Generator) -> Array:
    """Random bits, or numbers of all sizes with special ones among them."""
    bits = chance.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if dtype.kind == "b":
        return (bits & 1).astype(bool)
    found = bits.view(dtype)
    if dtype.kind in "fc" and chance.random() < 0.7:
        numbers = chance.standard_normal(count) * 10.0 ** chance.integers(-6, 20)
        if count and chance.random() < 0.5:
            numbers[chance.integers(0, count, len(SPECIAL))] = SPECIAL
        found = (numbers + 1j * numbers[::-1]).astype(dtype) if dtype.kind == "c" else numbers.astype(dtype)
    return found


def drawn(chance: np.random.Generator) -> Case:
    """Draw a layout with gaps, negative steps, permuted axes, any alignment and byte order."""
    shape = tuple(int(extent) for extent in chance.choice(EXTENTS, chance.integers(0, 6)))
    while math.prod(shape) > 60_000:
        shape = shape[:-1]
    given = np.dtype(chance.choice(DTYPES))
    dtype = given if chance.random() < 0.4 else np.dtype(chance.choice(DTYPES))
    extents = tuple(int(extent * chance.choice([1, 1, 2, 3]) + chance.integers(0, 3)) for extent in shape)
    order = chance.permutation(len(shape)) if shape else np.zeros(0, np.intp)
    base = values(given, math.prod(extents), chance)
    if given.itemsize > 1 and chance.random() < 0.3:
        base = base.astype(given.newbyteorder())
    memory = np.empty(base.nbytes + 16, np.uint8)
    start = int(chance.integers(0, 16)) if chance.random() < 0.3 else 0
    whole: Array = np.ndarray([extents[axis] for axis in order], base.dtype, memory, start)
    whole[...] = base.reshape(whole.shape)
    array = whole.transpose(np.argsort(order))
    for axis, (extent, room) in enumerate(zip(shape, array.shape, strict=True)):
        step = int(chance.integers(1, max(1, room // extent) + 1))
        first = int(chance.integers(0, room - (extent - 1) * step))
        kept = slice(first, first + (extent - 1) * step + 1, step)
        array = array[(slice(None),) * axis + (kept,)]
        if chance.random() < 0.3:
            array = np.flip(array, axis)
    first = int(chance.integers(0, array.size)) if chance.random() < 0.6 else 0
    count = int(chance.integers(1, array.size - first + 1)) if chance.random() < 0.6 else array.size - first
    return Case(array, memory, dtype, first, count)


def repeated(case: Case, chance: np.random.Generator) -> Case:
    """The same with an axis along which all elements are one, as `numpy.broadcast_to` makes it: it can be read only."""
    if not case.array.ndim or chance.random() < 0.8:
        return case
    axis = int(chance.integers(0, case.array.ndim))
    first = case.array[(slice(None),) * axis + (slice(0, 1),)]
    return case._replace(array=np.broadcast_to(first, case.array.shape))


def differ(found: Array, expected: Array) -> bool:
    """Whether bits differ, but for those of NaNs."""
    if found.tobytes() == expected.tobytes():
        return False
    if found.dtype.kind not in "fc":
        return True
    parts = [each.reshape(-1).view(found.real.dtype) for each in (found, expected)]  # one without axes cannot be viewed
    with np.errstate(invalid="ignore"):  # signalling NaNs
        nan = (parts[0] != parts[0]) & (parts[1] != parts[1])
    zeros = [np.where(nan, parts[0].dtype.type(0), part) for part in parts]
    return zeros[0].tobytes() != zeros[1].tobytes()


def gathers(case: Case, library: Any, *, is_streamed: bool) -> bool:
    """Whether a gather gives what NumPy does, and writes nothing else."""
    expected = np.empty(case.array.shape, case.dtype)
    copy_into(expected, case.array)
    expected = expected.reshape(-1)[case.first : case.first + case.number]
    out = np.full(expected.nbytes + 64, 0xAB, np.uint8)
    pointer = case.array.__array_interface__["data"][0]
    library.xf_spread(case.layout(), pointer, case.first, case.number, out.ctypes.data, 1, int(is_streamed))
    is_kept = bool((out[expected.nbytes :] == 0xAB).all())
    return is_kept and not differ(out[: expected.nbytes].view(case.dtype), expected)


_CREW = 64, 3, 3, 100_000
"""Of copies between host arrays: bytes for each thread, helpers of one and in all, nanoseconds of looking for work."""


def copies_to_plain(case: Case, library: Any) -> bool:
    """Whether several threads copy the array to one in C order as NumPy does."""
    expected = np.empty(case.array.shape, case.dtype)
    copy_into(expected, case.array)
    plain = np.zeros_like(expected)
    pointer = case.array.__array_interface__["data"][0]
    library.xf_host_copy(case.layout(), pointer, plain.ctypes.data, plain.nbytes, 1, *_CREW)
    return not differ(plain, expected)


def copies_from_plain(case: Case, library: Any, chance: np.random.Generator) -> bool:
    """Whether several threads fill the array from one in C order as NumPy does, and no other byte."""
    plain = values(case.dtype, case.array.size, chance)
    expected, memory = case.memory.copy(), case.memory.copy()
    copy_into(case.seen(expected), plain.reshape(case.array.shape))
    pointer = case.seen(memory).__array_interface__["data"][0]
    library.xf_host_copy(case.layout(), pointer, plain.ctypes.data, plain.nbytes, 0, *_CREW)
    return _is_filled_alike(case, memory, expected)


def _is_filled_alike(case: Case, memory: Array, expected: Array) -> bool:
    """Whether the case's array is the same in both memories, and so is every other byte."""
    native = case.array.dtype.newbyteorder("=")
    ends = [np.array(case.seen(each), native, order="C").reshape(-1) for each in (memory, expected)]
    if differ(*ends):
        return False
    for each in (memory, expected):
        case.seen(each)[...] = np.zeros((), case.array.dtype)
    return memory.tobytes() == expected.tobytes()


def scatters(case: Case, library: Any, chance: np.random.Generator) -> bool:
    """Whether a scatter fills the elements as NumPy does, and no other byte."""
    device = values(case.dtype, case.array.size, chance)
    whole, expected, memory = case.memory.copy(), case.memory.copy(), case.memory.copy()
    copy_into(case.seen(whole), device.reshape(case.array.shape))
    chosen = np.zeros(case.array.size, bool)
    chosen[case.first : case.first + case.number] = True
    np.copyto(case.seen(expected), case.seen(whole), where=chosen.reshape(case.array.shape))
    part = device[case.first : case.first + case.number].copy()
    pointer = case.seen(memory).__array_interface__["data"][0]
    library.xf_spread(case.layout(), pointer, case.first, case.number, part.ctypes.data, 0, 1)
    return _is_filled_alike(case, memory, expected)


def run(cases: int, seed: int, path: str = "") -> list[str]:
    """The cases that differ, as text; of the library at ``path``, or the package's own."""
    library = _native.load(path) if path else _native.load_library()
    chance = np.random.default_rng(seed)
    wrong = []
    for number in range(cases):
        case = drawn(chance)
        for source, target in ((case.array.dtype, case.dtype), (case.dtype, case.array.dtype)):
            try:
                check_conversion(source, target)
            except UnsupportedDTypeError:
                continue
            is_gather = source is case.array.dtype
            if is_gather:
                read = repeated(case, chance)
                tried = {
                    "gather": gathers(read, library, is_streamed=bool(number & 1)),
                    "copy to C order": copies_to_plain(read, library),
                }
            else:
                tried = {
                    "scatter": scatters(case, library, chance),
                    "copy from C order": copies_from_plain(case, library, chance),
                }
            failed = [name for name, is_right in tried.items() if not is_right]
            wrong += [f"case {number} of seed {seed}: {name}: {case}" for name in failed]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--library", default="", help="another build of staging.c")
    given = parser.parse_args()
    begun_s = time.perf_counter()
    with np.errstate(all="ignore"):
        wrong = run(given.cases, given.seed, given.library)
    for each in wrong[:20]:
        print(each)
    print(f"{given.cases} cases of seed {given.seed} in {time.perf_counter() - begun_s:.0f} s: {len(wrong)} differ")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
