"""A raw kernel's launch, checked once and then repeated with other addresses and numbers."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import registry
from xferlib._native.driver_calls import LaunchField
from xferlib.kernels.engines.cuda.engine import ParameterBlock

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream
    from xferlib.kernels.frontends.raw.signature import RawParameter

Repeated = Callable[[Sequence[Any], "RawStream | None"], bool]

_POINTER = "Q"
_CODES = {
    np.dtype(name): code
    for name, code in {
        "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
        "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
    }.items()
}  # fmt: skip


def _code(parameter: RawParameter, value: Any) -> str | None:
    """The `struct` code that writes such an argument with NumPy's bits; None if there is none."""
    if parameter.is_pointer:
        is_address = isinstance(value, (int, np.integer))
        return _POINTER if is_address or registry.backend_of(value) is not None else None
    dtype = parameter.dtype
    assert dtype is not None
    if parameter.is_struct:
        return None
    if isinstance(value, np.generic):
        is_plain = value.dtype == dtype
    else:
        is_plain = type(value) is int if dtype.kind in "iu" else type(value) in (bool, int, float)
    return _CODES.get(dtype) if is_plain else None


def codes_of(parameters: Sequence[RawParameter], args: Sequence[Any]) -> list[str] | None:
    """The `struct` codes for checked arguments like these; None where each call must convert them."""
    codes = [_code(parameter, value) for parameter, value in zip(parameters, args, strict=True)]
    known = [code for code in codes if code is not None]
    return known if len(known) == len(codes) else None


def repeated(
    name: str,
    owner: Any,
    device: Device,
    kernel: Any,
    extents: tuple[tuple[int, int, int], tuple[int, int, int]],
    parameters: Sequence[RawParameter],
    args: Sequence[Any],
    arrays: Sequence[int],
    **options: Any,
) -> Repeated | None:
    """A function that repeats a checked launch; None where each call must be checked.

    It takes the arguments and the stream, None for the current one. It returns False, with nothing done, where they
    must be checked anew.

    Args:
        name, owner, device, parameters, args, arrays: As for `RawCall`.
        kernel, extents: The loaded kernel, its grid and block.
        **options: ``shared_nbytes`` and ``cooperative``.
    """
    codes = codes_of(parameters, args)
    if codes is None:
        return None
    labels = _labels(name, owner, parameters, arrays)
    launches = None
    if "e" not in codes:
        offsets = ParameterBlock(0, [each.nbytes for each in parameters]).offsets
        given = [args[number] for number in arrays]
        fields = tuple(
            LaunchField(type(args[number]), "A", offset, _mask(parameters[number]), labels.get(number))
            if number in arrays
            else LaunchField(type(args[number]), codes[number], offset)
            for number, offset in enumerate(offsets)
        )
        launches = owner.repeat_launch(kernel, *extents, given, fields, device=device, **options)
    if launches is None:
        prepare = lambda params: owner.prepare_launch(kernel, *extents, params, device=device, **options)
        return RawCall(name, owner, device, parameters, args, arrays, prepare, codes).run
    launch, otherwise = launches
    stream_handle, numbers = owner.stream_handle, tuple(arrays)

    def run(args: Sequence[Any], stream: RawStream | None) -> bool:
        made_streams = owner.has_made_streams
        if stream is None and made_streams:  # which asks the library once, and not again below
            stream = owner.stream_current(device)
        if stream is None:
            handle = stream_handle(device)
        elif stream.device is device:
            handle = stream.handle
        else:
            return False
        if (result := launch(args, handle)) and not otherwise(result, args, handle):
            return False
        if handle or made_streams:
            _keep_alive(owner, stream or owner.stream_current(device), [args[number] for number in numbers])
        return True

    return run


def _labels(name: str, owner: Any, parameters: Sequence[RawParameter], arrays: Sequence[int]) -> dict[int, str]:
    """The names of the arrays whose writes their library wants to know."""
    if not owner.follows_writes:
        return {}
    written = [number for number in arrays if not parameters[number].is_const]
    return {number: f"{name}(): argument {parameters[number].name!r}" for number in written}


def _mask(parameter: RawParameter) -> int:
    """The bits of an address that are 0 where elements are aligned."""
    return 0 if parameter.dtype is None else parameter.dtype.itemsize - 1


def _keep_alive(owner: Any, stream: RawStream, arrays: Sequence[Any]) -> None:
    """Arrays allocated on another stream must outlast the work on this one."""
    for array in arrays:
        owner.consumed(array, stream)


class RawCall:
    """A launch with arrays of certain dtypes, shapes, strides and device, and numbers of certain types.

    Args:
        name: The kernel's, for messages.
        owner: The CUDA backend of the arrays.
        device: Where they are.
        parameters: The kernel's parameters.
        args: The arguments that were checked against them.
        arrays: The numbers of those that are arrays; at least one.
        prepare: Makes the function that launches on a stream, from the address of the parameters.
        codes: The `struct` codes of the arguments: see `codes_of`.
    """

    __slots__ = (
        "_acquire", "_arrays", "_block", "_device", "_launch", "_matches", "_numbers", "_operands",
        "_owner", "_pack", "_release", "_types", "_written",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        owner: Any,
        device: Device,
        parameters: Sequence[RawParameter],
        args: Sequence[Any],
        arrays: Sequence[int],
        prepare: Callable[[int], Callable[[int], None]],
        codes: Sequence[str],
    ) -> None:
        self._owner = owner
        self._device = device
        self._types = [*map(type, args)]
        self._numbers = [(number, _mask(parameters[number])) for number in arrays]
        """The arrays, and the bits of an address that are 0 where elements are aligned."""
        self._arrays: Callable[[Sequence[Any]], Any] = itemgetter(*arrays) if len(arrays) > 1 else _only(arrays[0])
        self._matches = owner.matcher(self._arrays(args))
        self._operands = owner.operands
        self._written = [*_labels(name, owner, parameters, arrays).items()]
        sizes = [each.nbytes for each in parameters]
        self._block = ParameterBlock(0, sizes)  # which the launch knows by its address alone
        self._pack = self._block.packer(codes)
        self._launch = prepare(self._block.address)
        lock = threading.Lock()
        self._acquire, self._release = lock.acquire, lock.release  # half of what ``with`` costs

    def run(self, args: Sequence[Any], stream: RawStream | None = None) -> bool:
        """Launch; False, and nothing done, where the arguments or the stream must be checked anew."""
        if [*map(type, args)] != self._types or (stream is not None and stream.device is not self._device):
            return False
        arrays = self._arrays(args)
        if not self._matches(*arrays):
            return False
        values = [*args]
        for (number, mask), pointer in zip(self._numbers, self._operands(arrays), strict=True):
            if pointer & mask:
                return False
            values[number] = pointer
        for number, label in self._written:
            self._owner.note_write(args[number], label)
        handle = self._owner.stream_handle(self._device) if stream is None else stream.handle
        self._acquire()  # the driver copies the arguments during the launch
        try:
            self._pack(*values)
            self._launch(handle)
        except (struct.error, OverflowError):  # a number out of range
            return False
        finally:
            self._release()
        if handle or self._owner.has_made_streams:
            _keep_alive(self._owner, stream or self._owner.stream_current(self._device), arrays)
        return True


def _only(number: int) -> Callable[[Sequence[Any]], Any]:
    return lambda args: (args[number],)
