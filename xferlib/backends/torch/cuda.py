"""PyTorch on CUDA devices, and on the CPU beside them. Loaded only where torch sees a device: it needs cuda.core."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from xferlib._core.arrays import Array, ArrayInfo
from xferlib._core.backend import Backend, Run
from xferlib._core.device import Capabilities, Device, RawStream
from xferlib._native import ArrayAddress, Calls, CurrentStream
from xferlib._runtime import process
from xferlib.backends.cuda.backend import CudaBackend
from xferlib.backends.cuda.contexts import refuse_fork
from xferlib.backends.torch import tensors
from xferlib.backends.torch.backend import Tensors, TorchCpu

# Private, but 0.06 us where torch.cuda.current_stream() takes 3.0 (on an H200's host); the public call is the fallback.
_raw_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

# Private, but what torch.cuda.set_stream calls, in Python, in which Ctrl-C may strike; that is the fallback.
_set_stream: Callable[..., None] | None = getattr(torch._C, "_cuda_setStream", None)

_new_tensor = tensors.maker("cuda")  # on the current device


# Private, but torch.cuda.use_mem_pool serves the calling thread alone, and a backward pass allocates in others: without
# it their memory is given to other arrays while the graph still writes to it.
_begin_stream_pool: Callable[[int, Any], None] | None = (
    getattr(torch._C, "_cuda_beginAllocateCurrentStreamToPool", None)
    if hasattr(torch._C, "_cuda_endAllocateToPool") and hasattr(torch._C, "_cuda_releasePool")
    else None
)


_LEGACY = 1
"""The handle by which CUDA names the legacy default stream."""
_recorded: dict[int, weakref.ref[torch.Tensor]] = {}
"""By the addresses of the objects: one that is used again takes the entry of the tensor that has died."""
_held: list[torch.Tensor] = []


def _hold() -> None:
    """Keep tensors that more than one stream has used from dying in a forked child, where torch's allocator aborts."""
    alive = [reference() for reference in list(_recorded.values())]  # other threads add to it meanwhile
    _held.extend(tensor for tensor in alive if tensor is not None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_held.clear, after_in_child=lambda: process.keep(_held))


class TorchCuda(Tensors, CudaBackend):
    """Tensors on CUDA devices, and on the CPU beside them."""

    survives_fork = True  # tensors on the CPU do
    capabilities = Capabilities(
        streams=True, priorities=True, foreign_streams=True, native_current_stream=True, pinned_memory=True,
        peer_copy=True, kernels=True, namespace=True, strided=True, graphs=True,
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__(torch.cuda.device_count())
        torch.cuda.init()
        self._cpu = TorchCpu()
        self._places = [torch.device("cuda", index) for index in range(len(self._devices))]
        self._chosen = threading.local()

    def at(self, device: Device) -> Backend:
        return self if device.kind == "cuda" else self._cpu

    def namespace(self) -> ModuleType:
        from xferlib.backends.torch import functions

        functions.current_place = self._current_place
        functions.place_at = lambda pointer: self._places[self.device_at(pointer).index]
        return self._cpu.namespace()

    def _current_place(self) -> torch.device | None:
        """Where the namespace makes tensors: on the current device, unless the program has told torch another one."""
        if getattr(self._chosen, "is_cpu", False) or torch.get_default_device().type != "cpu":
            return None
        return self._places[torch.cuda.current_device()]

    def devices(self) -> tuple[Device, ...]:
        return (*self._devices, *self._cpu.devices())

    def device_current(self) -> Device:
        if getattr(self._chosen, "is_cpu", False):
            return self._cpu.device_current()
        refuse_fork("asking for the current CUDA device")
        return self._devices[int(torch.cuda.current_device())]

    def device_use(self, device: Device) -> None:
        if getattr(self._chosen, "is_cpu", False) != (device.kind == "cpu"):
            self._chosen.is_cpu = device.kind == "cpu"
            process.bump_epoch()
        if device.kind == "cuda":
            torch.cuda.set_device(device.index)

    def _is_current(self, device: Device) -> bool:
        # Not by the driver's context: behind an operation on another device torch goes back to one that has no context
        # yet only when it needs that, and until then the other's context is the current one.
        return int(torch.cuda.current_device()) == device.index

    maker_for_c = staticmethod(_new_tensor) if _new_tensor is not None else None

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> torch.Tensor:
        if _new_tensor is not None and 0 not in shape:
            return _new_tensor(shape, tensors.steps(shape), tensors.TO_TORCH[dtype])
        return torch.empty(shape, dtype=tensors.TO_TORCH[dtype], device=self._places[device.index])

    def _calls_for_new(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None, device: Device
    ) -> Calls:
        steps, kind = tensors.steps(shape, order), tensors.TO_TORCH[dtype]
        if _new_tensor is None or 0 in shape:
            make = functools.partial(torch.empty_strided, dtype=kind, device=self._places[device.index])
            return ((make, (shape, steps)),)
        return ((_new_tensor, (shape, steps, kind)),)

    def _stream_for_c(self, device: Device) -> CurrentStream:
        if _raw_current_stream is None:
            return super()._stream_for_c(device)
        return CurrentStream(_raw_current_stream, device.index)

    def _calls_on(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None, device: Device
    ) -> None:
        return None  # torch allocates on its current stream, and notes uses by itself

    def _empty_elsewhere(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream
    ) -> torch.Tensor:
        if stream.handle != self.stream_handle(device) or torch.is_inference_mode_enabled():
            return super()._empty_elsewhere(shape, dtype, device, stream)  # no tensor of that mode, as on any device
        # Torch goes to the device and back by itself in less time than two calls of set_device take.
        return torch.empty(shape, dtype=tensors.TO_TORCH[dtype], device=self._places[device.index])

    def device_of(self, array: Array) -> Device:
        if array.is_cuda:
            return self._devices[int(array.get_device())]
        return self._cpu.device_of(array)

    def view(self, array: Array) -> ArrayInfo:
        index = array.get_device()
        return tensors.view(array, self._devices[index] if index >= 0 else self._cpu.device_current())

    address = ArrayAddress(("data_ptr",), is_method=True)

    whole = staticmethod(tensors.whole)  # type: ignore[assignment]
    pointer_of = staticmethod(torch.Tensor.data_ptr)

    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        return self._cpu.host_view(array)

    # record_stream takes 2 us an array, and torch's own operations leave it to the user
    _watches_default_stream = False

    def over(
        self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any
    ) -> torch.Tensor:
        return tensors.over(pointer, shape, dtype, self._places[device.index], owner)

    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> torch.Tensor:
        return tensors.subarray(slab, offset, shape, dtype).data  # a version counter of its own: see below

    def subarrays(self, slab: Array, runs: Iterable[Run]) -> list[torch.Tensor]:
        return tensors.make_cutter(runs)(slab)

    cuts_late = True

    def cutter(self, runs: Sequence[Run]) -> Callable[[Array], list[torch.Tensor]]:
        return tensors.make_cutter(runs)

    @contextlib.contextmanager
    def _own_memory(self, stream: RawStream) -> Iterator[Any]:
        """Use two pools: one serves the allocations of this thread, the other those of the stream in any thread."""
        index = stream.device.index
        with torch.cuda.device(index):  # a pool belongs to the current device
            of_thread, of_stream = torch.cuda.MemPool(), torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(of_thread, device=self._places[index]):
            if _begin_stream_pool is None:
                yield of_thread
                return
            with torch.cuda.stream(self._native(stream)):
                _begin_stream_pool(index, of_stream.id)
            try:
                yield of_thread, of_stream
            finally:
                torch._C._cuda_endAllocateToPool(index, of_stream.id)
                torch._C._cuda_releasePool(index, of_stream.id)

    def note_use(self, array: Array, stream: RawStream) -> None:
        if stream.capture is not None:
            stream.capture.keep(array)
            return
        array.record_stream(self._native(stream))
        _recorded[id(array)] = weakref.ref(array)  # a tenth of the time of a dict that forgets the dead

    def stream_handle(self, device: Device) -> int:
        if _raw_current_stream is not None:
            return int(_raw_current_stream(device.index))
        return int(torch.cuda.current_stream(device.index).cuda_stream)

    def _use(self, stream: RawStream) -> None:
        torch.cuda.set_stream(self._native(stream))

    def _switch(self, stream: RawStream) -> Callable[[], Any]:
        if _set_stream is None:
            return super()._switch(stream)
        if stream.switch is None:
            native = self._native(stream)
            stream.switch = functools.partial(
                _set_stream,
                stream_id=native.stream_id, device_index=native.device_index, device_type=native.device_type,
            )  # fmt: skip
        return stream.switch

    def _native(self, stream: RawStream) -> torch.cuda.Stream:
        if stream.native is None:
            index = stream.device.index
            stream.native = (
                torch.cuda.ExternalStream(stream.handle, device=index)
                if stream.handle not in (0, _LEGACY)  # torch takes the legacy default stream by no other name
                else torch.cuda.default_stream(index)
            )
        return stream.native
