"""The choice among functions of one name, as C++ makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from xferlib.kernels.frontends.cpp import type_names
from xferlib.kernels.frontends.memory.structs import StructType
from xferlib.kernels.frontends.memory.translation import REFERENCE
from xferlib.kernels.frontends.preamble import PreambleFunction
from xferlib.kernels.ir.nodes import FLOAT32, FLOAT64
from xferlib.kernels.ir.types import c_promoted

_SAME, _PROMOTED, _CONVERTED = range(3)


class Argument(NamedTuple):
    """The type of an argument."""

    dtype: Any
    is_pointer: bool = False


def chosen(
    functions: Sequence[PreambleFunction],
    arguments: Sequence[Argument],
    type_of: Callable[[PreambleFunction, Any], Any],
    bound: Mapping[str, Any],
) -> list[PreambleFunction]:
    """The function that fits the arguments best; none where none fits, several where C++ refuses to choose.

    Args:
        functions: Those of one name.
        arguments: The types of the arguments.
        type_of: The type that a function's text names.
        bound: The types of the template to which the functions belong.
    """
    ranks = {}
    for number, each in enumerate(functions):
        found = _ranks(each, arguments, type_of, bound)
        if found is not None:  # a function fits better than a template, and complex<S> better than S
            ranks[number] = (found, _freedom(each, set(each.types) - bound.keys()))
    best = [
        number
        for number, (own, freedom) in ranks.items()
        if all(
            all(one <= other for one, other in zip(own, others, strict=True))
            and (own != others or freedom <= other_freedom)
            for others, other_freedom in ranks.values()
        )
    ]
    return [functions[number] for number in best or ranks]


def _freedom(function: PreambleFunction, open_types: set[str]) -> int:
    """0 for a plain function; else 1, and one more for each parameter that may be anything."""
    kinds = (each.type if type(each.type).__name__ == "TypeDecl" else each.type.type for each in function.params)
    names = [" ".join(getattr(getattr(kind, "type", None), "names", [])) for kind in kinds]
    return 1 + sum(name in open_types for name in names) if open_types else 0


def _ranks(
    function: PreambleFunction,
    arguments: Sequence[Argument],
    type_of: Callable[[PreambleFunction, Any], Any],
    bound: Mapping[str, Any],
) -> list[int] | None:
    """How well each argument fits; None where one does not."""
    if len(function.params) != len(arguments):
        return None
    if function.is_within_struct:
        bound = dict(zip(function.types, getattr(arguments[0].dtype, "args", ()), strict=False))
    found = []
    for param, each in zip(function.params, arguments, strict=True):
        is_plain = type(param.type).__name__ == "TypeDecl"
        kind = param.type if is_plain else param.type.type
        is_pointer = not is_plain and REFERENCE not in param.type.quals
        if is_pointer != each.is_pointer or type(kind).__name__ != "TypeDecl":
            return None
        name = " ".join(getattr(kind.type, "names", []))
        open_types = set(function.types) - bound.keys()
        base, args = type_names.instance(function.text.aliases.get(name, name))
        if name in open_types:
            rank: int | None = _SAME
        elif open_types.intersection(args):
            rank = (
                _SAME
                if base == (each.dtype.base if isinstance(each.dtype, StructType) else each.dtype.name[:7])
                else None
            )
        else:
            rank = _rank(bound.get(name) or type_of(function, kind.type), each)
        if rank is None:
            return None
        found.append(rank)
    return found


def _rank(dtype: Any, given: Argument) -> int | None:
    if dtype == given.dtype:
        return _SAME
    if given.is_pointer or isinstance(dtype, StructType) or isinstance(given.dtype, StructType):
        return None
    is_promoted = dtype == c_promoted(given.dtype) or (given.dtype == FLOAT32 and dtype == FLOAT64)
    return _PROMOTED if is_promoted else _CONVERTED
