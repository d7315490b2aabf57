"""The linear algebra of torch's namespace: ``xp.linalg``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import array_api_compat.torch.linalg as compat
import torch
from torch import Tensor

from xferlib._core import registry as namespaces
from xferlib._core.arrays import axes_of, axis_of, integer_of
from xferlib.backends.torch import elementwise
from xferlib.backends.torch import functions as creation
from xferlib.backends.torch import functions as dtypes
from xferlib.backends.torch import functions as reductions
from xferlib.backends.torch import functions as whole
from xferlib.errors import LayoutError, UnsupportedDTypeError

_matmul, _multiply = whole.product("matmul"), elementwise.binary("multiply")
_sum = reductions.total("sum")
_FLOATS = dtypes.RESULTS["mean"]


def _solver(name: str) -> Callable[..., Any]:
    """A function of matrices that computes integers in float64, as NumPy's does."""
    compute = getattr(compat, name)

    @functools.wraps(compute)
    def operate(x: Tensor, /, *args: Any, **options: Any) -> Any:
        x = creation.tensor_of(name, x)
        if name != "matrix_norm":
            _refuse_half(name, x)
        x = x.to(_FLOATS.get(x.dtype, x.dtype))
        return dtypes.checked(f"linalg.{name}", compute, x, *args, **options)

    return namespaces.named(operate, name, __name__)


def _refuse_half(name: str, *operands: Tensor) -> None:
    if any(x.dtype is torch.float16 for x in operands):
        raise UnsupportedDTypeError(
            f"linalg.{name} of float16 does not exist, in NumPy as here; convert the array first"
        )


for _name in ("matmul", "tensordot", "vecdot"):
    globals()[_name] = namespaces.named(whole.product(_name), _name, __name__)
for _name in (
    "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_rank", "pinv", "qr", "slogdet",
    "svd", "svdvals",
):  # fmt: skip
    globals()[_name] = _solver(_name)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:  # noqa: A002
    """The norms of vectors along axes; of all elements, if ``axis`` is None."""
    x = creation.tensor_of("linalg.vector_norm", x)
    x = x.to(_FLOATS.get(x.dtype, x.dtype))
    if axis is not None:
        axis = axes_of("linalg.vector_norm", axis, x.dim())
    if axis == ():  # each element by itself, which compat refuses of one without axes
        axis, x, keepdims = (-1,), x.unsqueeze(-1), False
    if ord == math.inf and not x.numel():
        ord = 0  # noqa: A001 - the number of elements that are not 0, which is 0 as well
    options = {"axis": axis, "keepdims": keepdims, "ord": ord}
    found: Tensor = dtypes.checked("linalg.vector_norm", compat.vector_norm, x, **options)
    return found


_matrix_norm = _solver("matrix_norm")


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:  # noqa: A002
    """The norms of matrices, over the last two axes."""
    x = creation.tensor_of("linalg.matrix_norm", x)
    found: Tensor
    if not x.numel() and x.dim() > 1 and ord in (1, 2, math.inf):  # of which torch refuses some
        found = vector_norm(x, axis=(-2, -1), keepdims=keepdims, ord=math.inf)
    else:
        found = _matrix_norm(x, keepdims=keepdims, ord=ord)
    return found


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of three elements."""
    wanted = dtypes.result("subtract", dtypes.kind_of("cross", x1), dtypes.kind_of("cross", x2))
    lines = []
    for x in (x1, x2):
        place = axis_of("linalg.cross", axis, x.dim())
        if x.shape[place] != 3:
            raise LayoutError(f"linalg.cross: axis {axis} of shape {tuple(x.shape)} has not 3 elements; choose another")
        lines.append(torch.movedim(whole.bits64(x, wanted), place, -1))
    dtypes.shape_together("linalg.cross", *(x.shape for x in lines))
    found = torch.movedim(torch.linalg.cross(*torch.broadcast_tensors(*lines)), -1, axis)
    return found.view(wanted) if wanted is torch.uint64 else found.to(wanted)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Views of the diagonals of matrices."""
    return torch.diagonal(_matrices("diagonal", x), offset, -2, -1)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """A square matrix multiplied with itself; its inverse, if ``n`` is negative."""
    power = integer_of(n, what="linalg.matrix_power: n")
    if power < 0:
        return matrix_power(globals()["inv"](x), -power)
    compute = functools.partial(dtypes.checked, "linalg.matrix_power", torch.linalg.matrix_power)
    found: Tensor
    if x.is_floating_point() or x.is_complex():
        found = compute(x, power)
    elif power == 0:
        found = compute(x.to(torch.float64), 0).to(x.dtype)
    elif power == 1:
        compute(torch.empty(x.shape, device="meta"), 1)  # checks the shape
        found = x.clone()
    else:
        half = matrix_power(x, power >> 1)
        found = _matmul(half, half)
        found = _matmul(found, x) if power & 1 else found
    return found


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view with the last two axes exchanged."""
    return _matrices("matrix_transpose", x).transpose(-1, -2)


def _matrices(name: str, x: Tensor) -> Tensor:
    x = creation.tensor_of(name, x)
    if x.dim() < 2:
        raise LayoutError(f"{name}: an array of shape {tuple(x.shape)} is no matrix; reshape it to two axes or more")
    return x


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of every element of a vector with every element of another.

    Raises:
        LayoutError: An operand has not one axis.
    """
    if x1.dim() != 1 or x2.dim() != 1:
        raise LayoutError(f"outer: {x1.dim()} and {x2.dim()} axes instead of one each; give x1[:, None] * x2 instead")
    return _multiply(x1.reshape(-1, 1), x2)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of ``x1 @ x == x2``."""
    _refuse_half("solve", x1, x2)
    wanted = dtypes.promoted(*(_FLOATS.get(each.dtype, each.dtype) for each in (x1, x2)))
    found: Tensor = dtypes.checked("linalg.solve", compat.solve, x1.to(wanted), x2.to(wanted))
    return found


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal."""
    return _sum(torch.diagonal(_matrices("trace", x), offset, -2, -1), axis=-1, dtype=dtype)


def __getattr__(name: str) -> Any:
    """An attribute of array-api-compat's module, which has torch's."""
    return getattr(compat, name)


def __dir__() -> list[str]:
    return sorted(dtypes.names_of(compat))
