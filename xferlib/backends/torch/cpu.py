"""PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from xferlib._core.array import Array, ArrayInfo
from xferlib._core.capabilities import Capabilities
from xferlib._core.device import Device
from xferlib._core.raw import RawStream
from xferlib.backends.host import WHY_HOST, HostBackend, no_memory, over
from xferlib.backends.torch import autograd
from xferlib.backends.torch.tensors import (
    OTHER_DTYPES,
    PLAIN_ARRAYS,
    TO_TORCH,
    as_bits,
    checker,
    detached,
    host_view,
    is_lazy,
    maker,
    of_bits,
    resolved,
    reversed_axes,
    signature,
    steps,
    view,
)

_new_tensor = maker("cpu")


class TorchCpu(HostBackend):
    """Tensors in host memory."""

    name = "torch"
    array_types = ("torch.Tensor",)
    capabilities = Capabilities(namespace=True, strided=True, graphs=True, why=WHY_HOST)

    def namespace(self) -> ModuleType:
        from xferlib.backends.torch import namespace  # imports array-api-compat

        return namespace

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> torch.Tensor:
        try:
            if _new_tensor is not None and 0 not in shape:
                return _new_tensor(shape, steps(shape), TO_TORCH[dtype])
            return torch.empty(shape, dtype=TO_TORCH[dtype], device="cpu")
        except RuntimeError as error:
            if "memory" in str(error):
                raise no_memory(shape, dtype, device) from error
            raise

    def over(
        self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any
    ) -> torch.Tensor:
        return torch.from_numpy(over(pointer, shape, dtype, owner))

    plain_arrays = PLAIN_ARRAYS
    other_dtypes = OTHER_DTYPES
    as_bits = staticmethod(as_bits)
    of_bits = staticmethod(of_bits)

    def reversed_axes(self, array: Array) -> torch.Tensor:
        return reversed_axes(array)

    def device_of(self, array: Array) -> Device:
        return self.device if array.is_cpu else self.view(array).device  # which tells what it refuses

    def view(self, array: Array) -> ArrayInfo:
        return view(array, self.device)

    signature = staticmethod(signature)  # type: ignore[assignment]

    def operands(self, arrays: Sequence[Array]) -> list[int]:
        return [each.data_ptr() for each in arrays]

    def matcher(self, arrays: Sequence[Array]) -> Callable[..., bool]:
        return checker(arrays) or super().matcher(arrays)

    host_view = staticmethod(host_view)  # type: ignore[assignment]
    is_lazy = staticmethod(is_lazy)  # type: ignore[assignment]
    resolved = staticmethod(resolved)  # type: ignore[assignment]
    detached = staticmethod(detached)  # type: ignore[assignment]
    note_write = staticmethod(autograd.note_write)  # type: ignore[assignment]
    follows_writes = True
