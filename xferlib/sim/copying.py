"""Copies: of bytes between any two memories, and of strided elements by the kernels of `xferlib._transfer.relayout`."""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xferlib.errors import UnsupportedError
from xferlib.sim.machine import addresses
from xferlib.sim.model import blocks
from xferlib.sim.model.blocks import Span
from xferlib.sim.timing.profile import Lane

if TYPE_CHECKING:
    from xferlib.sim.machine.machine import Machine
    from xferlib.sim.model.streams import SimStream


def copy(machine: Machine, dst: int, src: int, nbytes: int, stream: SimStream) -> None:
    """Enqueue a copy of bytes."""
    with machine.lock:
        memory, detector = machine.memory, machine.detector
        into = addresses.span(memory, detector, dst, nbytes, "copy", stream)
        source = addresses.span(memory, detector, src, nbytes, "copy", stream)
        name, lane = _kind(into, source)
        target, values = into.block.data[into.start : into.stop], source.block.data[source.start : source.stop]

        def run() -> None:
            target[:] = values

        moves = into.block.device is not None and source.block.device is not None
        void = source.block.void(source) if moves and source.block.has_void else None
        copied = machine.enqueue(
            stream, name, run, reads=(source,), writes=(into,), lane=lane, nbytes=nbytes, uses_values=not moves
        )
        if void is not None and copied is not None and detector.is_on:  # quiet: a use of the copy is reported
            into.block.note_void(into, copied, None if void.all() else void)


def _is_void(span: Span) -> bool:
    void = span.block.void(span)
    return void is not None and bool(void.all())


def _kind(into: Span, source: Span) -> tuple[str, Lane]:
    to, come = into.block.device, source.block.device
    if come is None:
        return ("copy host to device", Lane.H2D) if to is not None else ("copy host to host", Lane.D2H)
    if to is None:
        return "copy device to host", Lane.D2H
    return ("copy on the device", Lane.D2D) if to is come else (f"copy {come} to {to}", Lane.PEER)


# --- by kernels


class UncompiledSource(NamedTuple):
    """CUDA source in place of machine code: the simulator finds the kernel by its name."""

    cubin: bytes
    names: dict[str, str]


class CopyKernel(NamedTuple):
    """A kernel of `xferlib._transfer.relayout`."""

    name: str
    itemsize: int
    axes: int


_FIXED = {"copy_elements": 3, "copy_rows": 6, "copy_tiles": 9}
"""Arguments of each kernel before those of the axes outside."""
_ITEMSIZES = {"unsigned char": 1, "unsigned short": 2, "unsigned int": 4, "unsigned long long": 8, "ulonglong2": 16}


def load(cubin: bytes, name: str) -> CopyKernel:
    """The kernel of that name.

    Raises:
        UnsupportedError: It is none that copies.
    """
    source = cubin.decode()
    header = re.search(rf"void {name}\(([^)]*)\)", source)
    word = re.search(r"\*\(const ([a-z0-9 ]+)\*\)\(src", source)
    if name not in _FIXED or header is None or word is None:
        raise UnsupportedError(
            f"kernel {name!r} is CUDA source, which the simulator cannot run; give the kernel a cpu= function"
        )
    return CopyKernel(name, _ITEMSIZES[word[1]], len(re.findall(r"i64 n\d", header[1])))


def launch(machine: Machine, kernel: CopyKernel, params: int, stream: SimStream) -> None:
    """Enqueue the copy that a kernel would make with the arguments at the address ``params``."""
    fixed = _FIXED[kernel.name]
    pointers = (ctypes.POINTER(ctypes.c_int64) * (fixed + 3 * kernel.axes)).from_address(params)
    dst, src, *numbers = (int(pointer[0]) for pointer in pointers)
    axes = [tuple(numbers[at : at + 3]) for at in range(fixed - 2, len(numbers), 3)]
    if kernel.name == "copy_tiles":
        _, rows, cols, row_dst, row_src, col_dst, col_src = numbers[:7]
        axes += [(rows, row_dst, row_src), (cols, col_dst, col_src)]
    elif kernel.name == "copy_rows":
        axes.append(tuple(numbers[1:4]))
    _copy_strided(machine, dst, src, kernel.itemsize, axes, stream)


def _copy_strided(
    machine: Machine, dst: int, src: int, itemsize: int, axes: list[tuple[int, ...]], stream: SimStream
) -> None:  # fmt: skip
    shape = tuple(axis[0] for axis in axes)
    to, come = tuple(axis[1] for axis in axes), tuple(axis[2] for axis in axes)
    element = np.dtype(f"V{itemsize}")
    with machine.lock:
        into, source = (
            addresses.span(machine.memory, machine.detector, each, itemsize, "strided copy", stream)
            for each in (dst, src)
        )
        target = np.ndarray(shape, element, into.block.data, into.start, to)
        values = np.ndarray(shape, element, source.block.data, source.start, come)

        def run() -> None:
            target[...] = values

        reads = blocks.strided_spans(source.block, source.start, shape, come, itemsize)
        writes = blocks.strided_spans(into.block, into.start, shape, to, itemsize)
        is_void = source.block.has_void and all(_is_void(span) for span in reads)
        copied = machine.enqueue(
            stream, "strided copy", run,
            reads=reads, writes=writes, nbytes=2 * target.size * itemsize, uses_values=not is_void,
        )  # fmt: skip
        if is_void and copied is not None and machine.detector.is_on:
            for span in writes:
                span.block.note_void(span, copied)
