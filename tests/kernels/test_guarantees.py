"""The table of guarantees: complete, published, and honest about what is identical."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from xferlib.kernels.functions import ALIASES, CALLS, TABLE, find, guarantee

ROOT = Path(__file__).parent.parent.parent


def _tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_page_has_the_table():
    page = (ROOT / "docs" / "reference" / "kernels.md").read_text(encoding="utf-8")
    assert _tool("kernel_table").updated(page) == page, "run python tools/kernel_table.py"


def test_every_array_api_function_is_there():
    names = [
        "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
        "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil",
        "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide",
        "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal",
        "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
        "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "positive",
        "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
        "subtract", "tan", "tanh", "trunc",
    ]  # fmt: skip
    assert [name for name in names if find(name) is None] == []


def test_aliases_lead_somewhere():
    assert set(ALIASES.values()) <= set(TABLE)


@pytest.mark.parametrize("name", CALLS)
def test_float32_functions_are_correctly_rounded_and_float64_ones_bounded(name):
    assert guarantee(name, "float32").bound_ulp == 0.5
    assert guarantee(name, "float32").is_identical
    bound = guarantee(name, np.float64).bound_ulp
    assert bound is not None
    assert 0.5 < bound <= 3


def test_unknown_function_or_dtype():
    with pytest.raises(KeyError, match="no function 'sinc'"):
        guarantee("sinc", "float32")
    with pytest.raises(KeyError, match="of complex64"):
        guarantee("floor", "complex64")


def test_words():
    assert str(guarantee("add", "int8")) == "exact, identical"
    assert str(guarantee("exp", "float32")) == "correctly rounded, identical"
    assert str(guarantee("exp", "float64")) == "1 ulp, not identical"
    assert str(guarantee("remainder", "float64")) == "fixed formula, identical"
