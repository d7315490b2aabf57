"""The linear algebra of torch's namespace: ``xp.linalg``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import array_api_compat.torch.linalg as compat
import torch
from torch import Tensor

from xferlib.backends.torch import namespace_creation as creation
from xferlib.backends.torch import namespace_dtypes as dtypes
from xferlib.backends.torch import namespace_elementwise as elementwise
from xferlib.backends.torch import namespace_reductions as reductions
from xferlib.backends.torch import namespace_whole as whole
from xferlib.errors import LayoutError

_multiply = elementwise.binary("multiply")
_sum = reductions.total("sum")
_FLOATS = dtypes.RESULTS["mean"]


def _solver(name: str) -> Callable[..., Any]:
    """A function of matrices that computes integers in float64, as NumPy's does."""
    compute = getattr(compat, name)

    @functools.wraps(compute)
    def operate(x: Tensor, /, *args: Any, **options: Any) -> Any:
        return compute(x.to(_FLOATS.get(x.dtype, x.dtype)), *args, **options)

    return creation.named(operate, name, __name__)


for _name in ("matmul", "tensordot", "vecdot"):
    globals()[_name] = creation.named(whole.product(_name), _name, __name__)
for _name in ("diagonal", "matrix_transpose"):
    globals()[_name] = creation.moving(_name, compat, __name__)
for _name in (
    "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_norm", "matrix_rank", "pinv", "qr",
    "slogdet", "svd", "svdvals", "vector_norm",
):  # fmt: skip
    globals()[_name] = _solver(_name)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of three elements."""
    wanted = dtypes.result("subtract", dtypes.kind_of("cross", x1), dtypes.kind_of("cross", x2))
    found: Tensor = compat.cross(*(whole.bits64(each, wanted) for each in (x1, x2)), axis=axis)
    return found.view(wanted) if wanted is torch.uint64 else found.to(wanted)


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
    wanted = dtypes.promoted(*(_FLOATS.get(each.dtype, each.dtype) for each in (x1, x2)))
    found: Tensor = compat.solve(x1.to(wanted), x2.to(wanted))
    return found


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal."""
    return _sum(torch.diagonal(x, offset, -2, -1), axis=-1, dtype=dtype)


def __getattr__(name: str) -> Any:
    """An attribute of array-api-compat's module, which has torch's."""
    return getattr(compat, name)


def __dir__() -> list[str]:
    return sorted(dtypes.names_of(compat))
