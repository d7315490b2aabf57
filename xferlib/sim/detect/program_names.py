"""The program's own names: of its streams, as the function has them that made a fault, and of what it called."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

from xferlib._core.stream import Stream, current_stream
from xferlib._runtime.callsite import CodeLocation, Site
from xferlib.sim.model.clocks import Participant
from xferlib.sim.model.streams import SimStream, StreamHandle

_MOST = 64
"""Most elements of a container that are looked at."""


def stream_names(location: CodeLocation) -> dict[Participant, str]:
    """The names of streams at a line that runs now: variables, elements of containers, attributes of ``self``.

    Empty where the line's function has returned, since its names mean nothing any more.
    """
    code = None if isinstance(location, Site) else location[0]
    frame = _frame_of(code) if code is not None else None
    if frame is None:
        return {}
    found: dict[Participant, str] = {}
    try:
        for scope in (frame.f_locals, frame.f_globals):
            for name, stream in _streams(scope):
                found.setdefault(stream, name)
    except Exception:  # a container of the program's that cannot be read now: the streams have their numbers
        return found
    return found


def _frame_of(code: CodeType) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame


def _streams(scope: Mapping[str, Any]) -> Iterator[tuple[str, SimStream]]:
    """The streams of a scope, those with a name of their own first."""
    variables = [(name, value) for name, value in scope.items() if name.isidentifier() and not name.startswith("__")]
    yield from _simulated(variables)
    for name, value in variables:
        yield from _simulated(_elements(name, value))
    attributes = getattr(scope.get("self"), "__dict__", {})
    yield from _simulated((f"self.{name}", value) for name, value in list(attributes.items())[:_MOST])


def _elements(name: str, value: Any) -> list[tuple[str, Any]]:
    if type(value) in (list, tuple):
        return [(f"{name}[{index}]", each) for index, each in enumerate(value[:_MOST])]
    if type(value) is dict:
        simple = [(key, each) for key, each in list(value.items())[:_MOST] if type(key) in (str, int)]
        return [(f"{name}[{key!r}]", each) for key, each in simple]
    return []


def _simulated(named: Any) -> Iterator[tuple[str, SimStream]]:
    for name, value in named:
        if type(value) is Stream and isinstance(value._raw, StreamHandle):
            yield name, value._raw.stream


def is_current(stream: SimStream) -> bool:
    """Whether a stream is the current one of its device, for the calling thread."""
    raw = current_stream(stream.device)._raw
    return isinstance(raw, StreamHandle) and raw.stream is stream


_OPERATORS = {"getitem": "indexing", "setitem": "assignment to elements"}
_ITERATIONS = ("_Iteration.", "Prefetcher.")


def called(call: str) -> str:
    """A function of xferlib as the program called it; empty where the program called none by name."""
    if call.startswith(_ITERATIONS):
        return "prefetch"
    name = call.rpartition(".")[2]
    return _OPERATORS.get(name, name) if name.isidentifier() and name[0] != "_" and name != "call" else ""


def source_line(site: Site) -> str:
    """The program's line; empty where its text is not known."""
    return linecache.getline(site.file, site.line).strip()
