"""Tensors as xferlib sees them, on the CPU and on CUDA devices alike."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.autograd.graph import increment_version
from torch.nn import parameter

from xferlib._core import dtypes
from xferlib._core.arrays import ArrayInfo, c_strides
from xferlib._core.backend import PlainArrays, Run
from xferlib._core.device import Device
from xferlib._core.dtypes import DTYPES
from xferlib._native import bind_plain
from xferlib.errors import LayoutError, UnsupportedArrayError, UnsupportedDTypeError, UnsupportedError

# The state of a tensor that torch follows besides its memory: gradients, tangents, transforms, its count of changes.
#
# xferlib reads and writes memory past torch's own operations. Here it learns where that would make a derivative wrong,
# and tells torch what it has changed.

_functorch: Any = getattr(torch._C, "_functorch", None)
_is_wrapped: Callable[[torch.Tensor], bool] = getattr(_functorch, "is_functorch_wrapped_tensor", lambda tensor: False)
_levels = vars(forward_ad)
"""Holds the number of the innermost level of forward mode, -1 outside of any; private to torch, which may drop it."""
tracing_state: Callable[[], Any] = getattr(torch._C, "_get_tracing_state", lambda: None)
_PLAIN = {torch.Tensor.__torch_dispatch__, torch.nn.Parameter.__torch_dispatch__}


def has_levels() -> bool:
    """Whether some tensor may have a tangent: forward-mode differentiation is going on."""
    return bool(_levels.get("_current_level", 0) >= 0)


def refuse_recorders() -> None:
    """Refuse to run while torch records operations: it does not see kernels, and would record a constant result.

    Raises:
        UnsupportedError: ``torch.jit.trace`` is at work.
    """
    if is_recording():
        raise UnsupportedError(
            "torch.jit.trace records torch's own operations, and would keep the result of this call as a constant; "
            "leave the call out of what is traced, or use torch.compile"
        )


def is_recording() -> bool:
    """Whether ``torch.jit.trace`` is at work."""
    return tracing_state() is not None


def has_tangent(tensor: torch.Tensor) -> bool:
    """Whether the tensor carries a derivative in forward mode."""
    if not has_levels() or not torch._C._is_fwd_grad_enabled() or _is_wrapped(tensor):
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether the tensor wraps another inside a transform of ``torch.func``, without memory of its own."""
    return _is_wrapped(tensor)


def unwrap_transforms(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor at the bottom of the transforms: of the same dtype and device, and perhaps of more dimensions."""
    while _is_wrapped(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def is_memoryless(tensor: torch.Tensor) -> bool:
    """Whether the tensor's class computes by other means than memory: fake, distributed and other wrapping tensors."""
    return type(tensor).__torch_dispatch__ not in _PLAIN


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor has memory of its own and nothing records what is done: each small copy asks, in one call."""
    if type(tensor) is not torch.Tensor and is_memoryless(tensor):
        return False
    return not _is_wrapped(tensor) and tracing_state() is None


def is_followed(tensor: torch.Tensor) -> bool:
    """Whether torch wants to know what is computed with the tensor."""
    return (tensor.requires_grad and torch.is_grad_enabled()) or _is_wrapped(tensor) or has_tangent(tensor)


def note_write(tensor: torch.Tensor, what: str) -> None:
    """As `Backend.note_write`."""
    if (tensor.requires_grad or _levels.get("_current_level", 0) >= 0) and is_followed(tensor):
        how = "has a tangent" if not tensor.requires_grad else "requires gradients"
        raise LayoutError(
            f"{what} {how}, and torch cannot record what is written into it; pass x.detach() if its history is to be "
            "left as it is, or call under torch.no_grad()"
        )
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise LayoutError(
            f"{what} was made under torch.inference_mode(), where torch does not count changes; write it there, or "
            "pass x.clone()"
        )
    increment_version(tensor)


def plain_only(check: Callable[..., bool]) -> Callable[..., bool]:
    """``check``, and False while tensors may have tangents or are recorded, of which it does not know.

    It must not see nested tensors: they have no strides, and torch ends the process where it asks for them there.
    """

    def matches(*tensors: torch.Tensor) -> bool:
        if any(each.is_nested for each in tensors) or tracing_state() is not None:
            return False
        return _levels.get("_current_level", 0) < 0 and check(*tensors)

    return bind_plain(check, "is_nested", _levels, "_current_level", tracing_state) or matches


def list_followed(arguments: Sequence[Any]) -> list[int]:
    """The numbers of the tensors that `is_followed`."""
    return [number for number, each in enumerate(arguments) if isinstance(each, torch.Tensor) and is_followed(each)]


class _ToTorch(dict[np.dtype[Any], torch.dtype]):
    """Torch's dtypes by NumPy's; those that NumPy has not, once they are met."""

    def __missing__(self, dtype: np.dtype[Any]) -> torch.dtype:
        name = dtypes.name_of(dtype)
        found = getattr(torch, name, None)
        if not isinstance(found, torch.dtype):
            raise UnsupportedDTypeError(
                f"torch {torch.__version__} has no dtype {name}; move the bytes: x.view('uint8')"
                if dtypes.is_stored(dtype)
                else f"torch {torch.__version__} has no dtype {name}; convert to one that it has, such as 'bfloat16'"
            )
        self[dtype] = found
        return found


class _FromTorch(dict[torch.dtype, np.dtype[Any]]):
    """The other way."""

    def __missing__(self, dtype: torch.dtype) -> np.dtype[Any]:
        found = dtypes.find(str(dtype).removeprefix("torch."), what="tensor")
        if found is None:
            raise KeyError(dtype)
        self[dtype] = found
        return found


OF_NUMPY: dict[np.dtype[Any], torch.dtype] = {np.dtype(name): getattr(torch, name) for name in DTYPES}
"""Torch's dtypes that NumPy has too, in the order of `DTYPES`."""
TO_TORCH: dict[np.dtype[Any], torch.dtype] = _ToTorch(OF_NUMPY)
_FROM_TORCH = _FromTorch({torch_dtype: dtype for dtype, torch_dtype in OF_NUMPY.items()})


def numpy_dtype(tensor: torch.Tensor) -> np.dtype[Any]:
    """The tensor's dtype, as NumPy has it."""
    try:
        return _FROM_TORCH[tensor.dtype]
    except KeyError:
        raise UnsupportedDTypeError(
            f"tensor has dtype {tensor.dtype}, which NumPy and the other backends do not have; "
            f"convert it first: {_conversion(tensor)}"
        ) from None


def _conversion(tensor: torch.Tensor) -> str:
    """The remedy for a dtype that NumPy has not."""
    if tensor.is_quantized:
        return "x.dequantize() has its numbers, x.int_repr() its integers"
    wanted = torch.complex64 if tensor.dtype.is_complex else torch.float32
    try:
        torch.empty(1, dtype=tensor.dtype).to(wanted)
    except RuntimeError:  # of fewer than 8 bits, or no numbers at all
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.itemsize, torch.uint8)
        return f"x.view({bits}) has its bits"
    return f"x.to({wanted})"


_STRIDED = torch.strided


def check(tensor: torch.Tensor) -> None:
    """Refuse tensors that are not dense, or on another kind of device."""
    if type(tensor) is not torch.Tensor:
        _check_class(tensor)
    if tensor.layout is not _STRIDED or not (tensor.is_cuda or tensor.is_cpu):
        _refuse(tensor)


def _refuse(tensor: torch.Tensor) -> NoReturn:
    kind = f"layout {tensor.layout}"
    if tensor.is_meta:
        remedy = "a meta tensor has no numbers: torch.zeros_like(x, device='cpu') makes some of its shape"
    elif tensor.is_nested:
        kind = "parts of different shapes"
        remedy = "use torch.nested.to_padded_tensor(x, 0.0), or xferlib.tree.to_device(x.unbind()) for its parts"
    else:
        remedy = "use x.to_dense()" if tensor.layout is not _STRIDED else "use x.to('cpu')"
    raise UnsupportedArrayError(
        f"tensor has {kind} on device {str(tensor.device)!r}; xferlib holds dense tensors on 'cpu' and 'cuda': {remedy}"
    )


def _check_class(tensor: torch.Tensor) -> None:
    """Refuse tensors of classes that compute by other means than memory."""
    if tensor.is_nested:
        _refuse(tensor)
    if parameter.is_lazy(tensor):  # torch's word for "without a shape yet"
        raise UnsupportedArrayError(
            f"the {type(tensor).__name__} of a lazy module has no shape yet; call the module once, which makes it"
        )
    if is_memoryless(tensor):
        raise UnsupportedArrayError(
            f"{type(tensor).__name__} is a tensor without memory of its own; pass the tensor that holds the data, "
            "e.g. x.to_local() of a DTensor, and call kernels outside of what torch traces"
        )


def _check_memory(tensor: torch.Tensor) -> None:
    """Refuse tensors that stand for others; `host_view`, which every call takes, sees those that passed here."""
    refuse_recorders()
    if is_wrapped(tensor):
        raise UnsupportedArrayError(
            "the tensor stands for another one inside a transform of torch.func (grad, vmap, jvp), and has no memory "
            "that could be copied or passed to CUDA source; call this outside of the transform"
        )


def view(tensor: torch.Tensor, device: Device) -> ArrayInfo:
    if tensor.is_nested:
        _refuse(tensor)
    check(tensor)
    if not is_plain(tensor):  # one call for most
        _check_memory(tensor)
    dtype = numpy_dtype(tensor)
    itemsize = dtype.itemsize
    is_in_memory = not is_lazy(tensor)
    try:
        strides = tuple([step * itemsize for step in tensor.stride()])
        pointer = tensor.data_ptr()
    except RuntimeError as error:  # the batched tensors of is_grads_batched=True, functional and fake ones
        if tensor.is_nested:
            _refuse(tensor)
        raise UnsupportedArrayError(
            f"the tensor has no memory of its own ({str(error).splitlines()[0]}); torch traces or batches it: call "
            "outside of that (torch.func.vmap and grad work with kernels and reductions)"
        ) from None
    if not pointer and is_in_memory and tensor.numel():
        raise _make_freed_error()
    return ArrayInfo(pointer, tuple(tensor.shape), strides, dtype, device, is_in_memory)


def _make_freed_error() -> UnsupportedArrayError:
    return UnsupportedArrayError(
        "the tensor has no memory: its storage was freed, as that of sharded parameters is outside of their layer, or "
        "it stands for another tensor; gather it, or pass the one that holds the data"
    )


def whole(tensor: torch.Tensor) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
    """As `FastPath.whole`."""
    dtype = _FROM_TORCH.get(tensor.dtype) if tensor.is_cuda else None
    if dtype is None or tensor.layout is not _STRIDED or not tensor.is_contiguous():
        return None
    if is_lazy(tensor) or not is_plain(tensor):
        return None
    try:
        pointer = tensor.data_ptr()
    except RuntimeError:  # no memory of its own: `view` says so
        return None
    return (pointer, tuple(tensor.shape), dtype) if pointer or not tensor.numel() else None


def maker(kind: str) -> Callable[..., torch.Tensor] | None:
    """The function that makes an uninitialised tensor of a shape, its steps and dtype; None where torch has none.

    It is private, but takes 1.1 us where `torch.empty` takes 3.5 (on an H100's host; 0.5 and 1.5 on the CPU): the code
    that `torch.compile` writes calls it.
    """
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    found: Callable[..., torch.Tensor] | None = getattr(guards, f"_empty_strided_{kind}", None)
    return found


def signature(tensor: torch.Tensor) -> Hashable:
    """As `Backend.signature`: whether a gradient is required makes another call, too."""
    refuse_recorders()
    return (
        tensor.__class__,
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.get_device(),
        tensor.requires_grad,
        is_lazy(tensor),
        is_wrapped(tensor) or has_tangent(tensor),
    )


# Private, but 0.4 us for three tensors where reading their signatures takes 2.1; that is the fallback.
_guards: Any = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)


def checker(tensors: Sequence[torch.Tensor]) -> Callable[..., bool] | None:
    """As `Backend.matcher`, by the check that torch.compile makes before it runs a compiled function."""
    try:
        check: Callable[..., bool] = _guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return plain_only(check) if check(*tensors) is True else None
    except Exception:  # not in this version of torch, or not in this form
        return None


def make_check(*tensors: torch.Tensor) -> Callable[..., bool] | None:
    """As `PlainArrays.make_check`, by the same check: it compares what torch would do for the tensors' operations."""
    free = [[None] * each.ndim for each in tensors]
    try:
        with torch.inference_mode(False):  # within it, tensors of either kind look alike
            check: Callable[..., bool] = _guards(*tensors, dynamic_dims_sizes=free, dynamic_dims_strides=free).check
            return check if check(*tensors) is True else None
    except Exception:  # as above
        return None


def _count_writes(tensors: tuple[torch.Tensor, ...]) -> None:
    for each in tensors:
        increment_version(each)


def _find_counter() -> Callable[[tuple[torch.Tensor, ...]], object]:
    """The function behind `increment_version`, in 0.15 us instead of 0.4; another where it takes one tensor."""
    try:
        found: Callable[[tuple[torch.Tensor, ...]], object] = torch._C._increment_version
        tensor = torch.empty(0)
        found((tensor,))
        return found if tensor._version == 1 else _count_writes
    except Exception:  # it is private, and took one tensor before
        return _count_writes


PLAIN_ARRAYS = PlainArrays(
    torch.Tensor,
    getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),
    torch.Tensor.is_neg,
    torch.Tensor.is_conj,
    tracing_state,
    maker("cpu"),
    tuple(getattr(torch, name, None) for name in (*DTYPES, *dtypes.SMALL_FLOATS)),
    (_levels, "_current_level", "requires_grad"),
    torch.Tensor.is_inference,
    _find_counter(),
    make_check,
)
"""As `Backend.plain_arrays`; tensors within transforms have no address, and the exchange API refuses them."""


_is_zero: Callable[[torch.Tensor], bool] = getattr(torch.Tensor, "_is_zerotensor", lambda tensor: False)


def is_lazy(tensor: torch.Tensor) -> bool:
    """As `Backend.is_lazy`: conjugated, negated or zero by a flag on the tensor, of which its memory is silent."""
    return tensor.is_conj() or tensor.is_neg() or _is_zero(tensor)


def resolve(tensor: torch.Tensor) -> torch.Tensor:
    """As `Backend.resolved`."""
    if not is_lazy(tensor):
        return tensor
    if _is_zero(tensor):
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.detach().resolve_conj().resolve_neg()


def host_view(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """As `Backend.host_view`, of a tensor on the CPU."""
    check(tensor)
    dtype = numpy_dtype(tensor)
    if not (tensor.is_conj() or tensor.is_neg()) and tensor.data_ptr():
        return _numpy_over(tensor, dtype)
    done = resolve(tensor)
    view = _numpy_over(done, dtype)
    if done is not tensor:
        view.flags.writeable = False  # a copy: writing to it would be lost
    elif view.size:  # which lacks memory, so that NumPy has made some
        raise _make_freed_error()
    return view


def _numpy_over(tensor: torch.Tensor, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A NumPy array over a tensor's memory: torch makes none of the dtypes that NumPy has not."""
    found: np.ndarray[Any, Any]
    if dtypes.is_numpys(dtype):
        found = tensor.detach().numpy()
        return found
    return tensor.detach().view(_BITS[dtype.itemsize]).numpy().view(dtype)  # type: ignore[no-any-return]


_BITS = {1: torch.uint8, 2: torch.int16}


def over_numpy(host: np.ndarray[Any, Any]) -> torch.Tensor:
    """A tensor over the memory of a NumPy array in native byte order."""
    if dtypes.is_numpys(host.dtype):
        return torch.from_numpy(host.view(host.dtype.name))  # of two types of 64 bits torch knows one
    return torch.from_numpy(host.view("i2" if host.dtype.itemsize == 2 else "u1")).view(TO_TORCH[host.dtype])


def detach(tensor: torch.Tensor) -> torch.Tensor:
    """As `Backend.detach`."""
    return tensor.detach() if tensor.requires_grad else tensor


def permute_axes(tensor: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    return tensor.permute(axes)


class _DescribedBytes:
    """Bytes on a device, described for torch, which keeps this object as long as a tensor uses them."""

    def __init__(self, pointer: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": (nbytes,), "strides": None, "typestr": "|u1", "version": 2,
        }  # fmt: skip


def over(pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], place: torch.device, owner: Any) -> torch.Tensor:
    """A tensor over device memory, which ``owner`` keeps alive."""
    nbytes = math.prod(shape) * dtype.itemsize
    if not nbytes:
        return torch.empty(shape, dtype=TO_TORCH[dtype], device=place)
    return subarray(torch.as_tensor(_DescribedBytes(pointer, nbytes, owner), device=place), 0, shape, dtype)


def subarray(slab: torch.Tensor, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> torch.Tensor:
    nbytes = math.prod(shape) * dtype.itemsize
    return slab[offset : offset + nbytes].view(TO_TORCH[dtype]).view(shape)


_steps = functools.lru_cache(maxsize=1024)(c_strides)


class _Cut(NamedTuple):
    """Tensors that one call makes; numbers of elements."""

    dtype: torch.dtype
    first: int
    sizes: list[int]
    """Of tensors with one axis, without gaps; empty: of others."""
    whole: tuple[tuple[int, ...], tuple[int, ...]]
    """Shape and steps of all tensors of a kind as one, or of one alone."""
    is_single: bool


def make_cutter(runs: Iterable[Run]) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """A function that makes tensors in a slab that is an allocation of its own; each counts its changes for itself.

    Ordinary views count them together, so that changing one would spoil the gradients of the others.
    """
    if not _views_apart():
        runs = list(runs)
        return lambda slab: [
            subarray(slab, place + number * step, shape, dtype).data
            for place, step, length, shape, dtype in runs
            for number in range(length)
        ]
    cuts: list[_Cut] = []
    end = -1
    for place, step, length, shape, dtype in runs:
        itemsize, ours = dtype.itemsize, TO_TORCH[dtype]
        first, apart = place // itemsize, step // itemsize
        if shape == (apart,):  # a split makes those in half the time that each by itself takes
            if place == end and cuts[-1].sizes and cuts[-1].dtype is ours:
                cuts[-1].sizes.extend([apart] * length)
            else:
                cuts.append(_Cut(ours, first, [apart] * length, ((), ()), is_single=False))
        elif length == 1:
            cuts.append(_Cut(ours, first, [], (shape, _steps(shape, 1)), is_single=True))
        else:
            whole = (length, *shape), (apart, *_steps(shape, 1))
            cuts.append(_Cut(ours, first, [], whole, is_single=False))
        end = place + step * length
    return functools.partial(_make_cuts, cuts)


def _make_cuts(cuts: list[_Cut], slab: torch.Tensor) -> list[torch.Tensor]:
    flat: dict[torch.dtype, torch.Tensor] = {}
    made: list[torch.Tensor] = []
    with torch._C._AutoDispatchBelowADInplaceOrView():
        for dtype, first, sizes, (shape, steps), is_single in cuts:
            whole = flat.get(dtype)
            if whole is None:
                whole = flat[dtype] = slab.view(dtype)
            if sizes:
                made += whole.narrow(0, first, sum(sizes)).split_with_sizes(sizes)
            elif is_single:
                made.append(whole.as_strided(shape, steps, first))
            else:
                made += whole.as_strided(shape, steps, first).unbind(0)
    return made


@functools.cache
def _views_apart() -> bool:
    """Whether views made without autograd's bookkeeping, in a tenth of the time, count their changes apart."""
    try:  # it is private, and may change
        with torch._C._AutoDispatchBelowADInplaceOrView():
            slab = torch.zeros(2)
            first, second = (slab.as_strided((1,), (1,), place) for place in range(2))
        first.add_(1)
    except Exception:
        return False
    return first._version == 1 and second._version == 0 and not second._is_view()


@functools.lru_cache(maxsize=256)
def steps(shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Strides, in elements, of a tensor without gaps, whose axes lie in this order, the outermost first, or in C's."""
    if order is None:
        return c_strides(shape, 1)
    found = dict(zip(order, c_strides(tuple(shape[axis] for axis in order), 1), strict=True))
    return tuple(found[axis] for axis in range(len(shape)))
