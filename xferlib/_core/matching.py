"""Comparing arrays with the ones that a kernel call was prepared for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from xferlib._core.array import Array


def matching(read: Callable[[Array], Hashable], arrays: Sequence[Array]) -> Callable[..., bool]:
    """A function that compares as many arrays with these: True if ``read`` returns the same of each."""
    expected = [*map(read, arrays)]

    def matches(*given: Array) -> bool:
        return [*map(read, given)] == expected

    return matches
