"""`python -m benchmarks dispatch`: what it costs to find an array's namespace and device, beside array_api_compat.

Each figure is that of a loop of calls less that of a loop of empty calls, of the same kind and with as many arguments,
measured in turn with it: a Python function that does nothing, or for a compiled one the built-in functions `callable`
and `operator.is_`, which do next to nothing.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import operator
import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import xferlib as xl
from xferlib.errors import BackendUnavailableError

_CALLS = 20_000


def _any_number(*arrays: Any) -> None:
    pass


def _one(array: Any) -> None:
    pass


def peers() -> dict[str, Callable[..., Any]]:
    """The same by other libraries, those that are installed."""
    found = {}
    for label, module, name in (
        ("array_api_compat.array_namespace", "array_api_compat", "array_namespace"),
        ("cupy.get_array_module", "cupy", "get_array_module"),
    ):
        try:
            found[label] = getattr(importlib.import_module(module), name)
        except ImportError:
            print(f"{module} is not installed", file=sys.stderr)
    return found


def empty_like(call: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function of the same kind that does nothing with as many arguments."""
    if inspect.isbuiltin(call):
        return (callable, operator.is_)[count - 1]
    return _one if call is xl.device_of else _any_number


def measured(call: Callable[..., Any], args: tuple[Any, ...], rounds: int) -> tuple[int, int]:
    """Nanoseconds of one whole call, and of what it takes beyond an empty one."""
    empty = empty_like(call, len(args))
    names = {"call": call, "empty": empty, **{f"x{index}": each for index, each in enumerate(args)}}
    given = ", ".join(f"x{index}" for index in range(len(args)))
    timers = [timeit.Timer(f"{name}({given})", globals=names) for name in ("call", "empty")]
    loops = [[timer.timeit(_CALLS) for timer in timers] for _ in range(rounds)]
    whole, nothing = (min(times) / _CALLS * 1e9 for times in zip(*loops, strict=True))
    return round(whole), round(whole - nothing)


def main(argv: list[str]) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks dispatch", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--backends", nargs="+", default=["numpy", "torch", "cupy"])
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args(argv)
    print(f"| {'call':50} | whole call, ns | beyond an empty one, ns |\n|{'-' * 52}|{'-' * 16}|{'-' * 25}|")
    others = peers()
    for backend in options.backends:
        try:
            x = xl.to_device(np.zeros(3), backend=backend)
        except BackendUnavailableError as error:
            print(error, file=sys.stderr)
            continue
        calls = {"xferlib.get_array_module": xl.get_array_module, **others}
        rows: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
            (label, call, args) for args in ((x,), (x, x), (x, 2.0)) for label, call in calls.items()
        ]
        rows.append(("xferlib.device_of", xl.device_of, (x,)))
        for label, call, args in rows:
            whole, beyond = measured(call, args, options.rounds)
            shown = ", ".join(backend if each is x else "2.0" for each in args)
            print(f"| {f'{label}({shown})':50} | {whole:14} | {beyond:23} |", flush=True)
    return 0
