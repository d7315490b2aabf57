"""Two libraries on the same two devices, as CuPy and torch are: they share memory, streams and events."""

from __future__ import annotations

from typing import Any

from xferlib.testing import backend_named
from xferlib.testing.fake import FakeArray, FakeBackend


class LeftArray(FakeArray):
    pass


class RightArray(FakeArray):
    pass


class Left(FakeBackend):
    name = "left"
    array_class = LeftArray
    array_types = (f"{__name__}.LeftArray",)
    pinned_domain = "pair"


class Right(FakeBackend):
    name = "right"
    array_class = RightArray
    array_types = (f"{__name__}.RightArray",)
    pinned_domain = "pair"

    def __init__(self) -> None:
        super().__init__()
        left: Any = backend_named("left")
        self.machine, self._events = left.machine, left._events
        self._handles = 1000
        self._default = {each: self.stream_create(each, non_blocking=False, priority=0) for each in self._devices}
