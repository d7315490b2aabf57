"""Element-wise functions of torch's namespace, with NumPy's dtypes.

Where torch's own rule for two dtypes is NumPy's, a call looks the pair up in a table and goes straight to torch. Where
it is not, or torch cannot compute with a dtype, the operands are converted first.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch
from torch import Tensor, overrides
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from xferlib._core import arrays
from xferlib._runtime import process
from xferlib.backends.torch import functions
from xferlib.backends.torch.functions import FROM_TORCH, SIGNED, WIDE
from xferlib.errors import ArgumentError, LayoutError

_BOOL = frozenset({torch.bool})
_UNSIGNED = (torch.uint8, *SIGNED)
_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_FLOATS = frozenset({torch.float16, torch.float32, torch.float64})
_COMPLEX = frozenset({torch.complex64, torch.complex128})
_NUMBERS = _INTEGERS | _FLOATS | _COMPLEX
_ALL = _NUMBERS | _BOOL
_REAL = _INTEGERS | _FLOATS


def _remainder(a: Tensor, b: Tensor) -> Tensor:
    """The remainder: its zeros have the divisor's sign, and that of an integer by 0 is 0."""
    if not (a.is_floating_point() or b.is_floating_point()):
        return torch.remainder(a, torch.where(b == 0, 1, b))
    found = torch.remainder(a, b)
    if found.is_cpu and found.dtype is not torch.float16 and _has_nan(found):
        stepped = _in_steps(a.to(found.dtype), b.to(found.dtype))
        found = torch.where(torch.isnan(found) & torch.isfinite(a), stepped, found)
    return torch.where(found == 0, torch.copysign(found, b), found)


def _has_nan(x: Tensor) -> bool:
    if torch.compiler.is_compiling():
        return True
    try:
        return bool(torch.isnan(x).any())
    except RuntimeError:  # within torch.func.vmap, where values decide nothing
        return True


def _in_steps(a: Tensor, b: Tensor) -> Tensor:
    """The remainder of numbers so far apart that their quotient is infinite, for which torch's CPU kernel has NaN."""
    if a.dtype is torch.float32:
        found = torch.fmod(a.to(torch.float64), b.to(torch.float64)).to(torch.float32)
    else:
        step = b * 2.0**1022  # of two divisors 2**1522 and 2**1022 times as large, one or both leave finite quotients
        found = torch.fmod(torch.fmod(torch.fmod(a, step * 2.0**500), step), b)
    return torch.where((found != 0) & ((found < 0) != (b < 0)), found + b, found)


def _floor_divide(a: Tensor, b: Tensor) -> Tensor:
    """The quotient rounded down: of float16 by way of float32, as NumPy computes it; of an integer by 0 it is 0."""
    if not (a.is_floating_point() or b.is_floating_point()):
        return torch.floor_divide(a, torch.where(b == 0, 1, b)) * (b != 0)
    if torch.promote_types(a.dtype, b.dtype) is torch.float16:
        return torch.floor_divide(a.to(torch.float32), b.to(torch.float32)).to(torch.float16)
    return torch.floor_divide(a, b)


def _moved_number(x: Tensor, device: torch.device) -> Tensor:
    """A tensor without axes on a CUDA device; by its value in a capture, where CUDA refuses to copy pageable memory."""
    if x.requires_grad or torch.compiler.is_compiling() or not torch.cuda.is_current_stream_capturing():
        return x.to(device)
    return torch.full((), x.item(), dtype=x.dtype, device=device)


def _divide(a: Any, b: Any, **options: Any) -> Tensor:
    """The quotient. On CUDA torch multiplies by the reciprocal of a number, which may differ in the last bit."""
    if isinstance(a, Tensor) and a.is_cuda:
        if not isinstance(b, Tensor):
            b = torch.full((), b, dtype=a.dtype, device=a.device)
        elif b.is_cpu and b.dim() == 0:  # it counts as a number; an array of another device torch refuses
            b = _moved_number(b, a.device)
    found: Tensor = torch.divide(a, b, **options)
    return found


def _pow(a: Any, b: Any, **options: Any) -> Tensor:
    """The power; of a complex 0 to the exponent 0 it is 1, where torch has NaN."""
    found: Tensor = torch.pow(a, b, **options)
    if not found.is_complex() or not isinstance(b, Tensor) or options:
        return found
    return torch.where(b == 0, 1, found)


_BINARY: dict[str, tuple[Callable[..., Any], frozenset[torch.dtype]]] = {
    "add": (torch.add, _ALL), "subtract": (torch.subtract, _NUMBERS), "multiply": (torch.multiply, _ALL),
    "divide": (_divide, _FLOATS | _COMPLEX), "floor_divide": (_floor_divide, _REAL),
    "remainder": (_remainder, _REAL), "pow": (_pow, _NUMBERS),
    "maximum": (torch.maximum, _REAL | _BOOL), "minimum": (torch.minimum, _REAL | _BOOL),
    "bitwise_and": (torch.bitwise_and, _INTEGERS | _BOOL), "bitwise_or": (torch.bitwise_or, _INTEGERS | _BOOL),
    "bitwise_xor": (torch.bitwise_xor, _INTEGERS | _BOOL),
    "bitwise_left_shift": (torch.bitwise_left_shift, _INTEGERS),
    "bitwise_right_shift": (torch.bitwise_right_shift, _INTEGERS),
    "equal": (torch.eq, _ALL), "not_equal": (torch.ne, _ALL),
    "less": (torch.lt, _REAL | _BOOL), "less_equal": (torch.le, _REAL | _BOOL),
    "greater": (torch.gt, _REAL | _BOOL), "greater_equal": (torch.ge, _REAL | _BOOL),
    "logical_and": (torch.logical_and, _ALL), "logical_or": (torch.logical_or, _ALL),
    "logical_xor": (torch.logical_xor, _ALL),
    "atan2": (torch.atan2, _FLOATS), "copysign": (torch.copysign, _FLOATS), "hypot": (torch.hypot, _FLOATS),
    "logaddexp": (torch.logaddexp, _FLOATS), "nextafter": (torch.nextafter, _FLOATS),
}  # fmt: skip
"""Torch's function, and the dtypes with which it does what NumPy does."""

_TAKE_NUMBERS = ("add", "subtract", "multiply", "divide", "pow")
_ONE_DTYPE = ("hypot", "logaddexp", "nextafter")
_SUMS = ("add", "subtract")
_STRAIGHT, _IF_AXES, _PARTS = 1, 2, 3
"""Torch does what NumPy does: always, where both arrays have axes or neither has, or with real and imaginary parts."""


def _plans(name: str, native: frozenset[torch.dtype]) -> dict[tuple[Any, Any], int]:
    """The pairs of dtypes, or of a dtype and a Python type, with which a call goes straight to torch."""
    found: dict[tuple[Any, Any], int] = {(each, each): _STRAIGHT for each in native}
    if name in _SUMS:
        native -= _COMPLEX  # see `_by_parts`
        found.update({(each, each): _PARTS for each in _COMPLEX})
    for one in native:
        for two in native - {one} if name not in _ONE_DTYPE else ():
            promoted = torch.promote_types(one, two)
            if promoted in native and promoted is functions.promoted(one, two):
                found[one, two] = _IF_AXES
        # Beside float16 torch keeps a number in float32, where NumPy rounds it, and may make it infinite.
        if name in _TAKE_NUMBERS and one not in _INTEGERS | _BOOL and one is not torch.float16:
            for number in (int, float, complex) if one.is_complex else (int, float):
                found[one, number] = found[number, one] = _STRAIGHT
    return found


def binary(name: str) -> Callable[..., Tensor]:
    """The function of that name, of two tensors or of a tensor and a number."""
    compute, native = _BINARY[name]
    plans = _plans(name, native)

    def operate(x1: Any, x2: Any, /, **options: Any) -> Tensor:
        one = x1.dtype if isinstance(x1, Tensor) else type(x1)
        two = x2.dtype if isinstance(x2, Tensor) else type(x2)
        plan = plans.get((one, two))
        if plan == _STRAIGHT or (plan == _IF_AXES and (x1.dim() == 0) is (x2.dim() == 0)):
            try:
                found: Tensor = compute(x1, x2, **options)
            except (OverflowError, RuntimeError):  # a number that torch does not convert, such as 1e300 to float16
                if isinstance(x1, Tensor) and isinstance(x2, Tensor):
                    functions.shape_together(name, x1.shape, x2.shape)
                    raise
            else:
                return found
        try:
            return _by_parts(compute, x1, x2) if plan == _PARTS and not options else _converted(name, x1, x2, options)
        except RuntimeError:
            if isinstance(x1, Tensor) and isinstance(x2, Tensor):
                functions.shape_together(name, x1.shape, x2.shape)
            raise

    return operate


def _converted(name: str, x1: Any, x2: Any, options: dict[str, Any]) -> Tensor:
    """A function of two operands that torch would promote otherwise than NumPy, or cannot compute with."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        if isinstance(x2, np.generic) and not isinstance(x1, np.generic):
            x2 = functions.tensor_of(name, x2)
        else:
            x1 = functions.tensor_of(name, x1)
    device = functions.device_of(name, x1, x2)
    if functions.is_foreign(x1) or functions.is_foreign(x2):
        own: Tensor = getattr(compat, name)(x1, x2, **options)
        return own
    one, two = functions.kind_of(name, x1), functions.kind_of(name, x2)
    dtype, common = functions.result(name, one, two), functions.promoted(one, two)
    is_comparison = name in functions.COMPARED
    for is_first, number, kind, other in ((True, x1, one, x2), (False, x2, two, x1)):
        if kind is int and is_comparison and common in functions.RANGES and not functions.fits(number, common):
            return _beyond(name, number, other, is_first=is_first)
        if kind is int and dtype in functions.RANGES:
            functions.check_fits(number, dtype)
        if kind is int and name in _LOGICAL:  # NumPy has no greater integers there, though only the truth counts
            functions.check_fits(number, torch.int64)
    if name == "pow" and dtype in functions.RANGES:
        _refuse_negative_power(x2)
    if is_comparison and common.is_floating_point and one in functions.RANGES and two in functions.RANGES:
        return _compared(name, x1, x2, device)
    wanted = common if is_comparison else dtype  # which is bool for the logical functions
    if name in _ORDERING:
        functions.refuse_complex(name, wanted)
    if wanted is torch.uint64:
        bits = [_bits64(each, wanted, device) for each in (x1, x2)]
        if is_comparison:
            return functions.COMPARED[name](*bits)
        return functions.COMPUTED[name](*bits).view(torch.uint64)
    able = WIDE.get(wanted, wanted)
    compute = _BINARY[name][0]
    first, second = functions.as_tensor(x1, able, device), functions.as_tensor(x2, able, device)
    if able.is_complex and name in _SUMS and not options:
        return _by_parts(compute, first, second)
    found: Tensor = compute(first, second, **options)
    return found if able is wanted or is_comparison else found.to(wanted)


def _by_parts(compute: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    """A sum of complex numbers, whose second operand torch multiplies by 1: infinity by 0 is NaN."""
    return torch.complex(compute(a.real, b.real), compute(a.imag, b.imag))


def _bits64(x: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An operand of 64 bits, in int64; one of the CPU's without axes is moved, as torch's own functions would."""
    found = functions.as_tensor(x, dtype, device).view(torch.int64)
    if not found.is_cpu or found.dim():
        return found
    return _moved_number(found, device) if device.type == "cuda" else found.to(device)


_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_ORDERING = ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum")


def _beyond(name: str, number: int, other: Tensor, *, is_first: bool) -> Tensor:
    """Compare an array with a Python integer that is less than all that its dtype holds, or greater."""
    array_is_less = (number > 0) is not is_first  # the first operand is less than the second
    answer = name == "not_equal" or name.startswith("less" if array_is_less else "greater")
    return torch.full_like(other, answer, dtype=torch.bool)


def _compared(name: str, x1: Any, x2: Any, device: torch.device) -> Tensor:
    """Compare signed integers with uint64."""
    first_is_bits = functions.kind_of(name, x1) is torch.uint64
    bits, signed = (x1, x2) if first_is_bits else (x2, x1)
    return functions.compare_signed(
        functions.SWAPPED.get(name, name) if first_is_bits else name,
        _bits64(signed, torch.int64, device),
        _bits64(bits, torch.uint64, device),
    )


def _refuse_negative_power(power: Any) -> None:
    if not isinstance(power, Tensor) and power < 0:
        raise ArgumentError(
            f"pow: an integer to the power of {power} is no integer; convert the array first: xp.astype(x, 'float64')"
        )


# --- of one array


def _clone(x: Tensor) -> Tensor:
    return x.clone()


def _reciprocal(x: Tensor) -> Tensor:
    """The reciprocal rounded to 0: of an integer by 0 it is 0, where NumPy's depends on the processor."""
    return (x == 1).to(x.dtype) if x.dtype in _UNSIGNED else torch.where((x == 1) | (x == -1), x, 0)


def _no(x: Tensor) -> Tensor:
    return torch.zeros_like(x, dtype=torch.bool)


def _yes(x: Tensor) -> Tensor:
    return torch.ones_like(x, dtype=torch.bool)


def _bits(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function of unsigned integers whose bits are those of the signed ones."""

    def operate(x: Tensor) -> Tensor:
        signed = SIGNED.get(x.dtype)
        return function(x) if signed is None else function(x.view(signed)).view(x.dtype)

    return operate


_OWN: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": _clone, "positive": _clone, "ceil": _clone, "floor": _clone, "trunc": _clone, "round": _clone,
    "conj": _clone, "real": _clone, "imag": torch.zeros_like, "reciprocal": _reciprocal,
    "negative": _bits(torch.neg), "square": _bits(lambda x: x * x), "bitwise_invert": _bits(torch.bitwise_not),
    "sign": lambda x: torch.sign(x) if x.dtype in _INTEGERS else x.to(torch.bool).to(x.dtype),
    "isfinite": _yes, "isinf": _no, "isnan": _no, "signbit": _no,
    "logical_not": lambda x: torch.logical_not(x.to(torch.bool)),
}  # fmt: skip
"""Functions of integers and booleans with which torch does not compute as NumPy does, or not at all."""


def _acos(x: Tensor, **options: Any) -> Tensor:
    found = torch.acos(x, **options)
    if not found.is_complex():
        return found
    return torch.complex(found.real, torch.copysign(found.imag, torch.neg(x.imag)))


def _log1p(x: Tensor, **options: Any) -> Tensor:
    found = torch.log1p(x, **options)
    return torch.where(torch.isinf(x), torch.log(x), found) if found.is_complex() else found


def _round(x: Tensor, **options: Any) -> Tensor:
    return torch.complex(torch.round(x.real), torch.round(x.imag)) if x.is_complex() else torch.round(x, **options)


_COMPUTED: dict[str, Callable[..., Tensor]] = {"acos": _acos, "log1p": _log1p, "round": _round}
"""Functions of which torch has no complex values, or not NumPy's: signs of zeros, infinities."""

_OF_INTEGERS = ("abs", "negative", "square", "bitwise_invert", "signbit", "logical_not")
_OF_BOOLEANS = ("bitwise_invert", "logical_not")
_NOT_OF_FLOATS = ("imag", "positive", "real")


def unary(name: str) -> Callable[..., Tensor]:
    """The function of that name, of one tensor."""
    compute = _COMPUTED.get(name) or getattr(compat, name)
    straight = frozenset(each for each in _ALL if _goes_straight(name, each))

    def operate(x: Tensor, /, **options: Any) -> Tensor:
        found: Tensor
        if not isinstance(x, Tensor):
            x = functions.tensor_of(name, x)
        if x.dtype in straight or functions.is_foreign(x):
            found = compute(x, **options)
            return found
        dtype = functions.result(name, x.dtype)
        if name in _OWN and (name in _NOT_OF_FLOATS or not (x.is_floating_point() or x.is_complex())):
            return _OWN[name](x if dtype is torch.bool or x.dtype is not torch.bool else x.to(dtype))
        found = compute(x if dtype is torch.bool else x.to(dtype), **options)
        return found

    return operate


def _goes_straight(name: str, dtype: torch.dtype) -> bool:
    if dtype not in functions.RESULTS[name]:
        return False
    if dtype in _COMPLEX:
        return name != "positive"
    if dtype in _FLOATS:
        return name not in _NOT_OF_FLOATS
    return name in (_OF_BOOLEANS if dtype is torch.bool else _OF_INTEGERS)


# NumPy's operators for tensors, in a block: ``with xp.numpy_operators(): a / b``.
#
# The operators of tensors are torch's, and no namespace can change them for good without changing them for every other
# program in the process. Torch offers a mode of its own for one thread and one block; this is such a mode.

_NAMES: dict[str, tuple[str, ...]] = {
    "add": ("add", "__add__", "__radd__"), "subtract": ("sub", "__sub__"),
    "multiply": ("mul", "__mul__", "__rmul__"), "divide": ("div", "__div__", "__truediv__"),
    "floor_divide": ("floor_divide", "__floordiv__"), "remainder": ("remainder", "__mod__"), "pow": ("pow", "__pow__"),
    "matmul": ("matmul", "__matmul__"),
    "bitwise_and": ("bitwise_and", "__and__", "__rand__"), "bitwise_or": ("bitwise_or", "__or__", "__ror__"),
    "bitwise_xor": ("bitwise_xor", "__xor__", "__rxor__"),
    "bitwise_left_shift": ("bitwise_left_shift", "__lshift__"),
    "bitwise_right_shift": ("bitwise_right_shift", "__rshift__"),
    "less": ("lt", "__lt__"), "less_equal": ("le", "__le__"), "greater": ("gt", "__gt__"),
    "greater_equal": ("ge", "__ge__"), "equal": ("eq", "__eq__"), "not_equal": ("ne", "__ne__"),
    "negative": ("neg", "__neg__"), "positive": ("positive", "__pos__"), "abs": ("abs", "__abs__"),
    "bitwise_invert": ("bitwise_not", "__invert__"),
}  # fmt: skip
"""The methods of a tensor by which torch computes each operator."""

_REVERSED: dict[str, tuple[str, ...]] = {
    "subtract": ("__rsub__",), "divide": ("__rdiv__", "__rtruediv__"), "floor_divide": ("__rfloordiv__",),
    "remainder": ("__rmod__",), "pow": ("__rpow__",), "matmul": ("__rmatmul__",),
    "bitwise_left_shift": ("__rlshift__",), "bitwise_right_shift": ("__rrshift__",),
}  # fmt: skip
"""Those that take the second operand first."""

_IN_PLACE: dict[str, tuple[str, ...]] = {
    "add": ("add_", "__iadd__"), "subtract": ("sub_", "__isub__"), "multiply": ("mul_", "__imul__"),
    "divide": ("div_", "__idiv__", "__itruediv__"), "floor_divide": ("floor_divide_", "__ifloordiv__"),
    "remainder": ("remainder_", "__imod__"), "pow": ("pow_", "__ipow__"),
    "bitwise_and": ("bitwise_and_", "__iand__"), "bitwise_or": ("bitwise_or_", "__ior__"),
    "bitwise_xor": ("bitwise_xor_", "__ixor__"), "bitwise_left_shift": ("bitwise_left_shift_", "__ilshift__"),
    "bitwise_right_shift": ("bitwise_right_shift_", "__irshift__"),
}  # fmt: skip
"""Those that write the first operand."""

_HOLDS = {
    (one, two): np.can_cast(FROM_TORCH[one], FROM_TORCH[two], "same_kind") for one in FROM_TORCH for two in FROM_TORCH
}


def _in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def operate(x: Tensor, other: Any) -> Tensor:
        found = function(x, other)
        if not _HOLDS.get((found.dtype, x.dtype), True):
            raise ArgumentError(  # after a TypeError Python would compute x = x + y instead
                f"{name} in place: a {FROM_TORCH[x.dtype]} tensor does not hold the {FROM_TORCH[found.dtype]} result; "
                "write x = x + y, or convert the other operand with xp.astype"
            )
        if found.shape != x.shape:
            raise LayoutError(
                f"{name} in place: the result of shape {tuple(found.shape)} does not fit into {tuple(x.shape)}; write "
                "x = x + y"
            )
        return x.copy_(found)

    return operate


def _swapped(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, other: function(other, x)


# --- indexing

Key = tuple[Any, ...]


def _read(x: Tensor, key: Any) -> Tensor:
    """``x[key]``; a copy where a step is negative, of which torch has no view."""
    signed = SIGNED.get(x.dtype)
    if signed is not None:
        return _read(x.view(signed), key).view(x.dtype)
    base, rest, axes = _ascending(x, _plain(x, key))
    return (base.flip(axes) if axes else base)[rest]


def _write(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    if isinstance(value, Tensor):
        is_shared = value.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        value = value.to(x.dtype, copy=is_shared)  # torch copies overlapping memory in any order, or refuses
    elif x.dtype in FROM_TORCH:
        functions.kind_of("assignment", value)
        value = functions.as_tensor(arrays.number(value, FROM_TORCH[x.dtype]), x.dtype, x.device)
    signed = SIGNED.get(x.dtype)
    if signed is not None:
        return _write(x.view(signed), key, value.view(signed))
    base, rest, axes = _ascending(x, _plain(x, key))
    target = base.flip(axes) if axes else x
    try:
        target[rest] = value
    except RuntimeError:
        functions.shape_together("assignment", tuple(target[rest].shape), tuple(value.shape), is_first=True)
        raise
    if axes:
        base.copy_(target.flip(axes))
    return None


def _plain(x: Tensor, key: Any) -> Key:
    """A key as a tuple in which torch reads every part as NumPy does: uint8 as indices, masks of no elements."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, np.bool_):
            parts.append(bool(part))
        elif not isinstance(part, Tensor) or part.dtype is torch.int64:
            parts.append(part)
        elif part.dtype is not torch.bool:
            parts.append(part.to(torch.int64))
        elif part is key and part.numel() == 0 and _is_empty_mask(x.shape, part.shape):
            parts += part.nonzero(as_tuple=True)
        else:
            parts.append(part)
    return tuple(parts)


def _is_empty_mask(shape: tuple[int, ...], mask: tuple[int, ...]) -> bool:
    """Whether a mask of no elements chooses nothing, as in NumPy: each of its extents is the array's, or 0."""
    return len(mask) <= len(shape) and all(each in (extent, 0) for each, extent in zip(mask, shape, strict=False))


def _ascending(x: Tensor, key: Key) -> tuple[Tensor, Key, list[int]]:
    """A view with the elements of all negative steps, the key into it, and the axes to flip before.

    Integers in the key narrow the view too, so that ``x[0, ::-1]`` copies one row.
    """
    if not any(isinstance(part, slice) and part.step is not None and part.step < 0 for part in key):
        return x, key, []
    given = sum(0 if part is Ellipsis else _axes_of(part) for part in key)
    narrow: list[Any] = []
    rest: list[Any] = []
    axes: list[int] = []
    for part in key:
        axis = len(narrow)
        if part is Ellipsis:
            narrow += [slice(None)] * (x.dim() - given)
        elif isinstance(part, slice) and part.step is not None and part.step < 0:
            indices = range(*part.indices(x.shape[axis]))
            narrow.append(slice(indices[-1], indices[0] + 1, -part.step) if indices else slice(0, 0))
            axes.append(axis)
            part = slice(None)
        elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            index = operator.index(part)
            is_inside = -x.shape[axis] <= index < x.shape[axis]
            narrow.append(slice(index, index + 1 or None) if is_inside else slice(None))
            part = 0 if is_inside else index
        else:
            narrow += [slice(None)] * _axes_of(part)
        rest.append(part)
    return x[tuple(narrow)], tuple(rest), axes


def _axes_of(part: Any) -> int:
    """The number of axes that a part of a key reads."""
    if part is None or isinstance(part, (bool, np.bool_)):
        return 0
    return int(part.ndim) if getattr(part, "dtype", None) in (torch.bool, np.dtype(bool)) else 1


def _as_integer(x: Tensor) -> int:
    """``int(x)``, of uint64 too, where torch's own overflows."""
    return int(x.item())


# --- the mode


def _replacements() -> dict[Any, Callable[..., Any]]:
    """The function in place of each of torch's methods; not every version of torch has all of them."""
    found: dict[Any, Callable[..., Any]] = {}
    for name, methods in _NAMES.items():
        if name == "matmul":
            function = functions.product(name)
        elif name in _UNARY:
            function = unary(name)
        else:
            function = binary(name)
        named = dict.fromkeys(methods, function)
        named.update(dict.fromkeys(_REVERSED.get(name, ()), _swapped(function)))
        named.update(dict.fromkeys(_IN_PLACE.get(name, ()), _in_place(name, function)))
        found.update({getattr(Tensor, method, None): each for method, each in named.items()})
    found.update({Tensor.__getitem__: _read, Tensor.__setitem__: _write})
    found.update({Tensor.__int__: _as_integer, Tensor.__index__: _as_integer})
    found.pop(None, None)
    return found


_UNARY = ("negative", "positive", "abs", "bitwise_invert")
_REPLACEMENTS = _replacements()


class numpy_operators(TorchFunctionMode):  # type: ignore[misc]  # noqa: N801 - torch's is untyped; a program reads a verb
    """In this block, the operators and the indexing of tensors do what NumPy's do.

        with xp.numpy_operators():
            half = counts / 2                 # integers give float64
            backwards = x[::-1]               # a copy: torch has no view of a negative step

    It holds for this thread, and for every tensor in it, those of other libraries' functions that the block calls
    included. Each operation on a tensor costs some microseconds more.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ours = _REPLACEMENTS.get(func)
        if ours is None or kwargs:
            return func(*args, **(kwargs or {}))
        return ours(*args)


class _Setting(numpy_operators):
    """The same for a whole thread, as long as the setting says so."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if process.get().torch_operators != "numpy":
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)


def begin() -> None:
    """Give this thread NumPy's operators for good.

    The mode goes beneath those that are open: the end of one of them would take it off in its own place. Lowest stays
    that of torch's default device, which looks for itself there; ``with torch.device(...)`` opens one as any other.
    """
    if getattr(_local, "is_begun", False):
        return
    above = [overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())]
    if above and isinstance(above[-1], DeviceContext) and hasattr(above[-1], "old_device"):
        overrides._push_mode(above.pop())
    overrides._push_mode(_Setting())
    for mode in reversed(above):
        overrides._push_mode(mode)
    _local.is_begun = True


_local = threading.local()
