"""The PyTorch backend: tensors on the CPU and on CUDA devices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from xferlib import _device
from xferlib._array import Array, ArrayInfo
from xferlib._backend import Backend
from xferlib._capabilities import Capabilities
from xferlib._device import Device
from xferlib._raw import RawStream
from xferlib.backends import _torch_autograd
from xferlib.backends._host import WHY_HOST, HostBackend
from xferlib.errors import UnsupportedArrayError, UnsupportedDTypeError

TO_TORCH: dict[np.dtype[Any], torch.dtype] = {
    np.dtype(name): getattr(torch, name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
_FROM_TORCH = {torch_dtype: dtype for dtype, torch_dtype in TO_TORCH.items()}


def namespace() -> ModuleType:
    import array_api_compat.torch as namespace

    module: ModuleType = namespace
    return module


def _numpy_dtype(tensor: torch.Tensor) -> np.dtype[Any]:
    try:
        return _FROM_TORCH[tensor.dtype]
    except KeyError:
        raise UnsupportedDTypeError(
            f"tensor has dtype {tensor.dtype}, which NumPy and the other backends do not have; "
            "convert it first, e.g. x.to(torch.float32)"
        ) from None


_STRIDED = torch.strided


def _check(tensor: torch.Tensor) -> None:
    if tensor.layout is not _STRIDED or not (tensor.is_cuda or tensor.is_cpu):
        raise UnsupportedArrayError(
            f"tensor has layout {tensor.layout} on device {str(tensor.device)!r}; "
            "xferlib holds dense tensors on 'cpu' and 'cuda': use x.to_dense() or x.to('cpu')"
        )


def _check_memory(tensor: torch.Tensor) -> None:
    """Refuse tensors that stand for others; `host_view`, which every call takes, sees those that passed here."""
    _torch_autograd.refuse_recorders()
    if _torch_autograd.is_wrapped(tensor):
        raise UnsupportedArrayError(
            "the tensor stands for another one inside a transform of torch.func (grad, vmap, jvp), and has no memory "
            "that could be copied or passed to CUDA source; call this outside of the transform"
        )
    if _torch_autograd.is_memoryless(tensor):
        raise UnsupportedArrayError(
            f"{type(tensor).__name__} is a tensor without memory of its own; pass the tensor that holds the data, "
            "e.g. x.to_local() of a DTensor, and call kernels outside of what torch traces"
        )


def view(tensor: torch.Tensor, device: Device) -> ArrayInfo:
    _check(tensor)
    _check_memory(tensor)
    dtype = _numpy_dtype(tensor)
    itemsize = dtype.itemsize
    strides = tuple([step * itemsize for step in tensor.stride()])
    is_writable = not (tensor.is_conj() or tensor.is_neg())
    try:
        pointer = tensor.data_ptr()
    except RuntimeError as error:  # the batched tensors of is_grads_batched=True, functional and fake ones
        raise UnsupportedArrayError(
            f"the tensor has no memory of its own ({str(error).splitlines()[0]}); torch traces or batches it: call "
            "outside of that (torch.func.vmap and grad work with kernels and reductions)"
        ) from None
    return ArrayInfo(pointer, tuple(tensor.shape), strides, dtype, device, is_writable)


def twin(tensor: torch.Tensor, host: np.ndarray[Any, Any]) -> int:
    """As `Backend.twin`."""
    if (
        tensor.layout is _STRIDED
        and tensor.is_contiguous()
        and tensor.shape == host.shape
        and _FROM_TORCH.get(tensor.dtype) == host.dtype
        and not (tensor.is_conj() or tensor.is_neg())
    ):
        try:
            pointer: int = tensor.data_ptr()
        except RuntimeError:  # no memory of its own: `view` says so
            return 0
        return pointer
    return 0


def signature(tensor: torch.Tensor) -> Hashable:
    """As `Backend.signature`: whether a gradient is required makes another call, too."""
    _torch_autograd.refuse_recorders()
    return (
        tensor.__class__,
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.get_device(),
        tensor.requires_grad,
        tensor.is_conj(),
        tensor.is_neg(),
        _torch_autograd.is_wrapped(tensor) or _torch_autograd.has_tangent(tensor),
    )


# Private, but 0.4 us for three tensors where reading their signatures takes 2.1; that is the fallback.
_guards: Any = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)


def checker(tensors: Sequence[torch.Tensor]) -> Callable[..., bool] | None:
    """As `Backend.matcher`, by the check that torch.compile makes before it runs a compiled function."""
    try:
        check: Callable[..., bool] = _guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return _torch_autograd.plain_only(check) if check(*tensors) is True else None
    except Exception:  # not in this version of torch, or not in this form
        return None


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Conjugation and negation are lazy in torch: a flag on the tensor, with the memory unchanged."""
    if tensor.is_conj() or tensor.is_neg():
        return tensor.detach().resolve_conj().resolve_neg()
    return tensor


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """As `Backend.detached`."""
    return tensor.detach() if tensor.requires_grad else tensor


def subarray(slab: torch.Tensor, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> torch.Tensor:
    nbytes = math.prod(shape) * dtype.itemsize
    return slab[offset : offset + nbytes].view(TO_TORCH[dtype]).view(shape)


def parted(block: torch.Tensor) -> list[torch.Tensor]:
    """The parts of a tensor along its first axis, each of which counts its changes for itself.

    Ordinary views count them together, so that changing one would spoil the gradients of the others.
    """
    if _parts_apart():
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return list(block.unbind(0))
    return [part.data for part in block.unbind(0)]


@functools.cache
def _parts_apart() -> bool:
    """Whether views made without autograd's bookkeeping, in half the time, count their changes apart."""
    try:  # it is private, and may change
        with torch._C._AutoDispatchBelowADInplaceOrView():
            first, second = torch.zeros(2, 1).unbind(0)
        first.add_(1)
    except Exception:
        return False
    return first._version == 1 and second._version == 0 and not second._is_view()


class TorchCpu(HostBackend):
    """Tensors in host memory."""

    name = "torch"
    array_types = ("torch.Tensor",)
    capabilities = Capabilities(namespace=True, strided=True, why={**WHY_HOST, "peer_copy": "there is one CPU device"})

    def __init__(self) -> None:
        self._device = _device.make("torch", "cpu")
        self._stream = RawStream(0, self._device)

    def namespace(self) -> ModuleType:
        return namespace()

    def devices(self) -> tuple[Device, ...]:
        return (self._device,)

    def device_current(self) -> Device:
        return self._device

    def device_use(self, device: Device) -> None:
        """There is one CPU device."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> torch.Tensor:
        return torch.empty(shape, dtype=TO_TORCH[dtype])

    def view(self, array: Array) -> ArrayInfo:
        return view(array, self._device)

    signature = staticmethod(signature)  # type: ignore[assignment]

    def operands(self, arrays: Sequence[Array]) -> list[int]:
        return [each.data_ptr() for each in arrays]

    def matcher(self, arrays: Sequence[Array]) -> Callable[..., bool]:
        return checker(arrays) or super().matcher(arrays)

    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        _check(array)
        _numpy_dtype(array)
        view: np.ndarray[Any, Any] = resolved(array).detach().numpy()
        if array.is_conj() or array.is_neg():
            view.flags.writeable = False  # a resolved copy: writing to it would be lost
        return view

    def resolved(self, array: Array) -> torch.Tensor:
        return resolved(array)

    detached = staticmethod(detached)  # type: ignore[assignment]
    note_write = staticmethod(_torch_autograd.note_write)  # type: ignore[assignment]
    follows_writes = True

    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> torch.Tensor:
        return subarray(slab, offset, shape, dtype)


def TorchBackend() -> Backend:  # noqa: N802 - the registry's factory, one of two classes
    """The torch backend for this machine: with CUDA devices where torch sees any."""
    if not torch.cuda.is_available():
        return TorchCpu()
    from xferlib.backends._torch_cuda import TorchCuda

    return TorchCuda()
