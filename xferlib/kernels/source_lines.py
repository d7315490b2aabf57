"""Errors that show the user's source line with a caret."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Container
from pathlib import Path
from types import FrameType
from typing import TypeVar

import numpy as np

E = TypeVar("E", bound=Exception)

_KERNELS = Path(__file__).parent
_SKIPPED = tuple(f"{each}{os.sep}" for each in (_KERNELS, Path(np.__file__).parent))
_WIDTH = 160


def at_user_line(error: E) -> E:
    """Append the calling line of the user's function to the message of ``error``, once."""
    if getattr(error, "shows_line", False):
        return error
    frame = _user_frame()
    if frame is None:
        return error
    extended = type(error)(f"{error}\n{_excerpt(frame)}")
    extended.shows_line = True  # type: ignore[attr-defined]
    return extended


def user_call(names: Container[str]) -> str | None:
    """The one of ``names`` that the user's function calls at this moment, as ``f(...)`` or ``module.f(...)``."""
    frame = _user_frame()
    if frame is None:
        return None
    positions = list(frame.f_code.co_positions())
    at = frame.f_lasti // 2
    line, _, first, end = positions[at] if at < len(positions) else (None, None, None, None)
    if line is None or first is None:
        return None
    text = linecache.getline(frame.f_code.co_filename, line).encode()[first:end].decode(errors="replace")
    found = re.match(r"(?:\w+\s*\.\s*)?(\w+)\s*\(", text)
    return found[1] if found is not None and found[1] in names else None


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    return frame


def _excerpt(frame: FrameType) -> str:
    filename, line = frame.f_code.co_filename, frame.f_lineno
    first = end = None
    positions = list(frame.f_code.co_positions())
    if 0 <= frame.f_lasti // 2 < len(positions):
        line_start, line_end, first, end = positions[frame.f_lasti // 2]
        line = line_start or line
        end = end if line_end == line else None
    text = linecache.getline(filename, line).rstrip("\n")
    return f'  File "{filename}", line {line}\n' + caret(text, first, end)


def caret(text: str, first: int | None, end: int | None = None) -> str:
    """``text`` with carets under the columns ``[first, end)``; a long line is cut around them."""
    if not text:
        return ""
    start = max(0, (first or 0) - _WIDTH // 2)
    shown = text[start : start + _WIDTH].expandtabs(1)
    if first is None:
        return f"    {shown}"
    width = max(1, min((end or first + 1), start + len(shown)) - first)
    return f"    {shown}\n    {' ' * (first - start)}{'^' * width}"
