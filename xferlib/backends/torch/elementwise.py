"""Element-wise functions of torch's namespace, with NumPy's dtypes.

Where torch's own rule for two dtypes is NumPy's, a call looks the pair up in a table and goes straight to torch. Where
it is not, or torch cannot compute with a dtype, the operands are converted first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch
from torch import Tensor

from xferlib.backends.torch import dtypes
from xferlib.backends.torch.dtypes import SIGNED, WIDE
from xferlib.backends.torch.functions import tensor_of
from xferlib.errors import ArgumentError

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


def _move_number(x: Tensor, device: torch.device) -> Tensor:
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
            b = _move_number(b, a.device)
    return torch.divide(a, b, **options)


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
_OF_FLOAT64 = ("add", "subtract", "multiply", "divide")
_ONE_DTYPE = ("hypot", "logaddexp", "nextafter")
_SUMS = ("add", "subtract")
_OF_ANY_INTEGERS = (
    "add", "subtract", "multiply", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip
_STRAIGHT, _IF_AXES, _PARTS, _IF_SMALL, _IN_FLOAT64 = 1, 2, 3, 4, 5
"""Torch does what NumPy does: always, where both arrays have axes or neither has, with real and imaginary parts, with
a Python integer that every dtype of integers holds, or with the tensors in float64."""

_LEAST_GREATEST = 127
"""The greatest integer of int8, which all other dtypes of integers hold too."""


def _plans(name: str, native: frozenset[torch.dtype]) -> dict[tuple[Any, Any], int]:
    """The pairs of dtypes, or of a dtype and a Python type, with which a call goes straight to torch."""
    found: dict[tuple[Any, Any], int] = {(each, each): _STRAIGHT for each in native}
    if name in _SUMS:
        native -= _COMPLEX  # see `_by_parts`
        found.update({(each, each): _PARTS for each in _COMPLEX})
    for one in native:
        for two in native - {one} if name not in _ONE_DTYPE else ():
            promoted = torch.promote_types(one, two)
            if promoted in native and promoted is dtypes.promote_types(one, two):
                found[one, two] = _IF_AXES
        # Beside float16 torch keeps a number in float32, where NumPy rounds it, and may make it infinite.
        if name in _TAKE_NUMBERS and one not in _INTEGERS | _BOOL and one is not torch.float16:
            for number in (int, float, complex) if one.is_complex else (int, float):
                found[one, number] = found[number, one] = _STRAIGHT
        if (name in _OF_ANY_INTEGERS and one in _INTEGERS) or (name in dtypes.COMPARED and one in _FLOATS):
            found[one, int] = _IF_SMALL
            if name in _TAKE_NUMBERS:  # first, too
                found[int, one] = _IF_SMALL
    numbers = (int, float) if name == "divide" else (float,)
    for one, two in itertools.product((*_REAL, *numbers), repeat=2) if name in _OF_FLOAT64 else ():
        is_of_tensors = isinstance(one, torch.dtype) or isinstance(two, torch.dtype)
        if is_of_tensors and (one, two) not in found and dtypes.result(name, one, two) is torch.float64:
            found[one, two] = _IN_FLOAT64
    return found


def binary(name: str) -> Callable[..., Tensor]:
    """The function of that name, of two tensors or of a tensor and a number."""
    compute, native = _BINARY[name]
    plans = _plans(name, native)

    def operate(x1: Any, x2: Any, /, **options: Any) -> Tensor:
        one = x1.dtype if isinstance(x1, Tensor) else type(x1)
        two = x2.dtype if isinstance(x2, Tensor) else type(x2)
        plan = plans.get((one, two))
        first, second = x1, x2
        if plan == _IN_FLOAT64:
            first, second = (x.to(torch.float64) if isinstance(x, Tensor) else x for x in (x1, x2))
        if (
            plan in (_STRAIGHT, _IN_FLOAT64)
            or (plan == _IF_AXES and (x1.dim() == 0) is (x2.dim() == 0))
            or (plan == _IF_SMALL and 0 <= (x2 if two is int else x1) <= _LEAST_GREATEST)
        ):
            try:
                return compute(first, second, **options)
            except (OverflowError, RuntimeError):  # a number that torch does not convert, such as 1e300 to float16
                if isinstance(x1, Tensor) and isinstance(x2, Tensor):
                    dtypes.shape_together(name, x1.shape, x2.shape)
                    raise
        try:
            return (
                _by_parts(compute, x1, x2)
                if plan == _PARTS and not options
                else _convert_operands(name, x1, x2, options)
            )
        except RuntimeError:
            if isinstance(x1, Tensor) and isinstance(x2, Tensor):
                dtypes.shape_together(name, x1.shape, x2.shape)
            raise

    return operate


def _convert_operands(name: str, x1: Any, x2: Any, options: dict[str, Any]) -> Tensor:
    """A function of two operands that torch would promote otherwise than NumPy, or cannot compute with."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        if isinstance(x2, np.generic) and not isinstance(x1, np.generic):
            x2 = tensor_of(name, x2)
        else:
            x1 = tensor_of(name, x1)
    device = dtypes.device_of(name, x1, x2)
    one, two = dtypes.kind_of(name, x1), dtypes.kind_of(name, x2)
    dtype, common = dtypes.result(name, one, two), dtypes.promote_types(one, two)
    if dtypes.is_foreign(x1) or dtypes.is_foreign(x2):
        return getattr(compat, name)(x1, x2, **options)
    is_comparison = name in dtypes.COMPARED
    for is_first, number, kind, other in ((True, x1, one, x2), (False, x2, two, x1)):
        if kind is int and is_comparison and common in dtypes.RANGES and not dtypes.fits(number, common):
            return _beyond(name, number, other, is_first=is_first)
        if kind is int and dtype in dtypes.RANGES:
            dtypes.check_fits(number, dtype)
        if kind is int and name in _LOGICAL:  # NumPy has no greater integers there, though only the truth counts
            dtypes.check_fits(number, torch.int64)
    if name == "pow" and dtype in dtypes.RANGES:
        _refuse_negative_power(x2)
    if is_comparison and common.is_floating_point and one in dtypes.RANGES and two in dtypes.RANGES:
        return _compare_mixed_signs(name, x1, x2, device)
    wanted = common if is_comparison else dtype  # which is bool for the logical functions
    if name in _ORDERING:
        dtypes.refuse_complex(name, wanted)
    if wanted is torch.uint64:
        bits = [_bits64(each, wanted, device) for each in (x1, x2)]
        if is_comparison:
            return dtypes.COMPARED[name](*bits)
        return dtypes.COMPUTED[name](*bits).view(torch.uint64)
    able = WIDE.get(wanted, wanted)
    compute = _BINARY[name][0]
    first, second = dtypes.as_tensor(x1, able, device), dtypes.as_tensor(x2, able, device)
    if able.is_complex and name in _SUMS and not options:
        return _by_parts(compute, first, second)
    found: Tensor = compute(first, second, **options)
    return found if able is wanted or is_comparison else found.to(wanted)


def _by_parts(compute: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    """A sum of complex numbers, whose second operand torch multiplies by 1: infinity by 0 is NaN."""
    return torch.complex(compute(a.real, b.real), compute(a.imag, b.imag))


def _bits64(x: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An operand of 64 bits, in int64; one of the CPU's without axes is moved, as torch's own functions would."""
    found = dtypes.as_tensor(x, dtype, device).view(torch.int64)
    if not found.is_cpu or found.dim():
        return found
    return _move_number(found, device) if device.type == "cuda" else found.to(device)


_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_ORDERING = ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum")


def _beyond(name: str, number: int, other: Tensor, *, is_first: bool) -> Tensor:
    """Compare an array with a Python integer that is less than all that its dtype holds, or greater."""
    array_is_less = (number > 0) is not is_first  # the first operand is less than the second
    answer = name == "not_equal" or name.startswith("less" if array_is_less else "greater")
    return torch.full_like(other, answer, dtype=torch.bool)


def _compare_mixed_signs(name: str, x1: Any, x2: Any, device: torch.device) -> Tensor:
    """Compare signed integers with uint64."""
    first_is_bits = dtypes.kind_of(name, x1) is torch.uint64
    bits, signed = (x1, x2) if first_is_bits else (x2, x1)
    return dtypes.compare_signed(
        dtypes.SWAPPED.get(name, name) if first_is_bits else name,
        _bits64(signed, torch.int64, device),
        _bits64(bits, torch.uint64, device),
    )


def _refuse_negative_power(power: Any) -> None:
    if not isinstance(power, Tensor) and power < 0:
        raise ArgumentError(
            f"pow: an integer to the power of {power} is not an integer; convert the array first: "
            "xp.astype(x, 'float64')"
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
    is_of_floats = torch.float32 in straight

    def operate(x: Tensor, /, **options: Any) -> Tensor:
        if not isinstance(x, Tensor):
            x = tensor_of(name, x)
        if x.dtype in straight or (is_of_floats and dtypes.is_foreign(x)):
            return compute(x, **options)
        dtype = dtypes.result(name, x.dtype)
        if name in _OWN and (name in _NOT_OF_FLOATS or not (x.is_floating_point() or x.is_complex())):
            return _OWN[name](x if dtype is torch.bool or x.dtype is not torch.bool else x.to(dtype))
        return compute(x if dtype is torch.bool else x.to(dtype), **options)

    return operate


def _goes_straight(name: str, dtype: torch.dtype) -> bool:
    if dtype not in dtypes.RESULTS[name]:
        return False
    if dtype in _COMPLEX:
        return name != "positive"
    if dtype in _FLOATS:
        return name not in _NOT_OF_FLOATS
    return name in (_OF_BOOLEANS if dtype is torch.bool else _OF_INTEGERS)
