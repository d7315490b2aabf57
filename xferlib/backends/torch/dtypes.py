"""Dtypes of torch's namespace: by any name, promoted by xferlib's one table, and those that torch hardly computes with.

Torch has next to no arithmetic of unsigned integers of 16 bits and more. They are moved as the signed integers of their
bits, and computed with in a wider dtype; those of 64 bits by the functions at the end of this file.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat.torch as compat
import numpy as np
import torch
from torch import Tensor

from xferlib._core import dtypes as rules
from xferlib._core.arrays import check_dtype
from xferlib.backends.torch.tensors import OF_NUMPY, TO_TORCH
from xferlib.errors import (
    ArgumentError,
    LayoutError,
    MixedBackendsError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    XferError,
    quote,
)

FROM_TORCH = {theirs: dtype for dtype, theirs in OF_NUMPY.items()}
SCALARS = (bool, int, float, complex)

WIDE: dict[torch.dtype, torch.dtype] = {torch.uint16: torch.int32, torch.uint32: torch.int64}
"""The unsigned dtypes with which torch hardly computes, and those that hold their values."""
SIGNED: dict[torch.dtype, torch.dtype] = {
    torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64,
}  # fmt: skip
"""The dtypes of the same width, through which torch moves them."""

_BY_NAME: dict[str, torch.dtype] = {dtype.name: theirs for dtype, theirs in OF_NUMPY.items()}
"""Apart from `_NAMED`, into which torch.compile of torch 2.11 cannot look: NumPy's dtypes are among its keys."""
_NAMED: dict[Any, torch.dtype] = {}
for _dtype, _theirs in OF_NUMPY.items():
    _NAMED.update(dict.fromkeys((_theirs, _dtype, _dtype.name, _dtype.type, _dtype.char, _dtype.str), _theirs))
_NAMED.update({bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128})

RANGES: dict[torch.dtype, tuple[int, int]] = {
    theirs: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    for dtype, theirs in OF_NUMPY.items()
    if dtype.kind in "iu"
}
"""The least and the greatest number of each integer dtype."""

# The table of promotion in torch's dtypes, without a call of NumPy, which torch.compile would replace.
_PAIRS: dict[tuple[Any, Any], torch.dtype] = {
    (one, two): TO_TORCH[rules.promote(FROM_TORCH.get(one, one), FROM_TORCH.get(two, two))]
    for one in (*FROM_TORCH, *SCALARS)
    for two in (*FROM_TORCH, *SCALARS)
}
_HEIGHTS = {theirs: "cfiub".index(dtype.kind) for theirs, dtype in FROM_TORCH.items()}
_BY_CODE = dict(zip(rules.CODES, FROM_TORCH, strict=True))
RESULTS: dict[str, dict[torch.dtype, torch.dtype]] = {
    name: {_BY_CODE[given]: _BY_CODE[code] for given, code in zip(rules.CODES, rule, strict=True) if code != "-"}
    for name, rule in rules.RULES.items()
}
"""The result's dtype of each function, by the dtype of its operand or that of both together."""


def promote_types(*kinds: Any) -> torch.dtype:
    """The dtype of tensors and Python scalars together, from what `kind_of` gives for each."""
    if any(each not in FROM_TORCH and each not in SCALARS for each in kinds):
        return _promote_foreign(kinds)
    # The highest kind first: beside complex64, int16 and uint16 do not become int32, which would need complex128.
    arrays = sorted([each for each in kinds if each not in SCALARS], key=_HEIGHTS.__getitem__)
    found, *rest = (*arrays, *[each for each in kinds if each in SCALARS])
    for each in rest:
        found = _PAIRS[found, each]
    return found if found not in SCALARS else _PAIRS[found, found]


def _promote_foreign(kinds: tuple[Any, ...]) -> torch.dtype:
    """The dtype of tensors together, one of which has a floating dtype of torch's own: by torch's rules.

    A Python complex makes it complex, and no other number changes it.

    Raises:
        UnsupportedDTypeError: Torch promotes none to it, as float8.
    """
    tensors = [each for each in kinds if each not in SCALARS]
    try:
        found: torch.dtype = functools.reduce(torch.promote_types, tensors)
    except RuntimeError:
        listed = " and ".join(str(each).removeprefix("torch.") for each in tensors)
        raise UnsupportedDTypeError(
            f"torch has no dtype for {listed} together; convert one of them first: xp.astype(x, xp.float32)"
        ) from None
    return torch.promote_types(found, torch.complex64) if complex in kinds else found


def result(name: str, *kinds: Any) -> torch.dtype:
    """The dtype of a function's result.

    Raises:
        UnsupportedDTypeError: NumPy has no such function of these.
    """
    results = RESULTS[name]
    if name in rules.PAIRED_BY_WIDTH and kinds[0] in results and kinds[1] in results:
        return _PAIRS[results[kinds[0]], results[kinds[1]]]
    common = promote_types(*kinds)
    if common not in FROM_TORCH:  # a floating dtype of torch's own, of which a function makes what it makes of float32
        if torch.float32 not in results:
            rules.result(name, *(each if each in SCALARS else check_dtype(each) for each in kinds))  # raises
        own = results[torch.float32]
        return common if own is torch.float32 else own
    if common not in results:
        rules.result(name, *(FROM_TORCH.get(each, each) for each in kinds))  # raises
    return results[common]


def torch_dtype(dtype: Any) -> torch.dtype | None:
    """Torch's dtype of a name, a dtype of NumPy's or torch's, or a Python type; None of None.

    Raises:
        UnsupportedDTypeError: No such dtype.
    """
    if dtype is None:
        return None
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    try:
        return _NAMED[dtype]
    except Exception:  # none of ours; a stranger's object may raise anything when it is asked for its hash
        if isinstance(dtype, torch.dtype):
            return dtype  # one of torch's own, such as bfloat16
        return TO_TORCH[check_dtype(dtype, what="dtype")]


def names_of(module: Any) -> set[str]:
    """The public names of a module of array-api-compat, not all of whose versions list them."""
    return {each for each in getattr(module, "__all__", None) or dir(module) if not each.startswith("_")}


def is_foreign(x: Any) -> bool:
    """Whether a tensor has one of torch's own dtypes, such as bfloat16, for which torch's rules stand."""
    return isinstance(x, Tensor) and x.dtype not in FROM_TORCH


def kind_of(name: str, x: Any) -> Any:
    """An operand as the tables of promotion list it: a dtype, or the type of a Python scalar.

    Raises:
        MixedBackendsError: An array of NumPy's.
        UnsupportedArrayError: Anything else.
    """
    if isinstance(x, Tensor):
        return x.dtype
    if isinstance(x, np.generic):
        return TO_TORCH[check_dtype(x.dtype, what=f"{name}: a number")]
    for kind in SCALARS:  # bool before int
        if isinstance(x, kind):
            return kind
    if isinstance(x, torch.SymInt):
        return int
    if isinstance(x, np.ndarray):
        raise MixedBackendsError(
            f"{name}: a NumPy array meets a tensor; move it to the tensor's device: xp.asarray(a, device=x.device)"
        )
    raise UnsupportedArrayError(
        f"{name}: {type(x).__name__} is neither a tensor nor a number; xp.asarray(x) makes a tensor of it"
    )


def device_of(name: str, *operands: Any) -> torch.device:
    """The device of the first tensor that has axes; else of the first tensor.

    Raises:
        UnsupportedArrayError: There is none.
    """
    tensors = [each for each in operands if isinstance(each, Tensor)]
    if not tensors:
        raise UnsupportedArrayError(f"{name}: no argument is a tensor; make one with xp.asarray(x)")
    return next((each.device for each in tensors if each.dim()), tensors[0].device)


def shape_together(name: str, *shapes: tuple[int, ...], is_first: bool = False) -> tuple[int, ...]:
    """The shape to which operands of function ``name`` broadcast.

    Args:
        name: The function.
        shapes: The shapes.
        is_first: Whether it must be the first one's.

    Raises:
        LayoutError: There is none.
    """
    try:
        found = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        found = None
    if found is None or (is_first and found != shapes[0]):
        listed = " and ".join([str(tuple(each)) for each in shapes])
        raise LayoutError(f"{name}: shapes {listed} do not broadcast; reshape one of them")
    return found


def check_call(name: str, compute: Any, *args: Any, **options: Any) -> Any:
    """The result of ``compute``; its failure is a LayoutError if the call fails for tensors of these shapes at all.

    Torch has one error for shapes, memory and devices. The call is tried again on its device without memory.
    """
    try:
        return compute(*args, **options)
    except (NotImplementedError, XferError):
        raise
    except (RuntimeError, IndexError, ValueError) as error:
        said = str(error).partition("\n")[0]
        try:
            compute(*[torch.empty(x.shape, device="meta") if isinstance(x, Tensor) else x for x in args], **options)
        except Exception:  # there torch asserts, too
            listed = " and ".join([str(tuple(each.shape)) for each in args if isinstance(each, Tensor)])
            raise LayoutError(f"{name} of {listed}: {said}; reshape the array, or choose other axes") from None
        raise


def fits(value: int, dtype: torch.dtype) -> bool:
    """Whether an integer dtype holds a Python integer."""
    least, most = RANGES[dtype]
    return least <= value <= most


def check_fits(value: int, dtype: torch.dtype) -> None:
    """Refuse a Python integer that an integer dtype cannot hold, as NumPy does.

    Raises:
        OverflowError: It cannot.
    """
    if not fits(value, dtype):
        wider = next((name for name in ("int64", "uint64") if fits(value, getattr(torch, name))), "float64")
        raise OverflowError(
            f"the integer {quote(value)} does not fit into {FROM_TORCH[dtype].name}; convert the array first: "
            f"xp.astype(x, {wider!r})"
        )


def as_tensor(x: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor, or a number as a tensor without axes, of a dtype."""
    if isinstance(x, Tensor):
        return x if x.dtype is dtype else x.to(dtype)
    if isinstance(x, np.generic):
        x = x.item()
    if dtype is torch.bool:
        x = bool(x)
    if isinstance(x, int) and dtype is torch.uint64:
        return torch.full((), wrap_uint64(x), dtype=torch.int64, device=device).view(dtype)
    if isinstance(x, int) and (dtype.is_floating_point or dtype.is_complex):
        x = float(x)
    if dtype in _MOST:
        limits = _MOST[dtype]
        x = (
            complex(_limit_number(x.real, *limits), _limit_number(x.imag, *limits))
            if dtype.is_complex
            else _limit_number(x, *limits)
        )
    return torch.full((), x, dtype=dtype, device=device)


_MOST = {
    torch.float16: (65504.0, 65520.0),
    **dict.fromkeys((torch.float32, torch.complex64), (3.4028234663852886e38, 3.4028235677973366e38)),
}
"""The largest number, and half-way from there to the next power of two, from where on numbers are infinite."""


def _limit_number(x: float, most: float, tie: float) -> float:
    """A number that torch converts: it refuses what is infinite in the dtype, or rounds to the largest number."""
    return x if not abs(x) > most else math.copysign(most if abs(x) < tie else math.inf, x)


def wrap_uint64(value: int) -> int:
    """The number of int64 that has the bits of one of uint64."""
    return value - (1 << 64) if value >= 1 << 63 else value


def result_type(*arrays_and_dtypes: Any) -> torch.dtype:
    """The dtype of an operation on arrays, dtypes and numbers, as NumPy promotes them.

    Raises:
        ArgumentError: No argument.
    """
    if not arrays_and_dtypes:
        raise ArgumentError("result_type: no argument; give arrays or dtypes, as result_type(x, 'float32')")
    given = [each.dtype if isinstance(each, Tensor) else each for each in arrays_and_dtypes]
    return promote_types(*map(_kind, given))


def _kind(x: Any) -> Any:
    if isinstance(x, (np.generic, *SCALARS)):
        return kind_of("result_type", x)
    return x if isinstance(x, torch.dtype) else TO_TORCH[check_dtype(x, what="result_type: an argument")]


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype, or a tensor's, becomes another one without loss."""
    start = from_.dtype if isinstance(from_, Tensor) else torch_dtype(from_)
    end = torch_dtype(to)
    if start not in FROM_TORCH or end not in FROM_TORCH:
        return bool(compat.can_cast(start, end))
    return bool(np.can_cast(FROM_TORCH[start], FROM_TORCH[end]))


_KINDS = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, or of one of several; kinds by the standard's names, or dtypes."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    for each in kinds:
        if isinstance(each, str) and each not in _KINDS and each not in _BY_NAME:
            raise ArgumentError(f"isdtype: {quote(each)} is not a kind; give one of {', '.join(_KINDS)}, or a dtype")
    plain = tuple(each if isinstance(each, str) and each in _KINDS else torch_dtype(each) for each in kinds)
    return bool(compat.isdtype(torch_dtype(dtype), plain))


class IntegerLimits(NamedTuple):
    """The result of `iinfo`."""

    bits: int
    max: int
    min: int
    dtype: torch.dtype


def finfo(type: Any, /) -> rules.FloatLimits:  # noqa: A002 - the Array API's name
    """Limits of a floating dtype, or of a tensor's."""
    found: Any = torch.finfo(_dtype_of(type))
    return rules.FloatLimits(
        found.bits, found.eps, found.max, found.min, found.smallest_normal, getattr(torch, found.dtype)
    )


def iinfo(type: Any, /) -> IntegerLimits:  # noqa: A002 - the Array API's name
    """Limits of an integer dtype, or of a tensor's."""
    dtype = _dtype_of(type)
    found: Any = torch.iinfo(dtype)
    return IntegerLimits(found.bits, found.max, found.min, dtype)


def _dtype_of(x: Any) -> torch.dtype:
    found = x.dtype if isinstance(x, Tensor) else torch_dtype(x)
    assert found is not None
    return found


def refuse_complex(name: str, dtype: torch.dtype) -> None:
    """Refuse to order complex numbers, which NumPy alone does.

    Raises:
        UnsupportedDTypeError: ``dtype`` is complex.
    """
    if dtype.is_complex:
        raise UnsupportedDTypeError(
            f"{name}: torch does not order complex numbers ({str(dtype).rpartition('.')[2]}); give xp.real(x), "
            "xp.imag(x) or xp.abs(x)"
        )


def view_movable(x: Tensor) -> Tensor:
    """A tensor that torch moves on every device: unsigned integers by their bits."""
    return x.view(SIGNED[x.dtype]) if x.dtype in SIGNED else x


def back(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor that was `moved`, in its own dtype."""
    return x.view(dtype) if dtype in SIGNED else x


def to_ordered(x: Tensor) -> Tensor:
    """Unsigned integers as numbers of the same order that torch compares; any other tensor as it is."""
    if x.dtype is torch.uint64:
        return flip_sign_bit(x.view(torch.int64))
    return x.to(WIDE[x.dtype]) if x.dtype in WIDE else x


def from_ordered(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers of `to_ordered` in their own dtype."""
    return flip_sign_bit(x).view(dtype) if dtype is torch.uint64 else x.to(dtype)


def bits64(x: Tensor, wanted: torch.dtype) -> Tensor:
    """A tensor converted, and then in int64 if torch does not compute with the dtype."""
    x = x.to(wanted)
    if wanted is torch.uint64:
        return x.view(torch.int64)
    return x.to(torch.int64) if wanted in SIGNED or wanted is torch.bool else x


# Arithmetic of uint64, which torch has not, with the bits in int64.
#
# Sums, products and bits are the same in both. Order is that of the signed numbers once the highest bit is changed.
# Every function takes tensors of int64 that hold the bits, and returns what NumPy's function of uint64 returns.

_TOP = -(1 << 63)
_REST = (1 << 63) - 1


def flip_sign_bit(x: Tensor) -> Tensor:
    """The bits of uint64 as int64 of the same order, and back."""
    return torch.bitwise_xor(x, _TOP)


def _compare_unsigned(compare: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: compare(flip_sign_bit(a), flip_sign_bit(b))


def _extreme(choose: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: flip_sign_bit(choose(flip_sign_bit(a), flip_sign_bit(b)))


def _half(x: Tensor) -> Tensor:
    """Half of the number, which fits into int64."""
    return torch.bitwise_and(torch.bitwise_right_shift(x, 1), _REST)


def _divide_integers(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient and remainder; both are 0 where the divisor is.

    Twice the quotient of half the dividend is at most one too small. A divisor from 2**63 goes into any number at most
    once.
    """
    is_big = b < 0
    divisor = torch.where(is_big | (b == 0), 1, b)
    first = torch.bitwise_left_shift(torch.floor_divide(_half(a), divisor), 1)
    rest = a - first * divisor
    more = flip_sign_bit(rest) >= flip_sign_bit(divisor)
    once = flip_sign_bit(a) >= flip_sign_bit(b)
    quotient = torch.where(is_big, once.to(torch.int64), first + more.to(torch.int64))
    quotient = torch.where(b == 0, 0, quotient)
    return quotient, torch.where(b == 0, 0, a - quotient * b)


def _power(a: Tensor, b: Tensor) -> Tensor:
    """The square of the power to half the exponent: torch takes an exponent from 2**63 for a negative one."""
    root = torch.pow(a, _half(b))
    return root * root * torch.where(torch.bitwise_and(b, 1) == 1, a, 1)


def _is_all(count: Tensor) -> Tensor:
    """Where a shift moves every bit out."""
    return (count < 0) | (count >= 64)


def _right(a: Tensor, count: Tensor) -> Tensor:
    moved = torch.bitwise_right_shift(_half(a), torch.clamp(count - 1, 0, 63))
    return torch.where(count == 0, a, torch.where(_is_all(count), 0, moved))


def _shift_left(a: Tensor, count: Tensor) -> Tensor:
    moved = torch.bitwise_left_shift(a, torch.clamp(count, 0, 63))
    return torch.where(_is_all(count), 0, moved)


COMPUTED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add, "subtract": torch.subtract, "multiply": torch.multiply, "pow": _power,
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor,
    "bitwise_left_shift": _shift_left, "bitwise_right_shift": _right,
    "maximum": _extreme(torch.maximum), "minimum": _extreme(torch.minimum),
    "floor_divide": lambda a, b: _divide_integers(a, b)[0], "remainder": lambda a, b: _divide_integers(a, b)[1],
}  # fmt: skip
"""Functions whose result is the bits of uint64."""

COMPARED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "equal": torch.eq, "not_equal": torch.ne, "less": _compare_unsigned(torch.lt),
    "less_equal": _compare_unsigned(torch.le),
    "greater": _compare_unsigned(torch.gt), "greater_equal": _compare_unsigned(torch.ge),
}  # fmt: skip
"""Comparisons."""

SWAPPED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
"""The comparison of the operands in the other order; equality is its own."""


def compare_signed(name: str, signed: Tensor, bits: Tensor) -> Tensor:
    """Compare numbers of int64 with those of uint64, exactly, as NumPy does."""
    if name in ("equal", "not_equal"):
        is_equal = (signed >= 0) & (signed == bits)
        return is_equal if name == "equal" else ~is_equal
    found = COMPARED[name](torch.clamp(signed, min=0), bits)
    return found | (signed < 0) if name.startswith("less") else found & (signed >= 0)
