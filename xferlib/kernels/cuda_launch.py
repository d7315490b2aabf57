"""Launches of CUDA kernels: limits, arguments in the driver's format, calls that C repeats, and scratch memory."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xferlib._native import GivenOutputs, LaunchField
from xferlib.kernels.arguments import HALF, find_code
from xferlib.kernels.ir import DType

if TYPE_CHECKING:
    from xferlib._core.device import Device, RawStream

MOST_THREADS = 1024
"""Of a block, on any GPU."""
MOST_SHARED_NBYTES = 227 << 10
"""Of a block, on any GPU, if the launch asks for it; on a GPU, its driver checks the exact limit."""
USUAL_SHARED_NBYTES = 48 << 10
"""The most without asking, and of static variables."""
ALIGNMENT = 15
"""The bits of an address on which a plan depends."""


class ParameterBlock:
    """The arguments of a launch in the memory format of ``cuLaunchKernel``, at `address`.

    They are the pointers, scalars of the given sizes in bytes, and the bytes of each of ``tails``.
    """

    def __init__(self, pointers: int, scalars: Sequence[int], *tails: bytes) -> None:
        offsets = [8 * number for number in range(pointers)]
        at = 8 * pointers
        self._scalar_offsets = []
        for nbytes in scalars:
            at = -(-at // nbytes) * nbytes
            self._scalar_offsets.append(at)
            offsets.append(at)
            at += nbytes
        starts = []
        for tail in tails:
            at = -(-at // 8) * 8
            starts.append(at)
            offsets.append(at)
            at += len(tail)
        self._memory = ctypes.create_string_buffer(at + 16)
        base = ctypes.addressof(self._memory)
        self._shift = -base % 16
        self._start = base + self._shift
        self.offsets = tuple(offsets)
        """Of the arguments, in bytes from the first one."""
        self._table = (ctypes.c_void_p * len(offsets))(*(self._start + offset for offset in offsets))
        self.address = ctypes.addressof(self._table)
        for start, tail in zip(starts, tails, strict=True):
            ctypes.memmove(self._start + start, tail, len(tail))
        self._pack = struct.Struct(f"{pointers}Q").pack_into

    @property
    def content(self) -> bytes:
        """The arguments, as they are."""
        return self._memory.raw[self._shift :][: len(self._memory) - 16]

    def patch(self, pointers: Sequence[int]) -> None:
        self._pack(self._memory, self._shift, *pointers)

    def patch_scalar(self, number: int, value: bytes) -> None:
        ctypes.memmove(self._start + self._scalar_offsets[number], value, len(value))


NewOutput = tuple[tuple[int, ...], DType, tuple[int, ...] | None]
"""Shape, dtype, and the order of the axes in memory, or None for C order."""

_NO_LABELS: Mapping[int, str] = {}
Direct = Callable[..., Any]
"""A whole call in one step: it takes the arguments, and returns the outputs or `NotImplemented`."""


def repeat_call(
    backend: Any,
    device: Device,
    launch: tuple[Any, int, int],
    block: ParameterBlock,
    given: Sequence[tuple[Any, DType, int | None]],
    new: Sequence[NewOutput],
    places: Sequence[int | None],
    then: tuple[tuple[Any, int, int], ParameterBlock, Sequence[int]] | None = None,
    spare: int = 0,
    shared_nbytes: int = 0,
    written: GivenOutputs | None = None,
    labels: Mapping[int, str] = _NO_LABELS,
    only: RawStream | None = None,
    others: Direct | None = None,
) -> Direct | None:
    """A function that makes the outputs of a checked call and launches it, in C; None where Python does it in steps.

    Args:
        backend: The CUDA part of a backend.
        device: Where to launch.
        launch: The kernel, and the numbers of blocks and of threads in each.
        block: The arguments of the kernel, with which it was launched.
        given: The arguments of the call: each with its dtype, and with its address if it is an array.
        new: The outputs.
        places: The number of the kernel's argument for each of these, the outputs last; None where it has none.
        then: A second launch, its arguments, and the numbers of the outputs among them.
        spare: Of the outputs the last ones, which are memory for the launches.
        shared_nbytes: The dynamic shared memory of a block.
        written: What is known of arrays that are written among ``given``, if there are any.
        labels: Their names for errors, by number.
        only: The stream that the arguments are for, such as scratch memory; None: any.
        others: Takes the calls on other streams.
    """
    fields = []
    content, launches = block.content, [(*launch, block.offsets)]
    offsets = [None if place is None else block.offsets[place] for place in places]
    also = offsets[len(given) :]
    if then is not None:
        second, other, outputs = then
        start = -(-len(content) // 16) * 16
        content = content.ljust(start, b"\0") + other.content
        launches.append((*second, tuple(start + each for each in other.offsets)))
        also = [start + other.offsets[place] for place in outputs]
    behind = -(-len(content) // 8) * 8  # no argument of a kernel
    found, again = ([behind if each is None else each for each in some] for some in (offsets, also))
    for number, ((value, dtype, address), offset) in enumerate(zip(given, found, strict=False)):
        code = "N" if address else find_code(dtype, value)
        if code is None or code == HALF:
            return None
        rest = (address or 0) & ALIGNMENT
        mask = ALIGNMENT if address else 0
        fields.append(LaunchField(type(value), code, offset, mask, labels.get(number), rest))
    arrays = [value for value, _, address in given if address]
    made = [(*each, *places) for each, *places in zip(new, found[len(fields) :], again, strict=True)]
    direct: Direct | None = backend.repeat_call(
        launches, arrays, tuple(fields), content, made, spare=spare, shared_nbytes=shared_nbytes, device=device,
        given=written, only=only, others=others,
    )  # fmt: skip
    return direct


# Scratch memory of kernels whose blocks wait for one another: counters, which are 0 before and after each launch, and
# what the blocks hand on behind them. The kernels of a stream share it.

_COUNTERS = 1 << 12
"""Those of the memory that is kept."""
_LEAST_KEPT_NBYTES, _MOST_KEPT_NBYTES = 1 << 18, 1 << 22
_PER_THREAD = 2
"""The handle of CUDA's stream of each thread."""


def counters_nbytes(counters: int) -> int:
    """The bytes that counters take."""
    return -(-max(_COUNTERS, counters) // 4) * 16


def shares_scratch(stream: RawStream, nbytes: int, counters: int) -> bool:
    """Whether scratch memory of this number of bytes and counters is the stream's own."""
    return counters <= _COUNTERS and nbytes <= _MOST_KEPT_NBYTES and stream.handle != _PER_THREAD


def find_scratch(backend: Any, stream: RawStream, nbytes: int, counters: int) -> tuple[int, Any]:
    """Memory whose counters are 0, and its address: the stream's own, which each kernel leaves so.

    What a capture records may run on any stream, and every thread has its own stream of the handle 2: these calls
    get memory of their own.
    """
    if not shares_scratch(stream, nbytes, counters) or stream.capture is not None or backend.stream_is_recorded(stream):
        found = backend.zeros_for(nbytes, stream, counters_nbytes(counters))
        return backend.operands([found])[0], found
    kept = stream.scratch
    if kept is None or kept[0] < nbytes:
        made = backend.zeros_for(max(nbytes, _LEAST_KEPT_NBYTES), stream, counters_nbytes(counters))
        kept = stream.scratch = (max(nbytes, _LEAST_KEPT_NBYTES), *backend.operands([made]), made)
    return kept[1], kept[2]
