"""Runs a Python function on traced values, and makes the program that they recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._core.arrays import check_dtype
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import functions as types
from xferlib.kernels import trace_math
from xferlib.kernels.ir import Builder, DType, Node, Param, Program, Store
from xferlib.kernels.python_frontend import HostNumbers, Number, Recording, Traced, node_of, use_namespace

use_namespace(trace_math)


def trace(
    function: Callable[..., Any],
    positional: list[tuple[str, DType | type]],
    keywords: list[tuple[str, DType | type]],
    *,
    scalars: frozenset[str],
    numbers: dict[str, Any],
    math: str,
) -> tuple[Program, int, HostNumbers | None]:
    """Record ``function`` for these dtypes as a program: its parameters are the inputs, the numbers, the outputs.

    Args:
        function: What is recorded.
        positional: Its positional parameters with their dtypes, or the types of Python numbers.
        keywords: Its keyword-only ones.
        scalars: The names of those that are passed by value.
        numbers: By name, the value of each Python number in the call that is recorded.
        math: ``"exact"`` or ``"fast"``.

    Returns:
        The program, the number of its outputs, and what each call computes from Python numbers.
    """
    b = Builder(math=math)
    given: dict[int, Any] = {}
    for name, kind in (*positional, *keywords):
        if isinstance(kind, type):
            given[len(b.params)] = numbers.get(name, kind(1))
        dtype = types.PYTHON_TYPES[kind] if isinstance(kind, type) else kind
        b.params.append(Param(name=name, dtype=dtype, is_scalar=name in scalars))
    recording = Recording(b, given)
    positions = {number: position for position, number in enumerate(given)}
    values = {
        param.name: Traced(b, b.load(number))
        if (position := positions.get(number)) is None
        else Number(b, recording, position, param.name)
        for number, param in enumerate(b.params)
    }
    try:
        result = function(*(values[name] for name, _ in positional), **{name: values[name] for name, _ in keywords})
    except RecursionError as error:
        raise KernelSyntaxError(
            f"{getattr(function, '__name__', 'the kernel')} recurses without end while it is traced; a condition on a "
            "traced value never ends a recursion: unroll it with a Python counter"
        ) from error
    outputs = result if isinstance(result, tuple) else (result,)
    nodes = [_output(b, value, number, function) for number, value in enumerate(outputs)]
    if not nodes:
        raise KernelTypeError(f"{_name(function)} returned an empty tuple; return one value for each output")
    first = len(b.params)
    b.params += [Param(name=f"out{number}", dtype=node.dtype) for number, node in enumerate(nodes)]
    program = b.program([Store(param=first + number, value=node) for number, node in enumerate(nodes)])
    return program, len(nodes), recording.finished()


def _output(b: Builder, value: Any, number: int, function: Callable[..., Any]) -> Node:
    if isinstance(value, Traced):
        return value.node
    if type(value) in types.PYTHON_TYPES:
        return node_of(b, value, types.PYTHON_TYPES[type(value)])
    if isinstance(value, np.generic):
        return b.const(value, check_dtype(value.dtype, what=f"output {number}"))
    raise KernelTypeError(
        f"{_name(function)} returned {type(value).__name__} as output {number}; return traced values or numbers"
    )


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", function))
