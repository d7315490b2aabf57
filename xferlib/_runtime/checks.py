"""Whole numbers and flags that a user gives: how many, how far ahead, which axis, whether."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NoReturn

from xferlib.errors import ArgumentError, KernelTypeError, shown

MOST_AHEAD = 4096
"""The most batches or chunks that may be in flight: each has a stream."""


def whole(value: Any, *, least: int) -> int | None:
    """Return the value as an int; None where it is no whole number from ``least``.

    NumPy's integers are whole numbers; True and 2.0 are not.
    """
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except Exception:  # a foreign object may raise anything; it is no number
        return None
    return found if found is not None and found >= least else None


class MadeBy(type):
    """The class of what a function makes; its constructor, called as another library's, names that function.

    Args:
        by: The function.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], *, by: str) -> MadeBy:
        made = super().__new__(cls, name, bases, members)
        made._by = by
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], *, by: str) -> None:
        super().__init__(name, bases, members)

    _by: str

    def __call__(cls, *args: Any, **options: Any) -> Any:
        try:
            return super().__call__(*args, **options)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # raised within the constructor, not by its signature
                raise
            raise KernelTypeError(
                f"{cls.__name__} is only the class of what xferlib.{cls._by} makes; call that"
            ) from None


def refuse_no_flag(value: Any, what: str) -> None:
    """Refuse anything but True and False, without asking a stranger's object for its truth.

    Raises:
        ArgumentError: It is neither.
    """
    if value is not True and value is not False:
        raise ArgumentError(f"{what}={shown(value)} is neither True nor False; give one of them")


def refuse_no_copy(value: Any, call: str) -> None:
    """Refuse a ``copy=`` that is not one of its three values: a true one of another type would be no request to copy.

    Raises:
        ArgumentError: It is not.
    """
    if value is not True and value is not False and value is not None:
        raise ArgumentError(f"{call}: copy={shown(value)} is neither True, False nor None; give one of them")


_OTHERS_KEYWORDS = {
    **dict.fromkeys(
        ("async_", "asynchronous", "blocking", "non_blocking"),
        "to_device_async and to_host_async return at once; to_device and to_host, when the source may be changed",
    ),
    "out": "xferlib.to_device(x, out=y) fills an array that exists",
    "pin_memory": "xferlib.pinned_array(x) makes a copy in pinned memory",
}
"""By the keywords of other libraries and other functions, the call that does that."""


def refuse_keywords(call: str, unknown: Iterable[str]) -> NoReturn:
    """Refuse keywords that a call does not have, as Python would, and say what serves instead.

    Raises:
        TypeError: Always.
    """
    name, *_ = unknown
    remedy = f"; {_OTHERS_KEYWORDS[name]}" if name in _OTHERS_KEYWORDS else ""
    raise TypeError(f"{call}() got an unexpected keyword argument {name!r}{remedy}")


def refuse_positional(call: str, misplaced: tuple[Any, ...]) -> NoReturn:
    """Refuse what a call of one array was given by position, as Python would, and name the keyword.

    Raises:
        TypeError: Always.
    """
    given = shown(misplaced[0])
    remedy = f"device={given}" if isinstance(misplaced[0], str) else "device=, dtype=, stream= or out="
    raise TypeError(f"{call} takes one array, but {given} came by position after it; give it by name: {remedy}")
