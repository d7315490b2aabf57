"""The extensions of torch's namespace: NumPy's dtypes and shapes, and its values within rounding."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import xferlib as xl  # noqa: E402
from tests.comparing import DTYPES, numpys, report  # noqa: E402
from xferlib.errors import LayoutError, UnsupportedDTypeError  # noqa: E402

xp: Any = xl.get_array_module(torch.ones(1))
SQUARE = np.array([[4, 1], [1, 3]])
TOLERANCE = {"float16": 4e-3, "complex64": 1e-5, "float32": 1e-5}
"""Relative, some hundred units of the last place: libraries decompose in different orders."""


def _wrong(call: str, found: Any, expected: Any) -> tuple[str, str | None]:
    """A call, and the difference from NumPy's result."""
    if isinstance(expected, Exception) or isinstance(found, Exception):
        is_same = isinstance(expected, Exception) and isinstance(found, Exception)
        return call, None if is_same else f"{found!r} instead of {expected!r}"
    parts = [(found, expected)]
    if isinstance(expected, tuple):
        parts = list(zip(found, expected, strict=True))
    for one, two in parts:
        host, wanted = xl.to_host(one), np.asarray(two)
        if (host.dtype, host.shape) != (wanted.dtype, wanted.shape):
            return call, f"{host.dtype}{host.shape} instead of {wanted.dtype}{wanted.shape}"
        if not np.allclose(np.abs(host), np.abs(wanted), TOLERANCE.get(wanted.dtype.name, 1e-10), 1e-3):
            return call, f"{host} instead of {wanted}"
    return call, None


SOLVERS = (
    "cholesky", "det", "eigvalsh", "inv", "matrix_norm", "matrix_rank", "pinv", "slogdet", "svdvals", "vector_norm",
)  # fmt: skip


@pytest.mark.parametrize("name", [*SOLVERS, "trace", "diagonal", "matrix_transpose"])
def test_functions_of_a_matrix(name: str) -> None:
    wrong = []
    for dtype in set(DTYPES) - {"bool", "float16"}:  # singular; NumPy refuses it
        x = SQUARE.astype(dtype)
        found, expected = (numpys(getattr(each.linalg, name), a) for each, a in ((xp, torch.from_numpy(x)), (np, x)))
        wrong.append(_wrong(f"{name}({dtype})", found, expected))
    report(wrong)


@pytest.mark.parametrize("name", ["outer", "cross", "solve", "matmul", "tensordot", "vecdot"])
def test_functions_of_two_arrays(name: str) -> None:
    wrong = []
    for one in DTYPES:
        for two in DTYPES:
            if name == "solve":
                first, second = SQUARE.astype(one), SQUARE.astype(two)
            else:
                first, second = np.array([1, 2, 3]).astype(one), np.array([3, 1, 2]).astype(two)
            if name == "tensordot":
                first, second = first.reshape(3, 1), second.reshape(1, 3)
            options = {"axes": 1} if name == "tensordot" else {}
            if name == "solve" and ({"bool", "float16"} & {one, two}):
                continue
            found = numpys(getattr(xp.linalg, name), torch.from_numpy(first), torch.from_numpy(second), **options)
            expected = numpys(getattr(np.linalg, name), first, second, **options)
            wrong.append(_wrong(f"{name}({one}, {two})", found, expected))
    report(wrong)


OF_REAL = ("rfft", "rfftn", "ihfft")
TRANSFORMS = ("fft", "ifft", "irfft", "fftn", "ifftn", "irfftn", "hfft", "fftshift", "ifftshift", *OF_REAL)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    wrong = []
    for dtype in DTYPES[:-2] if name in OF_REAL else DTYPES:
        x = np.array([3, 1, 2, 0, 5]).astype(dtype)
        found, expected = (numpys(getattr(each.fft, name), a) for each, a in ((xp, torch.from_numpy(x)), (np, x)))
        wrong.append(_wrong(f"{name}({dtype})", found, expected))
    report(wrong)


def test_frequencies_are_float64_unless_another_dtype_is_asked_for() -> None:
    for name in ("fftfreq", "rfftfreq"):
        found, expected = getattr(xp.fft, name)(5, d=0.5), getattr(np.fft, name)(5, d=0.5)
        np.testing.assert_array_equal(found.cpu().numpy(), expected, strict=True)
        assert getattr(xp.fft, name)(5, dtype="float32").dtype == torch.float32


def test_other_names_are_array_api_compats_and_torchs() -> None:
    assert xp.linalg.norm is torch.linalg.norm
    assert xp.fft.fft2 is torch.fft.fft2
    assert {"inv", "outer"} <= set(dir(xp.linalg))
    assert {"fft", "fftfreq"} <= set(dir(xp.fft))
    for function in (xp.linalg.inv, xp.linalg.matmul, xp.fft.fft, xp.fft.fftshift):
        assert pickle.loads(pickle.dumps(function)) is function


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(LayoutError, match=r"outer: 2 and 1 axes instead of one each; give x1\[:, None\] \* x2"):
        xp.linalg.outer(torch.ones(2, 2), torch.ones(2))
    with pytest.raises(UnsupportedDTypeError, match="subtract of bool and bool does not exist"):
        xp.linalg.cross(torch.ones(3, dtype=torch.bool), torch.ones(3, dtype=torch.bool))
