"""The options of one call of a C snippet, as CuPy and PyCUDA have them: ``block_size=``, ``range=`` and ``slice=``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xferlib._core import registry
from xferlib._runtime.checks import whole
from xferlib.errors import KernelShapeError, KernelTypeError, shown

NAMES = frozenset({"block_size", "range", "slice"})
_MOST_THREADS = 1024


class CallOptions(NamedTuple):
    """The threads of a block, and the numbers of the elements to compute; None: all, as usual."""

    threads: int | None
    elements: range | None


def taken(call: str, keywords: dict[str, Any], args: Sequence[Any]) -> CallOptions:
    """Take the options out of a call's keywords.

    Raises:
        KernelTypeError: One is of another type, or both ``range=`` and ``slice=`` are given.
        KernelShapeError: The elements are not all in the first array, or a block has no such size.
    """
    threads = _threads(call, keywords.pop("block_size", None))
    by_range, by_slice = keywords.pop("range", None), keywords.pop("slice", None)
    if by_range is None and by_slice is None:
        return CallOptions(threads, None)
    if by_range is not None and by_slice is not None:
        raise KernelTypeError(f"{call}(): range= and slice= say the same; give one of them")
    name, given = ("range", by_range) if by_slice is None else ("slice", by_slice)
    first = next((each for each in args if registry.backend_of(each) is not None), None)
    if first is None:
        raise KernelTypeError(f"{call}(): {name}= counts the elements of the first array, and there is none; pass one")
    backend = registry.backend_of(first)
    assert backend is not None
    size = backend.view(first).size
    if isinstance(given, range) and name == "range":
        elements = given
    elif not isinstance(given, slice):
        raise KernelTypeError(f"{call}(): {name}={shown(given)} is no slice; give slice(start, stop, step)")
    elif name == "slice":
        elements = range(*_bounds(call, name, given).indices(size))
    else:
        elements = _numbers(call, given, size)
    if elements and not (min(elements[0], elements[-1]) >= 0 and max(elements[0], elements[-1]) < size):
        raise KernelShapeError(
            f"{call}(): range={shown(given)} leaves the {size} element(s) of the first array; give one within, or "
            "slice=, which counts from the end"
        )
    return CallOptions(threads, elements)


def _numbers(call: str, given: slice, size: int) -> range:
    """The numbers that a slice means where nothing is counted from the end."""
    checked = _bounds(call, "range", given)
    step = 1 if checked.step is None else checked.step
    start = 0 if checked.start is None else checked.start
    return range(start, size if checked.stop is None else checked.stop, step)


def _bounds(call: str, name: str, given: slice) -> slice:
    texts = (given.start, given.stop, given.step)
    parts = [None if each is None else whole(each, least=-(1 << 62)) for each in texts]
    is_whole = [each is None or part is not None for each, part in zip(texts, parts, strict=True)]
    if not all(is_whole) or parts[2] == 0:
        raise KernelTypeError(f"{call}(): {name}={shown(given)} must have ints, and a step other than 0")
    return slice(*parts)


def _threads(call: str, given: Any) -> int | None:
    if given is None:
        return None
    threads = whole(given, least=-(1 << 62))
    if threads is None:
        raise KernelTypeError(f"{call}(): block_size={shown(given)} must be an int, from 1 to {_MOST_THREADS}")
    if not 1 <= threads <= _MOST_THREADS:
        raise KernelShapeError(f"{call}(): block_size={threads} must be from 1 to {_MOST_THREADS} threads")
    return threads
