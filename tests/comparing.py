"""Compares results of a namespace with NumPy's: dtype, shape, and bits where the table claims them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import xferlib as xl
from tools import namespace_table
from xferlib.errors import XferError

rules = namespace_table.rules
CODES = rules.CODES
DTYPES = tuple(np.dtype({"l": "q", "L": "Q"}.get(code, code)).name for code in CODES)
OF_ONE, OF_TWO, RULES = rules.OF_ONE, rules.OF_TWO, rules.RULES
TABLE = namespace_table.table()
SCALARS: tuple[Any, ...] = (True, 2, 2.0, 2j)
FORMS: dict[str, Callable[[str], Any]] = {
    "array": lambda dtype: np.array([1, 2, 3]).astype(dtype),
    "0-d": lambda dtype: np.array(2).astype(dtype),
    "scalar": lambda dtype: np.dtype(dtype).type(2),
}
NUMPYS_ERROR = 4
"""Units of the last place by which NumPy itself may be wrong."""
IN_ANOTHER_ORDER = 16
UNMEASURED = 16
UNSIGNED_ZEROS = ("maximum", "minimum", "max", "min", "nextafter")
"""Functions that return either of two equal zeros: which of them differs between NumPy's own loops."""


@contextmanager
def quiet() -> Iterator[None]:
    """Let NumPy and the libraries warn of nothing, for a block."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def outcome(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A result, or the error: to be called in a `quiet` block."""
    try:
        return function(*args, **options)
    except (TypeError, ValueError, OverflowError) as error:
        return error


def numpys(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """NumPy's result, or its error."""
    with quiet():
        return outcome(function, *args, **options)


def ours(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A namespace's result, with NumPy's arrays sent to the device, or its error."""
    return numpys(function, *(xl.to_device(x) if isinstance(x, np.ndarray) else x for x in args), **options)


def fetch(results: Sequence[Any]) -> list[Any]:
    """The results on the host, all in one transfer; errors among them as they are."""
    arrays = [each for each in results if not isinstance(each, Exception)]
    hosts = iter(xl.tree.to_host(arrays))
    return [each if isinstance(each, Exception) else next(hosts) for each in results]


def difference(entries: Any, name: str, found: Any, expected: Any, *, refuses: str = "") -> str | None:
    """The difference between a result and NumPy's; None if there is none.

    Args:
        entries: The table of the backend.
        name: The function.
        found, expected: Ours, there or on the host, and NumPy's: results or errors.
        refuses: A dtype for which the table may have a refusal.
    """
    if isinstance(found, Exception):
        is_known = isinstance(expected, Exception) or entries is None
        is_known = is_known or isinstance(entries.get(name, {}).get(refuses), str)
        is_clear = isinstance(found, (XferError, OverflowError)) or isinstance(expected, Exception)
        return None if is_known and is_clear and "\n" not in str(found) else f"{type(found).__name__}: {found}"
    host, wanted = found if isinstance(found, np.ndarray) else xl.to_host(found), np.asarray(expected)
    if isinstance(expected, Exception):
        return f"{host.dtype} instead of {expected!r}"
    if (host.dtype, host.shape) != (wanted.dtype.newbyteorder("="), wanted.shape):
        return f"{host.dtype}{host.shape} instead of {wanted.dtype}{wanted.shape}"
    entry = UNMEASURED if entries is None else _listed(entries.get(name, {}), refuses, _name(wanted.dtype))
    units = IN_ANOTHER_ORDER if entry == "n" else entry + NUMPYS_ERROR if entry else 0
    if wanted.dtype.kind not in "fc" or units == 0:
        is_same = same(host, wanted, signed_zeros=name not in UNSIGNED_ZEROS)
    else:
        limits = np.finfo(wanted.dtype)
        is_same = np.allclose(host, wanted, units * float(limits.eps), float(limits.smallest_normal), equal_nan=True)
    return None if is_same else f"{host} instead of {wanted}"


_name = functools.cache(lambda dtype: dtype.name)


def _listed(entries: Any, given: str, wanted: str) -> Any:
    """The bound of a function of one dtype with a result of another, as `abs` of complex numbers; 0: exact."""
    found = entries.get(given, 0)
    return found if found and not isinstance(found, str) else entries.get(wanted, 0)


def same(one: Any, two: Any, *, signed_zeros: bool = True) -> bool:
    """Whether two arrays have the same bits, but for the payloads of NaN, and the signs of complex zeros."""
    is_equal = np.array_equal(one, two, equal_nan=one.dtype.kind in "fc")
    if one.dtype.kind != "f" or not signed_zeros:
        return is_equal
    return is_equal and bool(np.all((np.signbit(one) == np.signbit(two)) | np.isnan(one)))


def label(x: Any) -> str:
    return f"{type(x).__name__} {x.dtype}{x.shape}" if isinstance(x, (np.ndarray, np.generic)) else repr(x)


def report(wrong: Sequence[tuple[str, str | None]]) -> None:
    bad = [f"{what}: {reason}" for what, reason in wrong if reason]
    assert not bad, f"{len(bad)} of {len(wrong)}:\n" + "\n".join(bad[:12])


def promoted(*operands: Any) -> str:
    return rules.promote(*(x.dtype if hasattr(x, "dtype") else type(x) for x in operands)).name
