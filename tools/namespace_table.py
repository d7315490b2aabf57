"""How far each namespace's functions are from the true values: measure it, into `tools/namespace_table.json`.

    python tools/namespace_table.py torch [cpu | cuda]     measure a backend here, and replace its part of the table

The table has, for each backend and kind of device, the functions and dtypes whose results are not NumPy's bits: a bound
in units of the last place of the true value, ``n`` where sums go in another order, or the sentence with which the call
is refused. What it does not list is exact. A bound is the largest error that was seen, rounded up, and one more: over
all numbers of float16, and over random ones of the other dtypes. Complex errors are in units of the absolute value.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import xferlib as xl  # noqa: E402 - from this tree, installed or not
from xferlib._core import dtypes as promotion  # noqa: E402
from xferlib._core.dtypes import DTYPES  # noqa: E402
from xferlib.errors import XferError  # noqa: E402

rules = promotion
"""The table of promotion, of whose functions this is measured."""
PATH = ROOT / "tools" / "namespace_table.json"
COUNT = 20_000
FLOATS = ("float16", "float32", "float64", "complex64", "complex128")
WIDER = {"float16": "float64", "float32": "float64", "complex64": "complex128"}
IN_ANY_ORDER = (
    "sum", "prod", "cumulative_sum", "cumulative_prod", "mean", "std", "var", *promotion.PRODUCTS,
)  # fmt: skip
ROUNDED = (
    "pow", "atan2", "hypot", "logaddexp", "sqrt", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh",
    "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh",
)  # fmt: skip
"""Functions whose last bits depend on the processor: never called exact."""
JOINTLY = {**promotion.OVER_AXES, **promotion.PRODUCTS}


Table = dict[str, dict[str, dict[str, int | str]]]
"""Backend and kind of device, function, dtype: the bound or the refusal."""


def table() -> Table:
    """The table as it was measured last."""
    found: Table = json.loads(PATH.read_text())
    return found


def domain(name: str, x: Any) -> Any:
    """Numbers of which a function has a finite value."""
    if x.dtype.kind == "c":
        return x
    if name in ("acos", "asin", "atanh"):
        return (x / (1 + np.abs(x))).astype(x.dtype)
    if name in ("acosh", "log", "log2", "log10", "sqrt"):
        return (np.abs(x) + (name == "acosh")).astype(x.dtype)
    return np.abs(x) if name in ("log1p", "logaddexp") else x


def samples(dtype: str, seed: int, count: int = COUNT) -> Any:
    """Numbers of many sizes: each of float16."""
    random = np.random.default_rng(seed)
    if dtype == "float16" and count == COUNT:
        every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
        return random.permutation(every[np.isfinite(every)])
    size = random.standard_normal(count) * np.exp2(random.integers(-8, 4, count))
    if dtype.startswith("complex"):
        size = size + 1j * random.standard_normal(count) * np.exp2(random.integers(-8, 4, count))
    return size.astype(dtype)


def operands(name: str, dtype: str, seed: int, count: int = COUNT) -> tuple[Any, ...]:
    """Arguments for a function."""
    first = domain(name, samples(dtype, seed, count))
    if name not in promotion.OF_TWO:
        return (first,)
    if name == "pow" and not dtype.startswith("complex"):
        first = np.abs(first)
    second = domain(name, samples(dtype, seed + 1, count))
    if name == "pow":
        second[: len(second) // 4] = np.arange(len(second) // 4) % 5  # for which there are other ways
    return (first, second)


def error(name: str, found: Any, given: tuple[Any, ...]) -> float:
    """The largest distance from the true values, in units of their last place."""
    wide = WIDER.get(given[0].dtype.name, "longdouble" if given[0].dtype.kind == "f" else "clongdouble")
    with np.errstate(all="ignore"):
        true = getattr(np, name)(*(each.astype(wide) for each in given))
        size = np.abs(true).astype(np.abs(found).dtype)
        is_counted = np.isfinite(size) & (size >= np.finfo(size.dtype).smallest_normal)
        distance = np.abs(found.astype(true.dtype) - true)[is_counted] / np.spacing(size[is_counted])
    return float(distance.max()) if distance.size else 0.0


def bound(xp: Any, name: str, dtype: str, device: str, seed: int = 1, count: int = COUNT) -> int | str | None:
    """The table's entry for a function and a dtype; None where the bits are NumPy's."""
    given = operands(name, dtype, seed, count)
    expected = numpys(name, *given)
    if expected is None:
        return None
    try:
        found = xl.to_host(getattr(xp, name)(*(xl.to_device(each, device=device) for each in given)))
    except XferError as refusal:
        return str(refusal)
    is_same = np.array_equal(found, expected, equal_nan=found.dtype.kind in "fc")
    if found.dtype.kind not in "fc" or (is_same and name not in ROUNDED):
        return None
    return math.ceil(error(name, found, given)) + 1


def numpys(name: str, *given: Any, **options: Any) -> Any:
    """NumPy's result; None where it refuses."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return getattr(np, name)(*given, **options)
        except TypeError:
            return None


def whole(xp: Any, name: str, dtype: str, device: str) -> str | None:
    """The entry of a function over axes, which is exact unless it rounds."""
    x = np.ones((3, 3), dtype)
    options = {"axis": 0} if name.startswith("cumulative") else {}
    given = (x, x) if name in promotion.PRODUCTS else (x,)
    if numpys(name, *given, **options) is None:
        return None
    try:
        getattr(xp, name)(*(xl.to_device(each, device=device) for each in given), **options)
    except XferError as refusal:
        return str(refusal)
    rounds = promotion.result(name, *[np.dtype(dtype)] * len(given)).kind in "fc"
    return "n" if name in IN_ANY_ORDER and rounds else None


Entry = int | str | None


def entry(xp: Any, name: str, dtype: str, device: str, **drawn: int) -> Entry:
    """The table's entry for a function and a dtype; None where the bits are NumPy's, or NumPy refuses too."""
    if name in JOINTLY:
        return whole(xp, name, dtype, device)
    return bound(xp, name, dtype, device, **drawn) if dtype in FLOATS else None


def measured(backend: str, device: str) -> dict[str, dict[str, int | str]]:
    """A backend's part of the table."""
    found: dict[str, dict[str, int | str]] = {}
    with xl.use_backend(backend):
        xp: Any = xl.get_array_module(xl.to_device(np.ones(1), device=device))
        for name in promotion.RULES:
            entries = {dtype: entry(xp, name, dtype, device) for dtype in DTYPES}
            listed = {dtype: each for dtype, each in entries.items() if each is not None}
            if listed:
                found[name] = listed
    return found


def main(arguments: list[str]) -> int:
    """Measure one backend."""
    if not arguments:
        print(__doc__)
        return 2
    backend, kind = arguments[0], (arguments[1:] or ["cpu" if arguments[0] in ("torch", "numpy") else "cuda"])[0]
    warnings.simplefilter("ignore")
    before = table() if PATH.exists() else {}
    device = {"sim": "sim:0"}.get(backend, "cpu" if kind == "cpu" else "cuda:0")
    before["sim" if backend == "sim" else f"{backend}, {kind.upper()}"] = measured(backend, device)
    PATH.write_text(json.dumps(dict(sorted(before.items())), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
