"""The timeline of the demo: the last epoch on each device, when everything has been compiled and allocated."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from xferlib._api.trace.trace import PICTURES, trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from xferlib._core.device import Device


class LastEpoch:
    """Records from the end of the last epoch but one; writes the file when the block ends without an error.

    Args:
        path: The file; None: record nothing.
        epochs: The number of epochs in all.
        title: The picture's title.
    """

    def __init__(self, path: Path | None, epochs: int, *, title: str) -> None:
        self._path = path
        self._left = epochs - 1
        self._title = title
        self._trace: trace | None = None

    def _begin(self) -> None:
        if self._path is not None and self._left == 0:
            self._trace = trace().__enter__()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def after_each(self, advance: Callable[[], None]) -> Callable[[], None]:
        """Return the function that the training calls after every epoch."""

        def ended() -> None:
            advance()
            self._left -= 1
            self._begin()

        return ended

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._trace is None or self._path is None:
            return
        self._trace.__exit__(kind, error, trace)
        if error is not None:
            return
        if self._path.suffix in PICTURES:
            self._trace.plot(self._path, title=self._title)
        else:
            self._trace.write(self._path)


def path_for(path: Path | None, device: Device, *, is_only: bool) -> Path | None:
    """The file of one device: the one given, or one beside it with the device in its name."""
    if path is None or is_only:
        return path
    return path.with_stem(f"{path.stem}-{str(device).replace(':', '-')}")
