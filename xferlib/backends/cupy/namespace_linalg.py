"""The linear algebra of CuPy's namespace: ``xp.linalg``."""

from __future__ import annotations

from typing import Any

import array_api_compat.cupy.linalg as compat
import cupy
from cupy import linalg as _linalg

cross, diagonal, matmul, matrix_norm, matrix_transpose = (
    compat.cross, compat.diagonal, compat.matmul, compat.matrix_norm, compat.matrix_transpose
)  # fmt: skip
outer, svdvals, tensordot, trace = compat.outer, compat.svdvals, compat.tensordot, compat.trace
vecdot, vector_norm = compat.vecdot, compat.vector_norm


def eig(a: Any, /) -> Any:
    """`cupy.linalg.eig`, whose results have names."""
    return compat.EighResult(*_linalg.eig(a))


def eigh(a: Any, UPLO: str = "L") -> Any:
    """`cupy.linalg.eigh`, whose results have names."""
    return compat.EighResult(*_linalg.eigh(a, UPLO))


def qr(a: Any, mode: str = "reduced") -> Any:
    """`cupy.linalg.qr`, whose results have names."""
    found = _linalg.qr(a, mode)
    return compat.QRResult(*found) if mode in ("reduced", "complete") else found


def slogdet(a: Any, /) -> Any:
    """`cupy.linalg.slogdet`, whose results have names."""
    return compat.SlogdetResult(*_linalg.slogdet(a))


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """`cupy.linalg.svd`, whose results have names."""
    found = _linalg.svd(a, full_matrices, compute_uv)
    return compat.SVDResult(*found) if compute_uv else found


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """`cupy.linalg.cholesky`; of the upper triangle if ``upper``."""
    found = _linalg.cholesky(a)
    return cupy.conj(matrix_transpose(found)) if upper else found


def matrix_rank(a: Any, tol: Any = None, *, rtol: Any = None) -> Any:
    """The number of singular values above a tolerance: absolute, or relative to the largest one.

    Args:
        a: Matrices.
        tol: The absolute tolerance.
        rtol: The relative one; without either, the larger extent times the dtype's epsilon.
    """
    if tol is None:
        return compat.matrix_rank(a, rtol=rtol)
    return cupy.count_nonzero(svdvals(a) > cupy.asarray(tol)[..., None], axis=-1)


def pinv(a: Any, rcond: Any = None, *, rtol: Any = None) -> Any:
    """`cupy.linalg.pinv`; ``rtol`` is another name of ``rcond``, by default the larger extent times the epsilon."""
    return compat.pinv(a, rtol=rcond if rtol is None else rtol)


_OWN = {name for name, found in globals().items() if getattr(found, "__module__", None) and not name.startswith("_")}
_THEIRS = {name for name in dir(_linalg) if not name.startswith("_") and callable(getattr(_linalg, name))}
__all__ = sorted((_OWN | _THEIRS) - {"Any"})  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """An attribute of CuPy's module."""
    return getattr(_linalg, name)


def __dir__() -> list[str]:
    return __all__
