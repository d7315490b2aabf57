"""Libraries whose copies C makes by itself, as those of CUDA's libraries: `FakeBackend` with functions of a driver.

Their streams run late, as the fake's: what C gives up too early is found by its bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.fake import FakeArray, FakeBackend, _bytes, _stream
from xferlib.backends.base import Device, DirectCopies, PlainArrays, RawStream, make_device
from xferlib.sim.model import LEGACY, PER_THREAD
from xferlib.sim.timing import Lane

_CONTEXT, _GATHER, _PINNED, _IN_ORDER, TILE = 0x1000, 0x2000, 1, 1, 16 << 10
_FAILURE = 999
_WORD, _POINTER = ctypes.c_uint64, ctypes.c_void_p
_INT, _UNSIGNED = ctypes.c_int, ctypes.c_uint
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "send": (_WORD, _WORD, ctypes.c_size_t),
    "fetch": (_WORD, _WORD, ctypes.c_size_t),
    "enqueue": (_WORD, _WORD, ctypes.c_size_t, _POINTER),
    "fetch_later": (_WORD, _WORD, ctypes.c_size_t, _POINTER),
    "current": (ctypes.POINTER(_WORD),),
    "query": (_POINTER,),
    "wait": (_POINTER,),
    "is_captured": (_POINTER, ctypes.POINTER(_INT)),
    "attribute": (ctypes.POINTER(_UNSIGNED), _UNSIGNED, _WORD),
    "batch": (
        *[ctypes.POINTER(_WORD)] * 2,
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.c_size_t,
        _POINTER,
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.c_size_t,
        _POINTER,
    ),
    "launch": (_POINTER, *[_UNSIGNED] * 7, _POINTER, ctypes.POINTER(_POINTER), _POINTER),
}
"""Of the driver's functions."""


class DriverBackend(FakeBackend):
    """A library with functions of a driver, to which streams are handles; those that a class has no method for are 0.

    Attributes:
        calls: The names of the driver's functions that C has called.
        failing_calls: Names of functions that fail.
    """

    unnoted: frozenset[str] = frozenset()
    """Functions that are not among ``calls``."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.failing_calls: set[str] = set()
        self._functions: dict[str, Any] = {}
        for name, kinds in _SIGNATURES.items():
            if (method := getattr(self, f"_{name}", None)) is not None:
                self._functions[name] = ctypes.CFUNCTYPE(_INT, *kinds)(self._guard(name, method))

    def _guard(self, name: str, function: Callable[..., int | None]) -> Callable[..., int]:
        def run(*given: Any) -> int:
            if name not in self.unnoted:
                self.calls.append(name)
            if name in self.failing_calls:
                return _FAILURE
            try:
                return function(*given) or 0
            except BaseException as error:
                self.machine.violations = [*self.machine.violations, f"{name}: {error!r}"]
                return _FAILURE

        return run

    def direct(self, device: Device) -> DirectCopies:
        address: dict[str, Any] = {
            name: ctypes.cast(each, _POINTER).value or 0 for name, each in self._functions.items()
        }
        return DirectCopies(
            **address, context=_CONTEXT + device.index, pointer=lambda array: array.pointer, is_current=None,
            empty=lambda shape, dtype: self.empty(shape, dtype, device=device, stream=self.stream_wrap(0, device)),
            stream=lambda: self.stream_current(device).handle,
        )  # fmt: skip

    def _on(self, handle: int | None) -> RawStream:
        return self.stream_wrap(handle or 0, self.device_current())

    def _send(self, dst: int, src: int, nbytes: int) -> int | None:
        self._enqueue(dst, src, nbytes, 0)
        self._wait(0)
        return None

    def _fetch(self, dst: int, src: int, nbytes: int) -> int | None:
        self._fetch_later(dst, src, nbytes, 0)
        self._wait(0)
        return None

    def _enqueue(self, dst: int, src: int, nbytes: int, handle: int | None) -> int | None:
        if self.is_pinned(src):
            self.copy(dst, src, nbytes, stream=self._on(handle))
        else:
            self.copy_to_device(dst, src, nbytes, stream=self._on(handle))
        return None

    def _fetch_later(self, dst: int, src: int, nbytes: int, handle: int | None) -> int | None:
        if self.is_pinned(dst):
            self.copy(dst, src, nbytes, stream=self._on(handle))
        else:
            self.copy_to_host(dst, src, nbytes, stream=self._on(handle))
        return None

    def _current(self, context: Any) -> None:
        context[0] = _CONTEXT + self.device_current().index

    def _query(self, handle: int | None) -> int:
        return 0 if self.stream_done(self._on(handle)) else 600

    def _wait(self, handle: int | None) -> None:
        self.stream_synchronize(self._on(handle))

    def _is_captured(self, handle: int | None, status: Any) -> None:
        status[0] = 0

    def _attribute(self, answer: Any, name: int, pointer: int) -> int:
        answer[0] = _PINNED
        return 0 if self.is_pinned(pointer) else 1


class DirectArray(FakeArray):
    """An array of this library."""


class _Piece(ctypes.Structure):
    _fields_ = (("start", _WORD), ("offset", _WORD), ("nbytes", _WORD), ("unused", _WORD))


class DirectBackend(DriverBackend):
    """One device, ``delayed:cuda:0``.

    Attributes:
        sources: Of the kernels that were compiled.
    """

    name = "delayed"
    array_class = DirectArray
    array_types = (f"{__name__}.DirectArray",)
    pinned_domain = "delayed"
    plain_arrays = PlainArrays(DirectArray)
    cuts_late = True

    def __init__(self) -> None:
        super().__init__()
        self._devices = (make_device(self.name, "cuda", 0),)
        (device,) = self._devices
        self._staging = {device: next(iter(self._staging.values()))}
        self._default = {device: next(iter(self._default.values()))}
        self._default[device].device = device
        self._staging = {device: type(self._staging[device])(self, device)}
        self.sources: list[str] = []
        self._beside = self.stream_create(device, non_blocking=False, priority=0)

    def direct(self, device: Device) -> DirectCopies:
        return super().direct(device)._replace(beside=self._beside.handle)

    def _batch(
        self, dsts: Any, srcs: Any, sizes: Any, count: int, attributes: int, first: Any, kinds: int, handle: int | None
    ) -> None:
        assert handle not in (None, LEGACY, PER_THREAD), "a batch on a default stream"
        assert (count > 0, kinds, first[0]) == (True, 1, 0)
        assert ctypes.c_int.from_address(attributes).value == _IN_ORDER
        for number in range(count):
            self.copy(dsts[number], srcs[number], sizes[number], stream=self._on(handle))

    def _launch(self, kernel: int, blocks: int, *rest: Any) -> None:
        *_, handle, arguments, _extra = rest
        assert kernel == _GATHER
        dst, table, starts, first = (_WORD.from_address(arguments[number]).value for number in range(4))
        self._enqueue_gather(dst, table, starts, first, blocks, self._on(handle))

    # --- the kernel that puts arrays in a row

    def compile(self, source: str, *, device: Device, options: Any = (), names: Any = ()) -> Any:
        self.sources.append(source)
        return super().compile(source, device=device, options=options, names=names)

    def load(self, cubin: bytes, *, name: str, device: Device) -> Any:
        if name == "gather_tiles":
            return SimpleNamespace(handle=_GATHER, kernel=None)
        return super().load(cubin, name=name, device=device)

    def launch(
        self, kernel: Any, grid: Any, block: Any, params: int, *, stream: RawStream, shared_nbytes: int = 0
    ) -> None:
        if kernel.kernel is not None:
            super().launch(kernel, grid, block, params, stream=stream, shared_nbytes=shared_nbytes)
            return
        numbers = (_WORD.from_address(_WORD.from_address(params + 8 * at).value).value for at in range(4))
        dst, table, starts, first = numbers
        self._enqueue_gather(dst, table, starts, first, grid[0], stream)

    def _enqueue_gather(self, dst: int, table: int, starts: int, first: int, tiles: int, stream: RawStream) -> None:
        machine, on = self.machine, _stream(stream)
        starts += 8 * first
        numbers = np.frombuffer(_bytes(machine.real(starts), 8 * (tiles + 1)), np.int64)
        count = int(numbers[-1]) + 1

        def read() -> list[tuple[int, int, int]]:
            there = _bytes(machine.real(table), count * ctypes.sizeof(_Piece)).tobytes()
            return [(each.start, each.offset, each.nbytes) for each in (_Piece * count).from_buffer_copy(there)]

        pieces, firsts = read(), numbers.tolist()

        def run() -> None:
            assert (read(), numbers.tolist()) == (pieces, firsts), (
                "the table was written while the kernel might read it"
            )
            row = machine.real(dst + first * TILE) - first * TILE
            for tile in range(tiles):
                begin, end = (first + tile) * TILE, (first + tile + 1) * TILE
                for start, offset, nbytes in pieces[firsts[tile] : firsts[tile + 1] + 1]:
                    low, high = max(offset, begin), min(offset + nbytes, end)
                    if low < high:
                        there = _bytes(machine.real(start) + low - offset, high - low)
                        _bytes(row + low, high - low)[:] = there

        with machine.lock:
            reads = [machine.span(start, nbytes, "gather", on) for start, _, nbytes in pieces[firsts[0] :]]
            begin, end = first * TILE, max(offset + nbytes for _, offset, nbytes in pieces)
            end = min(-(-end // 64) * 64, (first + tiles) * TILE)  # with the gaps, which are copied on
            writes = [machine.span(dst + begin, end - begin, "gather", on)]
            reads += [machine.span(table, count * ctypes.sizeof(_Piece), "gather", on)]
            reads += [machine.span(starts, 8 * (tiles + 1), "gather", on)]
            machine.enqueue(on, "gather", run, reads=tuple(reads), writes=tuple(writes), lane=Lane.D2D)
