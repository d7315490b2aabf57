"""The work of a capture, and which of it each of its streams has waited for."""

from __future__ import annotations

from typing import Any

from xferlib._core.ordering.capture import RecordedWork


class CapturedWork(RecordedWork):
    """The operations of a capture, and which of them each of its streams has waited for."""

    __slots__ = ("_known",)

    def __init__(self, origin: Any) -> None:
        super().__init__(origin)
        self._known: dict[Any, dict[Any, int]] = {}
        """For each stream, how many operations of each come before its next one."""

    def count(self, stream: Any) -> None:
        """Count an operation."""
        known = self.known(stream)
        known[stream] = known.get(stream, 0) + 1

    def known(self, stream: Any) -> dict[Any, int]:
        return self._known.setdefault(stream, {})

    def learn(self, stream: Any, others: dict[Any, int]) -> None:
        """Note that the next operation of a stream follows those."""
        known = self.known(stream)
        known.update({each: max(count, known.get(each, 0)) for each, count in others.items()})

    @property
    def is_joined(self) -> bool:
        """Whether the captured stream has waited for all work of the others."""
        joined = self.known(self.origin)
        return all(known.get(each, 0) <= joined.get(each, 0) for each, known in self._known.items())
