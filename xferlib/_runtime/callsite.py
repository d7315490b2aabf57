"""Lines of the user's program that called xferlib."""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np

_PACKAGE = os.path.realpath(__file__).rsplit(os.sep, 2)[0] + os.sep
_TESTING = _PACKAGE + "testing" + os.sep
_IMPORTING = f"{os.__file__.rpartition(os.sep)[0]}{os.sep}importlib{os.sep}"
_OURS = (_PACKAGE, np.__file__.rpartition(os.sep)[0] + os.sep, _IMPORTING, "<frozen")
_is_ours: dict[str, bool] = {}
is_recorded = False
"""Whether a trace is open, so that each job notes the line that it works for."""


class Site(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


CodeLocation = Site | tuple[CodeType, int]
"""A line of code: resolved, or as a code object and an offset in its instructions."""

_AS_CALLED = {
    "_Iteration.__next__": "prefetch", "Prefetcher.__next__": "prefetch", "Station._run": "stream_map",
    "ThreadedFeed._run": "reading ahead",
}  # fmt: skip
"""Words for methods that no program calls by their names: the loop over a prefetcher, and what threads run."""
NOWHERE = Site("<outside the program>", 0, "?")
inherited = threading.local()
"""``inherited.site``: for one of xferlib's own threads, the line that it works for."""


def is_own(file: str) -> bool:
    """Whether a file of code is xferlib's or NumPy's, and not the program's."""
    return file.startswith(_OURS) and not file.startswith(_TESTING)


_RUNNERS = ("_pytest", "pluggy", "unittest", "IPython", "ipykernel")
"""Packages whose code calls the program's functions, or runs its cells."""


def is_of_runner(site: Site) -> bool:
    """Whether a line is of what runs the program, where an array dies when a test returns."""
    folders = os.path.dirname(site.file).split(os.sep)  # noqa: PTH120, PTH206  pathlib is imported by few programs
    return any(each in folders for each in _RUNNERS)


def user_site() -> Site:
    """Return the innermost line outside xferlib and NumPy; in one of xferlib's own threads, the line it works for."""
    return site_of(user_call()[0])


def user_call() -> tuple[CodeLocation, str]:
    """Return `location`, and the name of xferlib's function that was called there."""
    frame: FrameType | None = sys._getframe(1)
    called = ""
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        ours = _is_ours.get(file)
        if ours is None:
            ours = _is_ours[file] = is_own(file)
        if not ours:
            if file == threading.__file__:
                break
            return (code, frame.f_lasti), _AS_CALLED.get(called, called)
        called = code.co_qualname
        frame = frame.f_back
    site: Site = getattr(inherited, "site", NOWHERE)
    return site, _AS_CALLED.get(called, called)


def location() -> CodeLocation:
    """Return `user_site` unresolved: `site_of` looks the line up when it is needed, since that takes long."""
    return user_call()[0]


def site_of(location: CodeLocation) -> Site:
    """Resolve a location to a line."""
    if isinstance(location, Site):
        return location
    code, offset = location
    found = code.co_firstlineno
    for start, stop, line in code.co_lines():
        if start <= offset < stop:
            found = line or found
            break
    return Site(code.co_filename, found, code.co_qualname)
