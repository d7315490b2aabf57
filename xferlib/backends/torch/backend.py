"""PyTorch on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from xferlib._core import registry
from xferlib._core.arrays import Array, ArrayInfo
from xferlib._core.backend import Backend
from xferlib._core.device import Capabilities, Device, RawStream
from xferlib._runtime import process
from xferlib.backends.host import WHY_HOST, HostBackend, no_memory, over
from xferlib.backends.torch.tensors import (
    PLAIN_ARRAYS,
    TO_TORCH,
    checker,
    detach,
    host_view,
    is_lazy,
    maker,
    note_write,
    permute_axes,
    resolve,
    signature,
    steps,
    view,
)

_new_tensor = maker("cpu")


def _wants_mode() -> bool:
    """Whether tensors have other operators than torch's, or warnings, here.

    Where nothing names any they have: a program that never names torch is written for every backend.
    """
    chosen = registry.get_chosen_operators("torch") or process.get().torch_operators
    return chosen != "torch" if chosen is not None else registry.is_unnamed("torch")


def asks_each_thread() -> bool:
    """Whether a mode gives tensors other operators or warnings: torch has modes for one thread at a time.

    A block's choice of torch's own operators leaves the other threads with those of the process.
    """
    return _wants_mode() or registry.has_block_operators("torch")


def hand_out() -> None:
    """Give the thread the operators of the setting: see `Backend.hand_out`."""
    if _wants_mode():
        from xferlib.backends.torch import operators

        operators.begin()


process.watchers["torch_operators"] = functools.partial(registry.look_again_at_operators, "torch")


class Tensors(Backend):
    """The part of both backends that does not depend on where tensors lie."""

    name = "torch"
    array_types = ("torch.Tensor",)
    plain_arrays = PLAIN_ARRAYS
    follows_writes = True

    @property
    def asks_each_thread(self) -> bool:
        return asks_each_thread()

    hand_out = staticmethod(hand_out)
    operators = ("numpy", "torch", "warn")

    def operators_changed(self) -> None:
        from xferlib.backends.torch import operators

        (operators.begin if _wants_mode() else operators.end)()

    is_lazy = staticmethod(is_lazy)  # type: ignore[assignment]
    resolved = staticmethod(resolve)  # type: ignore[assignment]
    detach = staticmethod(detach)  # type: ignore[assignment]
    note_write = staticmethod(note_write)  # type: ignore[assignment]
    permuted_axes = staticmethod(permute_axes)  # type: ignore[assignment]
    signature = staticmethod(signature)  # type: ignore[assignment]

    def strided_view(
        self, array: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> torch.Tensor:
        size = dtype.itemsize
        found: torch.Tensor = array if array.dtype == TO_TORCH[dtype] else array.view(TO_TORCH[dtype])
        return found.as_strided(shape, [each // size for each in strides], found.storage_offset() + offset // size)

    def empty_permuted(
        self, shape: tuple[int, ...], order: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream
    ) -> torch.Tensor:
        made = self.empty(shape, dtype, device=device, stream=stream)
        # Not a view: torch refuses to write into one that a custom function has returned.
        return made.as_strided_(shape, steps(shape, order))

    def operands(self, arrays: Sequence[Array]) -> list[int]:
        return [each.data_ptr() for each in arrays]

    def matcher(self, arrays: Sequence[Array]) -> Callable[..., bool]:
        return checker(arrays) or super().matcher(arrays)


class TorchCpu(Tensors, HostBackend):
    """Tensors in host memory."""

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

    def device_of(self, array: Array) -> Device:
        return self.device if array.is_cpu else self.view(array).device  # which tells what it refuses

    def view(self, array: Array) -> ArrayInfo:
        return view(array, self.device)

    host_view = staticmethod(host_view)  # type: ignore[assignment]
