"""The functions of the library that a call enters."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def functions_of(call: Callable[[], Any]) -> list[tuple[str, str]]:
    """Module and name of each function of xferlib that ``call`` enters in this thread.

    Left out is what `tests.fake` and the simulator enter: a double is called by threads of C as well as by this one, as
    it happens.
    """
    seen: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and _module(frame).startswith("xferlib.") and not _is_double(frame):
            seen.append((_module(frame), frame.f_code.co_name))

    was_enabled = gc.isenabled()
    gc.disable()  # finalizers of what others have left
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        if was_enabled:
            gc.enable()
    return seen


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _is_double(frame: FrameType | None) -> bool:
    while frame is not None:
        if _module(frame).startswith(("tests.fake", "xferlib.sim.")):
            return True
        frame = frame.f_back
    return False
