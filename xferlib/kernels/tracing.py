"""Running a Python function on traced values, and the program that comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import types
from xferlib.kernels.ir import Builder, DType, Param, Program, Store
from xferlib.kernels.traced import Traced


def trace(
    function: Callable[..., Any],
    positional: list[tuple[str, DType | type]],
    keywords: list[tuple[str, DType | type]],
    *,
    scalars: frozenset[str],
    math: str,
) -> tuple[Program, int]:
    """Record ``function`` for these dtypes; the outputs follow the inputs as parameters.

    Returns:
        The program, and how many outputs it has.
    """
    b = Builder(math=math)
    values: dict[str, Traced] = {}
    for name, kind in (*positional, *keywords):
        weak = kind if isinstance(kind, type) else None
        dtype = types.PYTHON_TYPES[weak] if weak else kind
        assert isinstance(dtype, np.dtype)
        b.params.append(Param(name=name, dtype=dtype, is_scalar=name in scalars))
        values[name] = Traced(b, b.load(len(b.params) - 1), None if weak is bool else weak)
    try:
        result = function(*(values[name] for name, _ in positional), **{name: values[name] for name, _ in keywords})
    except RecursionError as error:
        raise KernelSyntaxError(
            f"{getattr(function, '__name__', 'the kernel')} recurses without end while it is traced; a condition on a "
            "traced value never ends a recursion: unroll it with a Python counter"
        ) from error
    outputs = result if isinstance(result, tuple) else (result,)
    stores = [_output(b, value, number, function) for number, value in enumerate(outputs)]
    if not stores:
        raise KernelTypeError(f"{_name(function)} returned an empty tuple; return one value for each output")
    return b.program(stores), len(stores)


def _output(b: Builder, value: Any, number: int, function: Callable[..., Any]) -> Store:
    if isinstance(value, Traced):
        node = value.node
    elif type(value) in types.PYTHON_TYPES:
        node = b.const(value, types.PYTHON_TYPES[type(value)])
    elif isinstance(value, np.generic):
        node = b.const(value, value.dtype)
    else:
        raise KernelTypeError(
            f"{_name(function)} returned {type(value).__name__} as output {number}; return traced values or numbers"
        )
    b.params.append(Param(name=f"out{number}", dtype=node.dtype))
    return Store(param=len(b.params) - 1, value=node)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", function))
