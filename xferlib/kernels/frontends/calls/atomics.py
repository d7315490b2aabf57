"""CUDA's atomic functions in snippets: ``atomicAdd(&x[k], v)`` and its kin."""

from __future__ import annotations

from typing import Any

from xferlib.errors import KernelTypeError
from xferlib.kernels.ir.nodes import Node

KINDS = {
    f"atomic{name}": name.lower() for name in ("Add", "Sub", "Min", "Max", "And", "Or", "Xor", "Exch", "CAS")
}  # fmt: skip
"""The kind of update by the name of the function."""
_TAKES = {"add": "iuf", "exch": "iuf"}


def call(translator: Any, node: Any, given: list[Any], *, is_used: bool) -> Node:
    """Translate a call; returns the value before.

    Args:
        translator: The snippet's.
        node: The call.
        given: Its arguments.
        is_used: Whether the value before is used.
    """
    name = node.name.name
    kind = KINDS[name]
    count = 3 if kind == "cas" else 2
    if len(given) != count:
        translator.fail(node.name, f"{name}() takes {count} argument(s), {len(given)} were given", KernelTypeError)
    place = translator.pointed(given[0])
    dtype = place.variable.dtype
    if dtype.kind not in _TAKES.get(kind, "iu"):
        translator.fail(
            node.name, f"{name}() is not defined for {dtype}; use integers, or floats to add", KernelTypeError
        )
    values = [translator.b.cast(translator.expression(each), dtype) for each in given[1:]]
    compared = values[0] if kind == "cas" else None
    fail = lambda message: translator.fail(node, message)
    before: Node = translator.scope.update_place(place, kind, values[-1], compared, name, fail, is_used=is_used)
    return before
