"""Two libraries on the same two devices, as CuPy and torch are: they share memory, streams and events."""

from __future__ import annotations

from typing import Any

from tests.fake import FakeArray, FakeBackend
from xferlib.testing import load_backend


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
        left: Any = load_backend("left")
        super().__init__(left.machine)
        self.events, self._handles = left.events, left._handles
