"""The calls that errors recommend, as the program writes them: xferlib's, or those of a pretended library."""

from __future__ import annotations

from typing import Any


class RemedyCalls:
    """xferlib's own. A stream is given as the program can write it."""

    def synchronize(self) -> str:
        """The host waits for all work of a device."""
        return "xferlib.synchronize()"

    def await_stream(self, stream: str) -> str:
        """The host waits for the work of a stream."""
        return f"{stream}.synchronize()"

    def wait(self, stream: str, other: str) -> str:
        """A stream waits for the work so far of another."""
        return f"{stream}.wait({other})"

    def write_current_stream(self, device: str) -> str:
        """The current stream of a device, which is named where it is not the first."""
        return f"xferlib.current_stream({repr(device) if device else ''})"

    def write_default_stream(self, handle: int, device: str) -> str:
        """CUDA's default stream, by its handle, of a device, which is named where it is not the first."""
        return f"xferlib.Stream.from_any({handle}{f', {device!r}' if device else ''})"

    def find_stream(self, value: Any) -> Any:
        """The stream of xferlib's that an object of the program's is; other objects as they are."""
        return value

    def unite(self, device: str) -> str:
        """Two arrays come to one device."""
        return (
            f"make it with device=y.device, where y is an array on {device}, or move it: "
            f"xferlib.to_device(x, device={device!r})"
        )


calls = RemedyCalls()
"""Those of the library that the program was written for."""
