"""Pickling of kernels: as the arguments they were made from; a Python function is pickled by its name."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

_BY_VALUE = frozenset({"cloudpickle", "dill"})


def named(module: Any, name: Any) -> Any:
    """The object of a name in a module, dotted for a class's attribute; None if there is none."""
    try:
        return reduce(getattr, str(name).split("."), sys.modules[module])
    except (AttributeError, KeyError):
        return None


def check_function(function: Callable[..., Any], what: str) -> None:
    """Refuse a function that pickle could not find again by its name.

    Where a library that pickles functions by value is loaded, nothing is refused: it may be the caller.

    Raises:
        pickle.PicklingError: It is a lambda, or defined in another function.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if name is None or named(module, name) is function:  # an object that says itself how it is pickled, or a function
        return
    if any(each.rpartition(".")[2] in _BY_VALUE for each in list(sys.modules)):
        return
    raise pickle.PicklingError(
        f"{what} {name} cannot be found by its name in module {module}, and so not be pickled; define it with def at "
        "the top of a module, or pickle with cloudpickle"
    )
