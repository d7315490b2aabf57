"""Whole numbers and flags that a user gives: how many, how far ahead, which axis, whether."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from xferlib._runtime import peer_names
from xferlib.errors import ArgumentError, KernelTypeError, shown

MOST_AHEAD = 4096
"""The most batches or chunks that may be in flight: each has a stream."""


def whole(value: Any, *, least: int | None) -> int | None:
    """Return the value as an int; None where it is no whole number, or less than ``least``.

    NumPy's integers are whole numbers; True and 2.0 are not.
    """
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except Exception:  # a foreign object may raise anything; it is no number
        return None
    return found if found is not None and (least is None or found >= least) else None


def has(x: Any, name: str) -> bool:
    """Whether an object has an attribute; False where a stranger's object raises anything but says so."""
    try:
        return hasattr(x, name)
    except Exception:
        return False


def path(value: Any) -> str | None:
    """Return a path as a string; None where it is none, or one that no file can have."""
    try:
        found = os.fspath(value)
        text = os.fsdecode(found)
        os.fsencode(text)
    except Exception:  # surrogates that stand for no byte, and what a stranger's object raises
        return None
    return text if text and "\0" not in text else None


def flag(value: Any, what: str) -> bool:
    """Return a flag as True or False; NumPy's, 0 and 1 are such.

    Raises:
        ArgumentError: It is none; an array may be on a device, and a container's truth is that of its length.
    """
    if value is True or value is False:
        return value
    import numpy as np  # here: `import xferlib` brings no library

    if type(value) in (int, np.bool) and value in (0, 1):
        return bool(value)
    raise ArgumentError(f"{what}={shown(value)} is neither True nor False; give one of them")


def choice(value: Any, choices: Sequence[str], what: str) -> str:
    """Return a word that is one of several.

    Raises:
        ArgumentError: It is none of them.
    """
    if isinstance(value, str) and value in choices:
        return value
    *first, last = map(repr, choices)
    listed = f"neither {first[0]} nor {last}" if len(first) == 1 else f"none of {', '.join(first)} and {last}"
    raise ArgumentError(f"{what}={shown(value)} is {listed}; give one of them")


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


def refuse_keyword(call: str, unknown: Mapping[str, object]) -> NoReturn:
    """Refuse a keyword that a call does not have, as Python would, and name ours where other libraries have it.

    Raises:
        TypeError: Always.
    """
    name = next(iter(unknown))
    remedy = peer_names.KEYWORDS[call].get(name)
    raise TypeError(f"{call}() got an unexpected keyword argument {name!r}{f'; {remedy}' if remedy else ''}")


def refuse_positional(call: str, misplaced: tuple[Any, ...]) -> NoReturn:
    """Refuse what a call of one array was given by position, as Python would, and name the keyword.

    Raises:
        TypeError: Always.
    """
    given = shown(misplaced[0])
    remedy = f"device={given}" if isinstance(misplaced[0], str) else "device=, dtype=, stream= or out="
    raise TypeError(f"{call} takes one array, but {given} came by position after it; give it by name: {remedy}")
