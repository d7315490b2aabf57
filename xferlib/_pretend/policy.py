"""The answer of a pretended library where it lacks something: an error that names what is missing.

A tool that asks what xferlib itself computes takes other decisions: it puts its own in their place, here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from xferlib.errors import UnsupportedError


class PretendError(UnsupportedError, AttributeError):
    """The pretended library lacks a name that the real one has."""


def _raise(what: str, error: type[Exception] = PretendError, value: object = None) -> NoReturn:
    if error is PretendError:
        raise PretendError(f"{what} is not pretended; run the program on a GPU for it")
    raise error(what if value is None else f"{what}: {value}")


def _raise_missing(name: str) -> NoReturn:
    owner = name.rpartition(".")[0]
    raise PretendError(
        f"{name} is not pretended; run the program on a GPU for it, or add it in a conftest.py: "
        f"import {owner}; {name} = ..."
    )


refuse: Callable[..., NoReturn] = _raise
"""Ends an operation, by its words; by the real library's error, where that refuses it too."""


class Pretended:
    """An object of a pretended library, which has some of the members of the real one."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("own", "_own", "_native"):  # may be asked for before they are there
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        own = re.sub("^(Cupy|Pycuda|Numbered|Owned|Pooled)", "", type(self).__name__)
        return refuse(f"{own}.{name}")


find_missing: Callable[[str], Any] = _raise_missing
"""Gives the object by a name that a module lacks, or an error."""
is_numpy_allowed = True
"""Whether NumPy computes what the device does not."""
prefix = ""
"""Stands before the names of the pretended modules, where they lie beside the real ones."""
